package chaos_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Several goroutines of a process are at different resources at once, and in line for one:
// what the process sends for a resource is of the first there that has not ended.
func TestAProcessIsAtTheFirstAttemptThatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := chaos.NewHistory()
		first := h.Ask("client-1#1", "a")
		second := h.Ask("client-1#2", "a")
		other := h.Ask("client-1#3", "b")
		h.Ask("client-2", "a")
		then := h.Now()
		time.Sleep(time.Second)
		h.Add(chaos.Record{Kind: trace.Held, Client: "client-1#1", Resource: "a", Hold: first})
		held := h.Now()
		time.Sleep(time.Second)
		h.Add(chaos.Record{Kind: trace.Failed, Client: "client-1#2", Resource: "a", Hold: second})
		for _, at := range []struct {
			resource string
			at       time.Duration
			want     int64
		}{{"a", then, first}, {"b", then, other}, {"a", held, second}, {"a", h.Now(), second}, {"c", h.Now(), 0}} {
			if got := h.AttemptAt("client-1", at.resource, at.at); got != at.want {
				t.Errorf("at %v, %q: got attempt %d; want %d", at.at, at.resource, got, at.want)
			}
		}
	})
}
