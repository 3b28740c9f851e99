package contenders

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/process"
)

// masterNames are the same for all processes: some reach the masters by proxies.
var masterNames = []string{"m0", "m1", "m2", "m3", "m4"}

var (
	redisMasters = redisKind("5 Redis masters, no persistence", len(masterNames))
	redisMaster  = redisKind("1 Redis master, no persistence", 1)
)

// redisKind is masters without persistence: a process that ends takes all with it.
func redisKind(words string, n int) kind {
	return kind{
		words: words, label: "Redis", nodes: n, ports: 1, clock: true, root: true, redis: true,
		find: func() (string, error) { return process.Find("") },
		args: func(s *system, i int) []string {
			return []string{
				"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port(i, 0)), "--save", "", "--appendonly", "no",
				"--dir", s.dir, "--dbfilename", fmt.Sprint("copy-", i), // what a replica gets first
				// Without it a replica takes 5 s to get its first copy.
				"--repl-diskless-sync-delay", "0",
			}
		},
		ready: func(ctx context.Context, s *system) error {
			var errs []error
			for _, addr := range s.addrs() {
				errs = append(errs, expect(ctx, addr, "PING\r\nQUIT\r\n", "+PONG"))
			}
			return errors.Join(errs...)
		},
	}
}

// follow returns when a new replica has all that the master at an address has.
func (s *system) follow(ctx context.Context, addr string) (*node, error) {
	if err := s.takePorts(s.kind.ports); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	r := s.node(len(s.ports) - 1)
	r.args = append(r.args, "--replicaof", host, port)
	s.spare = append(s.spare, r)
	if err := r.start(); err != nil {
		return nil, err
	}
	return r, eventually(ctx, "the replica has no copy", func(ctx context.Context) error {
		return expect(ctx, r.addr, "INFO replication\r\nQUIT\r\n", "master_link_status:up")
	})
}

func (n *node) promote(ctx context.Context) error {
	return expect(ctx, n.addr, "REPLICAOF NO ONE\r\nQUIT\r\n", "+OK")
}

// goRedis is a client as it comes, with calls that a context bounds: without that
// who gives up is held until the server answers.
func goRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// plainRedis is a client as it comes: its timeouts heed no context.
func plainRedis(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

func redlockOptions() []redlock.Option {
	return []redlock.Option{redlock.WithTTL(lease), redlock.WithMaxTTL(lease), redlock.WithNodeNames(masterNames...)}
}

// admitAll makes the masters a cluster that votes at once: they are new, so nobody holds
// anything. On a machine that starts everything else too a call may find its timeout
// over, with some of them taken in: it is sent again.
func admitAll(ctx context.Context, s *system) error {
	l, err := redlock.Open(ctx, s.addrs(), redlockOptions()...)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // what it held, nobody needs
	return eventually(ctx, "found the cluster", func(context.Context) error { return l.Cluster().Admit(ctx) })
}

func openRedlock(ctx context.Context, addrs []string) (acquirer, error) {
	locker, err := redlock.Open(ctx, addrs, redlockOptions()...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, name string) (*lock, error) {
		l, err := locker.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return &lock{
			told: l.Done(), teller: byLibrary, sure: func() bool { return l.Err() == nil }, by: byLibrary,
			fence: l.Token(), release: l.Release,
		}, nil
	}, nil
}

// openRedsync is redsync over one go-redis client per master. Its waiting is its own: 32
// tries, 50 to 250 ms apart. Who wants to wait longer calls it again. Without options its
// lease is one of eight seconds.
func openRedsync(clientOf func(addr string) *redis.Client, opts ...redsync.Option) opener {
	return func(_ context.Context, addrs []string) (acquirer, error) {
		var pools []pool.Pool
		for _, addr := range addrs {
			pools = append(pools, goredis.NewPool(clientOf(addr)))
		}
		locks := redsync.New(pools...)
		return func(ctx context.Context, name string) (*lock, error) {
			m := locks.NewMutex(name, opts...)
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			extend := func(ctx context.Context) error {
				ok, err := m.ExtendContext(ctx)
				var taken *redsync.ErrTaken
				switch {
				case ok:
					return nil
				case errors.Is(err, redsync.ErrExtendFailed) || errors.As(err, &taken):
					return errNotHeld
				default:
					return err
				}
			}
			sent := monotonic() + time.Until(m.Until()) - countedLease // of the last try
			return renewed(sent, byRenewal, extend, func(ctx context.Context) error {
				ok, err := m.UnlockContext(ctx)
				if ok {
					return nil // it tells of the masters that failed beside a quorum, too
				}
				return err
			}), nil
		}, nil
	}
}

// openBSM obtains without a retry strategy, so that the holder knows when the attempt
// was sent that won, and counts the lease from then.
func openBSM(_ context.Context, addrs []string) (acquirer, error) {
	locks := redislock.New(goRedis(addrs[0]))
	return func(ctx context.Context, name string) (*lock, error) {
		l, sent, err := poll(ctx, func() (*redislock.Lock, bool, error) {
			l, err := locks.Obtain(ctx, name, lease, nil)
			return l, errors.Is(err, redislock.ErrNotObtained), err
		})
		if err != nil {
			return nil, err
		}
		return renewed(sent, byRenewal, func(ctx context.Context) error {
			err := l.Refresh(ctx, lease, nil)
			if errors.Is(err, redislock.ErrNotObtained) {
				return errNotHeld
			}
			return err
		}, l.Release), nil
	}, nil
}

// openRueidis has rueidislock as it comes: three keys on one server, of which two win.
func openRueidis(_ context.Context, addrs []string) (acquirer, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs, ForceSingleClient: true},
		KeyValidity:    lease,
		NoLoopTracking: true,
		TryNextAfter:   redlock.DefaultNodeTimeout, // its 20 ms are less than what a loaded machine takes
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, name string) (*lock, error) {
		// The lock would end with a context that is done after the acquire.
		own, giveUp := context.WithCancel(context.WithoutCancel(ctx))
		bounded := context.AfterFunc(ctx, giveUp)
		held, give, err := locker.WithContext(own, name)
		if !bounded() && err == nil { // it has been given up meanwhile
			give()
			err = ctx.Err()
		}
		if err != nil {
			giveUp()
			return nil, err
		}
		return &lock{told: held.Done(), teller: byLibrary, release: func(context.Context) error {
			give() // returns when every key is deleted
			giveUp()
			return nil
		}}, nil
	}, nil
}

// The scripts of Redisson's RLock, by its source.
var (
	//go:embed lua/rlock_take.lua
	rlockTake string
	//go:embed lua/rlock_renew.lua
	rlockRenew string
	//go:embed lua/rlock_give.lua
	rlockGive string
)

// rlock is what Redisson's client has for one thread.
type rlock struct {
	client *redis.Client
	thread string
	keys   []string // the lock, and its channel
}

func openRedisson(_ context.Context, addrs []string) (acquirer, error) {
	client, thread := goRedis(addrs[0]), uuid.NewString()+":1"
	return func(ctx context.Context, name string) (*lock, error) {
		l := rlock{client, thread, []string{name, "redisson_lock__channel:{" + name + "}"}}
		if err := l.take(ctx); err != nil {
			return nil, err
		}
		// The watchdog tells nobody when it finds the lock with somebody else, and nothing in
		// the process knows better until somebody asks the server: so it is with Redisson.
		var gone atomic.Bool
		watched := renewed(monotonic(), "", l.renew, l.give)
		return &lock{sure: func() bool { return !gone.Load() }, by: byLibrary, release: watched.release, ask: func(ctx context.Context) (bool, error) {
			is, err := client.HExists(ctx, name, thread).Result()
			gone.Store(err == nil && !is)
			return is, err
		}}, nil
	}, nil
}

func (l rlock) run(ctx context.Context, script string) *redis.Cmd {
	return redis.NewScript(script).Run(ctx, l.client, l.keys, lease.Milliseconds(), l.thread)
}

// take subscribes, and waits for a message or for the end of the holder's lease.
func (l rlock) take(ctx context.Context) error {
	sub := l.client.Subscribe(ctx, l.keys[1])
	defer func() { _ = sub.Close() }()
	calls := sub.Channel()
	for {
		left, err := l.run(ctx, rlockTake).Int64()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-calls:
		case <-time.After(time.Duration(left) * time.Millisecond):
		}
	}
}

func (l rlock) renew(ctx context.Context) error {
	is, err := l.run(ctx, rlockRenew).Int()
	if err == nil && is == 0 {
		return errNotHeld
	}
	return err
}

func (l rlock) give(ctx context.Context) error {
	err := l.run(ctx, rlockGive).Err()
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("attempt to unlock lock, not locked by current thread: %w", errNotHeld)
	}
	return err
}

// What is fetched from the npm registry at each start: nothing of it is in this tree.
const (
	nodeRedlock = "redlock@5.0.0-beta.2"
	nodeRedis   = "ioredis@5.11.1"
)

//go:embed node.mjs
var nodeHolder []byte

const nodeHolderName = "holder.mjs"

func fetchNode(ctx context.Context, s *system) error {
	npm, err := installed("npm", "npm", "")()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file(nodeHolderName), nodeHolder, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// With the user's own environment: npm's cache is in it.
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", s.dir, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", nodeRedlock, nodeRedis) //nolint:gosec // from PATH
	cmd.Dir, cmd.WaitDelay = s.dir, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: npm could not fetch %s: %w: %s", errNotInstalled, nodeRedlock, err, out)
	}
	s.version = fmt.Sprintf("npm %s, %s; node v%s; %s", nodeRedlock, nodeRedis, versionOf(ctx, "node"), s.version)
	return nil
}
