package main

// The cluster's configuration: what nodes and status show of it once it was changed, and the
// command that changes it while clients run.

import (
	"context"
	"errors"
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
		text += "; a change has begun (" + l.Pending + "): run redlock nodes change again"
	}
	return text
}

// stragglers names the clients that have the list before; empty if none was seen.
func stragglers(seen []redlock.Straggler) string {
	if seen == nil {
		return ""
	}
	return "clients seen with the list before (some may have ended; redlock status KEY shows what one of them holds), whose locks end when the next change begins: " + named(seen)
}

// named are stragglers in words.
func named(seen []redlock.Straggler) string {
	var out []membership.Straggler
	for _, one := range seen {
		out = append(out, membership.Straggler(one))
	}
	return membership.Named(out)
}

// changeCommand changes the cluster's configuration. It needs --yes only to end locks of clients
// with the list before: nothing else is believed that it could not check, but that the list of
// nodes is the cluster's. A signal, or --timeout, ends it where it is. What was begun stays
// begun: clients of the list before the last get no vote until somebody runs it again, while
// clients of the list itself go on as if nothing had been begun.
func changeCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes change", Synopsis: "[--add ADDR] [--remove ADDR] [--max-ttl D] [flags]",
		Summary: "change the list of nodes, the longest lease, or strict recovery",
		About: `Changes the cluster's configuration while clients run: adds empty servers, takes nodes out,
dead or alive, sets the longest lease that anyone may take, turns strict recovery on or off.
--nodes is the list as it is; it may name the nodes to add already. A list changes by one node
at a time, additions first, and a close after removals; each step takes the longest lease. Clients that have the new
nodes already go by the new list. Others go on until the next step: while some are at work it
names them and does nothing, or waits (--wait); --close refuses those for good.
A lock with a longer lease than the new --max-ttl is lost when it would be renewed.
Run it again after any interruption, from anywhere: it finishes what was begun.
Do not empty and start a server that was removed while a client has a list with it.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			var w redlock.Wanted
			list := func(into *[]string) func(string) error {
				return func(given string) error {
					*into = append(*into, split(given)...)
					return nil
				}
			}
			fs.Func("add", "add the empty server at `ADDR` (again, or with commas, for more)", list(&w.Add))
			fs.Func("remove", "take the node at `ADDR` out, dead or alive", list(&w.Remove))
			fs.Func("strict", "strict recovery, `on` or off", func(given string) error {
				on := given == "on"
				if w.Strict = &on; !on && given != "off" {
					return errors.New("give on or off")
				}
				return nil
			})
			closes := fs.Bool("close", false, "refuse clients that have the list before, from then on")
			dry := fs.Bool("dry-run", false, "say what would be done, and change nothing")
			yes := fs.Bool("yes", false, "go on at once: clients that have the list before lose their locks")
			wait := cli.NewDuration(fs, "wait", 0, "at each step wait so long for clients at work that have the list before, a `DURATION`")
			timeout := cli.NewDuration(fs, "timeout", 0, "go on no longer than this `DURATION`")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(0, args, "flags only: --add ADDR, --remove ADDR"); err != nil {
					return err
				}
				fs.Visit(func(f *flag.Flag) {
					if f.Name == "max-ttl" {
						w.MaxTTL = a.connection.maxTTL
					}
				})
				if w.Add == nil && w.Remove == nil && w.MaxTTL == 0 && w.Strict == nil && !*closes {
					return cli.Usagef("nodes change: give what is to change: --add, --remove, --max-ttl, --strict or --close")
				}
				if *wait < 0 || *wait > 0 && *yes {
					return cli.Usagef("nodes change: --wait %v: give a positive duration, and no --yes", *wait)
				}
				a.connection.added = w.Add
				return a.withSession(ctx, func(ctx context.Context, s *session) error {
					ctx, stop := cli.UntilSignalOr(ctx, *timeout)
					defer stop()
					o := redlock.ChangeOptions{DryRun: *dry, EndStragglers: *yes, Wait: *wait, Progress: a.tellProgress()}
					return a.change(ctx, s, w, *closes, o)
				})
			}
		},
	}
}

// change changes the configuration, and then closes, if that is wanted.
func (a *app) change(ctx context.Context, s *session, w redlock.Wanted, closes bool, o redlock.ChangeOptions) error {
	flags := [...]string{"add", "remove"}
	for k, list := range [][]string{w.Add, w.Remove} {
		for i, given := range list {
			at := max(s.find(given), s.find(addressOf(given)))
			if at < 0 {
				return cli.Usagef("nodes change: --%s %s is not in the list of nodes: %v", flags[k], redact(given), s.names)
			}
			list[i] = s.names[at]
		}
	}
	all := []redlock.Wanted{w}
	if some := w.Add != nil || w.Remove != nil || w.MaxTTL != 0 || w.Strict != nil; some && closes {
		all = append(all, redlock.Wanted{})
	}
	closed, told := false, o.Progress
	o.Progress = func(p redlock.ChangeProgress) {
		closed = p.Words == membership.CloseWords
		told(p)
	}
	for _, w := range all {
		if err := s.locker.Cluster().Change(ctx, w, o); err != nil {
			return err
		}
	}
	if o.DryRun {
		a.complain("nodes change: it can be done, or is done already; nothing was changed")
		return nil
	}
	status, err := s.locker.Cluster().Status(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("nodes change: done: cluster %s, generation %d, MaxTTL %v%s: %s",
		status.ID, status.Generation, cli.Short(status.MaxTTL), strictWords(status), strings.Join(status.List, ", "))
	if w.Add != nil && !closed {
		text += "; before the next change give all clients this list: redlock nodes names those at work with the list before, as they meet this one"
	}
	a.complain(text)
	a.complain("nodes change: " + pinWords(status))
	return a.showNodes(status, s)
}

// pinWords are what keeps clients with an old list from founding another cluster.
func pinWords(status redlock.ClusterStatus) string {
	return "give clients " + clusterVariable + "=" + status.ID + ": then none founds another on nodes that restarted empty"
}

// tellProgress prints a line where more than the time left has changed.
func (a *app) tellProgress() func(redlock.ChangeProgress) {
	told := ""
	return func(p redlock.ChangeProgress) {
		words := progressWords(p)
		switch {
		case p.Stage == "": // a dry run tells how long
		case p.Stragglers != nil:
			p.Left = min(p.Left, 1)
		default:
			p.Left = 0
		}
		if same := progressWords(p); same != told {
			a.complain(words)
			told = same
		}
	}
}

// progressWords is one line of progress: for whom a change waits, and what stands against it,
// so that a log of the terminal tells where an operator who died had got.
func progressWords(p redlock.ChangeProgress) string {
	text := "nodes change: "
	if p.Steps > 0 { // else all is in force, maybe not everywhere
		text += fmt.Sprintf("%d of %d, %s: ", p.Step, p.Steps, p.Words)
	}
	switch {
	case p.Stragglers != nil && p.Left > 0:
		return text + fmt.Sprintf("%s: %s: %s more; --yes ends their locks at once", p.Stage, named(p.Stragglers), cli.Short(p.Left))
	case p.Stragglers != nil:
		return text + stragglers(p.Stragglers)
	case p.Stage == "": // a dry run
		return text + fmt.Sprintf("it waits %s, and leaves the list %s", cli.Short(p.Left), strings.Join(p.List, ", "))
	case p.Of == 0: // not begun
		return text + fmt.Sprintf("%s: %s more; --yes ends their locks at once", p.Stage, cli.Short(p.Left))
	}
	text += fmt.Sprintf("%s: %d of %s needed", p.Stage, min(p.Done, p.Of), plural(p.Of, "node"))
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
