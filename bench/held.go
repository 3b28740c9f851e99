package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock"
)

// heldFor is how long the holders are watched: some periods of renewal.
const heldFor = 12 * time.Second

// heldIdle measures what very many processes cost the nodes that each hold one lock
// and do nothing else: renewals, and looks at the nodes' clocks. A process is a
// Locker with connections of its own here.
func (r *run) heldIdle(ctx context.Context) error {
	const name = "held"
	count := r.scale(1000, 200)
	s := section{
		Workload: name, Title: fmt.Sprintf("%d Lockers that hold one lock each for %v, with a TTL of %v", count, heldFor, redlock.DefaultTTL),
		Header: []string{"clocks", "commands a second and node", "CPU of the busiest node, % of a core", "client, % of a core"},
	}
	for _, how := range []struct {
		name string
		opts []redlock.Option
	}{
		{"watched", nil},
		{"not watched, nor who the nodes are", []redlock.Option{redlock.WithoutClockWatch(), redlock.WithoutMembership()}},
	} {
		row, used, err := r.heldBy(ctx, count, how.opts)
		if err != nil {
			return err
		}
		s.Rows, s.Load = append(s.Rows, append([]string{how.name}, row...)), used
	}
	r.add(s)
	return nil
}

func (r *run) heldBy(ctx context.Context, count int, opts []redlock.Option) (row []string, used load, err error) {
	lockers := make([]*redlock.Locker, count)
	defer func() {
		var closes errgroup.Group
		for _, l := range lockers {
			if l != nil {
				closes.Go(l.Close)
			}
		}
		err = errors.Join(err, closes.Wait())
	}()
	var opens errgroup.Group
	opens.SetLimit(4)
	for i := range lockers {
		opens.Go(func() (err error) {
			if lockers[i], err = redlock.Open(ctx, r.servers.addrs(), opts...); err == nil {
				_, err = lockers[i].Acquire(ctx, "held:"+strconv.Itoa(i))
			}
			return err
		})
	}
	if err := opens.Wait(); err != nil {
		return nil, used, err
	}
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return nil, used, err
	}
	_, before, err := commandTime(ctx, r.servers, sentByRedlock)
	if err != nil {
		return nil, used, err
	}
	select {
	case <-time.After(heldFor):
	case <-ctx.Done():
		return nil, used, ctx.Err()
	}
	_, after, err := commandTime(ctx, r.servers, sentByRedlock)
	if err != nil {
		return nil, used, err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return nil, used, err
	}
	wall, most := to.at.Sub(from.at), 0.0
	for i := range to.each {
		most = max(most, 100*float64(to.each[i]-from.each[i])/float64(wall))
	}
	used = to.since(from)
	return []string{
		number3(float64(after-before) / wall.Seconds() / float64(len(r.servers))), number3(most), number3(100 * used.Self),
	}, used, nil
}
