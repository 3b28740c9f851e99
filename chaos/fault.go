package chaos

import (
	"fmt"
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
	// Slow makes both ways of a link late by Delay.
	Slow Break = "slow"
	// Reset breaks a link's connections; there is nothing to mend.
	Reset Break = "reset"
	// Flush removes a node's keys, all of them; there is nothing to mend.
	Flush Break = "FLUSHALL"
	// Delete removes Key from a node, as an operator does; there is nothing to
	// mend.
	Delete Break = "DEL"
	// Step moves a node's clock by Delay, which may be negative; mended, it is
	// right again.
	Step Break = "clock step"
	// Pause stops a client's own code, as a garbage collection does, where it is
	// about to write; mended, it goes on. Its leases run on.
	Pause Break = "pause"
)

// Everything stands for all nodes in a fault of links.
const Everything = -1

// Fault is something that is broken at a time and mended later.
type Fault struct {
	Kind   Break         `json:"kind"`
	At     time.Duration `json:"at,omitempty"`     // since the run began
	For    time.Duration `json:"for,omitempty"`    // how long until it is mended
	Node   int           `json:"node"`             // of the node or link; Everything: all nodes
	Client string        `json:"client,omitempty"` // of the link or the pause; empty: all clients
	Key    string        `json:"key,omitempty"`    // of Delete
	Delay  time.Duration `json:"delay,omitempty"`  // of Slow and Step
}

// lasts tells whether there is something to mend.
func (k Break) lasts() bool { return k != Reset && k != Flush && k != Delete }

// ofLink tells whether the fault is between clients and nodes.
func (k Break) ofLink() bool {
	switch k {
	case Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, Slow, Reset:
		return true
	case Crash, Forget, Stall, Flush, Delete, Step, Pause:
	}
	return false
}

// String returns the fault in words, without its time.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	if f.Key != "" {
		fmt.Fprintf(&b, " %s", f.Key)
	}
	if f.Delay != 0 {
		fmt.Fprintf(&b, " by %v", f.Delay)
	}
	switch {
	case f.Kind == Pause:
		fmt.Fprintf(&b, " of %s", everyone(f.Client))
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
