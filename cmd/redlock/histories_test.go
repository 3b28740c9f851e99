//go:build unix

package main_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

const (
	historyLease = 2500 * time.Millisecond // of every lock
	historyMax   = 4 * time.Second         // the longer MaxTTL of the two
	historyLess  = 3 * time.Second
	historyNames = 6
	mostNodes    = 5
	slowName     = "slow-" // begins names that are held for long
	fewestNodes  = 3       // of a list while servers fail: one of them at a time
)

// history runs a cluster whose operators and servers fail, and keeps what was seen.
type history struct {
	t        *testing.T
	servers  []*redisserver.Server
	clients  []*redis.Client
	nodes    string // all of them, as every client has them
	observer *redlock.Locker
	random   *rand.Rand    // of the operators
	seed     uint64        // of all
	began    time.Duration // since the boot

	mu      sync.Mutex // guards the rest
	changes []window   // from an operator's start to the end of all
	faults  []window   // until all was well again
	kinds   map[string]int
	judge   recordJudge
	stalls  []window        // in which this process stood still
	lost    []time.Duration // long held locks: when
	dying   bool            // an operator that removes a node was killed
}

// window is a time, since the boot.
type window struct{ from, to time.Duration }

// meets reports whether the two have a moment in common.
func (w window) meets(o window) bool { return w.from <= o.to && o.from <= w.to }

func meetsAny(all []window, w window) bool { return slices.ContainsFunc(all, w.meets) }

// Operators are killed, stopped and come two at once, servers restart empty, are paused, and have
// their clocks set, while processes lock: no two hold a name, tokens rise, no generation has two
// configurations, and no lock that is renewed all along is lost.
func TestHistoriesOfChangesUnderFaultsHaveOneHolderAndRisingTokens(t *testing.T) {
	h := newHistory(t, testkit.Of(fewestNodes, 1))
	ctx, end := context.WithTimeout(t.Context(), time.Duration(testkit.Of(25, 360))*time.Second)
	defer end()
	var work sync.WaitGroup
	all := h.contend(ctx, &work, 2)
	work.Go(func() { h.readRecords(ctx, math.MaxInt) })
	work.Go(func() { h.watchMachine(ctx) })
	held := h.hold(ctx, &work, 3)
	work.Go(func() { h.breakServers(ctx, held) })
	h.operate(ctx)
	work.Wait()
	h.finish()
	h.readRecords(t.Context(), 1)
	holds := all()

	generation := h.judge.newest
	t.Logf("seed %d: %d holds, %d changes, operators and faults: %v, the machine stood still %d times", h.seed, len(holds), generation, h.kinds, len(h.stalls))
	h.logSpeed(holds)
	for _, fault := range slices.Concat(judgeHolds(holds), h.judge.faults) {
		t.Error(fault)
	}
	if least := testkit.Of(300, 20_000); len(holds) < least {
		t.Errorf("got %d holds; want %d", len(holds), least)
	}
	if least := testkit.Of(1, 25); generation < least {
		t.Errorf("got %d changes; want %d", generation, least)
	}
	if n := h.kinds["empty"] + h.kinds["clock"] + h.kinds["paused"]; n == 0 {
		t.Error("no server failed")
	}
	for _, at := range h.lost { // each is in the log
		if !meetsAny(h.stalls, window{at - historyLease, at}) {
			t.Errorf("a long held lock was lost at %s, while the machine ran", h.at(at))
		}
	}
}

// newHistory founds a cluster of the first n servers; of the others lists are made later.
func newHistory(t *testing.T, n int) *history {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	h := &history{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), servers: testserver.Need(t, testkit.Of(6, 14), redisserver.Config{FakeClock: true}),
		kinds: map[string]int{}, judge: recordJudge{seen: map[string]string{}, listed: map[string]bool{}}, began: sinceBoot(),
	}
	var urls []string
	for _, s := range h.servers {
		urls = append(urls, s.URL())
		h.clients = append(h.clients, s.Client())
	}
	h.nodes = strings.Join(urls, ",")
	first := locktest.OpenWithout(t, h.servers[:n], nil, redlock.WithTTL(historyLease), redlock.WithMaxTTL(historyMax))
	locktest.Admit(t, first)
	must(t, first.Close())
	h.observer = h.open()
	return h
}

// open is a client with the addresses of all servers.
func (h *history) open() *redlock.Locker {
	return locktest.OpenWithout(h.t, h.servers, nil, redlock.WithTTL(historyLease), redlock.WithMaxTTL(historyMax), redlock.WithObserver(func(e redlock.Event) {
		if e.Kind == redlock.EventNodeClockStepped {
			h.t.Logf("%s    %s: %v: %v", h.at(sinceBoot()), h.servers[e.Node].Addr(), e.Kind, e.Err)
		}
	}))
}

// at is a moment of the history.
func (h *history) at(since time.Duration) string {
	return fmt.Sprintf("%7.3fs", (since - h.began).Seconds())
}

// count notes that something happened.
func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kinds[what]++
}

// contend has processes lock until ctx ends: one that stays, others that come and go, each cut off
// from a server of the list, and one after another that locks by the command. holds returns what
// they held, once all have ended.
func (h *history) contend(ctx context.Context, work *sync.WaitGroup, others int) (holds func() []heldOnce) {
	dir := h.t.TempDir()
	for i := range others + 1 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(h.seed, uint64(2+i)))
			for n := 0; ctx.Err() == nil; n++ {
				cut, life := "", time.Hour
				if s, err := h.observer.Cluster().Status(ctx); i > 0 && err == nil && len(s.List) >= fewestNodes {
					cut, life = s.List[random.IntN(len(s.List))], 20*time.Second
				}
				if i > 0 && cut == "" { // it would have no quorum
					locktest.Pause(50 * time.Millisecond)
					continue
				}
				cmd := exec.CommandContext(h.t.Context(), os.Args[0], filepath.Join(dir, fmt.Sprintf("process-%d-%d", i, n)), h.nodes, fmt.Sprint(random.Uint64()), cut)
				cmd.Env = append(os.Environ(), actVar+"=contend")
				p := start(h.t, cmd)
				lives, end := context.WithTimeout(ctx, life)
				<-lives.Done()
				end()
				p.signal(h.t, sigTERM)
				if r := p.wait(h.t); r.code != 0 || r.errs != "" {
					h.t.Errorf("a process that locks, cut off from %q, ended with %d: %s%s", cut, r.code, r.out, r.errs)
				}
			}
		})
	}
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			cmd := exec.CommandContext(ctx, command, "exec", "--ttl", historyLease.String(), fmt.Sprint("name-", i%historyNames), "--", os.Args[0], filepath.Join(dir, "commands"))
			cmd.Env = append(os.Environ(), actVar+"=held", "REDLOCK_NODES="+h.nodes)
			switch out, err := cmd.CombinedOutput(); {
			case err == nil || ctx.Err() != nil:
			case cmd.ProcessState.ExitCode() == 124: // held by a quorum of which a server was broken
				h.count("exec lost it")
			default:
				h.t.Errorf("%s exec: %v: %s", h.at(sinceBoot()), err, out)
			}
			locktest.Pause(300 * time.Millisecond)
		}
	})
	return func() (holds []heldOnce) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		must(h.t, err)
		for _, name := range files {
			holds = append(holds, readHolds(h.t, name)...)
		}
		return holds
	}
}

// hold has Lockers hold locks until ctx ends, and notes which are lost. It returns their names.
func (h *history) hold(ctx context.Context, work *sync.WaitGroup, lockers int) (names []string) {
	for i := range lockers {
		l := h.open()
		for k := range 4 {
			name := fmt.Sprintf("held/%d/%d", i, k)
			names = append(names, name)
			lock := locktest.MustAcquire(h.t, l, name)
			work.Go(func() {
				for ctx.Err() == nil {
					select {
					case <-lock.Done():
						h.t.Logf("%s lost: %s: %v", h.at(sinceBoot()), name, lock.Err())
						h.mu.Lock()
						h.lost = append(h.lost, sinceBoot())
						h.mu.Unlock()
						if again, err := l.Acquire(ctx, name); err == nil {
							lock = again
						}
					case <-ctx.Done():
					}
				}
				_ = lock.Release(context.WithoutCancel(ctx))
			})
		}
	}
	return names
}

// watchMachine notes when the process stood still, since who does not run renews no lock, and when
// the machine's clock was set, as a virtual machine's is that goes on: the clocks of all nodes step.
func (h *history) watchMachine(ctx context.Context) {
	ahead := func() time.Duration { return time.Duration(time.Now().UnixNano()) - sinceBoot() }
	for last, was := sinceBoot(), ahead(); ctx.Err() == nil; {
		locktest.Pause(5 * time.Millisecond)
		now, is := sinceBoot(), ahead()
		if late, step := now-last, (is - was).Abs(); late > historyLease/4 || step > 20*time.Millisecond {
			h.mu.Lock()
			h.stalls = append(h.stalls, window{last, now})
			h.mu.Unlock()
			h.t.Logf("%s the machine: stood still for %v, its clock was set by %v", h.at(now), late, is-was)
		}
		last, was = now, is
	}
}

// readRecords reads the servers' records now and then, so many times.
func (h *history) readRecords(ctx context.Context, times int) {
	for ; times > 0 && ctx.Err() == nil; times-- {
		locktest.Pause(200 * time.Millisecond)
		for i, s := range h.servers {
			limited, end := context.WithTimeout(ctx, 300*time.Millisecond)
			fields, err := h.clients[i].HGetAll(limited, lua.NodeKey).Result()
			end()
			if err == nil {
				h.mu.Lock()
				h.judge.see(s.Addr(), fields)
				h.mu.Unlock()
			}
		}
	}
}

// operate has operators change the configuration, one or two at a time, with rests between.
func (h *history) operate(ctx context.Context) {
	for ctx.Err() == nil {
		h.rest(ctx, time.Second, 5*time.Second)
		w := window{from: sinceBoot()}
		removes := false
		all := []*operator{h.operator(ctx, &removes)}
		if h.random.IntN(2) == 0 && all[0] != nil {
			h.count("two at once")
			h.rest(ctx, 0, 3*time.Second)
			all = append(all, h.operator(ctx, &removes))
		}
		h.dying = false
		for _, o := range all {
			if o != nil {
				h.dying = o.ends() && removes || h.dying
			}
		}
		w.to = sinceBoot()
		h.mu.Lock()
		h.changes = append(h.changes, w)
		h.mu.Unlock()
	}
}

// finish has the last operator finish what was begun, and make a change, without faults.
func (h *history) finish() {
	h.t.Helper()
	s := locktest.Status(h.t, h.observer)
	next := historyMax
	if s.MaxTTL == historyMax {
		next = historyLess
	}
	var last result
	for range 5 {
		last = run(h.t, h.nodes, "nodes", "change", "--max-ttl", next.String(), "--yes", "--node-timeout", "1s")
		if last.code == 0 {
			return
		}
	}
	last.want(h.t, 0)
}

func (h *history) rest(ctx context.Context, least, most time.Duration) {
	pause, end := context.WithTimeout(ctx, least+time.Duration(h.random.Int64N(int64(most-least))))
	defer end()
	<-pause.Done()
}

// operator is one run of nodes change.
type operator struct {
	h    *history
	p    *process
	what string
	met  chan struct{} // its fate
}

// aim draws an operator's flags, by the cluster's status. It removes a node only where at least
// fewestNodes stay, even if another who is at work removes one too.
func (h *history) aim(s redlock.ClusterStatus, removes *bool) (args []string) {
	h.mu.Lock() // one that was taken out stays as it is, and out
	fresh := slices.DeleteFunc(slices.Clone(h.servers), func(r *redisserver.Server) bool { return h.judge.listed[r.Addr()] })
	h.mu.Unlock()
	spare := len(s.List) - fewestNodes
	if *removes || h.dying || s.Pending != "" {
		spare--
	}
	wants := h.random.IntN(8)
	switch {
	case len(s.List) < fewestNodes:
		wants = 0
	case len(s.List) > fewestNodes && wants <= 1: // of three nodes one that forgets counts most
		wants = 3
	}
	if (wants <= 2 || wants == 7) && len(fresh) > 0 && len(s.List) < mostNodes {
		args = append(args, "--add", fresh[h.random.IntN(min(2, len(fresh)))].Addr())
		spare++
	}
	if (wants >= 3 && wants <= 4 || wants == 7) && spare > 0 && len(s.List) >= fewestNodes {
		args = append(args, "--remove", s.List[h.random.IntN(len(s.List))])
		*removes = true
	}
	if len(args) == 0 || wants == 5 {
		args = append(args, "--max-ttl", []string{historyLess.String(), historyMax.String()}[h.random.IntN(2)])
	}
	if wants == 6 {
		args = append(args, "--strict", []string{"on", "off"}[h.random.IntN(2)])
	}
	if h.random.IntN(2) == 0 {
		args = append(args, "--yes")
	}
	return args
}

// operator starts one, who lives, is killed or stopped; nil if nobody can tell what the cluster is.
func (h *history) operator(ctx context.Context, removes *bool) *operator {
	s, err := h.observer.Cluster().Status(ctx)
	if err != nil || s.List == nil {
		return nil
	}
	args := h.aim(s, removes)
	o := &operator{h: h, what: strings.Join(args, " "), met: make(chan struct{})}
	h.t.Logf("%s generation %d of %d nodes, %q: nodes change %s", h.at(sinceBoot()), s.Generation, len(s.List), s.Pending, o.what)
	f := fate{
		kills: h.random.IntN(2) == 0, stops: h.random.IntN(2) == 0, again: h.random.IntN(3) > 0,
		after: time.Duration(h.random.Int64N(int64(7 * time.Second))), rests: time.Duration(h.random.Int64N(int64(6 * time.Second))),
	}
	nodes := h.nodes
	at := &atCommand{k: 1 + h.random.IntN(12), stops: f.stops, arrives: h.random.IntN(2) == 0}
	if (f.kills || f.stops) && h.random.IntN(2) == 0 {
		f.at, nodes = at, at.before(h.t, h.servers)
	}
	o.p = start(h.t, prepare(h.t, nodes, append([]string{"nodes", "change", "--node-timeout", "500ms", "--node-names", strings.Join(locktest.Addresses(h.servers), ",")}, args...)...))
	at.kill.Store(o.p)
	go func() {
		defer close(o.met)
		o.meets(f)
	}()
	return o
}

// fate says how an operator ends: stopped, and then continued or killed; killed; or by itself.
type fate struct {
	kills, stops, again bool
	at                  *atCommand    // at a command that changes a node
	after               time.Duration // where it is not at a command
	rests               time.Duration // stopped
}

// meets lets its fate befall an operator.
func (o *operator) meets(f fate) {
	lives := func(d time.Duration) bool {
		select {
		case <-o.p.ended:
			return false
		case <-time.After(d):
			return true
		}
	}
	switch {
	case !f.kills && !f.stops:
		return
	case f.at == nil:
		_ = lives(f.after)
	default:
		for f.at.count.Load() < int64(f.at.k) && lives(time.Millisecond) {
			continue
		}
	}
	if f.stops && lives(0) {
		o.h.count("operators stopped")
		_ = o.p.cmd.Process.Signal(syscall.SIGSTOP)
		_ = lives(f.rests)
	}
	if f.kills && (!f.stops || !f.again) {
		_ = o.p.cmd.Process.Kill()
	}
	_ = o.p.cmd.Process.Signal(syscall.SIGCONT)
}

// ends waits for the end of an operator, and reports whether it was killed.
func (o *operator) ends() (killed bool) {
	select {
	case <-o.p.ended:
	case <-time.After(time.Minute): // another, or a server that is away, keeps it from its end
		o.h.count("operators who waited for a minute")
		_ = o.p.cmd.Process.Kill()
		<-o.p.ended
	}
	<-o.met
	code := o.p.cmd.ProcessState.ExitCode()
	o.h.count(map[bool]string{true: "operators killed", false: fmt.Sprint("exit ", code)}[code == -1])
	said := strings.Join(strings.Fields(o.p.stderr()), " ")
	o.h.t.Logf("%s   %s: exit %d: %s", o.h.at(sinceBoot()), o.what, code, said[max(0, len(said)-200):])
	if allowed := []int{0, -1, 69, 75}; !slices.Contains(allowed, code) {
		o.h.t.Errorf("nodes change %s: exit status %d: %s%s", o.what, code, o.p.stdout(), o.p.stderr())
	}
	return code == -1
}

// breakServers breaks one server of the list after another, each when all is well: a server that
// is no member yet, or lacks a long held lock, is not.
func (h *history) breakServers(ctx context.Context, held []string) {
	random := rand.New(rand.NewPCG(h.seed, 1))
	for ctx.Err() == nil && h.healthy(ctx, held, random) == nil {
		locktest.Pause(50 * time.Millisecond)
	}
	locktest.Pause(historyMax) // until locks have gone over from a list of two, which bears no fault
	for ctx.Err() == nil {
		// A lock that has just gone over to a longer list may rest on a bare quorum of it until its
		// next renewal, and bears no fault till then (docs/SAFETY.md).
		generation := h.generation()
		if h.healthy(ctx, held, random) == nil {
			locktest.Pause(50 * time.Millisecond)
			continue
		}
		locktest.Pause(historyLease / 2)
		victim := h.healthy(ctx, held, random)
		if victim == nil || h.generation() != generation {
			continue
		}
		w := window{from: sinceBoot()}
		kind, offset := []string{"empty", "clock", "paused"}[random.IntN(3)], fmt.Sprintf("%+d", random.IntN(41)-20)
		h.count(kind)
		h.t.Logf("%s %s: %s, if clock: to %s s", h.at(w.from), victim.Addr(), kind, offset)
		var err error
		switch kind {
		case "empty":
			err = victim.RestartEmpty()
		case "clock":
			err = victim.SetClock(offset)
		case "paused":
			if err = victim.Pause(); err == nil {
				locktest.Pause(time.Duration(random.Int64N(int64(historyLease))))
				err = victim.Resume()
			}
		}
		if err != nil {
			h.t.Errorf("%s: %v", kind, err)
			return
		}
		// It is out for MaxTTL, and locks are put on it again.
		locktest.Pause(historyMax + 2*time.Second)
		for ctx.Err() == nil && h.healthy(ctx, held, random) == nil {
			locktest.Pause(50 * time.Millisecond)
		}
		w.to = sinceBoot()
		h.mu.Lock()
		h.faults = append(h.faults, w)
		h.mu.Unlock()
		locktest.Pause(time.Duration(random.Int64N(int64(6 * time.Second))))
	}
}

// generation is the newest that was read.
func (h *history) generation() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.judge.newest
}

// healthy returns a server of the list; nil if the list is too short, a server of it does not vote,
// or one of them lacks a long held lock.
func (h *history) healthy(ctx context.Context, held []string, random *rand.Rand) *redisserver.Server {
	s, err := h.observer.Cluster().Status(ctx)
	if err != nil || len(s.List) < fewestNodes {
		return nil
	}
	var list []*redisserver.Server
	for i, n := range s.Nodes {
		if !slices.Contains(s.List, n.Name) {
			continue
		}
		if n.State != redlock.NodeMember || n.Cause != "" || n.Generation != s.Generation {
			return nil
		}
		have, err := h.clients[i].Exists(ctx, held...).Result()
		if err != nil || have != int64(len(held)) {
			return nil
		}
		list = append(list, h.servers[i])
	}
	return list[random.IntN(len(list))]
}

// logSpeed tells how long acquires took, with and without a change, and with neither fault nor change.
func (h *history) logSpeed(holds []heldOnce) {
	took := map[string][]time.Duration{}
	for _, one := range holds {
		if one.asked == 0 || strings.HasPrefix(one.name, slowName) {
			continue
		}
		w, when := window{one.asked, one.begin}, "without a change"
		if meetsAny(h.changes, w) {
			when = "beside a change"
		}
		if meetsAny(h.faults, w) {
			when += ", a server broken"
		}
		took[when] = append(took[when], one.begin-one.asked)
	}
	for _, when := range slices.Sorted(maps.Keys(took)) {
		all := took[when]
		slices.Sort(all)
		h.t.Logf("acquires %s: %d, median %v, 999 of 1,000 within %v, slowest %v", when, len(all), all[len(all)/2], all[len(all)*999/1000], all[len(all)-1])
	}
}
