package quorum_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// late is the history that a re-seed's rule is for, by leases alone: re-seeds of a sharer
// that are late, on two nodes, come when an exclusive hold has been there and is done. It
// is too rare for a walk.
var late = []search.Step{
	{Kind: shareAsk, A: 0, B: 0},
	{Kind: shareAsk, A: 0, B: 1},
	{Kind: shareAsk, A: 0, B: 2},
	{Kind: shareSettle, A: 0, C: 1},
	{Kind: shareRenew, A: 0},
	{Kind: shareExtend, A: 0, B: 0},
	{Kind: shareExtend, A: 0, B: 1},
	{Kind: shareConfirm, A: 0}, // a re-seed for the third node is under way
	{Kind: shareRenew, A: 0},
	{Kind: shareExtend, A: 0, B: 0},
	{Kind: shareExtend, A: 0, B: 2},
	{Kind: shareConfirm, A: 0}, // and one for the second
	{Kind: shareTick},
	{Kind: shareTick},
	{Kind: shareAsk, A: 1, B: 0},
	{Kind: shareAsk, A: 1, B: 1},
	{Kind: shareSettle, A: 1, C: 2},
	{Kind: shareGiveUp, A: 1},
	{Kind: shareRelease, A: 1, B: 0},
	{Kind: shareRelease, A: 1, B: 1},
	{Kind: shareReseed, A: 0, B: 1},
	{Kind: shareReseed, A: 0, B: 2},
	{Kind: shareAsk, A: 2, B: 1},
	{Kind: shareAsk, A: 2, B: 2},
}

func TestLateReseedsBringNoOldGenerationBack(t *testing.T) {
	for _, flaw := range []scriptmodel.Flaw{0, scriptmodel.ReseedsOldToken} {
		sys := &sharedSystem{nodes: 3, copies: 1, most: 9, holds: []bool{beside, alone, beside}, time: true, extends: 2, raises: 1, flaw: flaw}
		s := follow(t, sys, late)
		wrong := false
		sys.Next(s, func(st search.Step, next sharedState) {
			if st.Kind == shareSettle && st.A == 2 {
				wrong = wrong || errors.Is(sys.Check(next), errNotAbove)
			}
		})
		if wrong != (flaw != 0) {
			t.Errorf("with flaw %d a token is below one that was issued before: %v\n%s", flaw, wrong, s)
		}
	}
}

// follow takes these steps, each of which is possible, and breaks nothing.
func follow(t *testing.T, sys *sharedSystem, steps []search.Step) sharedState {
	t.Helper()
	s := sys.Init()
	for i, want := range steps {
		found := false
		var next sharedState
		sys.Next(s, func(st search.Step, n sharedState) {
			if !found && st == want {
				found, next = true, n
			}
		})
		if !found {
			t.Fatalf("step %d, %s: not possible\n%s", i+1, sys.Describe(want), s)
		}
		if s = next; sys.Check(s) != nil {
			t.Fatalf("step %d, %s: %v\n%s", i+1, sys.Describe(want), sys.Check(s), s)
		}
	}
	return s
}
