package main

import (
	"bufio"
	"context"
	"errors"
	"strconv"
	"time"
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
	var gates []gate
	for _, batch := range []int{1, 16, batchMax} {
		acquires, releases, err := r.timeBatches(ctx, batch)
		if err != nil {
			return err
		}
		s.Rows = append(s.Rows, []string{
			strconv.Itoa(batch), number3(percentile(acquires, 0.1)), number3(median(acquires)),
			number3(percentile(releases, 0.1)), number3(median(releases)),
		})
		if batch == batchMax {
			pair := percentile(acquires, 0.1) + percentile(releases, 0.1)
			gates = append(gates, demand(name, "acquire and release in calls of 64, p10", pair, atMost, 5.5, " us"))
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

// timeBatches returns microseconds of script per lock, by slice of ten calls.
func (r *run) timeBatches(ctx context.Context, batch int) (acquires, releases []float64, err error) {
	srv := r.servers[0]
	if err := r.scripts.load(ctx, srv); err != nil {
		return nil, nil, err
	}
	epoch, err := epochOf(ctx, srv)
	if err != nil {
		return nil, nil, err
	}
	conn, err := dial(ctx, srv.Addr())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	w := &floorWriter{
		floor: &floorLoad{scripts: r.scripts}, epoch: appendBulk(nil, epoch), conn: conn,
		r: bufio.NewReaderSize(conn, 1<<16), ints: make([]int64, batchMax),
	}
	const calls, names = 10, 2048
	serial := 0
	for range r.scale(200, 40) {
		var took [2]time.Duration
		for range calls {
			locks := make([]*floorLock, batch)
			for i := range locks {
				serial++
				locks[i] = &floorLock{floor: w.floor, votes: make([]int64, 1), at: make([]atNode, 1)}
				locks[i].prepare("name:" + strconv.Itoa(serial%names))
			}
			for kind := range took {
				d, err := w.timeCall(ctx, srv, locks, kind == 1)
				if err != nil {
					return nil, nil, err
				}
				took[kind] += d
			}
		}
		acquires = append(acquires, micros(took[0])/calls/float64(batch))
		releases = append(releases, micros(took[1])/calls/float64(batch))
	}
	return acquires, releases, nil
}

// timeCall sends one script call and returns how long it ran on the server.
func (w *floorWriter) timeCall(ctx context.Context, srv *server, locks []*floorLock, release bool) (time.Duration, error) {
	before, _, err := commandTime(ctx, cluster{srv}, scriptsOnly)
	if err != nil {
		return 0, err
	}
	w.buf = w.buf[:0]
	got := w.ints[:len(locks)]
	if release {
		w.encodeReleases(locks)
		got = w.ints[:1]
	} else {
		w.encodeAcquires(locks)
	}
	if _, err := w.conn.Write(w.buf); err != nil {
		return 0, err
	}
	if len(got) == 1 {
		got[0], err = readInt(w.r)
	} else {
		err = readInts(w.r, got)
	}
	if err != nil {
		return 0, err
	}
	for _, v := range got {
		if v <= 0 {
			return 0, errTaken
		}
	}
	after, _, err := commandTime(ctx, cluster{srv}, scriptsOnly)
	return after - before, err
}
