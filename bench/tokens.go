package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// tokensArg makes this program a process of the tokens workload.
const tokensArg = "-tokens-child"

// tokenFleet acquires fresh names at once.
var tokenFleet = crowd{processes: 4, goroutines: 128}

// tokenCount is what a child tells its parent.
type tokenCount struct {
	Pairs, Failures int64
	Acquired        uint64
	SecondRounds    uint64 // of those attempts
}

// tokens counts the second round trips that tokens need when several processes
// acquire fresh names at once.
func (r *run) tokens(ctx context.Context) error {
	const name = "tokens"
	d := time.Duration(r.scale(10000, 1500)) * time.Millisecond
	var total tokenCount
	used, err := r.servers.during(ctx, func() (err error) {
		cs, err := startChildren(ctx, tokensArg, tokenFleet.processes, part{
			Library: nameRedlock, Addrs: r.servers.addrs(), Name: name, Goroutines: tokenFleet.goroutines,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endChildren(cs)) }()
		counts, err := played[tokenCount](cs, d)
		for _, one := range counts {
			total.Pairs, total.Failures = total.Pairs+one.Pairs, total.Failures+one.Failures
			total.Acquired, total.SecondRounds = total.Acquired+one.Acquired, total.SecondRounds+one.SecondRounds
		}
		return err
	})
	if err != nil {
		return err
	}
	rate := 100 * float64(total.SecondRounds) / float64(total.Acquired) // of none: NaN, which passes no gate
	r.add(section{
		Workload: name, Load: used,
		Title:  fmt.Sprintf("%d processes of %d goroutines on fresh names, %v", tokenFleet.processes, tokenFleet.goroutines, d),
		Header: []string{"contender", "pairs", "pairs/s", "second round trips", "per 100 acquisitions", "failed"},
		Rows: [][]string{{
			nameRedlock, strconv.FormatInt(total.Pairs, 10), number3(float64(total.Pairs) / d.Seconds()),
			strconv.FormatUint(total.SecondRounds, 10), number3(rate), strconv.FormatInt(total.Failures, 10),
		}},
	},
		demand(name, "second round trips per 100 acquisitions", rate, atMost, 0.5, ""),
		demand(name, "failed pairs", float64(total.Failures), atMost, 0, ""))
	return nil
}

// tokensChild is one of those processes.
func tokensChild(ctx context.Context, p *part, c *contender, parent *wire) error {
	var d time.Duration
	if err := parent.in.Decode(&d); err != nil {
		return err
	}
	before := c.locker.Stats()
	until, prefix := time.Now().Add(d), p.Name+":"+strconv.Itoa(os.Getpid())+":"
	var workers sync.WaitGroup
	var next, pairs, failures atomic.Int64
	for range p.Goroutines {
		workers.Go(func() {
			for time.Now().Before(until) {
				if _, err := pair(ctx, c, prefix+strconv.FormatInt(next.Add(1), 10)); err != nil {
					failures.Add(1)
					continue
				}
				pairs.Add(1)
			}
		})
	}
	workers.Wait()
	after := c.locker.Stats()
	return parent.out.Encode(tokenCount{pairs.Load(), failures.Load(), after.Acquired - before.Acquired, after.SecondRounds - before.SecondRounds})
}
