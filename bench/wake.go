package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// wakeArg makes this program the one or the other of two processes that pass a
// name to and fro.
const wakeArg = "-wake-child"

const (
	// wakeDelay is what the proxy adds each way.
	wakeDelay = 5 * time.Millisecond
	// wakeSettle is how long a waiter is given to stand in line.
	wakeSettle = 50 * time.Millisecond
	// wakeBound is after how long a waiter asks anew: rueidislock was seen to wait for a
	// free name for ever. What that costs is in its sample.
	wakeBound = 5 * time.Second
)

// wakeChild acquires and releases the name, as it is told, and says when: when
// it held the lock, and when it began to release it.
func wakeChild(ctx context.Context, p *part, c contender, s *stage) error {
	for {
		s.cue()
		var h held
		for h == nil {
			var err error
			once, cancel := context.WithCancel(ctx)
			late := time.AfterFunc(wakeBound, cancel)
			h, err = c.acquire(once, p.Name)
			late.Stop() // that context goes on: rueidislock's holds end with it
			if err != nil && ctx.Err() != nil {
				return err
			}
		}
		if err := s.out.Encode(time.Now().UnixNano()); err != nil {
			return err
		}
		more := s.cue()
		from := time.Now().UnixNano()
		_ = h.release(ctx) // what fails is cleaned by its lease
		if more == "" {
			return nil
		}
		if err := s.out.Encode(from); err != nil {
			return err
		}
	}
}

// wakeRunner is one contender of the wake workload.
type wakeRunner struct {
	note    string
	library string
	masters int
	proxied bool
	turns   int // passes in a round
	samples []time.Duration
}

func (t *wakeRunner) at(p float64) float64 { return micros(percentile(t.samples, p)) / 1000 }

// wakeField is who passes a name to and fro; the figures of the first four are
// held against each other.
func (r *run) wakeField() []*wakeRunner {
	const far = ", 5 ms each way"
	return []*wakeRunner{
		{library: nameRedlock, note: "fenced, five masters", masters: nodes, turns: r.scale(60, 20)},
		{library: nameRueidis, note: "one server", masters: 1, turns: r.scale(60, 20)},
		{library: nameRedsync, note: "five masters", masters: nodes, turns: r.scale(20, 6)},
		{library: nameRedlock, note: "fenced, five masters" + far, masters: nodes, proxied: true, turns: r.scale(40, 12)},
		{library: nameRueidis, note: "one server" + far, masters: 1, proxied: true, turns: r.scale(40, 12)},
		{library: nameRedsync, note: "five masters" + far, masters: nodes, proxied: true, turns: r.scale(8, 4)},
		{library: nameOneKey, note: "one server", masters: 1, turns: r.scale(60, 20)},
	}
}

// farAway puts a proxy before each master that delays both ways.
func (r *run) farAway() (addrs []string, end func(), err error) {
	var proxies []*chaos.Proxy
	end = func() {
		for _, p := range proxies {
			p.Close()
		}
	}
	for _, s := range r.servers {
		p, err := chaos.NewProxy(s.Addr())
		if err != nil {
			end()
			return nil, nil, err
		}
		p.Delay(chaos.Both, wakeDelay)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	return addrs, end, nil
}

// wake measures how long after the release a waiter of another process holds the
// lock.
func (r *run) wake(ctx context.Context) error {
	field := r.wakeField()
	far, end, err := r.farAway() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return err
	}
	defer end()
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	for round := range r.rounds {
		for _, t := range field {
			addrs := r.servers.addrs()
			if t.proxied {
				addrs = far
			}
			if err := r.toAndFro(ctx, t, addrs[:t.masters]); err != nil {
				return fmt.Errorf("%s, %s: %w", t.library, t.note, err)
			}
			r.progress("wake %d: %s (%s): p50 %.2f ms, p99 %.2f ms", round, t.library, t.note, t.at(0.5), t.at(0.99))
		}
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	r.tellWake(field, to.since(from))
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
	if err := errors.Join(cs[0].say("acquire"), cs[0].hear(&held)); err != nil {
		return err
	}
	settle := wakeSettle
	if t.proxied {
		settle += 8 * wakeDelay
	}
	for i := range t.turns {
		holder, waiter := cs[i%2], cs[1-i%2]
		if err := waiter.say("acquire"); err != nil {
			return err
		}
		select {
		case <-time.After(settle + rand.N(wakeSettle)):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := errors.Join(holder.say("release"), waiter.hear(&held), holder.hear(&released)); err != nil {
			return err
		}
		t.samples = append(t.samples, time.Duration(held-released))
	}
	return nil
}

func (r *run) tellWake(field []*wakeRunner, l load) {
	const name = "wake"
	table := section{
		Workload: name, Title: "from the call of Release in one process to the lock held in another, which waited", Load: l,
		Header: []string{"library", "p50 ms", "p90 ms", "p99 ms", "samples"},
	}
	for _, t := range field {
		table.Rows = append(table.Rows, []string{
			t.library + " (" + t.note + ")", number3(t.at(0.5)), number3(t.at(0.9)), number3(t.at(0.99)), strconv.Itoa(len(t.samples)),
		})
	}
	near, rueidis, redsync, far := field[0], field[1], field[2], field[3]
	trip := 2 * float64(wakeDelay.Milliseconds())
	r.add(table,
		demand(name, "p50 with 5 ms each way, in added round trips", far.at(0.5)/trip, atMost, 3, ""),
		demand(name, "p99 with 5 ms each way, in added round trips", far.at(0.99)/trip, atMost, 4, ""),
		demand(name, "p50 over rueidislock's on one server", over(near.at(0.5), rueidis.at(0.5)), atMost, 2, ""),
		stated(demand(name, "p50 over rueidislock's with one key", over(near.at(0.5), field[6].at(0.5)), atMost, 2, "")),
		stated(demand(name, "p50 over redsync's", over(near.at(0.5), redsync.at(0.5)), atMost, 1, "")))
}
