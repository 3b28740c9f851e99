package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// disowned hears since when nothing counts that a node vouched for.
type disowned struct {
	Observer

	since []clock.Instant
}

func (d *disowned) Disowned(_ int, since clock.Instant, _ error) { d.since = append(d.since, since) }

// A look proves what its own batch brought. A push that comes after it, and is taken in
// before the next look, is void if that finds that the node forgot.
func TestTheLookOfTheBatchBeforeProvesNoPush(t *testing.T) {
	for name, take := range map[string]func(n *Node, p push){
		"at once": func(n *Node, p push) { n.idle = true; n.SubmitPush(p.Push, p.round) },
		"in the writer's turn": func(n *Node, p push) {
			n.SubmitPush(p.Push, p.round)
			n.writer.take(n.Clock.Early())
			n.writer.settlePushes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := &disowned{}
				n := &Node{Clock: clock.New(), observer: told, wake: make(chan struct{}, 1)}
				n.writer = &writer{Node: n, loaded: true, epoch: "epoch"}
				n.Tracker = membership.NewTracker(membership.NewConfig([]string{"a"}, time.Second, false), "", n.Clock)
				time.Sleep(time.Second)
				n.writer.batch.proven = true
				r := round.New(&round.Claim{Owner: "owner", Marks: make([]quorum.Mark, 1)}, 1, n.Clock.Early(), &round.Sleeper{Wake: make(chan struct{}, 1)})
				r.Asks = &round.Asks{Heard: make([]quorum.Hearing, 1)}
				r.AcceptPushes()
				take(n, push{grant.Push{Epoch: "epoch", Token: 7, Reading: 900, Owner: "owner"}, r})
				if !r.Granted() {
					t.Fatal("the push does not count: this test shows nothing")
				}
				n.writer.forgot(errHistory)
				if want := clock.Instant(900 * time.Millisecond); len(told.since) != 1 || told.since[0] != want {
					t.Errorf("nothing counts since %v; want since %v, the push's reading", told.since, want)
				}
			})
		})
	}
}
