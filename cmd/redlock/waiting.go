package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/fault"
)

const (
	// quorumPatience is how long a command waits for a quorum before it says so, and how
	// often it looks for another cause after that. A node that is busy, or restarts, is often
	// back before: a line in the log for each would be read by nobody.
	quorumPatience = 2 * time.Second
	// quorumGlance is how often it looks whether it waits for a quorum at all. That look
	// asks no node: the session's observer has noted it.
	quorumGlance = quorumPatience / 8
)

// withLocks runs a command that takes locks. While it waits for a quorum, it says why there
// is none: a job of cron would hang for ever, and mail nothing.
func (a *app) withLocks(ctx context.Context, f *lockFlags, do func(context.Context, *session) error, opts ...redlock.Option) error {
	return a.withSession(ctx, func(ctx context.Context, s *session) error {
		f.app, f.session = a, s
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		bound := ""
		if f.wait == 0 {
			bound = "; it waits until a quorum votes, or as long as --wait says"
		}
		watch.Go(func() { a.tellWaits(watching, s, labelOf(f.keys), bound) })
		err := do(ctx, s)
		stop()
		watch.Wait()
		a.tellLeftOut(ctx, s, err)
		return err
	}, opts...)
}

// tellWaits says why there is no quorum, once a lock was wanted for quorumPatience without
// one, and again when there is another cause. When a quorum was there meanwhile, the same cause
// is told again: it is another outage.
func (a *app) tellWaits(ctx context.Context, s *session, wanted, bound string) {
	told := ""
	for pause := quorumGlance; ; {
		t := newTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		lacked := s.lacking()
		if lacked < quorumPatience {
			if pause = quorumGlance; lacked == 0 {
				told = ""
			}
			continue
		}
		pause = quorumPatience
		status, err := s.locker.Cluster().Status(ctx)
		if err != nil || status.Votes() >= status.Quorum {
			continue
		}
		if cause, words := a.quorumWords(status); cause != told {
			a.complain("waiting for " + wanted + ": " + words + bound)
			told = cause
		}
	}
}

// telling says by tell what a command waits for, once it has waited for quorumPatience, and again
// when look finds another cause; an empty one is nothing to tell. The caller ends it.
func telling(ctx context.Context, look func(context.Context) (cause, words string), tell func(words string)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for told := ""; ; {
			t := newTimer(quorumPatience)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			if cause, words := look(ctx); cause != "" && cause != told && ctx.Err() == nil {
				tell(words)
				told = cause
			}
		}
	})
	return func() { cancel(); watch.Wait() }
}

// tellHeld says once that others hold what is waited for, and who does, since a job that hangs
// without a word is not understood. Who bounds the wait and takes a busy lock for a success is
// told nothing. That a quorum votes is asked first: where nodes are silent, an attempt may not yet
// have failed, with a long node timeout, and nobody knows of a holder.
func (f *lockFlags) tellHeld(ctx context.Context) (end func()) {
	if f.now || f.wait > 0 && f.busyCode == cli.ExitOK {
		return func() {}
	}
	told := false
	return telling(ctx, func(ctx context.Context) (cause, words string) {
		if told || f.session.lacking() > 0 { // tellWaits says why
			return "", ""
		}
		if status, err := f.session.locker.Cluster().Status(ctx); err != nil || status.Votes() < status.Quorum {
			return "", ""
		}
		told = true
		who := "others hold it"
		if by := f.heldBy(ctx); by != "" {
			who = "held by " + by
		}
		return "held", "waiting for " + labelOf(f.keys) + ": " + who + "; redlock status " + strings.Join(f.keys, " ") + " shows more"
	}, func(words string) { f.app.tell(event{Event: "waiting", Key: f.keys[0], Message: words}) })
}

// heldBy names who holds the key alone, on a quorum; empty where nobody does, or several keys are
// wanted. It takes no right that an acquire does not take.
func (f *lockFlags) heldBy(ctx context.Context) string {
	if len(f.keys) > 1 {
		return ""
	}
	s, key := f.session, f.app.connection.prefix+f.keys[0]
	owners := make([]string, len(s.clients))
	s.each(ctx, func(ctx context.Context, i int, c *redis.Client) {
		if all, err := c.MGet(ctx, key).Result(); err == nil && len(all) == 1 { // nil of another type
			owners[i], _ = all[0].(string)
		}
	})
	on := map[string]int{}
	for _, owner := range owners {
		if on[owner]++; owner != "" && on[owner] > len(owners)/2 {
			return fault.Printable(owner)
		}
	}
	return ""
}

// quorumWords is why too few nodes vote, and what may be done; cause is waitedFor's.
func (a *app) quorumWords(status redlock.ClusterStatus) (cause, words string) {
	cause, nodes, remedy := a.waitedFor(status)
	return cause, fmt.Sprintf("no quorum: %d of %s vote, it takes %d: %s", status.Votes(), plural(len(status.Nodes), "node"), status.Quorum, nodes) + remedy
}

// waitedFor is which nodes do not vote, why, and what may be done. cause stays the same as long
// as the nodes are in the same states: it is compared, and the words have times in them.
func (a *app) waitedFor(status redlock.ClusterStatus) (cause, words, remedy string) {
	var g fault.Grouped
	joining := false
	for _, n := range status.Nodes {
		cause += fmt.Sprint(n.State, n.Refusal != "", n.Cause != "", ";")
		switch {
		case n.State == redlock.NodeJoining:
			joining = true
			g.Add(n.Name, "voting in "+cli.Short(max(n.Left.Round(time.Second), time.Second)))
		case n.State == redlock.NodeMember && n.Cause == "" && n.Refusal == "":
		case n.State == redlock.NodeMember: // well, or it refuses
			g.Add(n.Name, because(n))
		default:
			g.Add(n.Name, n.State.String()+": "+because(n))
		}
	}
	remedy = " (see: redlock doctor)"
	if joining && status.ID == "" && status.Pending == "" { // of a cluster that is there, locks may be held
		remedy = " (at once, if no lock made before is held: " + a.admitLine(status) + ")"
	}
	var nodes []string
	g.Each(func(names string, _ int, words string) { nodes = append(nodes, names+" "+words) })
	return cause, worded(strings.Join(nodes, "; ")), remedy
}

// tellLeftOut says for which nodes no quorum was found: a client takes one in after a wait, and
// this command ended before. A command that got its lock is silent, since cron mails each
// line, and the wait is often under way: doctor warns of what may stay out.
func (a *app) tellLeftOut(ctx context.Context, s *session, err error) {
	if !errors.Is(err, redlock.ErrNoQuorum) || !abstained(err) {
		return
	}
	status, err := s.locker.Cluster().Status(ctx)
	if err != nil {
		return
	}
	var out []string
	for _, n := range status.Nodes {
		// No wait brings in a blank one, and what keeps it out is in the error.
		if n.State == redlock.NodeJoining {
			out = append(out, fmt.Sprintf("%s (votes in %s)", n.Name, cli.Short(n.Left)))
		}
	}
	if len(out) > 0 {
		a.complain(worded(strings.Join(out, ", ")) + ": not voting yet; this command ended before. Run: " + a.shell("redlock nodes join --wait")[0])
	}
}

// abstained tells whether an error names a node that answered and did not vote.
func abstained(err error) bool {
	var round *redlock.QuorumError
	if !errors.As(err, &round) {
		return false
	}
	return slices.ContainsFunc(round.Nodes, func(n redlock.NodeResult) bool { return n.Outcome == redlock.OutcomeAbstained })
}
