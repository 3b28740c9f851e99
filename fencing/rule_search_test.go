package fencing_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// mostHolds bounds a history. Four suffice for all that is known to go wrong: one
// before, two of a kind, one of the other.
const mostHolds = 6

// ruleHold is a hold of the resource: it ends when its lease does, and may write
// before and after that.
type ruleHold struct {
	shared, live, wrote bool
	token               uint8
}

// ruleState is a history of holds, and what the guard has seen of them.
type ruleState struct {
	granted int8
	holds   [mostHolds]ruleHold // in the order in which they were granted
	seen    [2]uint8            // exclusive, shared
	lost    bool                // the nodes lost their memory
	broken  ruleFault
}

type ruleFault uint8

const (
	staleWrite ruleFault = iota + 1
	needlessRefusal
)

// rule decides on a write, as Seen.Accept does.
type rule func(seen fencing.Seen, token redlock.Token, shared bool) (fencing.Seen, bool)

func theRule(seen fencing.Seen, token redlock.Token, shared bool) (fencing.Seen, bool) {
	next, err := seen.Accept("r", token, shared)
	return next, err == nil
}

// ruleSystem grants holds by the rule of generations: a shared token is greater
// than every exclusive one before, every later exclusive one is greater, shared
// ones never fall. Sharers have the number of those before them, or a raised one.
type ruleSystem struct {
	rule  rule
	holds int8
	// repeats: once, when nobody holds, the nodes lose their memory, and the next
	// hold gets the last number again.
	repeats bool
	// forgets: a sharer's token may reach the guard without its kind.
	forgets bool
}

const (
	grantStep uint8 = iota // A: shared; B: the number
	endStep                // A: the hold
	writeStep              // A: the hold; B: the kind was lost
)

func (ruleSystem) Init() ruleState { return ruleState{} }

func (sys ruleSystem) Next(s ruleState, yield func(search.Step, ruleState)) {
	if s.granted < sys.holds {
		sys.grants(s, yield)
	}
	for i := range uint8(s.granted) {
		if s.holds[i].live {
			next := s
			next.holds[i].live = false
			yield(search.Step{Kind: endStep, A: i}, next)
		}
		yield(search.Step{Kind: writeStep, A: i}, sys.write(s, i, s.holds[i].shared))
		if sys.forgets && s.holds[i].shared {
			yield(search.Step{Kind: writeStep, A: i, B: 1}, sys.write(s, i, false))
		}
	}
}

func (sys ruleSystem) grants(s ruleState, yield func(search.Step, ruleState)) {
	var most uint8
	var held, heldExclusive, behindSharer bool
	for _, h := range s.holds[:s.granted] {
		most = max(most, h.token)
		held = held || h.live
		heldExclusive = heldExclusive || h.live && !h.shared
		behindSharer = h.shared
	}
	grant := func(shared bool, token uint8, lost bool) {
		next := s
		next.holds[s.granted] = ruleHold{shared: shared, live: true, token: token}
		next.granted++
		next.lost = s.lost || lost
		step := search.Step{Kind: grantStep, B: token}
		if shared {
			step.A = 1
		}
		yield(step, next)
	}
	if !held {
		grant(false, most+1, false)
	}
	if !heldExclusive {
		grant(true, most+1, false)
		if behindSharer {
			grant(true, most, false)
		}
	}
	if sys.repeats && !s.lost && !held && most > 0 {
		grant(false, most, true)
		grant(true, most, true)
	}
}

// write has hold i write, and finds out whether the guard was right: a write is
// stale if a newer hold that excludes it has written.
func (sys ruleSystem) write(s ruleState, i uint8, shared bool) ruleState {
	h := s.holds[i]
	seen := fencing.Seen{Exclusive: redlock.Token(s.seen[0]), Shared: redlock.Token(s.seen[1])}
	seen, accepted := sys.rule(seen, redlock.Token(h.token), shared)
	var stale bool
	for _, newer := range s.holds[i+1 : s.granted] {
		// Two exclusive holds with one number: no guard can tell them apart.
		same := !h.shared && !newer.shared && h.token == newer.token
		stale = stale || newer.wrote && (!h.shared || !newer.shared) && !same
	}
	switch {
	case accepted && stale:
		s.broken = staleWrite
	case !accepted && !stale && !sys.repeats && !sys.forgets:
		s.broken = needlessRefusal
	}
	if accepted {
		s.holds[i].wrote = true
		s.seen = [2]uint8{uint8(seen.Exclusive), uint8(seen.Shared)}
	}
	return s
}

func (ruleSystem) Check(s ruleState) error {
	switch s.broken {
	case staleWrite:
		return errors.New("a write lands after that of a newer hold that excludes it")
	case needlessRefusal:
		return errors.New("a write is refused, and no newer hold that excludes it has written")
	}
	return nil
}

func (ruleSystem) Describe(st search.Step) string {
	kind := [2]string{"exclusive", "shared"}
	switch st.Kind {
	case grantStep:
		return fmt.Sprintf("a hold is granted, %s, with %d", kind[st.A], st.B)
	case endStep:
		return fmt.Sprintf("hold %d ends", st.A)
	}
	return fmt.Sprintf("hold %d writes; its kind is lost: %t", st.A, st.B == 1)
}

// The rule is exact: it accepts what is not stale, and refuses what is, in every
// order of grants, ends and writes. Where a number is issued twice, or a kind is
// lost on the way, it may refuse more, and never lets a stale write pass. Not so
// where both happen: a sharer without its kind and an exclusive hold with its
// number are one to every guard.
func TestSearchTheRuleOfTwoNumbers(t *testing.T) {
	holds := int8(5)
	if testkit.Deep() {
		holds = mostHolds
	}
	for name, sys := range map[string]ruleSystem{
		"exact":                   {rule: theRule, holds: holds},
		"a number is given twice": {rule: theRule, holds: holds, repeats: true},
		"kinds are lost":          {rule: theRule, holds: holds, forgets: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := search.Closed(sys, search.Options{})
			t.Log(r)
			if r.Trace != nil || !r.Closed {
				t.Errorf("got %v; want none:\n%v", r, r.Trace)
			}
		})
	}
}

// These are the controls: each lacks one part of the rule, and the same search
// finds what goes wrong without it.
func TestSearchFindsEachPartOfTheRuleMissing(t *testing.T) {
	type seen = fencing.Seen
	type token = redlock.Token
	for _, tt := range []struct {
		name    string
		broken  rule
		repeats bool
		want    ruleFault
	}{
		{"one number for both kinds", func(s seen, t token, _ bool) (seen, bool) {
			return seen{Exclusive: max(s.Exclusive, t)}, t >= s.Exclusive
		}, false, needlessRefusal},
		{"an exclusive asks for its own number only", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return theRule(s, t, true)
			}
			return seen{max(s.Exclusive, t), s.Shared}, t >= s.Exclusive
		}, false, staleWrite},
		{"an exclusive needs more than its own number", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return theRule(s, t, true)
			}
			return seen{t, s.Shared}, t > s.Exclusive && t > s.Shared
		}, false, needlessRefusal},
		{"an exclusive with the sharers' number passes", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return theRule(s, t, true)
			}
			return seen{t, s.Shared}, t >= s.Exclusive && t >= s.Shared
		}, true, staleWrite},
		{"an exclusive is not kept", func(s seen, t token, shared bool) (seen, bool) {
			if next, ok := theRule(s, t, shared); shared {
				return next, ok
			}
			return s, t >= s.Exclusive && t > s.Shared
		}, false, staleWrite},
		{"a sharer always passes", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return seen{s.Exclusive, max(s.Shared, t)}, true
			}
			return theRule(s, t, false)
		}, false, staleWrite},
		{"a sharer with the exclusive's number passes", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return seen{s.Exclusive, max(s.Shared, t)}, t >= s.Exclusive
			}
			return theRule(s, t, false)
		}, true, staleWrite},
		{"a sharer needs the largest shared number", func(s seen, t token, shared bool) (seen, bool) {
			if shared && t < s.Shared {
				return s, false
			}
			return theRule(s, t, shared)
		}, false, needlessRefusal},
		{"a sharer is not kept", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return s, t > s.Exclusive
			}
			return theRule(s, t, false)
		}, false, staleWrite},
		{"the last shared number is kept, and not the largest", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return seen{s.Exclusive, t}, t > s.Exclusive
			}
			return theRule(s, t, false)
		}, false, staleWrite},
		{"a sharer's number is kept as an exclusive one as well", func(s seen, t token, shared bool) (seen, bool) {
			if shared {
				return seen{max(s.Exclusive, t), max(s.Shared, t)}, t > s.Exclusive
			}
			return theRule(s, t, false)
		}, false, needlessRefusal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := search.Closed(ruleSystem{rule: tt.broken, holds: 4, repeats: tt.repeats}, search.Options{})
			if r.Trace == nil {
				t.Fatalf("got %v; want it found", r)
			}
			events := r.Trace.Events
			if got := events[len(events)-1].State.broken; got != tt.want {
				t.Errorf("got fault %d; want %d:\n%v", got, tt.want, r.Trace)
			}
			t.Logf("%d steps:\n%v", len(events), r.Trace)
		})
	}
}
