package main

// The nodes' membership, as an operator sees and changes it. Listing changes nothing. Each
// command that changes something says first what it believes and can't check, and does it only
// with --wait or --yes: a membership that is changed in error can let two holders in.
//
//   nodes         0 if a quorum votes, else 69: a health check of the cluster
//   nodes join    0 if every node that answers votes; 75 without --wait if one would have to be
//                 waited for; 69 if --timeout is over first
//   nodes admit   0 if all were taken in
//   nodes change  0 if the configuration is in force; 69 where too few nodes answer; 75 where
//                 another operator came between, or clients have the list before
//
// For all that need a word, 64 says that it is missing, and that nothing was done. 78 says
// that a configuration keeps nodes out, which no wait mends.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

func nodesCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes", Alias: "nodes list", Synopsis: "[list] [flags]", Summary: "list the nodes: who votes, who waits and until when",
		About: `Lists the nodes: members vote; a joining node votes when its wait is over: a client
that has waited for longer than this one takes it in earlier; a blank one
needs something else first, which its last column says; foreign, misconfigured
and unreachable nodes do not vote, nor does a member that refuses writes: the last column
has its words. It only looks: a right that exec lacks is seen by redlock doctor, as exec's user.
Exit status 69 if fewer than a quorum vote.`,
		Define: func(*flag.FlagSet) cli.Action {
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments, or join, admit or change"); err != nil {
					return err
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error {
					status, err := s.locker.Cluster().Status(ctx)
					if err != nil {
						return err
					}
					s.nameMisdialled(ctx, status)
					if err := errors.Join(a.showNodes(status, s), a.showNext(status)); err != nil {
						return err
					}
					if status.Votes() < status.Quorum {
						return cli.Quietly(exitNoQuorum)
					}
					return nil
				})
			}
		},
	}
}

func joinCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes join", Synopsis: "--wait [flags]", Summary: "wait until every node that answers votes",
		About: `Takes in nodes that are new or returned, after the wait that makes it safe, and ends when
every node that answers votes, or can't be taken in: then it says which, and why. Short-lived programs, such as cron jobs, are never there at
the end of the wait: run this from a timer unit or as a container's init step. Without
--wait it says what there would be to wait for; exit status 75 if there is anything.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			wait := fs.Bool("wait", false, "wait for as long as it takes")
			timeout := cli.NewDuration(fs, "timeout", 0, "wait no longer than this `DURATION`")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.join(ctx, s, *wait, *timeout) })
			}
		},
	}
}

func admitCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes admit", Synopsis: "--yes [flags]", Summary: "take new and returned nodes in now, on your word",
		About: `Takes blank and returned nodes in without their wait. You vouch that no lock made before
on these nodes is held, by anyone: on a new cluster that is so. It never overrules what the
records say of another list or cluster.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			yes := fs.Bool("yes", false, "do it")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				a.connection.founds = true
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.admit(ctx, s, *yes) })
			}
		},
	}
}

// nameMisdialled puts a better cause to nodes that do not answer, where one side speaks TLS
// and the other does not: "connection reset" would send the operator to the network.
func (s *session) nameMisdialled(ctx context.Context, status redlock.ClusterStatus) {
	silent := make([]bool, len(status.Nodes))
	for i, n := range status.Nodes {
		silent[i] = n.State == redlock.NodeUnreachable
	}
	for i, what := range s.misdialled(ctx, silent) {
		if what != nil {
			status.Nodes[i].Cause = what.Error()
		}
	}
}

// clusterShows is the cluster, as --json shows it.
type clusterShows struct {
	Cluster string      `json:"cluster"`
	Votes   int         `json:"votes"`
	Quorum  int         `json:"quorum"`
	Strict  bool        `json:"strict,omitempty"` // strict recovery
	Nodes   []nodeState `json:"nodes"`
	// List is of a cluster whose list of nodes was changed, or is about to be.
	List *listShows `json:"list,omitempty"`
}

type nodeState struct {
	Node   string `json:"node"`
	State  string `json:"state"`
	Left   int64  `json:"left_ms"`
	Until  string `json:"until,omitempty"` // by the wall clock, RFC 3339
	MaxTTL int64  `json:"max_ttl_ms"`
	Cause  string `json:"cause,omitempty"`
	// Refuses is why a node that answers refuses to write, and so grants nothing.
	Refuses    string `json:"refuses,omitempty"`
	Generation int    `json:"generation,omitempty"` // of its record's list
}

// showNodes prints the list.
func (a *app) showNodes(status redlock.ClusterStatus, s *session) error {
	if a.JSON {
		out := clusterShows{Cluster: status.ID, Votes: status.Votes(), Quorum: status.Quorum, Strict: status.Strict, List: listOf(status)}
		for _, n := range status.Nodes {
			out.Nodes = append(out.Nodes, nodeState{
				n.Name, n.State.String(), n.Left.Milliseconds(), until(n.Left), n.MaxTTL.Milliseconds(),
				worded(n.Cause), worded(n.Refusal), n.Generation,
			})
		}
		return a.Answer(out)
	}
	p := a.NewPage()
	id, color := status.ID, cli.Green
	if n := silent(status); id == "" && len(status.Nodes)-n < status.Quorum {
		id = fmt.Sprintf("unknown (%d of %d nodes do not answer)", n, len(status.Nodes))
	} else if id == "" && slices.ContainsFunc(status.Nodes, func(n redlock.NodeStatus) bool { return n.State == redlock.NodeMember }) {
		id = "unknown (too few records)"
	} else if id == "" {
		id = "none yet"
	}
	if status.Votes() < status.Quorum {
		color = cli.Red
	}
	votes := plural(status.Votes(), "vote") + " of " + plural(len(s.names), "node")
	p.WriteString(strings.Replace(cli.Note(fmt.Sprintf("cluster %s: %s, quorum %d%s%s", id, votes, status.Quorum, strictWords(status), listOf(status).words(", ", s.names))), votes, p.In(color, votes), 1))
	rows := [][]cli.Cell{cli.Row("NODE", "STATE", "VOTES IN", "MAX TTL", "")}
	for _, n := range status.Nodes {
		in := cli.Short(n.Left)
		if n.Left > 0 { // the wait of this client: one that came earlier is through sooner
			in = "<= " + in
		}
		r := cli.Row(n.Name, n.State.String(), in, cli.Short(n.MaxTTL), worded(because(n)))
		if n.State == redlock.NodeUnreachable {
			r[4].Text += " (see: redlock doctor)"
		}
		r[1].In = cli.Yellow
		if n.State == redlock.NodeMember && n.Refusal == "" {
			r[1].In = cli.Plain
		}
		rows = append(rows, r)
	}
	p.Table(rows)
	if text := stragglers(status.Stragglers); text != "" {
		p.WriteString(cli.Note(text))
	}
	return a.Flush(p)
}

// showNext prints what takes in the nodes that a wait brings in, if there are any: a client
// that only looks does not wait for them. Of a cluster that is there, locks may be held. No wait
// helps where a record speaks of another list, or where something else must happen first
// (NodeBlank): with strict recovery that is an operator's word, which the node's cause asks for.
func (a *app) showNext(status redlock.ClusterStatus) error {
	waits := func(n redlock.NodeStatus) bool { return n.State == redlock.NodeJoining }
	other := func(n redlock.NodeStatus) bool {
		return n.State == redlock.NodeMisconfigured || n.State == redlock.NodeForeign || n.State == redlock.NodeBehind
	}
	if a.JSON || slices.ContainsFunc(status.Nodes, other) {
		return nil
	}
	p, or := a.NewPage(), "" // each command in a line of its own, to be copied
	if slices.ContainsFunc(status.Nodes, waits) {
		p.WriteString(cli.Note("new and returned nodes are taken in after a wait, by:"))
		p.WriteString("  " + a.shell("redlock nodes join --wait")[0] + "\n")
		or = "or "
	}
	asked := func(n redlock.NodeStatus) bool {
		return strings.Contains(n.Cause, "redlock nodes admit --strict-recovery")
	}
	if status.ID == "" && status.Pending == "" && or != "" || slices.ContainsFunc(status.Nodes, asked) {
		p.WriteString(cli.Note(or + "at once, on your word that no lock made before on these nodes is held, by:"))
		p.WriteString("  " + a.admitLine(status) + "\n")
	}
	return a.Flush(p)
}

// admitLine is the command that skips a wait. Without --strict-recovery, one that asks for it
// would not take the word, or the cluster be founded without it.
func (a *app) admitLine(status redlock.ClusterStatus) string {
	if a.connection.strict || status.Strict {
		return a.shell("redlock nodes admit --yes --strict-recovery")[0]
	}
	return a.shell("redlock nodes admit --yes")[0]
}

// silent is how many nodes do not answer.
func silent(status redlock.ClusterStatus) (n int) {
	for _, node := range status.Nodes {
		if node.State == redlock.NodeUnreachable {
			n++
		}
	}
	return n
}

// strictWords says that recovery is strict, if it is.
func strictWords(status redlock.ClusterStatus) string {
	if status.Strict {
		return ", strict recovery"
	}
	return ""
}

// because is why a node does not vote. A member that refuses writes has two reasons at
// times, and both need mending.
func because(n redlock.NodeStatus) string {
	switch {
	case n.Refusal == "", strings.Contains(n.Cause, n.Refusal):
		return n.Cause
	case n.Cause == "":
		return "refuses writes: " + n.Refusal
	default:
		return "refuses writes: " + n.Refusal + "; " + n.Cause
	}
}

// until is a moment by this machine's wall clock, for people: a wait may last a day, and nobody
// adds hours to the time of a log's line. Nothing is decided by it.
func until(left time.Duration) string {
	if left == 0 {
		return ""
	}
	return wallClock().Add(left).Format(time.RFC3339)
}

// join waits for the nodes, or says what there is to wait for. A signal, or --timeout, ends
// the wait and harms nothing. Each client counts its own wait, so the next one begins anew.
func (a *app) join(ctx context.Context, s *session, wait bool, timeout time.Duration) error {
	c := s.locker.Cluster()
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	// A wait alone does not bring in those that are stuck, but it goes on, and may do when what
	// keeps them out has been mended.
	outside, joining, stuck := 0, 0, 0
	for _, n := range status.Nodes {
		switch n.State {
		case redlock.NodeJoining, redlock.NodeBehind:
			joining++
			outside++
		case redlock.NodeBlank:
			stuck++
			outside++
		case redlock.NodeForeign, redlock.NodeMisconfigured: // no wait brings those in
			outside++
		case redlock.NodeMember, redlock.NodeUnreachable, redlock.NodeUnlisted:
		}
	}
	wait = wait || timeout > 0 // nobody bounds a wait that is not wanted
	if wait {
		joining += stuck // they are taken in as well when what keeps them out is mended
	}
	if joining > 0 {
		a.complain(joinBelief(status, joining, a.connection.maxTTL))
	}
	if !wait {
		if err := a.showNodes(status, s); err != nil {
			return err
		}
		return notJoined(outside, joining, stuck, status.Votes() < status.Quorum)
	}
	ctx, stop := cli.UntilSignalOr(ctx, timeout)
	defer stop()
	end := telling(ctx, func(ctx context.Context) (cause, words string) {
		status, _ := c.Status(ctx) // of an error it is empty
		cause, nodes, remedy := a.waitedFor(status)
		if nodes == "" { // held locks are put on those that vote again
			return "", ""
		}
		return cause, "nodes join waits: " + nodes + remedy
	}, a.complain)
	err = c.Join(ctx)
	end()
	if err != nil {
		return refusedBy(status, err)
	}
	if status, err = c.Status(ctx); err != nil {
		return err
	}
	return a.showNodes(status, s)
}

// notJoined is what to do where nothing was waited for; nil if nothing is to be done. Those that
// are stuck, a replica for instance, may need an operator, and no wait.
func notJoined(outside, joining, stuck int, short bool) error {
	switch {
	case outside > 0 && joining+stuck == 0:
		return configuration("nodes join: no wait takes in the nodes that do not vote: the list says why")
	case joining == 0 && stuck > 0:
		return &cli.StatusError{Code: exitBusy, Cause: errors.New("nodes join: not done: the list says what must happen first; then give --wait")}
	case outside > 0 || short:
		return &cli.StatusError{Code: exitBusy, Cause: errors.New("nodes join: not done: give --wait to wait for them")}
	}
	return nil
}

// joinBelief is what a join relies on, in numbers: the operator can compare them with the
// longest --ttl and --max-ttl of all clients, which no node knows.
func joinBelief(status redlock.ClusterStatus, joining int, maxTTL time.Duration) string {
	if status.ID != "" {
		maxTTL = 0 // its records say it
	}
	for _, n := range status.Nodes {
		maxTTL = max(maxTTL, n.MaxTTL)
	}
	text := plural(joining, "node") + " can vote after a wait. This believes that no client takes a lease above " + cli.Short(maxTTL) +
		", so that after it every lock that such a node may have forgotten is over"
	if status.ID == "" {
		text += "; that this is a new cluster, or that the majority of an old one forgot: its tokens then lean on the clocks, once"
	}
	return text
}

// admit takes nodes in on the operator's word. The belief is told even with --yes, so that
// the log of an incident has it.
func (a *app) admit(ctx context.Context, s *session, yes bool) error {
	c := s.locker.Cluster()
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	a.complain("nodes admit believes that no lock made before on these nodes is held, by anyone; if one is, a second holder can get it")
	if !yes {
		if err := a.showNodes(status, s); err != nil {
			return err
		}
		return cli.Usagef("nodes admit: nothing done: give --yes if that is so")
	}
	err = c.Admit(ctx)
	if status, statusErr := c.Status(ctx); statusErr == nil {
		if err == nil {
			a.complain("nodes admit: done: " + pinWords(status))
		}
		err = refusedBy(status, errors.Join(a.showNodes(status, s), err))
	}
	return err
}

// refusedBy gives an error the status of a configuration (78) if too many nodes are
// misconfigured for a quorum, as it has for exec. The error of join and admit says both that
// and a missing quorum. By 69 a script would try again for ever.
func refusedBy(status redlock.ClusterStatus, err error) error {
	usable := 0
	for _, n := range status.Nodes {
		if n.State != redlock.NodeMisconfigured && n.State != redlock.NodeForeign {
			usable++
		}
	}
	if err == nil || usable >= status.Quorum {
		return err
	}
	return &cli.StatusError{Code: exitConfig, Cause: err}
}

// find is the index of the node with this name, or address, or -1 if there is none. With
// --node-names a list shows names, while an operator knows the address.
func (s *session) find(name string) int {
	for i, n := range s.names {
		if n == name || s.clients[i].Options().Addr == name {
			return i
		}
	}
	return -1
}
