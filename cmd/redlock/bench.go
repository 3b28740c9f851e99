package main

// bench measures acquire and release on the user's own masters, from where it runs: what a lock
// costs depends on the network most of all. It takes real locks, through the same Locker as
// every command, of names that nobody else takes. So it shows the price of a lock, and nothing
// of contention.
//
// Exit status: 0 if it measured, even with failed attempts, which the table counts; 69, 75 or 78
// if the first lock could not be had; 64 for the arguments; 0 after a signal, with what was
// measured until then.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

// measurement is the flags of bench.
type measurement struct {
	duration time.Duration
	workers  int
	ttl      time.Duration
	stall    string
}

func benchCommand(a *app) cli.Command {
	return cli.Command{
		Name: "bench", Synopsis: "[flags]", Summary: "measure acquire and release on your own masters",
		About: `Takes and releases locks of fresh names for --duration, and prints percentiles and
locks per second. With --stall-node it does so a second time while that node seems to
hang: this program's own connections to it fall silent; the node and its other clients
notice nothing.

The names begin with "redlock-bench/", after the prefix, and are released, or lapse with
the lease. Under an ACL give a --prefix that the user may write. The load is real: leave out busy production nodes.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			m := &measurement{}
			cli.DurationFlag(fs, &m.duration, "duration", 5*time.Second, "how long to measure, a `DURATION`")
			fs.IntVar(&m.workers, "workers", 8, "this `NUMBER` takes and releases at the same time")
			cli.DurationFlag(fs, &m.ttl, "ttl", redlock.DefaultTTL, "the lease, a `DURATION`")
			fs.StringVar(&m.stall, "stall-node", "", "measure again with the node of this `ADDR` hanging")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				if err := cli.Positive("--ttl", m.ttl); err != nil {
					return err
				}
				if m.duration <= 0 || m.workers < 1 {
					return cli.Usagef("bench: give a positive --duration and at least one of --workers")
				}
				return a.bench(ctx, m)
			}
		},
	}
}

// phaseShows is one measurement, as --json shows it. Percentiles and no mean: a stalled node
// shows in the slowest calls alone.
type phaseShows struct {
	Nodes   string      `json:"nodes"` // "all", or which one hangs
	Locks   int         `json:"locks"`
	PerSec  float64     `json:"per_second"`
	Failed  int         `json:"failed"`
	Acquire percentiles `json:"acquire_us"`
	Release percentiles `json:"release_us"`
	Error   string      `json:"error,omitempty"`
}

// percentiles are in microseconds.
type percentiles struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// bench measures once, or twice: with --stall-node a second time while that node hangs. The
// stall is in this program's dialer, so no right on the node is needed, and its other clients
// notice nothing.
func (a *app) bench(ctx context.Context, m *measurement) error {
	hang, found := &stall{}, false
	s, err := a.open(func(node int, o *redis.Options) { //nolint:contextcheck // a Locker lives until it is closed
		if m.stall != "" && (o.Addr == m.stall || strconv.Itoa(node) == m.stall) {
			o.Dialer, found = hang.of(redis.NewDialer(o)), true
		}
	}, redlock.WithTTL(m.ttl))
	if err != nil {
		return err
	}
	if m.stall != "" && !found {
		return errors.Join(cli.Usagef("bench: --stall-node %s is not in the list of nodes: %v", redact(m.stall), s.names), s.close()) //nolint:contextcheck // Close is bounded by itself
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	return errors.Join(s.whoMisdialled(ctx, a.measure(ctx, s, m, hang)), s.close()) //nolint:contextcheck // Close is bounded by itself
}

// measure runs the phases, and shows them.
func (a *app) measure(ctx context.Context, s *session, m *measurement, hang *stall) error {
	// One lock first, for a clear error, and so that connections and scripts are in place
	// before the clock runs.
	lock, err := s.locker.TryAcquire(ctx, benchName(rand.Uint64(), 0, 0))
	if err != nil {
		if strings.Contains(err.Error(), "ACL lacks a right") {
			err = fmt.Errorf("%w (bench locks names that begin with %q: give a --prefix that the user may write)", err, benchNames)
		}
		return err // nodes that do not vote would only be waited for
	}
	_ = lock.Release(ctx) // unconfirmed: it lapses
	phases := []phaseShows{m.run(ctx, s, "all")}
	if m.stall != "" && ctx.Err() == nil {
		hang.begin()
		phases = append(phases, m.run(ctx, s, m.stall+" hangs"))
		hang.end()
	}
	return a.showPhases(phases)
}

// benchNames begins the names that are locked. They are no names of the library's own,
// which nobody can lock.
const benchNames = "redlock-bench/"

// benchName is a fresh name for each lock: a name that is still taken on one node would
// measure the wait for it.
func benchName(run uint64, worker, n int) string {
	return fmt.Sprintf("%s%x/%d/%d", benchNames, run, worker, n)
}

// sample is the measurements of one worker.
type sample struct {
	acquire, release []time.Duration
	failed           int
	first            error
}

// run makes the workers take and release locks until the time is over. The names have a
// random part: a lock that a former run left behind must not be waited for.
func (m *measurement) run(ctx context.Context, s *session, nodes string) phaseShows {
	ctx, cancel := context.WithTimeout(ctx, m.duration)
	defer cancel()
	samples, run, watch := make([]sample, m.workers), rand.Uint64(), startWatch()
	var work sync.WaitGroup
	for i := range samples {
		work.Go(func() { samples[i].fill(ctx, s.locker, run, i) })
	}
	work.Wait()
	took := watch.elapsed()
	var all sample
	for _, s := range samples {
		all.acquire, all.release = append(all.acquire, s.acquire...), append(all.release, s.release...)
		all.failed += s.failed
		if all.first == nil {
			all.first = s.first
		}
	}
	return phaseShows{
		Nodes: nodes, Locks: len(all.release), PerSec: float64(len(all.release)) / took.Seconds(), Failed: all.failed,
		Acquire: percentilesOf(all.acquire), Release: percentilesOf(all.release), Error: oneLine(all.first),
	}
}

// fill takes and releases locks of names that nobody else takes, one after another. Only
// successes are timed: a failure takes as long as its timeout, which is a setting.
func (s *sample) fill(ctx context.Context, l *redlock.Locker, run uint64, worker int) {
	for n := 0; ctx.Err() == nil; n++ {
		watch := startWatch()
		lock, err := l.Acquire(ctx, benchName(run, worker, n))
		took := watch.elapsed()
		if err == nil {
			s.acquire = append(s.acquire, took)
			watch = startWatch()
			if err = lock.Release(ctx); err == nil {
				s.release = append(s.release, watch.elapsed())
			}
		}
		// The attempt that the end of the time cut off is no failure.
		if err != nil && ctx.Err() == nil {
			s.failed++
			if s.first == nil {
				s.first = err
			}
		}
	}
}

// percentilesOf sorts the durations. Each figure is one that was measured, not an average of
// two.
func percentilesOf(d []time.Duration) percentiles {
	if len(d) == 0 {
		return percentiles{}
	}
	slices.Sort(d)
	at := func(percent int) int64 { return d[min(len(d)*percent/100, len(d)-1)].Microseconds() }
	return percentiles{at(50), at(90), at(99), at(100)}
}

// showPhases prints a row for each phase, or a JSON line.
func (a *app) showPhases(phases []phaseShows) error {
	p := a.NewPage()
	if a.JSON {
		for _, s := range phases {
			p.WriteString(cli.JSONLine(s))
		}
		return a.Flush(p)
	}
	counts := [][]cli.Cell{cli.Row("NODES", "LOCKS", "PER SECOND", "FAILED")}
	times := [][]cli.Cell{cli.Row("NODES", "CALL", "P50", "P90", "P99", "MAX")}
	for _, s := range phases {
		counts = append(counts, cli.Row(s.Nodes, strconv.Itoa(s.Locks), strconv.FormatFloat(s.PerSec, 'f', 0, 64), strconv.Itoa(s.Failed)))
		times = append(times, s.Acquire.row(s.Nodes, "acquire"), s.Release.row(s.Nodes, "release"))
	}
	p.Table(counts)
	p.WriteByte('\n')
	p.Table(times)
	for _, s := range phases {
		if s.Error != "" {
			p.WriteString(cli.Note(fmt.Sprintf("the first failure (%s): %s", s.Nodes, s.Error)))
		}
	}
	return a.Flush(p)
}

// row is one call's percentiles in the table.
func (q percentiles) row(nodes, call string) []cli.Cell {
	r := cli.Row(nodes, call)
	for _, us := range []int64{q.P50, q.P90, q.P99, q.Max} {
		r = append(r, cli.Cell{Text: time.Duration(us * int64(time.Microsecond)).String()})
	}
	return r
}

// dial is how go-redis connects.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// stall makes a node's connections fall silent while it lasts: requests are lost,
// as on a node that hangs, and the reader waits. Closing them instead would be a node
// that is down, which is noticed at once and costs no timeout.
type stall struct {
	mu    sync.Mutex
	lasts bool
	owed  map[net.Conn]struct{} // connections that lost a request: no reply will come on them
}

// begin starts to lose writes.
func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts, s.owed = true, make(map[net.Conn]struct{})
}

// end closes the connections that lost something: nobody waits for a timeout on them.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts = false
	for c := range s.owed {
		_ = c.Close()
	}
	s.owed = nil
}

// loses tells whether a write to c is lost now.
func (s *stall) loses(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasts {
		s.owed[c] = struct{}{}
	}
	return s.lasts
}

// of makes a dialer's connections subject to the stall.
func (s *stall) of(base dial) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := base(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return stalledConn{c, s}, nil
	}
}

// stalledConn is a connection that may fall silent.
type stalledConn struct {
	net.Conn

	stall *stall
}

// Write sends p, or loses it.
func (c stalledConn) Write(p []byte) (int, error) {
	if c.stall.loses(c.Conn) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
