package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Break is a kind of fault.
type Break string

// The kinds; what each is stands in package chaos.
const (
	Crash        Break = "crash"
	Forget       Break = "crash and forget"
	Stall        Break = "stall"
	Cut          Break = "cut"
	CutRequests  Break = "cut requests"
	CutReplies   Break = "cut replies"
	LoseRequests Break = "lose requests"
	LoseReplies  Break = "lose replies"
	LoseCalls    Break = "lose calls"
	Slow         Break = "slow"
	Jitter       Break = "jitter"
	Reorder      Break = "reordering"
	Twice        Break = "delivery twice"
	Reset        Break = "reset"
	HalfOpen     Break = "half-open connections"
	Refuse       Break = "refused connections"
	OtherList    Break = "another node list"
	Flush        Break = "FLUSHALL"
	Delete       Break = "DEL"
	Old          Break = "crash and come back with old data"
	Failover     Break = "failover to a replica that lags"
	Evict        Break = "eviction"
	Step         Break = "clock step"
	Drift        Break = "clock drift"
	Pause        Break = "pause"
	Suspend      Break = "suspend"
	WallClock    Break = "client's wall clock step"
	ListChange   Break = "change of the list"
)

// Everything stands for all nodes in a fault of links, and for none in a ListChange.
const Everything = -1

// What a ListChange makes of strict recovery.
const (
	StrictOn  = "on"
	StrictOff = "off"
)

// Fault is something that is broken at a time and mended later.
type Fault struct {
	Kind   Break         `json:"kind"`
	At     time.Duration `json:"at,omitempty"`     // since the run began
	For    time.Duration `json:"for,omitempty"`    // how long until it is mended
	Node   int           `json:"node"`             // of the node or link; Everything: all nodes
	Client string        `json:"client,omitempty"` // of the link, Pause, Suspend or WallClock; empty: all clients
	Key    string        `json:"key,omitempty"`    // of Delete and Evict
	Delay  time.Duration `json:"delay,omitempty"`  // of Slow, Jitter, Reorder, Twice, Step, WallClock, and Drift a second
	To     int           `json:"to,omitempty"`     // of OtherList
	Where  Moment        `json:"where,omitempty"`  // of Pause, empty: AtWrite; of ListChange, where its operator dies
	MaxTTL time.Duration `json:"maxTTL,omitempty"` // of ListChange: the cluster's from then on; 0: as it is
	Strict string        `json:"strict,omitempty"` // of ListChange: strict recovery, StrictOn or StrictOff; empty: as it is
}

// Lasts tells whether there is something to mend.
func (k Break) Lasts() bool {
	return k != Reset && k != HalfOpen && k != Flush && k != Delete && k != Evict
}

// OfClient tells whether the fault is a client's own.
func (k Break) OfClient() bool { return k == Pause || k == Suspend || k == WallClock }

// OfLink tells whether the fault is between clients and nodes.
func (k Break) OfLink() bool {
	switch k {
	case Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Twice, Reset, HalfOpen, Refuse, OtherList:
		return true
	case Crash, Forget, Old, Failover, Stall, Flush, Delete, Evict, Step, Drift, Pause, Suspend, WallClock, ListChange:
	}
	return false
}

// Unknown tells whether the fault names a node, of so many, or a moment that there
// is not.
func (f Fault) Unknown(nodes int) bool {
	switch {
	case f.Kind.OfClient():
		return f.Where != "" && !slices.Contains(Moments(), f.Where)
	case f.Kind == OtherList && (f.To < 0 || f.To >= nodes), f.Kind == ListChange && (f.Where != "" && !slices.Contains(ChangeSteps(), f.Where)):
		return true
	}
	return f.Node != Everything && (f.Node < 0 || f.Node >= nodes)
}

// Record is that of the fault's beginning or end, where the nodes have these names.
func (f Fault) Record(k Kind, names []string) Record {
	r := Record{Kind: k, Text: f.String(), Fault: &f}
	if !f.Kind.OfClient() && f.Node >= 0 && f.Node < len(names) {
		r.Node = names[f.Node]
	}
	return r
}

// String returns the fault in words, without its time.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	if f.Key != "" {
		fmt.Fprintf(&b, " %s", f.Key)
	}
	switch {
	case f.Kind == Twice && f.Delay != 0:
		fmt.Fprintf(&b, ", %v later,", f.Delay)
	case f.Delay != 0:
		fmt.Fprintf(&b, " by %v", f.Delay)
	}
	if f.Kind == Drift {
		b.WriteString(" a second")
	}
	switch {
	case f.Kind.OfClient():
		fmt.Fprintf(&b, " of %s", everyone(f.Client))
		if f.Where != "" {
			fmt.Fprintf(&b, " at %s", f.Where)
		}
	case f.Kind == OtherList:
		fmt.Fprintf(&b, " of %s: node %d in the place of %s,", everyone(f.Client), f.To, nodeName(f.Node))
	case f.Kind == ListChange:
		fmt.Fprintf(&b, " by %s", f.Changed(nodeName(f.Node)))
		if f.Where != "" {
			fmt.Fprintf(&b, ", whose operator dies at %s", f.Where)
		}
		if f.For > 0 {
			fmt.Fprintf(&b, ", and another comes after %v", f.For)
		}
		return b.String()
	case f.Kind.OfLink():
		fmt.Fprintf(&b, " between %s and %s", everyone(f.Client), nodeName(f.Node))
	default:
		fmt.Fprintf(&b, " of %s", nodeName(f.Node))
	}
	if f.Kind.Lasts() && f.For > 0 {
		fmt.Fprintf(&b, " for %v", f.For)
	}
	return b.String()
}

// Changed says what a ListChange changes, its node by that word. Of no node, and nothing else, it
// is a close.
func (f Fault) Changed(node string) string {
	var words []string
	if f.Node != Everything {
		words = append(words, node)
	}
	if f.MaxTTL != 0 {
		words = append(words, fmt.Sprintf("MaxTTL %v", f.MaxTTL))
	}
	if f.Strict != "" {
		words = append(words, "strict recovery "+f.Strict)
	}
	return cmp.Or(strings.Join(words, " and "), "a close")
}

func everyone(client string) string {
	if client == "" {
		return "all clients"
	}
	return client
}

func nodeName(node int) string {
	if node == Everything {
		return "all nodes"
	}
	return fmt.Sprintf("node %d", node)
}

// Meets tells whether there are a client and a node that both are between.
func (f Fault) Meets(o Fault) bool {
	return (f.Client == "" || o.Client == "" || f.Client == o.Client) &&
		(f.Kind.OfClient() || f.Kind == OtherList || f.Node == o.Node || f.Node == Everything || o.Node == Everything)
}

// Skew is how much longer than its lease a key may stay on a node, after a clock
// that was ahead is right again.
func (f Fault) Skew() time.Duration {
	switch f.Kind {
	case Step:
		return max(f.Delay, 0)
	case Drift:
		return max(time.Duration(f.For.Seconds()*float64(f.Delay)), 0)
	case Crash, Forget, Old, Failover, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls,
		Slow, Jitter, Reorder, Twice, Reset, HalfOpen, Refuse, OtherList, Flush, Delete, Evict, Pause, Suspend, WallClock, ListChange:
	}
	return 0
}

// Moment is a step of a client at which a [Pause] stops it, or of an operator who dies there.
type Moment string

// The moments; what each is stands in package chaos.
const (
	AtAsk     Moment = "ask"
	AtReplies Moment = "replies"
	AtHeld    Moment = "held"
	AtWrite   Moment = "write"
	AtExtend  Moment = "extend"
	AtRelease Moment = "release"

	AtSettle  Moment = "settle"
	AtAccept  Moment = "accept"
	AtForce   Moment = "force"
	AtInstall Moment = "install"
)

// Moments are all of them, in the order of a client's work.
func Moments() []Moment { return []Moment{AtAsk, AtReplies, AtHeld, AtWrite, AtExtend, AtRelease} }

// ChangeSteps are the steps of an operator who changes the list of nodes, in their order.
func ChangeSteps() []Moment { return []Moment{AtSettle, AtAccept, AtForce, AtInstall} }
