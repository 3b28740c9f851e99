package chaos_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// A release, as the watch knows one by its first line.
const plainRelease = "-- release\nif redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

// What a node shows after it has answered a release is found on every backend;
// nothing is found where the release was the last word, or did not happen.
func TestLitterIsSeenOnEveryBackend(t *testing.T) {
	const lease = 5 * time.Second
	for _, b := range chaos.Backends() {
		t.Run(string(b), func(t *testing.T) {
			play := func(t *testing.T) {
				t.Helper()
				stage, err := chaos.OpenStage(t.Context(), b, 1, 3)
				needThere(t, err)
				defer stage.Close()
				ann := connect(t, stage, "ann")
				history := chaos.NewHistory()
				stop := chaos.Observe(stage, history, lease)
				var hash string
				for i, node := range ann {
					if hash, err = node.ScriptLoad(t.Context(), plainRelease).Result(); err != nil {
						t.Fatal(err)
					}
					testkit.Must(t, node.Set(t.Context(), "report", "an owner that is long enough", lease).Err())
					if i == 2 {
						testkit.Must(t, node.ScriptFlush(t.Context()).Err()) // it refuses the release, and keeps the key
					}
					err = node.EvalSha(t.Context(), hash, []string{"report"}, "an owner that is long enough").Err()
					if (err != nil) != (i == 2) {
						t.Fatalf("node %d: the release: %v", i, err)
					}
				}
				time.Sleep(time.Millisecond) // the watch takes what comes in its own moment for what was before
				testkit.Must(t, ann[0].Set(t.Context(), "report", "an owner that is long enough", lease).Err())
				litter := func() []chaos.Violation { return trace.Judge{}.Judge(history.Records()).Violations }
				for deadline := time.Now().Add(lease - time.Second); len(litter()) == 0 && time.Now().Before(deadline); {
					time.Sleep(10 * time.Millisecond)
				}
				stop(false)
				if got := litter(); len(got) != 1 || got[0].Rule != chaos.Litter {
					t.Errorf("got %v; want one key, of node 0", got)
				}
				for _, r := range history.Records() {
					if r.Node != stage.Names()[0] {
						t.Errorf("got %+v; want nothing of other nodes", r)
					}
				}
			}
			if b == chaos.Virtual {
				synctest.Test(t, play)
				return
			}
			play(t)
		})
	}
}

// Old data bring back what was released, and that is no litter of the release:
// another process shows it, which has answered none.
func TestWhatComesBackWithOldDataIsNoLitter(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, _ []redis.UniversalClient) {
		t.Helper()
		history := chaos.NewHistory()
		stop := chaos.Observe(stage, history, time.Hour)
		hash, err := ann[0].ScriptLoad(t.Context(), plainRelease).Result()
		testkit.Must(t, err)
		testkit.Must(t, ann[0].Set(t.Context(), "report", "an owner that is long enough", time.Hour).Err())
		old := chaos.Fault{Kind: chaos.Old}
		testkit.Must(t, stage.Break(old))
		testkit.Must(t, ann[0].EvalSha(t.Context(), hash, []string{"report"}, "an owner that is long enough").Err())
		testkit.Must(t, stage.Mend(old))
		shows(t, ann[0], "report", "an owner that is long enough")
		stop(false)
		if got := history.Records(); len(got) > 0 {
			t.Errorf("got %+v; want nothing", got)
		}
	})
}
