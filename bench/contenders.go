package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
)

// ttl is every contender's lease: long enough that no lock ends in a run.
const ttl = 10 * time.Second

// held is a lock as a workload sees it.
type held interface {
	Release(ctx context.Context) error
}

// contender is one library, or the floor, over the run's servers.
type contender struct {
	acquire func(ctx context.Context, resource string) (held, error)
	close   func() error
	locker  *redlock.Locker // of this library; nil of the others
}

// env is what a contender is built on.
type env struct {
	servers cluster
	addrs   []string         // the servers' addresses, or of proxies before them
	options []redlock.Option // for this library
}

// opener builds a contender.
type opener func(ctx context.Context, e *env) (*contender, error)

// spec says how to build a contender, and what its figures stand for.
type spec struct {
	name     string
	note     string
	masters  int      // how many of the run's servers it uses
	commands []string // what it sends, as INFO commandstats names it
	open     opener
}

// The names by which gates find their figures.
const (
	nameFloor   = "raw floor"
	nameRedlock = "redlock"
	nameBare    = "redlock, unprotected"
	nameRedsync = "redsync"
	nameRueidis = "rueidislock"
	nameAlone   = "rueidislock, one server"
	nameOneKey  = "rueidislock, one key"
	nameBSM     = "bsm/redislock"
)

var (
	scriptsOnly = []string{"evalsha"}

	// bareSpec shows what membership and the clock watch cost.
	bareSpec = spec{nameBare, "fenced; any server votes", nodes, scriptsOnly, redlockWith(redlock.WithoutMembership(), redlock.WithoutClockWatch())}

	// field is the contenders on five masters. The records that the floor asks for are
	// there: cluster.found installed them.
	field = []spec{
		{nameRedlock, "fenced", nodes, scriptsOnly, openRedlock},
		{nameFloor, "fenced, same scripts", nodes, scriptsOnly, openFloor},
		{nameRedsync, "no token", nodes, []string{"set", "evalsha"}, openRedsync},
		{nameRueidis, "no token", nodes, scriptsOnly, openRueidis},
		{nameAlone, "no token, one master", 1, scriptsOnly, openRueidisAlone},
		{nameBSM, "no token, one master", 1, scriptsOnly, openBSM},
	}
)

// locking is a contender of this library; the options are of each of its locks.
func locking(l *redlock.Locker, opts ...redlock.AcquireOption) *contender {
	return &contender{
		acquire: func(ctx context.Context, resource string) (held, error) { return l.Acquire(ctx, resource, opts...) },
		close:   l.Close,
		locker:  l,
	}
}

// openRedlock opens this library as Open builds it.
func openRedlock(ctx context.Context, e *env) (*contender, error) {
	l, err := redlock.Open(ctx, e.addrs, e.options...)
	if err != nil {
		return nil, err
	}
	return locking(l), nil
}

// redlockWith opens this library with more options.
func redlockWith(opts ...redlock.Option) opener {
	return func(ctx context.Context, e *env) (*contender, error) {
		with := *e
		with.options = append(slices.Clone(e.options), opts...)
		return openRedlock(ctx, &with)
	}
}

// clients are default go-redis clients.
type clients []*redis.Client

func newClients(addrs []string) (cs clients) {
	for _, addr := range addrs {
		cs = append(cs, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return cs
}

func (cs clients) close() error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openRedsync opens redsync v4 over one default go-redis client a node.
func openRedsync(_ context.Context, e *env) (*contender, error) {
	cs := newClients(e.addrs)
	r := redsyncOver(cs)
	return &contender{
		acquire: func(ctx context.Context, resource string) (held, error) {
			m := r.NewMutex(resource, redsync.WithExpiry(ttl))
			return redsyncLock{m}, m.LockContext(ctx)
		},
		close: cs.close,
	}, nil
}

func redsyncOver(cs clients) *redsync.Redsync {
	var pools []pool.Pool
	for _, c := range cs {
		pools = append(pools, goredis.NewPool(c))
	}
	return redsync.New(pools...)
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) Release(ctx context.Context) error {
	ok, err := l.mutex.UnlockContext(ctx)
	if ok {
		return nil // redsync reports the nodes that failed beside a quorum too
	}
	return err
}

// openBSM opens bsm/redislock on the first master alone: no quorum and no token, so it
// shows the price of five.
func openBSM(_ context.Context, e *env) (*contender, error) {
	cs := newClients(e.addrs[:1])
	locks := redislock.New(cs[0])
	return &contender{
		acquire: func(ctx context.Context, resource string) (held, error) { return locks.Obtain(ctx, resource, ttl, nil) },
		close:   cs.close,
	}, nil
}

// rueidisPrefix is the default prefix of rueidislock's keys: prefix:number:name.
const rueidisPrefix = "rueidislock"

// openRueidis opens rueidislock over all masters of the env; over one it has three keys
// there, which is how it comes, and where its users run it.
func openRueidis(_ context.Context, e *env) (*contender, error) {
	return newRueidis(e.addrs, max(len(e.addrs)/2+1, 2))
}

func openRueidisAlone(_ context.Context, e *env) (*contender, error) {
	return newRueidis(e.addrs[:1], 2)
}

// openRueidisOneKey opens it with one key: what it can do at the best.
func openRueidisOneKey(_ context.Context, e *env) (*contender, error) { return newRueidis(e.addrs, 1) }

// newRueidis opens rueidislock with a majority of so many keys. By itself it keeps them in
// one deployment; over five masters its ClientBuilder lays key i on master i, so that it
// pays for five as the others do.
func newRueidis(addrs []string, majority int) (*contender, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs[:1], ForceSingleClient: true},
		KeyPrefix:      rueidisPrefix,
		KeyValidity:    ttl,
		KeyMajority:    int32(majority), //nolint:gosec // three of five
		NoLoopTracking: true,
		TryNextAfter:   redlock.DefaultNodeTimeout, // its 20 ms are less than what a loaded machine takes
		ClientBuilder:  func(o rueidis.ClientOption) (rueidis.Client, error) { return newSpread(o, addrs) },
	})
	if err != nil {
		return nil, err
	}
	return &contender{
		acquire: func(ctx context.Context, resource string) (held, error) {
			_, cancel, err := l.WithContext(ctx, resource)
			return rueidisLock(cancel), err
		},
		close: func() error { l.Close(); return nil },
	}, nil
}

type rueidisLock context.CancelFunc

// Release returns when every key is deleted.
func (l rueidisLock) Release(context.Context) error {
	l()
	return nil
}

// spread is a rueidis client that sends each of rueidislock's keys to the master of its
// number, or to the only one.
type spread struct {
	rueidis.Client // the first master's: builds commands
	masters        []rueidis.Client
}

func newSpread(o rueidis.ClientOption, addrs []string) (*spread, error) {
	s := &spread{}
	for _, addr := range addrs {
		o.InitAddress = []string{addr}
		c, err := rueidis.NewClient(o)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.masters = append(s.masters, c)
	}
	s.Client = s.masters[0]
	return s, nil
}

// Do sends an EVALSHA or EVAL (its key is the fourth word) to the key's master.
func (s *spread) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if len(words) < 4 {
		return s.Client.Do(ctx, cmd)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(words[3], rueidisPrefix+":"), ":")
	i, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("bench: rueidislock sent %q; want a key of its own as the fourth word", words))
	}
	return s.masters[i%len(s.masters)].Do(ctx, cmd)
}

func (s *spread) Close() {
	for _, c := range s.masters {
		c.Close()
	}
}
