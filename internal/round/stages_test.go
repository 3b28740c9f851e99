package round

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
)

// How far a round is, by the votes so far: g granted with the token 7, h with 9, t taken,
// f failed, and - has not answered.
func TestTheStageOfARound(t *testing.T) {
	votes := func(said string) (all []quorum.Vote) {
		for _, c := range said {
			all = append(all, map[rune]quorum.Vote{
				'g': {Outcome: quorum.Granted, Token: 7}, 'h': {Outcome: quorum.Granted, Token: 9},
				't': {Outcome: quorum.Taken}, 'f': {Outcome: quorum.Failed}, '-': {},
			}[c])
		}
		return all
	}
	for said, want := range map[string]struct{ acquire, raise, release Stage }{ // the raise is to 9
		"---":   {Open, Open, Open},
		"g--":   {Open, Open, Open},
		"gg-":   {Finished, Finished, Finished}, // one is left: no quorum has 9
		"gh-":   {Patient, Open, Finished},      // the third may settle it
		"hh-":   {Finished, Finished, Finished},
		"ghf":   {Finished, Finished, Finished},
		"tt-":   {Finished, Finished, Open},
		"tf-":   {Hopeless, Finished, Open}, // is it taken, or is there no quorum?
		"ff-":   {Finished, Finished, Open},
		"ttt":   {Finished, Finished, Open},
		"ggh--": {Patient, Open, Finished},
	} {
		v := votes(said)
		if acquire, raise, release := AcquireStage(v), RaiseStage(9)(v), ReleaseStage(v); acquire != want.acquire || raise != want.raise || release != want.release {
			t.Errorf("%s: an acquire is at stage %d, a raise at %d, a release at %d; want %v", said, acquire, raise, release, want)
		}
	}
}

// The first vote of a node stands, and none changes a round that is closed. A node without
// one was sent nothing, or may have done it.
func TestTheFirstVoteStands(t *testing.T) {
	cause, late := errors.New("refused"), quorum.Vote{Outcome: quorum.Granted, Token: 7}
	r := New(&Claim{}, 3, 0, &Sleeper{Wake: make(chan struct{}, 1)})
	r.Deliver(0, quorum.Vote{Outcome: quorum.Taken}, cause)
	r.Deliver(0, late, nil)
	r.Close()
	r.Deliver(1, late, nil)
	if got := r.Votes[1].Outcome; got != quorum.Pending {
		t.Errorf("a vote behind the close: got %v; want none", got)
	}
	r.Miss(1, true, nil)
	r.Miss(2, false, ErrNotSent)
	for i, want := range []struct {
		outcome quorum.Outcome
		cause   error
	}{{quorum.Taken, cause}, {quorum.Unknown, ErrTimeout}, {quorum.Failed, ErrNotSent}} {
		if got := r.Votes[i].Outcome; got != want.outcome || !errors.Is(r.Cause(i), want.cause) {
			t.Errorf("node %d: got %v, %v; want %v, %v", i, got, r.Cause(i), want.outcome, want.cause)
		}
	}
}
