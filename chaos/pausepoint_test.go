package chaos_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// A client is paused for a minute at each step of its work: it stops there, and
// nowhere else.
func TestAPauseStopsAClientAtTheStepThatItNames(t *testing.T) {
	for _, where := range trace.Moments() {
		t.Run(string(where), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stage, err := chaos.NewVirtual(1, 1)
				testkit.Must(t, err)
				defer stage.Close()
				history := chaos.NewHistory()
				kit := chaos.Redlock("redlock", redlock.WithTTL(10*time.Second), redlock.WithFixedLease(), redlock.WithoutMembership())
				ann, err := chaos.NewActor("ann", kit, stage, history, &fencing.Memory{})
				testkit.Must(t, err)
				defer ann.Close()
				pause := chaos.Fault{Kind: chaos.Pause, Client: "ann", Where: where}
				testkit.Must(t, stage.Break(pause))
				took := map[chaos.Moment]time.Duration{}
				step := func(at chaos.Moment, do func() error) {
					start, mended := time.Now(), time.AfterFunc(time.Second, func() { _ = stage.Mend(pause) })
					err := do()
					if mended.Stop() && at == where {
						testkit.Must(t, stage.Mend(pause))
					}
					if took[at] = time.Since(start); err != nil && where != chaos.AtReplies {
						t.Errorf("%s: %v", at, err)
					}
				}
				var tenure *chaos.Tenure
				step(chaos.AtAsk, func() (err error) {
					tenure, err = ann.Ask(t.Context(), chaos.Only("report"), 10*time.Second)
					return err
				})
				if where == chaos.AtReplies {
					if tenure != nil {
						t.Error("got a lock without a reply")
					}
					return
				}
				// What stops with the lock granted is inside the same call.
				took[chaos.AtHeld] = took[chaos.AtAsk]
				step(chaos.AtWrite, func() error { return tenure.Write(t.Context()) })
				step(chaos.AtExtend, func() error { return tenure.Extend(t.Context(), 10*time.Second) })
				step(chaos.AtRelease, func() error { return tenure.Release(t.Context()) })
				for at, d := range took {
					asking := (at == chaos.AtAsk || at == chaos.AtHeld) && (where == chaos.AtAsk || where == chaos.AtHeld)
					if stopped := d >= time.Second; stopped != (at == where || asking) {
						t.Errorf("%s took %v, with a pause at %s", at, d, where)
					}
				}
			})
		})
	}
}
