package acquire

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// overNobody is an Acquirer over three nodes whose writers never run.
func overNobody(t *testing.T) *Acquirer {
	t.Helper()
	c, names, hints := clock.New(), []string{"a", "b", "c"}, new(round.Hints)
	config := Config{Clock: c, Hints: hints, Tracker: membership.NewTracker(membership.NewConfig(names, time.Minute, false), "", c)}
	for i, name := range names {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { _ = client.Close() })
		config.Nodes = append(config.Nodes, node.New(i, name, client, node.Config{}, c, node.NewSiblings(names, 0, hints), config.Tracker, nil))
	}
	return New(config)
}

// A quorum has one token, or the greatest is raised on those that granted a lesser one.
func TestATokenIsSettledWhereAQuorumHasIt(t *testing.T) {
	granted := func(token quorum.Token) quorum.Vote { return quorum.Vote{Outcome: quorum.Granted, Token: token} }
	taken, pending := quorum.Vote{Outcome: quorum.Taken}, quorum.Vote{}
	for _, tt := range []struct {
		votes  []quorum.Vote
		token  quorum.Token
		raised []int // the nodes that are asked to
		why    error
	}{
		{[]quorum.Vote{granted(7), granted(7), granted(7)}, 7, nil, nil},
		{[]quorum.Vote{granted(7), taken, granted(7)}, 7, nil, nil},
		{[]quorum.Vote{granted(9), granted(9), granted(7)}, 9, nil, nil},
		{[]quorum.Vote{granted(7), granted(9), taken}, 9, []int{0}, nil},
		{[]quorum.Vote{granted(7), granted(8), granted(9)}, 9, []int{0, 1}, nil},
		{[]quorum.Vote{granted(7), taken, taken}, 0, nil, errOutvoted},
		{[]quorum.Vote{granted(7), pending, taken}, 0, nil, errOutvoted},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := overNobody(t).attempts
			claim := &round.Claim{Marks: make([]quorum.Mark, 3), Rounds: 1}
			token, raise, why := a.settle(claim, tt.votes, round.NewSleeper(a.Clock))
			var raised []int
			if raise != nil {
				for i, v := range raise.Votes {
					if v.Outcome == quorum.Pending {
						raised = append(raised, i)
					}
				}
				if raise.Raise != int64(tt.token) || claim.Rounds != 2 {
					t.Errorf("%v: a raise to %d in round %d; want to %d, in a second one", tt.votes, raise.Raise, claim.Rounds, tt.token)
				}
			}
			if token != tt.token || !slices.Equal(raised, tt.raised) || !errors.Is(why, tt.why) {
				t.Errorf("%v: got %d, raised on %v, %v; want %d, %v, %v", tt.votes, token, raised, why, tt.token, tt.raised, tt.why)
			}
			if hint := a.Hints.Hint(); hint <= int64(tt.token) {
				t.Errorf("%v: the next hint is %d; want one above all that was seen", tt.votes, hint)
			}
		})
	}
}

// A round that took as long as its lease brings no lock.
func TestARoundAsLongAsItsLeaseBringsNoLock(t *testing.T) {
	for took, want := range map[time.Duration]bool{0: true, 9 * time.Second: true, 10 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			a := overNobody(t).attempts
			start := a.Clock.Start()
			time.Sleep(took)
			if why := a.outlasted(start, 10*time.Second, clock.ValidFrom(start, 10*time.Second, 0.01)); (why == nil) != want {
				t.Errorf("after %v: got %v; want a lock: %t", took, why, want)
			}
		})
	}
}

// How an attempt came about is told with its lock.
func TestTheTurnIsHowTheAttemptCameAbout(t *testing.T) {
	given, taken := &queue.Transfer{Turn: uint8(Called)}, &queue.Transfer{Open: &round.Round{}}
	for _, tt := range []struct {
		what   string
		given  *queue.Transfer
		failed int
		hints  uint64
		want   Turn
	}{
		{"the first", nil, 0, 0, First},
		{"handed over", &queue.Transfer{}, 0, 0, HandedOver},
		{"handed over, with its turn", given, 0, 0, Called},
		{"put in line by the release before", taken, 0, 0, Found},
		{"called", nil, 1, 1, Called},
		{"not called", nil, 1, 0, Found},
	} {
		acq := acquisition{failed: tt.failed, hints: tt.hints}
		if got := acq.turn(tt.given); got != tt.want {
			t.Errorf("%s: got %d; want %d", tt.what, got, tt.want)
		}
	}
}

// A release may grant who holds alone and renews: for a moment, until an extension comes.
func TestAReleaseMayGrantWhoHoldsAloneAndRenews(t *testing.T) {
	for _, tt := range []struct {
		terms Terms
		want  bool
	}{
		{Terms{TTL: grant.Lease}, true},
		{Terms{TTL: grant.Lease - 1}, false},
		{Terms{TTL: time.Minute, Fixed: true}, false},
		{Terms{TTL: time.Minute, Barging: true}, false},
		{Terms{TTL: time.Minute, Shared: true}, false},
	} {
		if got := tt.terms.acceptsPushes(); got != tt.want {
			t.Errorf("%+v: got %t; want %t", tt.terms, got, tt.want)
		}
	}
}
