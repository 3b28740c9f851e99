// Package report draws runs, on one page or as one picture: what each client believed,
// what each node stored and was, the writes, and what was broken. It knows no trace and
// no judge: package chaos tells it what there is to see.
package report

import (
	"fmt"
	"time"
)

// Page is runs that are shown together, which should be of one scenario.
type Page struct {
	Title, Claim, Lesson string
	Runs                 []Run
}

// Run is one play of something: words and figures, and what a picture shows.
type Run struct {
	Name      string // of the contender
	How       string // it was played
	Judgement string // the verdict in a few words
	Broken    bool   // a rule was
	Claimed   string // whether it was so claimed
	Summary   string // all figures in a line
	About     string // which part of it the picture shows; empty: all

	Overlap, LongestWait         time.Duration
	Rounds, Won, Writes, Refused int

	Timeline Timeline
	Flags    []Flag
	Events   []Event
}

// Timeline is who did what from when to when.
type Timeline struct {
	Begin     time.Duration // of what is drawn: just before the first that anybody did
	Last      time.Duration // the last record
	End       time.Duration // of what is known then, and drawn
	Clients   []string      // as they came
	Observers []string
	Nodes     []string
	Beliefs   []Belief
	Sights    []Sight
	Waits     []Wait
	Grants    []Grant
	Keys      []Key
	States    []State
	Faults    []Fault
	Writes    []Write
	Overlaps  []Overlap
}

// Belief is what a client believed without a break: that it holds a resource.
type Belief struct {
	Client, Resource string
	Hold             int64 // the number of the attempt that it came of
	Token            uint64
	From, Until      time.Duration
	Extended         []time.Duration
	How              string // it ended
	Shared           bool   // beside others who share it
	Limit, Slot      int    // it is one slot of so many; 0: it has none
}

// Place is what one believes to have who excludes others: a resource, or a slot of it.
func (b Belief) Place() string {
	if b.Limit == 0 {
		return b.Resource
	}
	return fmt.Sprintf("%s, slot %d", b.Resource, b.Slot)
}

// Sight is what an observer was told of who holds a resource.
type Sight struct {
	Observer, Resource string
	Value              string // empty: nobody does
	Leader             string // the client that gave the value, if it is known
	Token              uint64
	From, Until        time.Duration
}

// Wait is how a client asked for a resource, up to its lock or to giving up.
type Wait struct {
	Client, Resource string
	From, Until      time.Duration
	Failed           int // attempts
	Held             bool
}

// Grant is that nodes told a client that a release granted it the lock.
type Grant struct {
	Client, Resource string
	Nodes            []string
	From, Until      time.Duration // when they told it
	By               string        // who released; empty: it is not known
	Hold             int64         // that was released
	Released         time.Duration
}

// Key is what a node stored for a client.
type Key struct {
	Node, Client, Resource string
	Hold                   int64
	From, Until            time.Duration
	Shared                 bool // beside others who share it
}

// State is what a node was that did not vote.
type State struct {
	Node, Is    string // Is: as the template draws it
	Means       string
	From, Until time.Duration
}

// Fault is something that was done to clients or nodes.
type Fault struct {
	Words              string // all there is to say of it
	Kind               string
	Client, Key        string // that it is about, if any
	By                 time.Duration
	Steps, Drifts      bool // it moves a clock by that: at once, or a second
	Mended             bool
	Late               string // what precedes it from From on; it comes about at Until. Empty: it begins at From
	From, Until        time.Duration
	AtClients, AtNodes []string // in whose lanes it is drawn
}

// Write is an attempt to write to a resource.
type Write struct {
	At               time.Duration
	Client, Resource string
	Token            uint64
	Refused          bool
}

// Overlap is two clients that believed at once.
type Overlap struct {
	Resource    string
	First, Then string // the clients
	From, Until time.Duration
}

// Flag is a rule that was broken, but for the one of two holders, which is seen.
type Flag struct {
	Rule, Resource, Text string
	Stale                bool // the rule is that of stale writes: Text begins with the client
	At                   time.Duration
}

// Event is a record as text.
type Event struct{ At, Who, What string }
