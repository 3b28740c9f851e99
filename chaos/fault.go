package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Break is a kind of fault.
type Break string

// The kinds. A fault of a link is between one client and one node, or all of
// either; what it holds back arrives when it is mended.
const (
	// Crash ends a node's process; mended, it is back with its data.
	Crash Break = "crash"
	// Forget ends a node's process; mended, it is back without its data.
	Forget Break = "crash and forget"
	// Stall stops a node's process; mended, it goes on and runs what came meanwhile.
	Stall Break = "stall"
	// Cut holds back both ways of a link.
	Cut Break = "cut"
	// CutRequests holds back what goes to the node.
	CutRequests Break = "cut requests"
	// CutReplies holds back what comes from the node: commands take effect.
	CutReplies Break = "cut replies"
	// LoseRequests loses what goes to the node.
	LoseRequests Break = "lose requests"
	// LoseReplies loses what comes from the node, after the effect.
	LoseReplies Break = "lose replies"
	// LoseCalls loses what comes from the node unasked: the calls of those who wait.
	LoseCalls Break = "lose calls"
	// Slow makes both ways of a link late by Delay.
	Slow Break = "slow"
	// Jitter makes both ways of a link late by up to Delay, each message by
	// another time. A connection keeps its order.
	Jitter Break = "jitter"
	// Reorder makes every other message to the node late by Delay, as it happens.
	// A connection keeps its order; of two connections, the later command may be
	// the first to arrive.
	Reorder Break = "reordering"
	// Twice delivers each message to the node, and Delay later once more, as a retry on
	// the way does: on a connection of its own, whose replies nobody reads. It leaves out
	// what belongs to its connection: greetings, subscriptions and transactions.
	Twice Break = "delivery twice"
	// Reset breaks a link's connections; there is nothing to mend.
	Reset Break = "reset"
	// HalfOpen ends a link's connections at the node, and the client is not told:
	// its ends stay open, take everything and say nothing, as after the power cut of
	// a machine. New ones work; there is nothing to mend.
	HalfOpen Break = "half-open connections"
	// Refuse lets no new connection of a link in; those that there are go on.
	Refuse Break = "refused connections"
	// OtherList has the client's list of nodes name node To in the place of Node:
	// the connections break, and new ones lead there. Mended, they lead to Node
	// again. Two such faults of one client and Node do not add up: the later holds.
	OtherList Break = "another node list"
	// Flush removes a node's keys, all of them; there is nothing to mend.
	Flush Break = "FLUSHALL"
	// Delete removes Key from a node, as an operator does; there is nothing to
	// mend.
	Delete Break = "DEL"
	// Old copies a node's data while the node runs on; mended, its process has
	// crashed and is back with the copy: For is how old the data are.
	Old Break = "crash and come back with old data"
	// Failover has a node's replica fall behind while the node runs on; mended, the
	// node is gone and the replica, another process, has its address: For is how
	// far it lags.
	Failover Break = "failover to a replica that lags"
	// Evict removes Key from a node, as a server short of memory does; without a
	// Key, the one that would expire first. There is nothing to mend.
	Evict Break = "eviction"
	// Step moves a node's clock by Delay, which may be negative; mended, it is
	// right again.
	Step Break = "clock step"
	// Drift has a node's clock gain Delay a second, or lose it if negative;
	// mended, it is right again, at once.
	Drift Break = "clock drift"
	// Pause stops a client's own code, as a garbage collection does, at the step
	// that Where names; mended, it goes on. Its leases run on.
	Pause Break = "pause"
	// Suspend stops a client's process, library and all: nothing goes out, and
	// nothing is taken in; mended, it goes on. Its leases run on.
	Suspend Break = "suspend"
	// WallClock sets a client's wall clock by Delay, which may be negative, and nothing else
	// of its time; mended, it is right again. Nothing that redlock decides may follow from
	// that, but which tokens it suggests. Another library reads the machine's.
	WallClock Break = "client's wall clock step"
)

// Everything stands for all nodes in a fault of links.
const Everything = -1

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
	Where  Moment        `json:"where,omitempty"`  // of Pause; empty: AtWrite
}

// lasts tells whether there is something to mend.
func (k Break) lasts() bool {
	return k != Reset && k != HalfOpen && k != Flush && k != Delete && k != Evict
}

// ofClient tells whether the fault is a client's own.
func (k Break) ofClient() bool { return k == Pause || k == Suspend || k == WallClock }

// ofLink tells whether the fault is between clients and nodes.
func (k Break) ofLink() bool {
	switch k {
	case Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Twice, Reset, HalfOpen, Refuse, OtherList:
		return true
	case Crash, Forget, Old, Failover, Stall, Flush, Delete, Evict, Step, Drift, Pause, Suspend, WallClock:
	}
	return false
}

// unknown tells whether the fault names a node, of so many, or a moment that there
// is not.
func (f Fault) unknown(nodes int) bool {
	switch {
	case f.Kind.ofClient():
		return f.Where != "" && !slices.Contains(Moments(), f.Where)
	case f.Kind == OtherList && (f.To < 0 || f.To >= nodes):
		return true
	}
	return f.Node != Everything && (f.Node < 0 || f.Node >= nodes)
}

// record is that of the fault's beginning or end, where the nodes have these names.
func (f Fault) record(k Kind, names []string) Record {
	r := Record{Kind: k, Text: f.String(), Fault: &f}
	if !f.Kind.ofClient() && f.Node >= 0 && f.Node < len(names) {
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
	case f.Kind.ofClient():
		fmt.Fprintf(&b, " of %s", everyone(f.Client))
		if f.Where != "" {
			fmt.Fprintf(&b, " at %s", f.Where)
		}
	case f.Kind == OtherList:
		fmt.Fprintf(&b, " of %s: node %d in the place of %s,", everyone(f.Client), f.To, nodeName(f.Node))
	case f.Kind.ofLink():
		fmt.Fprintf(&b, " between %s and %s", everyone(f.Client), nodeName(f.Node))
	default:
		fmt.Fprintf(&b, " of %s", nodeName(f.Node))
	}
	if f.Kind.lasts() && f.For > 0 {
		fmt.Fprintf(&b, " for %v", f.For)
	}
	return b.String()
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
