package main

import (
	"bufio"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// scriptTime measures the acquire and release scripts by themselves: one client,
// one master, one call at a time, so that no server competes with another for a
// processor. That is the figure to compare two versions of a script by (-lua).
func (r *run) scriptTime(ctx context.Context) error {
	const name = "scripts"
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s := section{Workload: name, Title: "server time of the scripts alone, one call at a time", Header: []string{
		"locks in a call", "acquire us a lock, p10", "median", "release us a lock, p10", "median",
	}}
	plain, err := r.timePlain(ctx)
	if err != nil {
		return err
	}
	s.Rows = append(s.Rows, append([]string{"1, unfenced: SET NX PX, compare-and-delete"}, plain.cells()...))
	var gates []gate
	for _, batch := range []int{1, 16, batchMax} {
		times, err := r.timeBatches(ctx, batch)
		if err != nil {
			return err
		}
		s.Rows = append(s.Rows, append([]string{strconv.Itoa(batch)}, times.cells()...))
		if batch == batchMax {
			gates = append(gates,
				stated(demand(name, "acquire and release in calls of 64, p10", times.pair(), atMost, 5.5, " us")),
				demand(name, "the same over unfenced single calls", times.pair()/plain.pair(), atMost, unfencedTimes, ""))
		}
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s.Load = to.since(from)
	r.add(s, gates...)
	return nil
}

// unfencedTimes is what a fenced pair may cost in calls of 64, in pairs that are
// unfenced and go one by one: 5.5 us over the 3.6 us of the machine on which the
// bound was set. Microseconds are another machine's; the ratio travels.
const unfencedTimes = 1.53

// callTimes are microseconds of script per lock, by slice of ten calls.
type callTimes struct{ acquires, releases []float64 }

// pair is the time of a pair where little disturbed it.
func (c *callTimes) pair() float64 { return percentile(c.acquires, 0.1) + percentile(c.releases, 0.1) }

func (c *callTimes) cells() []string {
	return []string{
		number3(percentile(c.acquires, 0.1)), number3(median(c.acquires)),
		number3(percentile(c.releases, 0.1)), number3(median(c.releases)),
	}
}

// compareAndDelete is the release of the Redis page on distributed locks.
const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

// timePlain measures what a lock without a token costs one server.
func (r *run) timePlain(ctx context.Context) (*callTimes, error) {
	srv, compare := r.servers[0], redis.NewScript(compareAndDelete)
	if err := compare.Load(ctx, srv.control).Err(); err != nil {
		return nil, err
	}
	const calls = 10
	times := &callTimes{}
	for range r.scale(200, 40) {
		var acquire, release time.Duration
		for range calls {
			set, err := took(ctx, srv, []string{"set"}, func() error {
				return srv.control.SetNX(ctx, "plain", "owner", ttl).Err()
			})
			if err != nil {
				return nil, err
			}
			del, err := took(ctx, srv, scriptsOnly, func() error {
				return compare.EvalSha(ctx, srv.control, []string{"plain"}, "owner").Err()
			})
			if err != nil {
				return nil, err
			}
			acquire, release = acquire+set, release+del
		}
		times.acquires = append(times.acquires, micros(acquire)/calls)
		times.releases = append(times.releases, micros(release)/calls)
	}
	return times, nil
}

// timeBatches measures our scripts, so many locks in a call.
func (r *run) timeBatches(ctx context.Context, batch int) (times *callTimes, err error) {
	t, err := newScriptTimer(ctx, r.servers[0], r.scripts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.conn.Close()) }()
	for range r.scale(200, 40) {
		if err := t.slice(ctx, batch); err != nil {
			return nil, err
		}
	}
	return &t.times, nil
}

// scriptTimer measures one set of scripts on one server.
type scriptTimer struct {
	*floorWriter
	server *server
	serial int
	times  callTimes
}

func newScriptTimer(ctx context.Context, srv *server, s *scripts) (*scriptTimer, error) {
	if err := s.load(ctx, srv); err != nil {
		return nil, err
	}
	epoch, err := epochOf(ctx, srv)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, srv.Addr())
	if err != nil {
		return nil, err
	}
	return &scriptTimer{server: srv, floorWriter: &floorWriter{
		floor: &floorLoad{scripts: s}, epoch: appendBulk(nil, epoch), conn: conn,
		r: bufio.NewReaderSize(conn, 1<<16), ints: make([]int64, batchMax),
	}}, nil
}

// slice measures ten calls of either kind, so many locks in each.
func (t *scriptTimer) slice(ctx context.Context, batch int) error {
	const calls, names = 10, 2048
	var took [2]time.Duration
	for range calls {
		locks := make([]*floorLock, batch)
		for i := range locks {
			t.serial++
			locks[i] = &floorLock{floor: t.floor, votes: make([]int64, 1), at: make([]atNode, 1)}
			locks[i].prepare("name:" + strconv.Itoa(t.serial%names))
		}
		for kind := range took {
			d, err := t.timeCall(ctx, t.server, locks, kind == 1)
			if err != nil {
				return err
			}
			took[kind] += d
		}
	}
	t.times.acquires = append(t.times.acquires, micros(took[0])/calls/float64(batch))
	t.times.releases = append(t.times.releases, micros(took[1])/calls/float64(batch))
	return nil
}

// timeCall sends one script call and returns how long it ran on the server.
func (w *floorWriter) timeCall(ctx context.Context, srv *server, locks []*floorLock, release bool) (time.Duration, error) {
	return took(ctx, srv, scriptsOnly, func() error { return w.call(locks, release) })
}

// call sends one script call and reads the reply.
func (w *floorWriter) call(locks []*floorLock, release bool) (err error) {
	w.buf = w.buf[:0]
	got := w.ints[:len(locks)]
	if release {
		w.encodeReleases(locks)
		got = w.ints[:1]
	} else {
		w.encodeAcquires(locks)
	}
	if _, err := w.conn.Write(w.buf); err != nil {
		return err
	}
	if len(got) == 1 {
		got[0], err = readInt(w.r)
	} else {
		err = readInts(w.r, got)
	}
	if err != nil {
		return err
	}
	for _, v := range got {
		if v <= 0 {
			return errTaken
		}
	}
	return nil
}

// took returns how long the server spent in the named commands during call.
func took(ctx context.Context, srv *server, commands []string, call func() error) (time.Duration, error) {
	before, _, err := commandTime(ctx, cluster{srv}, commands)
	if err != nil {
		return 0, err
	}
	if err := call(); err != nil {
		return 0, err
	}
	after, _, err := commandTime(ctx, cluster{srv}, commands)
	return after - before, err
}
