package migration_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// name is what the page's code locks.
const name = "orders/42"

// patience bounds what must happen in the end.
const patience = time.Minute

// fleet is three masters, with a Locker and redsync over them; and the one server
// that rueidislock and bsm/redislock are on, which is none of the three.
type fleet struct {
	masters     []*redisserver.Server
	locker      *redlock.Locker
	redsync     *redsync.Redsync
	rueidislock rueidislock.Locker
	bsm         *redislock.Client
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	servers := redisserver.NeedAll(t, 4, redisserver.Config{})
	f := &fleet{masters: servers[:3], rueidislock: openRueidislock(t, servers[3]), bsm: redislock.New(servers[3].Client())}
	f.locker = open(t, f.masters...)
	var pools []pool.Pool
	for _, s := range f.masters {
		pools = append(pools, goredis.NewPool(s.Client()))
	}
	f.redsync = redsync.New(pools...)
	return f
}

func openRueidislock(t *testing.T, s *redisserver.Server) rueidislock.Locker {
	t.Helper()
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true},
		NoLoopTracking: true,
		TryNextAfter:   time.Second, // its 20 ms are less than what a busy machine takes
	})
	testkit.Must(t, err)
	t.Cleanup(l.Close)
	return l
}

// open makes a Locker over servers on which nothing was ever locked.
func open(t *testing.T, servers ...*redisserver.Server) *redlock.Locker {
	t.Helper()
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(2*time.Second))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	testkit.Must(t, l.Cluster().Admit(t.Context()))
	return l
}

// job is a piece of work under a lock of some kind.
type job func(ctx context.Context, work func(context.Context) error) error

func (f *fleet) jobs() (before, after map[string]job) {
	before = map[string]job{
		"redsync": func(ctx context.Context, w func(context.Context) error) error {
			return redsyncBefore(ctx, f.redsync, w)
		},
		"rueidislock": func(ctx context.Context, w func(context.Context) error) error {
			return rueidislockBefore(ctx, f.rueidislock, w)
		},
		"bsm": func(ctx context.Context, w func(context.Context) error) error { return bsmBefore(ctx, f.bsm, w) },
	}
	after = map[string]job{
		"redsync": func(ctx context.Context, w func(context.Context) error) error { return redsyncAfter(ctx, f.locker, w) },
		"redsync, as it was": func(ctx context.Context, w func(context.Context) error) error {
			return redsyncAsItWas(ctx, f.locker, w)
		},
		"rueidislock": func(ctx context.Context, w func(context.Context) error) error {
			return rueidislockAfter(ctx, f.locker, w)
		},
		"bsm":                     func(ctx context.Context, w func(context.Context) error) error { return bsmAfter(ctx, f.locker, w) },
		"under both: rueidislock": f.bridge("rueidislock"), "under both: bsm": f.bridge("bsm"),
	}
	return before, after
}

// bridge is work under the old lock of that kind, and this library's.
func (f *fleet) bridge(kind string) job {
	return func(ctx context.Context, w func(context.Context) error) error {
		before, _ := f.jobs()
		return underBoth(ctx, before[kind], f.locker, w)
	}
}

// Each side of the page does the work once, under its lock, and leaves none.
func TestTheCodeOfThePageRuns(t *testing.T) {
	f := newFleet(t)
	failed := errors.New("the work failed")
	before, after := f.jobs()
	for _, jobs := range []map[string]job{before, after} {
		for what, do := range jobs {
			runs := 0
			err := do(t.Context(), func(context.Context) error { runs++; return failed })
			if runs != 1 || !errors.Is(err, failed) {
				t.Errorf("%s: got %d runs and %v; want one, and its error", what, runs, err)
			}
		}
	}
	if _, err := f.locker.TryAcquire(t.Context(), name); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The page's code is these files' code: what does not compile is not in it. That of
// schedulers is adaptertest's, by TestEveryBlockOfThePagesIsRun of the root.
func TestThePagesCodeIsTheCodeHere(t *testing.T) {
	page, err := os.ReadFile("../../docs/MIGRATION.md")
	testkit.Must(t, err)
	files, err := filepath.Glob("*_test.go")
	testkit.Must(t, err)
	var code strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		testkit.Must(t, err)
		code.Write(text)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) < 4 {
		t.Errorf("got %d blocks of Go in the page; want three of here, and one of schedulers", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(b[1]), "adapters.New") && !strings.Contains(code.String(), "\n"+string(b[1])) {
			t.Errorf("the page has code that is not here:\n%s", b[1])
		}
	}
}

// A lock of redsync's is a stranger's here, and is waited for: until it is
// unlocked, not until its lease ends.
func TestALockOfRedsyncIsWaitedFor(t *testing.T) {
	f := newFleet(t)
	mutex := f.redsync.NewMutex(name, redsync.WithExpiry(patience))
	testkit.Must(t, mutex.LockContext(t.Context()))
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience/2) // well before the lease ends
		defer cancel()
		lock, err := f.locker.Acquire(ctx, name)
		if err == nil {
			err = lock.Release(ctx)
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("while redsync holds: got %v; want it to wait", err)
	case <-time.After(300 * time.Millisecond): // more than its longest pause between two looks
	}
	if ok, err := mutex.UnlockContext(t.Context()); !ok {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("after redsync's unlock: %v", err)
	}
}

// What has other keys, or one server of several, is not excluded, also where it
// is one of the masters.
func TestClientsOfOneMasterAreNotExcludedByThemselves(t *testing.T) {
	f := newFleet(t)
	f.rueidislock, f.bsm = openRueidislock(t, f.masters[0]), redislock.New(f.masters[0].Client())
	f.redsync = redsync.New(goredis.NewPool(f.masters[0].Client())) // as gocron's Redis locker makes one
	before, _ := f.jobs()
	for _, kind := range []string{"rueidislock", "bsm", "redsync"} {
		err := before[kind](t.Context(), func(ctx context.Context) error {
			lock, err := f.locker.TryAcquire(ctx, name)
			if err != nil {
				return err
			}
			return lock.Release(ctx)
		})
		if err != nil {
			t.Errorf("%s: got %v; the page says that both hold", kind, err)
		}
	}
}

// Over its one server, a lock of bsm's and one of ours exclude each other.
func TestOverOneMasterBsmIsExcluded(t *testing.T) {
	s := redisserver.NeedAll(t, 1, redisserver.Config{})
	locker, old := open(t, s...), redislock.New(s[0].Client())
	theirs, err := old.Obtain(t.Context(), name, patience, nil)
	testkit.Must(t, err)
	if _, err := locker.TryAcquire(t.Context(), name); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("while bsm holds: got %v; want ErrNotAcquired", err)
	}
	if err := theirs.Release(t.Context()); err != nil {
		t.Errorf("bsm's release after our attempt: %v", err)
	}
	ours, err := locker.Acquire(t.Context(), name)
	testkit.Must(t, err)
	if _, err := old.Obtain(t.Context(), name, patience, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("while we hold: got %v; want ErrNotObtained", err)
	}
	if err := ours.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The two steps of a rollout under both locks: beside the old clients, then
// beside the new ones, never two inside.
func TestWorkUnderBothLocksExcludesOldAndNewClients(t *testing.T) {
	f := newFleet(t)
	before, after := f.jobs()
	for _, kind := range []string{"rueidislock", "bsm"} {
		old, both, alone := before[kind], f.bridge(kind), after[kind]
		if kind == "bsm" { // it does not wait
			old, both, alone = insisting(old, redislock.ErrNotObtained), insisting(both, redislock.ErrNotObtained), insisting(alone, redlock.ErrNotAcquired)
		}
		t.Run(kind+", beside the old", func(t *testing.T) { contend(t, f.masters[0], old, both) })
		t.Run(kind+", beside the new", func(t *testing.T) { contend(t, f.masters[0], both, alone) })
	}
}

// insisting tries a job again while another has its lock.
func insisting(do job, busy error) job {
	return func(ctx context.Context, work func(context.Context) error) error {
		for {
			if err := do(ctx, work); !errors.Is(err, busy) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond): // its owner may be at it
			}
		}
	}
}

// contend has two clients of each kind do their work five times each, on a server:
// what two at once would do there gets lost.
func contend(t *testing.T, server *redisserver.Server, kinds ...job) {
	t.Helper()
	const clients, times = 2, 5
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, key := server.Client(), t.Name()
	var inside atomic.Int32
	work := func(context.Context) error {
		defer inside.Add(-1)
		if n := inside.Add(1); n != 1 {
			t.Errorf("got %d at work at once; want one", n)
		}
		runs, err := client.Get(ctx, key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return client.Set(ctx, key, runs+1, 0).Err()
	}
	var all sync.WaitGroup
	for k, do := range kinds {
		for range clients {
			all.Go(func() {
				for range times {
					if err := do(ctx, work); err != nil {
						t.Errorf("kind %d: %v", k, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if got, err := client.Get(t.Context(), key).Int(); got != len(kinds)*clients*times || err != nil {
		t.Errorf("got %d runs, %v; want %d, none lost", got, err, len(kinds)*clients*times)
	}
}
