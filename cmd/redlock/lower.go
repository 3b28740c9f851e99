package main

import (
	"context"
	"flag"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

func lowerCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes lower", Synopsis: "MAXTTL --wait [flags]", Summary: "bring the cluster's longest lease (MaxTTL) down again",
		About: `Brings down the longest lease that anyone may take, for which every node that restarts
waits, after a client with a larger --max-ttl raised it. With --wait it writes the new one,
waits until every longer lease of before is over, which takes as long as the old one says,
and only then lets restarts wait the shorter time. Locks are held and taken meanwhile. It
relies on nobody's word: a client that takes longer leases raises it again before it gets a
lock, and then this says so. If it is interrupted, restarts wait as long as before: run it
again. Run it again as well for nodes that did not answer; the largest of all counts.

With --yes it does not wait: you vouch that nobody holds a lock with a longer lease, or is
about to get one.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			wait := fs.Bool("wait", false, "wait for as long as it takes")
			timeout := cli.NewDuration(fs, "timeout", 0, "with --wait: no longer than this `DURATION`")
			yes := fs.Bool("yes", false, "do it now, on your word")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(1, args, "the new MAXTTL, as 30s"); err != nil {
					return err
				}
				to, err := cli.ParseDuration(args[0])
				switch {
				case err != nil:
					return cli.Usagef("nodes lower: %q is no duration: %w", args[0], err)
				case *wait && *yes:
					return cli.Usagef("nodes lower: give --wait or --yes, not both")
				case *timeout < 0 || *timeout > 0 && !*wait:
					return cli.Usagef("nodes lower: --timeout %v: give what is above 0, with --wait", *timeout)
				}
				own := a.connection.maxTTL
				if to >= 10*time.Millisecond { // what is below is refused as such
					own = min(own, to) // or this client would raise it again
				}
				do := func(ctx context.Context, s *session) error { return a.lower(ctx, s, to, *wait, *yes, *timeout) }
				return a.withSession(ctx, do, redlock.WithTTL(min(redlock.DefaultTTL, own)), redlock.WithMaxTTL(own))
			}
		},
	}
}

// lower brings MaxTTL down, or says what it would rely on.
func (a *app) lower(ctx context.Context, s *session, to time.Duration, wait, yes bool, timeout time.Duration) error {
	c := s.locker.Cluster()
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	now := time.Duration(0)
	for _, n := range status.Nodes {
		now = max(now, n.MaxTTL)
	}
	lower := c.LowerMaxTTL
	switch {
	case yes:
		a.complain("nodes lower believes that nobody holds a lock with a lease above " + cli.Short(to) + ", or is about to get one; if somebody does, and a node forgets, a second holder can get it")
		lower = c.LowerMaxTTLNow
	case !wait:
		if err := a.showNodes(status, s); err != nil {
			return err
		}
		return cli.Usagef("nodes lower: nothing done: give --wait, which waits until every lease of before is over (%v); or --yes, at once, if nobody holds a lock with a lease above %v, or is about to get one", now, to)
	case now > to:
		a.complain("nodes lower waits " + cli.Short(now) + ", until " + until(now) + ", when every lease of before is over; restarts wait as long as before until then, also if this is interrupted")
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := lower(ctx, to); err != nil {
		return err
	}
	if status, err = c.Status(ctx); err != nil {
		return err
	}
	return a.showNodes(status, s)
}
