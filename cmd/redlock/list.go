package main

// The cluster's list of nodes: what nodes and status show of it once it was changed, and the
// commands that change it while clients run.

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/membership"
)

// listShows is the cluster's latest list of nodes, which may not be this client's.
type listShows struct {
	Generation int              `json:"generation,omitempty"` // how often it was changed
	Names      []string         `json:"names,omitempty"`
	Behind     []string         `json:"behind,omitempty"` // nodes whose record has an earlier one
	Pending    string           `json:"pending,omitempty"`
	Stragglers []stragglerShows `json:"stragglers,omitempty"`
}

// stragglerShows is a client that has the list before.
type stragglerShows struct {
	Name string `json:"name"`
	Seen int64  `json:"seen_ms"` // ago
}

// listOf is nil for a cluster whose list was never changed, as most are.
func listOf(status redlock.ClusterStatus) *listShows {
	if status.Generation == 0 && status.Pending == "" {
		return nil
	}
	l := &listShows{Generation: status.Generation, Names: status.List, Pending: status.Pending}
	for _, n := range status.Nodes {
		if n.State == redlock.NodeMember && n.Generation < status.Generation || n.State == redlock.NodeBehind {
			l.Behind = append(l.Behind, n.Name)
		}
	}
	for _, one := range status.Stragglers {
		l.Stragglers = append(l.Stragglers, stragglerShows{one.Name, one.Seen.Milliseconds()})
	}
	return l
}

// words begin with lead, and say of which generation the list is, the list itself where this client has another,
// which nodes are behind, and what was begun.
func (l *listShows) words(lead string, names []string) string {
	if l == nil {
		return ""
	}
	text := fmt.Sprintf(lead+"list of generation %d", l.Generation)
	if list := strings.Join(l.Names, ", "); l.Generation > 0 && list != strings.Join(slices.Sorted(slices.Values(names)), ", ") {
		text += " (" + list + "): give all clients that one"
	}
	if len(l.Behind) > 0 {
		text += ", behind: " + strings.Join(l.Behind, ", ")
	}
	if l.Pending != "" {
		text += "; a change of the list has begun: run redlock nodes " + l.Pending + " again"
	}
	return text
}

// stragglers names the clients that have the list before; empty if none was seen.
func stragglers(seen []redlock.Straggler) string {
	if seen == nil {
		return ""
	}
	var named []membership.Straggler
	for _, one := range seen {
		named = append(named, membership.Straggler(one))
	}
	return "clients seen with the list before (some may have ended; redlock status KEY shows what one of them holds), whose locks end when nodes settle or the next change begins: " + membership.Named(named)
}

// addCommand takes the list so far, or the longer one: after a success the operator's own list
// may name the node already, and it must be right to run it again.
func addCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes add", Synopsis: "ADDR [flags]", Summary: "add a node to the list while clients run",
		About: `Adds the empty server at ADDR to the cluster that --nodes lists. Clients of that list go
on; give them the longer one before the next change. It takes the longest lease. While
clients still have the list before the one of --nodes, it names them and does nothing.
Run it again after any interruption, from anywhere: it finishes what was begun.`,
		Define: a.changing("add", 1, func(ctx context.Context, c *redlock.Cluster, name string, o redlock.ChangeOptions) error {
			return c.Add(ctx, name, o)
		}),
	}
}

// shrinkCommand takes a dead node as well: a node that is out of the list gets no
// vote counted by clients of it, whether it is dead, cut off, or back with its old data.
func shrinkCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes shrink", Synopsis: "ADDR [flags]", Summary: "take a node out of the list while clients run",
		About: `Takes the node at ADDR, dead or alive, out of the cluster, of which --nodes has the list so far.
Clients of that list go on; give them the shorter one before the next change. It takes the longest lease.
While clients still have the list before the one of --nodes, it names them and does nothing.
Do not empty and start that server again while a client has a list with it.`,
		Define: a.changing("shrink", 1, func(ctx context.Context, c *redlock.Cluster, name string, o redlock.ChangeOptions) error {
			return c.Shrink(ctx, name, o)
		}),
	}
}

// settleCommand is for those who want to know that no client with an old list is at work: it
// is told so by its error, and not by the next change, months later.
func settleCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes settle", Synopsis: "[flags]", Summary: "refuse clients that have the list before this one",
		About: `Refuses clients that still have the list before the last change. The next change
does that too. While such clients are at work it names them and does nothing: with --yes it ends
their locks. It takes the longest lease, and finishes a change that was begun.`,
		Define: a.changing("settle", 0, func(ctx context.Context, c *redlock.Cluster, _ string, o redlock.ChangeOptions) error {
			return c.Settle(ctx, o)
		}),
	}
}

// changing is a command that changes the list. It needs --yes only to end locks of clients with
// the list before: nothing else is believed that it could not check, but that the list of nodes
// is the cluster's. A signal, or --timeout, ends
// it where it is. What was begun stays begun: clients of the list before the last get no
// vote until somebody runs it again, or changes the list in another way, while clients of
// the list itself go on as if nothing had been begun.
func (a *app) changing(verb string, takes int, do func(context.Context, *redlock.Cluster, string, redlock.ChangeOptions) error) func(*flag.FlagSet) cli.Action {
	return func(fs *flag.FlagSet) cli.Action {
		dry := fs.Bool("dry-run", false, "say whether it can be done, and change nothing")
		yes := fs.Bool("yes", false, "go on at once: clients that have the list before lose their locks")
		timeout := cli.NewDuration(fs, "timeout", 0, "go on no longer than this `DURATION`")
		return func(ctx context.Context, args []string) error {
			if err := cli.Exactly(takes, args, [...]string{"no arguments", "the ADDR of one node"}[takes]); err != nil {
				return err
			}
			if verb == "add" {
				a.connection.another = args[0]
			}
			return a.withSession(ctx, func(ctx context.Context, s *session) error {
				name := ""
				for _, given := range args {
					at := max(s.find(given), s.find(addressOf(given)))
					if at < 0 {
						return cli.Usagef("nodes %s: %s is not in the list of nodes: %v", verb, redact(given), s.names)
					}
					name = s.names[at]
				}
				ctx, stop := cli.UntilSignalOr(ctx, *timeout)
				defer stop()
				o := redlock.ChangeOptions{DryRun: *dry, EndStragglers: *yes, Progress: func(p redlock.ChangeProgress) { a.complain(progressWords(verb, p)) }}
				if err := do(ctx, s.locker.Cluster(), name, o); err != nil {
					return err
				}
				if *dry { // with the next list, of which no record knows, there is nothing to show
					a.complain("nodes " + verb + ": it can be done, or is done already; nothing was changed")
					return nil
				}
				if takes > 0 {
					a.complain("nodes " + verb + ": done; before the next change give all clients this list: redlock nodes names those at work with the list before, as they meet this one")
				}
				status, err := s.locker.Cluster().Status(ctx)
				if err != nil {
					return err
				}
				return a.showNodes(status, s)
			})
		}
	}
}

// progressWords is one line of progress: for whom a change waits, and what stands against it,
// so that a log of the terminal tells where an operator who died had got.
func progressWords(verb string, p redlock.ChangeProgress) string {
	if p.Stragglers != nil {
		return "nodes " + verb + ": " + stragglers(p.Stragglers)
	}
	if p.Of == 0 { // not begun
		return fmt.Sprintf("nodes %s: %s: %s more; --yes ends their locks at once", verb, p.Stage, cli.Short(p.Left))
	}
	text := fmt.Sprintf("nodes %s: %s: %d of %s needed", verb, p.Stage, min(p.Done, p.Of), plural(p.Of, "node"))
	if p.List != nil {
		text += ", the list " + strings.Join(p.List, ", ")
	}
	if p.Left > 0 {
		text += ", " + cli.Short(p.Left) + " left"
	}
	if p.Err != nil {
		text += ": " + worded(p.Err.Error())
	}
	return text
}
