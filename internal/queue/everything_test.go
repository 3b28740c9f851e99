package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Each look of a process that a node had called, or not heard of for long, had the node asked
// about every name: 8,000 names are 32 looks, and each of these brought 32 more.
func TestANodeIsAskedAboutEveryNameOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = 2*lua.LookBatchSize + 1
		c := clock.New()
		q := New(8)
		w := NewPresence(Config{Nodes: []*node.Node{{Clock: c, Tracker: membership.NewTracker(membership.NewConfig([]string{"a"}, 0, false), "", c)}}, Clock: c, Timeout: time.Second}, q)
		for i := range names {
			name, _ := q.Try(fmt.Sprint(i))
			w.Rest(name, nil, nil, quorum.Rest{Look: true, After: time.Hour, Most: time.Hour})
		}
		looks := func() (out []*poll) {
			for _, k := range w.pollsOfLocked(w.resting) {
				out = append(out, k.(*poll))
			}
			out[len(out)-1].last = true
			return out
		}()
		forgot := make([]int64, len(looks)-2) // it says nothing of the names
		knows := slices.Repeat([]int64{1}, len(forgot))
		w.askAll(0)
		for _, k := range looks[:2] {
			if k.Answer(0, true, forgot, nil); w.everything[0] != askAgain {
				t.Fatalf("a look was answered, and others are out: got %d; want it to be noted that they follow again", w.everything[0])
			}
		}
		if looks[2].Answer(0, true, knows, nil); w.everything[0] != askOut {
			t.Errorf("the last is answered, and one before it was the first to be heard: got %d; want all asked again", w.everything[0])
		}
		if looks[2].Answer(0, true, knows, nil); w.everything[0] != askNone {
			t.Errorf("all are answered, and the node knew of us: got %d; want no more", w.everything[0])
		}
	})
}
