package search_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// peterson is Peterson's mutual exclusion of two processes, whose states are
// few enough to be counted by a map.
type peterson struct{}

type petersonState struct {
	at   [2]uint8 // 0 outside, 1 flag set, 2 turn given, 3 inside
	turn uint8
}

func (petersonState) String() string { return "a state" }

func (s petersonState) inside(p uint8) bool { return s.at[p] == 3 }

func (s petersonState) wants(p uint8) bool { return s.at[p] != 0 }

func (peterson) Init() petersonState { return petersonState{} }

func (peterson) Next(s petersonState, yield func(search.Step, petersonState)) {
	for p := range uint8(2) {
		n, other := s, 1-p
		switch s.at[p] {
		case 0:
			n.at[p] = 1
		case 1:
			n.at[p], n.turn = 2, other
		case 2:
			if s.wants(other) && s.turn == other {
				continue
			}
			n.at[p] = 3
		case 3:
			n.at[p] = 0
		}
		yield(search.Step{Kind: s.at[p], A: p}, n)
	}
}

var errBothInside = errors.New("both inside")

func (peterson) Check(s petersonState) error {
	if s.inside(0) && s.inside(1) {
		return errBothInside
	}
	return nil
}

func (peterson) Describe(st search.Step) string {
	return string('a'+rune(st.A)) + [...]string{" sets flag", " gives turn", " enters", " leaves"}[st.Kind]
}

func TestClosedSeesEveryState(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		r := search.Closed(peterson{}, search.Options{Workers: workers})
		testkit.Must(t, r.Err())
		if want := petersonStates(); r.States != want {
			t.Errorf("%d workers: got %d states; want %d", workers, r.States, want)
		}
	}
}

// petersonStates counts them in the dumb way: depth first, with a map.
func petersonStates() int {
	seen := map[petersonState]bool{}
	var visit func(s petersonState)
	visit = func(s petersonState) {
		if !seen[s] {
			seen[s] = true
			peterson{}.Next(s, func(_ search.Step, n petersonState) { visit(n) })
		}
	}
	visit(peterson{}.Init())
	return len(seen)
}

// reckless may enter without a look at the other's flag and the turn.
type reckless struct{ peterson }

func (sys reckless) Next(s petersonState, yield func(search.Step, petersonState)) {
	sys.peterson.Next(s, yield)
	for p := range uint8(2) {
		if s.at[p] == 2 {
			n := s
			n.at[p] = 3
			yield(search.Step{Kind: 2, A: p, B: 1}, n)
		}
	}
}

func TestClosedFindsAShortestTrace(t *testing.T) {
	r := search.Closed(reckless{}, search.Options{})
	if !errors.Is(r.Err(), errBothInside) {
		t.Fatalf("got %v; want %v", r.Err(), errBothInside)
	}
	if got := len(r.Trace.Events); got != 6 {
		t.Errorf("got a trace of %d steps; want 6\n%s", got, r.Trace)
	}
	if text := r.Trace.String(); !strings.Contains(text, "a enters") || !strings.Contains(text, "a state") {
		t.Errorf("the trace does not tell steps and states:\n%s", text)
	}
}

func TestClosedSaysWhenItIsNot(t *testing.T) {
	r := search.Closed(ring{size: 1 << 16}, search.Options{MaxStates: 1000})
	if r.Closed || r.Err() == nil {
		t.Errorf("got %v, %v; want a search that is not closed", r, r.Err())
	}
}

// ring counts round a ring, or two by two; mirrored, it folds n and -n together.
type ring struct {
	size     int32
	mirrored bool
	bad      int32
}

func (r ring) Init() int32 { return 0 }

func (r ring) Next(s int32, yield func(search.Step, int32)) {
	yield(search.Step{Kind: 0}, (s+1)%r.size)
	yield(search.Step{Kind: 1}, (s+r.size-1)%r.size)
}

var errBad = errors.New("bad")

func (r ring) Check(s int32) error {
	if r.bad != 0 && (s == r.bad || s == r.size-r.bad) {
		return errBad
	}
	return nil
}

func (r ring) Describe(st search.Step) string { return [...]string{"up", "down"}[st.Kind] }

func (r ring) Canon(s int32) int32 {
	if r.mirrored {
		return max(s, (r.size-s)%r.size)
	}
	return s
}

func TestCanonFoldsStatesAndTheTraceIsReal(t *testing.T) {
	const size, bad = 10_001, 4000
	if r := search.Closed(ring{size: size, mirrored: true}, search.Options{}); r.States != size/2+1 {
		t.Errorf("got %v; want %d states", r, size/2+1)
	}
	r := search.Closed(ring{size: size, mirrored: true, bad: bad}, search.Options{})
	if r.Trace == nil || !errors.Is(r.Trace.Err, errBad) || len(r.Trace.Events) != bad {
		t.Fatalf("got %v; want a trace of %d steps", r, bad)
	}
	ups := slices.IndexFunc(r.Trace.Events, func(e search.Event[int32]) bool { return e.Text != r.Trace.Events[0].Text })
	if ups != -1 {
		t.Errorf("the trace turns at step %d; a shortest one never does", ups)
	}
}

func TestWalkFindsAndShrinks(t *testing.T) {
	opts := search.WalkOptions{Seed: 7, Walks: 100, Steps: 500}
	if r := search.Walk(peterson{}, opts); r.Err() != nil || r.Walks != 100 || r.Steps != 100*500 {
		t.Errorf("got %v, %v; want 100 clean walks of 500 steps", r, r.Err())
	}
	r := search.Walk(reckless{}, opts)
	if !errors.Is(r.Err(), errBothInside) {
		t.Fatalf("got %v; want %v", r, errBothInside)
	}
	if len(r.Trace.Events) > 8 {
		t.Errorf("shrunk to %d steps only\n%s", len(r.Trace.Events), r.Trace)
	}
	opts.Seed, opts.Walks = r.Seed, 1
	if again := search.Walk(reckless{}, opts); again.Trace.String() != r.Trace.String() {
		t.Errorf("seed %d walked another way:\n%s\n%s", r.Seed, again.Trace, r.Trace)
	}
}

// bent prefers one of two steps, and never takes the other.
type bent struct{ ring }

func (bent) Weight(st search.Step) int { return int(st.Kind) }

func TestWalkHeedsWeights(t *testing.T) {
	r := search.Walk(bent{ring{size: 100, bad: 30}}, search.WalkOptions{Walks: 1, Steps: 30})
	if r.Trace == nil || len(r.Trace.Events) != 30 {
		t.Errorf("got %v; want to be at the bad place after 30 steps down", r)
	}
}
