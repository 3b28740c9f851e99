package contenders

import (
	"context"
	"errors"
	"io"
	"log"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumkit/redlock"
)

// lease is every contender's: short, so that a run of all of them takes minutes. It is
// the shortest that etcd grants with an election timeout of two seconds.
const lease = 3 * time.Second

// countedLease is what a holder counts of a lease that it counts itself: one in a
// hundred less, for clocks that drift.
const countedLease = lease * 99 / 100

// pollEvery is how often those ask again who have no way to wait.
const pollEvery = 100 * time.Millisecond

// spec is one contender: a lock, and the servers that it is over.
type spec struct {
	name    string
	module  string // of the client library; empty: written here, by its documents
	servers kind
	fence   string // the number that a resource can compare, in words
	notice  string // who tells a holder of its loss
	// prepare makes what it needs on its servers, or beside them; nil: nothing.
	prepare func(ctx context.Context, s *system) error
	open    opener
	// plain opens it with all options of library and client as they come, where open sets
	// some; nil: it does not.
	plain opener
	// optimistic: it locks nobody out. A hold is work that was begun, a release is the write
	// of it, and the write that comes late is refused.
	optimistic bool
	// holder is the program of its holders, with its arguments; nil: this one.
	holder func(s *system) []string
}

// field is all contenders, in the order of the table.
var field = []spec{
	{
		name: ours, module: "github.com/quorumkit/redlock", servers: redisMasters,
		fence: "token", notice: "library: `Lock.Done`, `Lock.Context`, before the lease ends",
		prepare: admitAll, open: openRedlock,
	},
	{
		name: "redsync", module: "github.com/go-redsync/redsync/v4", servers: redisMasters,
		fence: "none", notice: "nobody; `Until` can be looked at, `Extend` called",
		open: openRedsync(goRedis, redsync.WithExpiry(lease)), plain: openRedsync(plainRedis),
	},
	{
		name: "node-redlock", servers: redisMasters,
		fence: "none", notice: "library: the signal of `using` is aborted",
		prepare: fetchNode, holder: func(s *system) []string { return []string{"node", filepath.Join(s.dir, nodeHolderName)} },
	},
	{
		name: "rueidislock", module: "github.com/redis/rueidis", servers: redisMaster,
		fence: "none", notice: "library: the lock's context ends", open: openRueidis,
	},
	{
		name: "bsm/redislock", module: "github.com/bsm/redislock", servers: redisMaster,
		fence: "none", notice: "nobody; `TTL` and `Refresh` can be called", open: openBSM,
	},
	{
		name: "Redisson RLock, by its scripts", servers: redisMaster,
		fence: "none (RFencedLock has one)", notice: "nobody; `isHeldByCurrentThread` can be called", open: openRedisson,
	},
	{
		name: "etcd", module: "go.etcd.io/etcd/client/v3", servers: etcdServers,
		fence: "create revision", notice: "library: `Session.Done`", open: openEtcd(etcdPings), plain: openEtcd(0),
	},
	{
		name: "ZooKeeper", module: "github.com/go-zookeeper/zk", servers: zookeeperServers,
		fence: "czxid of the lock's node", notice: "library: an event of the connection, not of the lock", open: openZooKeeper,
	},
	{
		name: "PostgreSQL advisory lock", module: pgx, servers: postgres,
		fence: "none", notice: "nobody; the session's next query fails", open: openAdvisory,
	},
	{
		name: "PostgreSQL FOR UPDATE", module: pgx, servers: postgres,
		fence: "the transaction itself, for what is written in it", notice: "nobody; the transaction's next query fails", open: openForUpdate,
	},
	{
		name: "PostgreSQL row with expiry", module: pgx, servers: postgres,
		fence: "a column that counts", notice: "nobody; the next UPDATE finds no row", open: openRow,
	},
	{
		name: "PostgreSQL optimistic version", module: pgx, servers: postgres,
		fence: "the row's version; no lock", notice: "nobody; a late write finds no row", open: openVersions, optimistic: true,
	},
	{
		name: "MariaDB GET_LOCK", module: "github.com/go-sql-driver/mysql", servers: mariadb,
		fence: "none", notice: "nobody; the session's next query fails", open: openMariaDB,
	},
	{
		name: "memcached, add with expiry", module: "github.com/bradfitz/gomemcache", servers: memcachedServer,
		fence: "CAS id, until the server restarts", notice: "nobody; a `get` can be sent", open: openMemcached,
	},
}

const (
	ours = "redlock"
	pgx  = "github.com/jackc/pgx/v5"
)

// opener makes one process's end of a contender. It is closed with the process.
type opener func(ctx context.Context, addrs []string) (acquirer, error)

// acquirer waits until it has the lock on name, or until ctx is done.
type acquirer func(ctx context.Context, name string) (*lock, error)

// lock is a hold, as its holder sees it.
type lock struct {
	told    <-chan struct{}                         // closed when the holder is told of its loss; nil: nobody ever does
	teller  string                                  // who tells
	sure    func() bool                             // false: what the holder knows by itself says that the lock is lost; nil: it knows nothing
	by      string                                  // who says so then
	ask     func(ctx context.Context) (bool, error) // asks the servers, where nobody tells and the holder knows nothing
	fence   redlock.Token                           // greater than that of every earlier hold; 0 if there is none
	release func(ctx context.Context) error
}

// held is what the holder may believe, without asking anybody, and who says so where it may
// not.
func (l *lock) held() (bool, string) {
	select {
	case <-l.told:
		return false, l.teller
	default:
		return l.sure == nil || l.sure(), l.by
	}
}

// Who tells of a loss.
const (
	byLibrary = "library"   // unasked: a channel closes, a context ends, a state changes
	byCount   = "own count" // the holder's own code, which counts the lease
	byRenewal = "renewal"   // the renewal that the holder's own code sent
	bySession = "session"   // the connection or session that the lock lives by
	byWrite   = "its write" // the write of its work, which was refused
)

// errNotHeld means that a renewal found the lock with nobody, or with somebody else.
var errNotHeld = errors.New("the lock is not held any more")

// errLate means that a write was refused: somebody else wrote since the work began.
var errLate = errors.New(writeRefused)

// renewal is the holder's own code around a lock that somebody must renew: it sends a
// renewal each third of the lease, counts the lease from when the last one was sent
// that succeeded, and stops believing at the end.
type renewal struct {
	until atomic.Int64 // by monotonic
	over  atomic.Bool  // at some look it was
	f     func(ctx context.Context) error
}

// renewed is a lock that was asked for at sent, and is renewed by f. A renewal that fails
// with an error that is errNotHeld is the end, of which who tells; after any other it is
// tried again. The release comes after the last renewal: to break that off would break the
// session that some locks live by.
func renewed(sent time.Duration, who string, f, release func(ctx context.Context) error) *lock {
	ctx, stop := context.WithCancel(context.Background())
	r, lost, done := &renewal{f: f}, make(chan struct{}), make(chan struct{})
	r.until.Store(int64(sent + countedLease))
	go func() {
		defer close(done)
		for tick := time.Tick(lease / 3); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			if again, err := r.send(); errors.Is(err, errNotHeld) {
				close(lost)
				return
			} else if !again {
				return
			}
		}
	}()
	return &lock{told: lost, teller: who, sure: r.sure, by: byCount, release: func(ctx context.Context) error {
		stop()
		<-done
		return release(ctx)
	}}
}

// send sends a renewal. None follows one that succeeds when the lease is over: it is ours
// again, to nobody's use.
func (r *renewal) send() (again bool, err error) {
	over, sent := r.over.Load(), monotonic()
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	if err = r.f(ctx); err == nil {
		r.until.Store(int64(sent + countedLease))
	}
	return err != nil || !over, err
}

func (r *renewal) sure() bool {
	if monotonic() >= time.Duration(r.until.Load()) {
		r.over.Store(true)
	}
	return !r.over.Load()
}

// poll tries until it has a lock: again after pollEvery while somebody else has it. It
// returns when the attempt was sent that won.
func poll[T any](ctx context.Context, try func() (got T, taken bool, err error)) (T, time.Duration, error) {
	for {
		sent := monotonic()
		got, taken, err := try()
		if !taken {
			return got, sent, err
		}
		if err := wait(ctx, pollEvery); err != nil {
			return got, 0, err
		}
	}
}

// wait blocks for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet is the logger of clients: what a holder is told is in its records.
var quiet = log.New(io.Discard, "", 0)
