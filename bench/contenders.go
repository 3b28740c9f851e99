package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	"github.com/quorumkit/redlock/internal/lua"
)

// ttl is every contender's lease: long enough that no lock ends in a run.
const ttl = 10 * time.Second

type held interface {
	Release(ctx context.Context) error
}

// contender is one library, or the floor, over the run's servers.
type contender struct {
	acquire func(ctx context.Context, resource string) (held, error)
	close   func() error
	locker  *redlock.Locker // of this library; nil of the others
}

type env struct {
	servers cluster
	addrs   []string         // the servers' addresses, or of proxies before them
	options []redlock.Option // for this library
}

type opener func(ctx context.Context, e *env) (*contender, error)

// spec says how to build a contender, and the meaning of its figures.
type spec struct {
	name     string
	note     string
	masters  int      // how many of the run's servers it uses
	commands []string // the commands it sends, as INFO commandstats names them
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

	// bareSpec shows the cost of membership and the clock watch.
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

func openRedlock(ctx context.Context, e *env) (*contender, error) {
	l, err := redlock.Open(ctx, e.addrs, e.options...)
	if err != nil {
		return nil, err
	}
	return locking(l), nil
}

func redlockWith(opts ...redlock.Option) opener {
	return func(ctx context.Context, e *env) (*contender, error) {
		with := *e
		with.options = append(slices.Clone(e.options), opts...)
		return openRedlock(ctx, &with)
	}
}

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
// there, its default, as its users run it. With one key it is as fast as it can
// be.
func openRueidis(_ context.Context, e *env) (*contender, error) {
	return newRueidis(e.addrs, max(len(e.addrs)/2+1, 2))
}

func openRueidisAlone(_ context.Context, e *env) (*contender, error) {
	return newRueidis(e.addrs[:1], 2)
}

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
		TryNextAfter:   redlock.DefaultNodeTimeout, // a loaded machine takes longer than its 20 ms
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

var (
	errTaken  = errors.New("taken") // by a quorum
	floorLife = strconv.FormatInt(ttl.Milliseconds(), 10)
)

// floor is about the least cost of the protocol in this language: the library's own
// scripts on one socket a node, a wait for the quorum, and nothing that makes a library (timers,
// retries, rollback, contexts). It raises no uneven tokens, which one acquisition in 500 has.
type floor struct {
	nodes   []*floorNode
	quorum  int
	running sync.WaitGroup
}

func openFloor(ctx context.Context, e *env) (*contender, error) {
	f := &floor{quorum: len(e.servers)/2 + 1}
	for i, srv := range e.servers {
		var err error
		for _, s := range []*lua.Script{lua.AcquireScript, lua.AcquireBatchScript, lua.ReleaseScript, lua.ReleaseBatchScript} {
			err = errors.Join(err, srv.control.ScriptLoad(ctx, s.Body).Err())
		}
		epoch, errEpoch := srv.control.HGet(ctx, lua.NodeKey, "epoch").Result()
		conn, errDial := (&net.Dialer{}).DialContext(ctx, "tcp", e.addrs[i])
		if err := errors.Join(err, errEpoch, errDial); err != nil {
			return nil, errors.Join(err, f.close())
		}
		n := &floorNode{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), epoch: epoch}
		n.some = sync.NewCond(&n.mu)
		f.nodes = append(f.nodes, n)
		f.running.Go(n.run)
	}
	return &contender{acquire: f.acquire, close: f.close}, nil
}

func (f *floor) acquire(_ context.Context, resource string) (held, error) {
	owner := uuid.NewString()
	l := &floorLock{floor: f, done: make(chan error, 1), words: [...]string{
		resource, owner, strconv.FormatInt(lua.StripeOf(resource), 10), strconv.FormatInt(time.Now().UnixMicro(), 10),
	}}
	for _, n := range f.nodes {
		n.put(l, false)
	}
	return l, <-l.done
}

// close is for when no lock is held.
func (f *floor) close() error {
	for _, n := range f.nodes {
		n.put(nil, false)
	}
	f.running.Wait()
	return nil
}

// The places of a lock's arguments among the words sent to a node.
const (
	wordKey = iota
	wordOwner
	wordStripe
	wordHint
)

// floorLock is one acquisition and, after it, its release.
type floorLock struct {
	floor *floor
	words [wordHint + 1]string
	done  chan error // of a quorum, for either

	mu                        sync.Mutex // guards the fields below
	granted, refused, deleted int        // nodes
}

func (l *floorLock) Release(context.Context) error {
	for _, n := range l.floor.nodes {
		n.put(l, true)
	}
	return <-l.done
}

// answer counts one node's answer. The one that makes a quorum is the lock's.
func (l *floorLock) answer(count *int, err error) {
	l.mu.Lock()
	*count++
	decided := *count == l.floor.quorum
	l.mu.Unlock()
	if decided {
		l.done <- err
	}
}

// floorNode is one node's socket. Its goroutine takes the waiting calls, sends them in one write,
// reads the replies, and takes again. While it waits for the node the next batch gathers,
// so batches grow with the load by themselves.
type floorNode struct {
	conn  net.Conn
	in    *bufio.Reader
	epoch string
	batch floorJobs // that is out
	buf   []byte

	mu     sync.Mutex // guards the fields below
	some   *sync.Cond
	queue  floorJobs
	closed bool
}

type floorJobs struct{ acquires, releases []*floorLock }

// put queues an acquire or a release; nil ends the node. If a release finds its own acquire
// it drops that instead, and there is nothing to delete.
func (n *floorNode) put(l *floorLock, release bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch i := slices.Index(n.queue.acquires, l); {
	case l == nil:
		n.closed = true
	case !release:
		n.queue.acquires = append(n.queue.acquires, l)
	case i >= 0:
		n.queue.acquires = slices.Delete(n.queue.acquires, i, i+1)
		l.answer(&l.deleted, nil)
	default:
		n.queue.releases = append(n.queue.releases, l)
	}
	n.some.Signal()
}

// take waits for work and moves up to a batch of each kind. No acquire overtakes a release:
// it may be of the same name.
func (n *floorNode) take() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, b := &n.queue, &n.batch
	for !n.closed && len(q.acquires)+len(q.releases) == 0 {
		n.some.Wait()
	}
	r := min(len(q.releases), lua.ReleaseBatchSize)
	b.releases, q.releases = append(b.releases[:0], q.releases[:r]...), slices.Delete(q.releases, 0, r)
	a := min(len(q.acquires), lua.AcquireBatchSize)
	if len(q.releases) > 0 {
		a = 0
	}
	b.acquires, q.acquires = append(b.acquires[:0], q.acquires[:a]...), slices.Delete(q.acquires, 0, a)
	return a+r > 0
}

func (n *floorNode) run() {
	defer n.conn.Close()
	for n.take() {
		n.encode()
		_, err := n.conn.Write(n.buf)
		if err = cmp.Or(err, n.read()); err != nil {
			panic(fmt.Sprintf("bench: the floor's node %s: %v", n.conn.RemoteAddr(), err))
		}
	}
}

// read hands the replies to their locks. Releases answer with a sum, which counts for each.
func (n *floorNode) read() error {
	if len(n.batch.releases) > 0 {
		if _, err := n.reply(':'); err != nil {
			return err
		}
	}
	for _, l := range n.batch.releases {
		l.answer(&l.deleted, nil)
	}
	if len(n.batch.acquires) > 1 {
		if _, err := n.reply('*'); err != nil {
			return err
		}
	}
	for _, l := range n.batch.acquires {
		switch token, err := n.reply(':'); {
		case err != nil:
			return err
		case token > 0:
			l.answer(&l.granted, nil)
		default:
			l.answer(&l.refused, errTaken)
		}
	}
	return nil
}

// reply reads an integer, or how many an array has.
func (n *floorNode) reply(kind byte) (int64, error) {
	line, err := n.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q; want %q and a number", line, kind)
	}
	return strconv.ParseInt(string(line[1:len(line)-2]), 10, 64)
}

func (n *floorNode) encode() {
	n.buf = n.buf[:0]
	if r := n.batch.releases; len(r) == 1 {
		n.call("EVALSHA", lua.ReleaseScript.Hash, "1", r[0].words[wordKey], r[0].words[wordOwner])
	} else if len(r) > 1 {
		size := strconv.Itoa(len(r))
		n.call(slices.Concat([]string{"EVALSHA", lua.ReleaseBatchScript.Hash, size}, column(r, wordKey), []string{size}, column(r, wordOwner))...)
	}
	if a := n.batch.acquires; len(a) == 1 {
		w := &a[0].words
		n.call("EVALSHA", lua.AcquireScript.Hash, "2", w[wordKey], lua.NodeKey, w[wordOwner], floorLife, w[wordHint], w[wordStripe], n.epoch)
	} else if len(a) > 1 {
		own, stripes := "", column(a, wordStripe)
		if slices.Sort(stripes); len(slices.Compact(stripes)) == len(a) {
			own = "1" // no two share a stripe
		}
		n.call(slices.Concat(
			[]string{"EVALSHA", lua.AcquireBatchScript.Hash, strconv.Itoa(1 + len(a)), lua.NodeKey}, column(a, wordKey),
			[]string{n.epoch, own}, column(a, wordStripe), column(a, wordOwner), slices.Repeat([]string{floorLife}, len(a)), column(a, wordHint))...)
	}
}

func column(locks []*floorLock, word int) []string {
	out := make([]string, len(locks))
	for i, l := range locks {
		out[i] = l.words[word]
	}
	return out
}

func (n *floorNode) call(words ...string) {
	n.buf = append(strconv.AppendInt(append(n.buf, '*'), int64(len(words)), 10), "\r\n"...)
	for _, word := range words {
		n.buf = append(strconv.AppendInt(append(n.buf, '$'), int64(len(word)), 10), "\r\n"...)
		n.buf = append(append(n.buf, word...), "\r\n"...)
	}
}
