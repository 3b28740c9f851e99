package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/quorumkit/redlock"
)

// nameShared is this library, with shared holds.
const nameShared = "redlock, shared"

// sharedMost is how much longer a free name may take to share than to hold alone.
const sharedMost = 1.3

// sharedLocks is this library, of which every hold is shared.
type sharedLocks struct{ redlockLocks }

func openShared(ctx context.Context, e *env) (contender, error) {
	l, err := redlock.Open(ctx, e.addrs, e.options...)
	if err != nil {
		return nil, err
	}
	return &sharedLocks{redlockLocks{locker: l}}, nil
}

func (l *sharedLocks) acquire(ctx context.Context, resource string) (held, error) {
	lock, err := l.locker.Acquire(ctx, resource, redlock.WithShared())
	if err != nil {
		return nil, err
	}
	return redlockLock{lock}, nil
}

// shared is what a shared hold costs where nobody else wants the name, beside one alone.
func (r *run) shared(ctx context.Context) error {
	const name = "shared"
	far, end, err := r.farAway() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return err
	}
	defer end()
	pairs := r.scale(1500, 200)
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	specs := withFar([]spec{redlockSpec, {name: nameShared, note: "WithShared", masters: nodes, commands: scriptsOnly, open: openShared}}, far)
	ts, err := r.race(ctx, specs, func(t *entrant) (slice, error) {
		return measure(ctx, r.env(), t.spec, t.contender, 1, 0, t.pairsOf(pairs))
	})
	if err != nil {
		return err
	}
	s := section{
		Workload: name, Title: fmt.Sprintf("one goroutine, %d pairs a round, %d rounds", pairs, r.rounds),
		Header: []string{"contender", "p50 us", "p99 us", "over an exclusive hold (p50)", "allocations a pair", "server us a pair and server", "failed"},
	}
	alone, beside := ts.named(nameRedlock), ts.named(nameShared)
	for _, t := range ts {
		failed, _ := t.failures()
		s.Rows = append(s.Rows, []string{
			t.name + " (" + t.note + ")", number3(t.latency(0.5)), number3(t.latency(0.99)), number3(ts.beside(t, nameRedlock)),
			number3(t.allocs()), number3(t.scriptTime()), strconv.Itoa(failed),
		})
	}
	gates := []gate{
		demand(name, "p50 of a shared pair over an exclusive one", over(beside.latency(0.5), alone.latency(0.5)), atMost, sharedMost, ""),
		r.noFailures(name, alone), r.noFailures(name, beside),
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s.Load = to.since(from)
	r.add(s, gates...)
	return nil
}
