package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/process"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/simnode"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

const (
	// operateFor bounds an operator's command to a node.
	operateFor = 2 * time.Second
	// syncFor bounds the wait for a replica to have its first copy.
	syncFor = 20 * time.Second

	// evictFirst removes the key that would expire first, as the policy
	// volatile-ttl does.
	evictFirst = `
local first, least = nil, nil
for _, key in ipairs(redis.call("keys", "*")) do
  local left = redis.call("pttl", key)
  if left >= 0 and (not least or left < least) then first, least = key, left end
end
if first then return redis.call("unlink", first) end
return 0`
)

// realNode is a server process, or the one that took its place, and the ways to
// it.
type realNode struct {
	name string

	mu     sync.Mutex // taken by every fault of the node; guards the rest
	server *redisserver.Server
	links  []*realLink
	downs  int // crashes that are not mended
	stalls int // stalls that are not mended
	clock  skew
	drifts map[Fault]time.Time // when each Drift began that is not mended
	copies map[Fault]string    // of the data, for each Old that is not mended
	behind *replica            // of a Failover that is not mended
	memory int                 // how often the data were replaced

	hears atomic.Pointer[func(args [][]byte)]
}

// replica is a server that follows a node, over a line that can be held.
type replica struct {
	server *redisserver.Server
	line   *tcpproxy.Proxy
}

func (r *replica) close() error {
	r.line.Close()
	return r.server.Close()
}

// nodeConfig makes a server write every command to its file before it answers, and
// leave it to the kernel when that reaches the disk: a process that is killed
// loses nothing.
func nodeConfig(program string) redisserver.Config {
	_, err := process.FakeClock()
	return redisserver.Config{Binary: program, AOF: redisserver.FsyncAlways, Args: []string{"--appendfsync", "no"}, FakeClock: err == nil}
}

func startNode(name, program string) (*realNode, error) {
	n := &realNode{name: name, clock: skew{since: time.Now()}, drifts: map[Fault]time.Time{}, copies: map[Fault]string{}}
	var err error
	n.server, err = redisserver.Start(nodeConfig(program))
	if err != nil {
		return nil, err
	}
	return n, nil
}

// link makes a way to the node, one of these, and the settings of the client that takes it.
func (n *realNode) link(nodes []*realNode) (*realLink, *redis.Options, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := tcpproxy.New(n.server.Addr())
	if err != nil {
		return nil, nil, err
	}
	l := &realLink{proxy: p, home: n, nodes: nodes, leads: n}
	n.links = append(n.links, l)
	if err := n.openLocked(l); err != nil {
		return nil, nil, err
	}
	opts := n.server.Options()
	opts.Addr = p.Addr()
	return l, opts, nil
}

func (n *realNode) String() string { return n.name }

// change is stageNode.change.
func (n *realNode) change(f Fault, broken bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch f.Kind {
	case Crash:
		return n.crashes(broken, func() error { return nil })
	case Forget:
		return n.crashes(broken, func() error { return process.Wipe(n.server.DataDir()) })
	case Old:
		return n.ages(f, broken)
	case Failover:
		return n.failsOver(f, broken)
	case Stall:
		return n.stall(broken)
	case Flush, Delete, Evict:
		if broken {
			return n.operate(f)
		}
		return nil
	case Step, Drift:
		return n.skews(f, broken)
	case Pause, Suspend, WallClock, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Twice, Reset, HalfOpen, Refuse, OtherList, ListChange:
	}
	return cantBreak(f)
}

// crashes kills the process and does to its data what the fault does, or starts
// it again.
func (n *realNode) crashes(broken bool, harm func() error) error {
	if broken {
		n.downs++
		for _, l := range n.links {
			l.proxy.Refuse()
		}
		return n.server.Alter(harm)
	}
	n.downs = max(n.downs-1, 0)
	return n.start()
}

// start runs the process, unless a crash is not mended, in the state in which it
// was: stopped, with a wrong clock.
func (n *realNode) start() error {
	if n.downs > 0 {
		return nil
	}
	n.clock = n.clock.from(time.Now())
	if err := n.setClock(); err != nil {
		return err
	}
	if err := n.server.Restart(); err != nil {
		return err
	}
	if n.stalls > 0 {
		if err := n.server.Pause(); err != nil {
			return err
		}
	}
	return n.admit()
}

// admit lets clients in to the process that is now the node.
func (n *realNode) admit() error {
	var errs []error
	for _, l := range n.links {
		errs = append(errs, n.openLocked(l))
	}
	return errors.Join(errs...)
}

// ages copies the data, or brings the node back with the copy.
func (n *realNode) ages(f Fault, broken bool) (err error) {
	if broken {
		ctx, cancel := context.WithTimeout(context.Background(), operateFor)
		defer cancel()
		n.copies[f], err = n.server.Snapshot(ctx)
		return err
	}
	from, ok := n.copies[f]
	if !ok {
		return nil
	}
	delete(n.copies, f)
	n.memory++
	if err := n.server.Alter(func() error { return process.Restore(n.server.DataDir(), from) }); err != nil {
		return err
	}
	return errors.Join(n.start(), os.RemoveAll(from))
}

// failsOver attaches a replica and holds its line once it has all there is; or
// kills the process and gives its place to the replica.
func (n *realNode) failsOver(f Fault, broken bool) error {
	switch {
	case broken && n.behind != nil:
		return fmt.Errorf("chaos: %v: one is under way", f)
	case broken && n.downs+n.stalls > 0:
		return fmt.Errorf("chaos: %v: the node does not run, its replica could have nothing", f)
	case broken:
		r, err := n.follow()
		if err != nil {
			return err
		}
		r.line.Hold(tcpproxy.Both)
		n.behind = r
		return nil
	case n.behind == nil:
		return nil
	}
	r := n.behind
	n.behind = nil
	return n.promote(r)
}

// follow starts a replica and returns when it has a copy.
func (n *realNode) follow() (*replica, error) {
	line, err := tcpproxy.New(n.server.Addr())
	if err != nil {
		return nil, err
	}
	config := nodeConfig(n.server.Config.Binary)
	config.ReplicaOf = line.Addr()
	s, err := redisserver.Start(config)
	if err != nil {
		line.Close()
		return nil, err
	}
	r := &replica{s, line}
	ctx, cancel := context.WithTimeout(context.Background(), syncFor)
	defer cancel()
	if err := r.synced(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("chaos: replica of %s: %w", n.name, err), r.close())
	}
	return r, nil
}

// synced returns when the replica has its first copy.
func (r *replica) synced(ctx context.Context) error {
	client := redis.NewClient(r.server.Options())
	defer client.Close()
	for {
		got, err := client.InfoMap(ctx, "replication").Result()
		if err == nil && got["Replication"]["master_link_status"] == "up" {
			return nil
		}
		if !sleep(ctx, 10*time.Millisecond) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// promote makes the replica the node, under the node's address; its clock is
// right.
func (n *realNode) promote(r *replica) error {
	old := n.server
	n.memory++
	if err := old.Kill(); err != nil {
		return err
	}
	r.line.Close()
	ctx, cancel := context.WithTimeout(context.Background(), operateFor)
	defer cancel()
	client := redis.NewClient(r.server.Options())
	defer client.Close()
	if err := client.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return errors.Join(fmt.Errorf("chaos: promoting the replica of %s: %w", n.name, err), r.server.Close())
	}
	n.server, n.clock, n.stalls = r.server, skew{since: time.Now()}, 0
	clear(n.drifts)
	clear(n.copies) // they are removed with the server
	if n.downs > 0 {
		return errors.Join(old.Close(), n.server.Kill())
	}
	return errors.Join(old.Close(), n.admit())
}

// stall stops the process or lets it go on. One that is down is stopped when it
// is back.
func (n *realNode) stall(broken bool) error {
	switch {
	case broken:
		n.stalls++
	case n.stalls > 0:
		n.stalls--
	}
	switch {
	case n.downs > 0:
		return nil
	case n.stalls > 0:
		return n.server.Pause()
	}
	return n.server.Resume()
}

// operate sends an operator's command. To a node that is down there is none, and
// one that is stopped runs it when it goes on.
func (n *realNode) operate(f Fault) error {
	if n.downs > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), operateFor)
	defer cancel()
	client := redis.NewClient(n.server.Options())
	defer client.Close()
	var err error
	switch {
	case f.Kind == Flush:
		err = client.FlushAll(ctx).Err()
	case f.Key != "":
		err = client.Unlink(ctx, f.Key).Err()
	case f.Kind == Evict:
		err = client.Eval(ctx, evictFirst, nil).Err()
	}
	if err != nil && n.stalls == 0 {
		return fmt.Errorf("chaos: %v: %w", f, err)
	}
	return nil
}

func (n *realNode) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	if n.behind != nil {
		err = n.behind.close()
	}
	return errors.Join(err, n.server.Close())
}

// lookFor bounds a look at what a server stores.
const lookFor = 200 * time.Millisecond

// answers listens at the server's end of every link: see [tcpproxy.Proxy.Record].
func (n *realNode) answers(f func(args [][]byte)) {
	if f == nil {
		n.hears.Store(nil)
		return
	}
	n.hears.Store(&f)
}

// answered is told by the proxies.
func (n *realNode) answered(args [][]byte) {
	if f := n.hears.Load(); f != nil {
		(*f)(args)
	}
}

// stores asks the server itself, past all links. While something is done to the
// node, or it does not run, it says nothing.
func (n *realNode) stores() (keys []simnode.Key, memory int, ok bool) {
	if !n.mu.TryLock() {
		return nil, 0, false
	}
	opts, memory, runs := n.server.Options(), n.memory, n.downs == 0 && n.stalls == 0
	n.mu.Unlock()
	if !runs {
		return nil, 0, false
	}
	client := redis.NewClient(opts)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	keys, err := stored(ctx, client)
	if err != nil || !n.mu.TryLock() {
		return nil, 0, false
	}
	defer n.mu.Unlock()
	return keys, memory, memory == n.memory
}

// stored is the strings of a server that are not the library's own, and the keys that
// are shared.
func stored(ctx context.Context, client *redis.Client) ([]simnode.Key, error) {
	names, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	var keys []simnode.Key
	for _, name := range names {
		if strings.HasPrefix(name, "redlock:") {
			continue
		}
		pipe := client.TxPipeline() // a shared key and its end are of one moment
		value, members := pipe.Get(ctx, name), pipe.ZRangeWithScores(ctx, name, 0, -1)
		end, now := pipe.PExpireTime(ctx, name), pipe.Time(ctx)
		_, _ = pipe.Exec(ctx) // each says it for itself: a key may be gone by now, or of one type
		if end.Err() != nil || now.Err() != nil {
			continue
		}
		key := simnode.Key{Name: name, Type: "string", Left: end.Val()}
		if key.Left >= 0 {
			if key.Left -= time.Duration(now.Val().UnixMilli()) * time.Millisecond; key.Left < 0 {
				continue // it ends as we look
			}
		}
		switch {
		case value.Err() == nil:
			key.Value = value.Val()
		case members.Err() == nil && len(members.Val()) > 0 && members.Val()[0].Member == "redlock:shared":
			key.Type = "zset"
			for _, m := range members.Val()[1:] {
				left := time.Duration(int64(m.Score)-now.Val().UnixMilli()) * time.Millisecond
				key.Sharers = append(key.Sharers, simnode.Sharer{Owner: fmt.Sprint(m.Member), Left: left})
			}
		default:
			continue
		}
		keys = append(keys, key)
	}
	return keys, ctx.Err()
}

// realLink is the way of one client to one node: a proxy.
type realLink struct {
	proxy *tcpproxy.Proxy
	home  *realNode // that the client's list has in this place

	nodes []*realNode // the stage's

	mu     sync.Mutex // guards faults and leads; taken before a node's
	faults linkFaults
	leads  *realNode // to which node: home, unless the list is another one

	refuses bool // new connections, by a fault; guarded by the mutex of the node that it leads to
}

// Close is stageLink.Close.
func (l *realLink) Close() { l.proxy.Close() }

// change is stageLink.change.
func (l *realLink) change(f Fault, broken bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !f.Kind.Lasts() && !broken:
		return nil
	case f.Kind == Reset:
		l.proxy.Reset()
		return nil
	case f.Kind == HalfOpen:
		l.proxy.HalfOpen()
		return nil
	}
	l.faults.change(f, broken)
	is := l.faults.condition(slices.Index(l.nodes, l.home))
	refuses, leads := is.Refuses, l.nodes[is.Leads]
	l.proxy.Set(is.Requests, is.Replies)
	if leads == l.leads {
		return l.leads.lets(l, !refuses)
	}
	l.leads.dismiss(l)
	l.leads = leads
	err := l.leads.lets(l, !refuses)
	l.proxy.Reset()
	return err
}

// lets lets new connections of a link in, which is the node's from here on if it
// was not, or does not. While the process is down nobody is let in.
func (n *realNode) lets(l *realLink, in bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.refuses = !in
	if !slices.Contains(n.links, l) {
		n.links = append(n.links, l)
	}
	return n.openLocked(l)
}

// dismiss ends that a link leads to the node.
func (n *realNode) dismiss(l *realLink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(other *realLink) bool { return other == l })
}

// openLocked makes a link take new connections, or refuse them, as its state says.
func (n *realNode) openLocked(l *realLink) error {
	l.proxy.Record(n.answered)
	if n.downs > 0 || l.refuses {
		l.proxy.Aim(n.server.Addr())
		l.proxy.Refuse()
		return nil
	}
	return l.proxy.Admit(n.server.Addr())
}

// skew is how far a server's clock is off: by offset when the process began, and
// by gain more for every second since.
type skew struct {
	offset time.Duration
	gain   float64
	since  time.Time
}

// at is the skew at a time.
func (s skew) at(now time.Time) time.Duration {
	return s.offset + time.Duration(s.gain*float64(now.Sub(s.since)))
}

// from is the skew of a process that begins now and whose clock goes on as it
// was.
func (s skew) from(now time.Time) skew { return skew{s.at(now), s.gain, now} }

// by is the skew after the clock was moved, and its rate changed: fakeclock.c
// counts the rate from the beginning of the process, so that the offset has to
// take back what the new rate would have gained until now.
func (s skew) by(step time.Duration, gain float64, now time.Time) skew {
	after := skew{gain: s.gain + gain, since: s.since}
	after.offset = s.at(now) + step - after.at(now)
	return after
}

// String is the skew in fakeclock.c's words.
func (s skew) String() string {
	return fmt.Sprintf("%+.6f x%.9f", s.offset.Seconds(), 1+s.gain)
}

// skews steps the node's clock or changes its rate; mended, it is right again, as
// far as this fault goes.
func (n *realNode) skews(f Fault, broken bool) error {
	if !n.server.Config.FakeClock {
		return fmt.Errorf("%w: %w", cantBreak(f), redisserver.ErrNoFakeClock)
	}
	if f.Kind == Step {
		step := f.Delay
		if !broken {
			step = -step
		}
		n.clock = n.clock.by(step, 0, time.Now())
		return n.setClock()
	}
	gain, now := f.Delay.Seconds(), time.Now()
	begun, drifts := n.drifts[f]
	switch {
	case broken && n.clock.gain+gain <= -1:
		return fmt.Errorf("chaos: %v: a clock that stands still, or goes back: %w", f, errors.ErrUnsupported)
	case broken:
		n.drifts[f] = now
		n.clock = n.clock.by(0, gain, now)
	case drifts:
		delete(n.drifts, f)
		n.clock = n.clock.by(-time.Duration(gain*float64(now.Sub(begun))), -gain, now)
	}
	return n.setClock()
}

// setClock tells the process.
func (n *realNode) setClock() error {
	if !n.server.Config.FakeClock {
		return nil
	}
	return n.server.SetClock(n.clock.String())
}
