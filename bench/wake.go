package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// wakeArg makes this program the one or the other of two processes that pass a
// name to and fro.
const wakeArg = "-wake-child"

const (
	// wakeSettle is how long a waiter is given to stand in line.
	wakeSettle = 50 * time.Millisecond
	// wakeBound is after how long a waiter asks anew: rueidislock was seen to wait for a
	// free name for ever. What that costs is in its sample.
	wakeBound = 5 * time.Second
)

// wakeChild acquires and releases the name, each time that it is told something, and says
// when: when it held the lock, and when it began to release it.
func wakeChild(ctx context.Context, p *part, c *contender, parent *wire) error {
	for cue := ""; parent.in.Decode(&cue) == nil; {
		h, err := acquireAnew(ctx, c, p.Name)
		if err == nil {
			err = parent.out.Encode(time.Now().UnixNano())
		}
		if err != nil {
			return err
		}
		_ = parent.in.Decode(&cue) // if nothing comes any more it is time to release, too
		from := time.Now().UnixNano()
		_ = h.Release(ctx) // what fails is cleaned by its lease
		_ = parent.out.Encode(from)
	}
	return nil
}

func acquireAnew(ctx context.Context, c *contender, name string) (held, error) {
	for {
		once, cancel := context.WithCancel(ctx)
		late := time.AfterFunc(wakeBound, cancel)
		h, err := c.acquire(once, name)
		late.Stop() // that context goes on: rueidislock's holds end with it
		if err == nil || ctx.Err() != nil {
			return h, err
		}
	}
}

// wakeRunner is one contender of the wake workload.
type wakeRunner struct {
	note    string
	library string
	masters int
	far     bool
	turns   int // passes in a round
	samples []time.Duration
}

func (t *wakeRunner) at(p float64) float64 { return micros(percentile(t.samples, p)) / 1000 }

// wakeField is who passes a name to and fro; the figures of the first four, and of the
// last, are held against each other.
func (r *run) wakeField() []*wakeRunner {
	const away = ", 5 ms each way"
	return []*wakeRunner{
		{library: nameRedlock, note: "fenced, five masters", masters: nodes, turns: r.scale(60, 20)},
		{library: nameRueidis, note: "one server", masters: 1, turns: r.scale(60, 20)},
		{library: nameRedsync, note: "five masters", masters: nodes, turns: r.scale(20, 6)},
		{library: nameRedlock, note: "fenced, five masters" + away, masters: nodes, far: true, turns: r.scale(40, 12)},
		{library: nameRueidis, note: "one server" + away, masters: 1, far: true, turns: r.scale(40, 12)},
		{library: nameRedsync, note: "five masters" + away, masters: nodes, far: true, turns: r.scale(8, 4)},
		{library: nameOneKey, note: "one server", masters: 1, turns: r.scale(60, 20)},
	}
}

// wake measures how long after the release a waiter of another process holds the
// lock.
func (r *run) wake(ctx context.Context) error {
	const name = "wake"
	field := r.wakeField()
	far, end, err := r.servers.far() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return err
	}
	defer end()
	used, err := r.servers.during(ctx, func() error {
		for range r.rounds {
			for _, t := range field {
				addrs := r.servers.addrs()
				if t.far {
					addrs = far
				}
				if err := r.toAndFro(ctx, t, addrs[:t.masters]); err != nil {
					return fmt.Errorf("%s, %s: %w", t.library, t.note, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := section{
		Workload: name, Title: "from the call of Release in one process to the lock held in another, which waited", Load: used,
		Header: []string{"library", "p50 ms", "p90 ms", "p99 ms", "samples"},
	}
	for _, t := range field {
		table.Rows = append(table.Rows, []string{
			t.library + " (" + t.note + ")", number3(t.at(0.5)), number3(t.at(0.9)), number3(t.at(0.99)), strconv.Itoa(len(t.samples)),
		})
	}
	ours, away, trip := field[0], field[3], 2*float64(farDelay.Milliseconds())
	r.add(table,
		demand(name, "p50 with 5 ms each way, in added round trips", away.at(0.5)/trip, atMost, 3, ""),
		demand(name, "p99 with 5 ms each way, in added round trips", away.at(0.99)/trip, atMost, 4, ""),
		demand(name, "p50 over rueidislock's on one server", over(ours.at(0.5), field[1].at(0.5)), atMost, 2, ""),
		stated(demand(name, "p50 over rueidislock's with one key", over(ours.at(0.5), field[6].at(0.5)), atMost, 2, "")),
		stated(demand(name, "p50 over redsync's", over(ours.at(0.5), field[2].at(0.5)), atMost, 1, "")))
	return nil
}

// toAndFro passes a name between two processes.
func (r *run) toAndFro(ctx context.Context, t *wakeRunner, addrs []string) (err error) {
	r.serial++
	cs, err := startChildren(ctx, wakeArg, 2, part{Library: t.library, Addrs: addrs, Name: "to-and-fro:" + strconv.Itoa(r.serial)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	var released, held int64
	if err := errors.Join(cs[0].out.Encode("acquire"), cs[0].in.Decode(&held)); err != nil {
		return err
	}
	settle := wakeSettle
	if t.far {
		settle += 8 * farDelay
	}
	for i := range t.turns {
		holder, waiter := cs[i%2], cs[1-i%2]
		if err := errors.Join(waiter.out.Encode("acquire"), wait(ctx, settle+rand.N(wakeSettle))); err != nil {
			return err
		}
		if err := errors.Join(holder.out.Encode("release"), waiter.in.Decode(&held), holder.in.Decode(&released)); err != nil {
			return err
		}
		t.samples = append(t.samples, time.Duration(held-released))
	}
	return nil
}
