package main

// status shows who holds a key, as the nodes tell it: node by node, and a verdict by the rule
// that locks are decided by, a quorum. It takes no lock and changes nothing. What it shows may
// have ended since: a script that needs to know has to take the lock (exec -n).
//
// Exit status: 0, with any verdict but unknown; 69 if one is unknown, since a script must not
// take silence for "free"; with --watch 0 after a signal, which is its only end.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/fault"
)

func statusCommand(a *app) cli.Command {
	return cli.Command{
		Name: "status", Synopsis: "[flags] KEY...", Summary: "show who holds a key, alone or beside others, node by node",
		About: `Shows for each node whether it votes, who holds KEY there, what remains of the lease,
and how many processes stand in line there, which each of them does on a quorum of nodes
(with --json: their ids, the next one first). Holders have a letter in the table and their
names below it, as has the reason of a node that does not vote, or says nothing. COUNTER is
the largest number that the node has given for KEY, which may be a later token than the
holder's. And a verdict:

  held m/N    m nodes, a quorum, show one holder
  shared m/N  those who share it hold it together; m nodes, a quorum, show one
  free        a quorum of nodes has no holder
  split       none of these: attempts are under way, or remains must yet lapse
  unknown     too few nodes that vote have answered

Of a shared key each who shares it follows, with what remains of its own lease by a
quorum and the number of nodes that show it. In the table LEFT is that of the last one,
and COUNTER that of those who share it. Of a key that several hold
by slots (WithLimit in the library), the slots that a quorum shows follow, and how many
stand in line for one. The verdict says nothing of them, but that a table begins with
"held by slots" where it would be free. Who can be asked to give KEY up, by redlock revoke,
is marked as revocable.

It only looks: a right that exec lacks is seen by redlock doctor, as exec's user.
Exit status 69 if a verdict is unknown. With --json, one line a key.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			watch := fs.Bool("watch", false, "show it again and again, until a signal")
			every := cli.NewDuration(fs, "interval", time.Second, "the pause between two looks, a `DURATION`")
			return func(ctx context.Context, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("give at least one KEY")
				}
				if *every <= 0 {
					return cli.Usagef("--interval %v: give a positive duration", *every)
				}
				if !*watch {
					every = nil
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.status(ctx, s, args, every) })
			}
		},
	}
}

// keyStatus is one key, as --json shows it. Sharers, slots and waiters are those that a quorum
// shows; the rest are in by_node alone, as an attempt under way or what it left behind.
type keyStatus struct {
	Key     string      `json:"key"`
	Verdict keyState    `json:"verdict"`
	Held    int         `json:"held"` // by the foremost holder
	Nodes   int         `json:"nodes"`
	Quorum  int         `json:"quorum"`
	Holder  string      `json:"holder,omitempty"`
	Sharers []sharer    `json:"sharers,omitempty"` // on a quorum of nodes
	Waiting int         `json:"waiting"`           // in line on a quorum of nodes
	Slots   []slotShows `json:"slots,omitempty"`   // that are held on a quorum of nodes
	// SlotsWaiting stand in line for a slot, on a quorum of nodes.
	SlotsWaiting int `json:"slots_waiting,omitempty"`

	// List is of a cluster whose list of nodes was changed, or is about to be.
	List *listShows `json:"list,omitempty"`

	ByNode []nodeShows `json:"by_node"`
}

// sharer is one sharer of a key, on a quorum of nodes or on one.
type sharer struct {
	Holder    string `json:"holder"`
	Remaining int64  `json:"remaining_ms"`
	Revocable bool   `json:"revocable,omitempty"`
	On        int    `json:"nodes,omitempty"` // how many nodes show it; 0 in by_node

	left time.Duration
}

// nodeShows is one node's answer about a key.
type nodeShows struct {
	Node      string   `json:"node"`
	Vote      string   `json:"vote"` // member, or why not: blank, joining, ...
	Holder    string   `json:"holder,omitempty"`
	Shared    bool     `json:"shared,omitempty"`
	Sharers   []sharer `json:"sharers,omitempty"`
	Revocable bool     `json:"revocable,omitempty"` // the holder can be asked for it: redlock revoke
	Remaining int64    `json:"remaining_ms"`
	Counter   uint64   `json:"counter,omitempty"` // the largest number given there: a token of the holder, or of a later one; none where nobody holds it
	// Waiting are those that stand in line, the next one first.
	Waiting []string `json:"waiting"`
	Error   string   `json:"error,omitempty"`
	Cause   string   `json:"cause,omitempty"` // why it does not vote

	left time.Duration
}

// withStatus names the use, in --for, of what a look at a key lacks: a client that locks
// does without.
var withStatus = strings.NewReplacer("redlock nodes acl prints", "redlock nodes acl, with status in --for, prints")

// why is for people: why the node does not vote, as redlock nodes has it, or says nothing.
func (n nodeShows) why() string { return unnamed(cmp.Or(n.Cause, n.Error)) }

// status shows the keys once, or every so often until a signal comes. The pause is between
// two looks, not from start to start: nodes that answer slowly are not asked more for it.
func (a *app) status(ctx context.Context, s *session, keys []string, every *time.Duration) error {
	signals := make(chan os.Signal, 1)
	if every != nil {
		cli.WatchFor(signals, cli.Endings...)
	}
	for {
		known, err := a.showKeys(ctx, s, keys, every != nil)
		if err != nil {
			return err
		}
		if every == nil {
			if !known {
				return cli.Quietly(exitNoQuorum)
			}
			return nil
		}
		pause := newTimer(*every)
		select {
		case <-signals:
			return nil
		case <-pause.C:
		}
	}
}

// showKeys looks at every key and prints what it saw. The page is written at once, so that
// --watch does not flicker. The nodes' votes are asked once for all keys.
func (a *app) showKeys(ctx context.Context, s *session, keys []string, again bool) (known bool, err error) {
	p := a.NewPage()
	if again {
		p.Clear()
	}
	known = true
	cluster, err := s.locker.Cluster().Status(ctx)
	if err != nil {
		return false, err
	}
	s.nameMisdialled(ctx, cluster)
	for i, key := range keys {
		in, err := s.locker.Inspect(ctx, key)
		if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
			return false, err
		}
		shows := assess(in, cluster)
		known = known && shows.Verdict != keyUnknown
		if a.JSON {
			p.WriteString(cli.JSONLine(shows))
			continue
		}
		if i > 0 || again {
			p.WriteByte('\n')
		}
		shows.print(p)
	}
	for _, text := range []string{listOf(cluster).words("", s.names), stragglers(cluster.Stragglers)} {
		if text != "" && !a.JSON {
			p.WriteString(cli.Note(text))
		}
	}
	return known, a.Flush(p)
}

// assess puts together what the nodes say of a key and whether they vote: a node that shows
// a holder and does not vote counts for nobody.
func assess(in redlock.Inspection, cluster redlock.ClusterStatus) keyStatus {
	s := keyStatus{Key: in.Resource, Nodes: len(in.Nodes), Quorum: in.Quorum, List: listOf(cluster)}
	views := make([]nodeView, len(in.Nodes))
	on := map[string]int{}
	for i, n := range in.Nodes {
		state, cause := cluster.Nodes[i].State, worded(because(cluster.Nodes[i]))
		views[i] = nodeView{counts: n.Err == nil && state == redlock.NodeMember, shared: n.Shared}
		shows := nodeShows{
			Node: n.Name, Vote: state.String(), Holder: n.Owner, Revocable: n.Revocable, Shared: n.Shared,
			Remaining: n.Remaining.Milliseconds(), left: n.Remaining, Waiting: append([]string{}, n.Waiting...), Error: withStatus.Replace(oneLine(n.Err)), Cause: cause,
		}
		if n.Owner != "" {
			views[i].owners = []string{n.Owner}
		}
		for _, one := range n.Sharers {
			on[one.Owner]++
			views[i].owners = append(views[i].owners, one.Owner)
			shows.Sharers = append(shows.Sharers, sharer{Holder: one.Owner, Remaining: one.Remaining.Milliseconds(), Revocable: one.Revocable, left: one.Remaining})
		}
		if len(views[i].owners) > 0 { // without, the number is of other names as well
			shows.Counter = uint64(n.Token)
		}
		s.ByNode = append(s.ByNode, shows)
	}
	s.Verdict, s.Holder, s.Held = judge(views, in.Quorum)
	for _, one := range in.Sharers() {
		s.Sharers = append(s.Sharers, sharer{one.Owner, one.Remaining.Milliseconds(), one.Revocable, on[one.Owner], one.Remaining})
	}
	s.Waiting = onQuorum(in, func(n redlock.NodeInspection) []string { return n.Waiting })
	s.SlotsWaiting = onQuorum(in, func(n redlock.NodeInspection) []string { return n.SlotsWaiting })
	for _, one := range in.Slots() {
		s.Slots = append(s.Slots, slotShows{one.Slot, one.Owner, one.Remaining.Milliseconds(), one.Revocable, one.Remaining})
	}
	return s
}

// onQuorum counts the waiters that a quorum of nodes shows. A waiter that has just come may
// be on fewer nodes.
func onQuorum(in redlock.Inspection, waiting func(redlock.NodeInspection) []string) int {
	on, count := map[string]int{}, 0
	for _, n := range in.Nodes {
		for _, id := range waiting(n) {
			if on[id]++; on[id] == in.Quorum {
				count++
			}
		}
	}
	return count
}

// print shows the verdict first: it is what most readers want, and the table tells them why.
func (s keyStatus) print(p *cli.Page) {
	line := ""
	if len(s.Sharers) > 0 {
		line = fmt.Sprintf(", by %d", len(s.Sharers))
	}
	if s.Waiting > 0 {
		line += fmt.Sprintf(", %d in line", s.Waiting)
	}
	verdict := s.Verdict.line(s.Held, s.Nodes)
	if s.Verdict == keyFree && len(s.Slots) > 0 {
		// Free is true of the key itself, and would mislead: those who ask for a slot may wait.
		verdict = "held by slots"
	}
	p.Printf("%s: %s%s\n", strconv.Quote(s.Key), p.In(s.Verdict.color(), verdict), line)
	rows, letters := [][]cli.Cell{cli.Row("NODE", "VOTE", "LEFT", "COUNTER", "WAITING", "HOLDER")}, &legend{}
	for _, n := range s.ByNode {
		rows = append(rows, n.row(letters))
	}
	p.Table(rows)
	p.WriteString(letters.text())
	var silent fault.Grouped
	for _, n := range s.ByNode {
		if why := n.why(); why != "" {
			silent.Add(n.Node, why)
		}
	}
	silent.Each(func(names string, _ int, why string) { p.WriteString(cli.Note(names + ": " + why)) })
	// Slots come last, even if nobody shares the key.
	defer s.printSlots(p)
	if len(s.Sharers) == 0 {
		return
	}
	rows = [][]cli.Cell{cli.Row("ON", "LEFT", "SHARED BY")}
	for _, one := range s.Sharers {
		rows = append(rows, cli.Row(fmt.Sprintf("%d/%d", one.On, s.Nodes), cli.Short(one.left), marked(one.Holder, one.Revocable)))
	}
	p.Table(rows)
}

// marked is a holder, with a mark if it can be asked for its hold (redlock revoke).
func marked(holder string, revocable bool) string {
	if revocable {
		return holder + " (revocable)"
	}
	return holder
}

// row is the node's line. A node that does not answer shows "?" and not "-", which would say
// that nothing is there.
func (n nodeShows) row(letters *legend) []cli.Cell {
	holder, left, token, waiting := n.Holder, cli.Short(n.left), "-", strconv.Itoa(len(n.Waiting))
	if n.Counter > 0 {
		token = strconv.FormatUint(n.Counter, 10)
	}
	switch {
	case n.Error != "":
		holder, left, token, waiting = "?", "?", "?", "?"
	case len(n.Sharers) > 0:
		holder = fmt.Sprintf("shared by %d", len(n.Sharers))
	case holder == "":
		holder, left = "-", "-"
	default:
		holder = letters.of(marked(n.Holder, n.Revocable))
	}
	r := cli.Row(n.Node, n.Vote, left, token, waiting, holder)
	if n.Vote != redlock.NodeMember.String() {
		r[1].In = cli.Yellow
	}
	return r
}

// keyState is the verdict over all nodes' answers about a key. Its words are promised:
// --json shows them.
type keyState string

const (
	keyHeld    keyState = "held"    // a quorum shows one owner, which holds it alone
	keyShared  keyState = "shared"  // a quorum shows at least one sharer
	keyFree    keyState = "free"    // nobody is there with a quorum, and a quorum is empty
	keySplit   keyState = "split"   // neither: several attempts are under way, or remains lie about
	keyUnknown keyState = "unknown" // the silent nodes could decide it
)

// nodeView is one node's part in a verdict.
type nodeView struct {
	counts bool     // it answered, and votes
	shared bool     // its owners share the name
	owners []string // empty if the name is free there
}

// judge says the state. It returns on how many nodes the foremost owner stands, and that
// owner if it holds the name alone. A node that does not vote, or says nothing, may hide
// either: it is added to both sides, and the verdict is unknown if it could turn it. It is a
// pure function of the views, so a table tests it.
func judge(views []nodeView, quorum int) (state keyState, holder string, most int) {
	type hold struct {
		owner  string
		shared bool
	}
	shown, empty, silent := map[hold]int{}, 0, 0
	var foremost hold
	for _, v := range views {
		switch {
		case !v.counts:
			silent++
		case len(v.owners) == 0:
			empty++
		}
		for _, owner := range v.owners {
			h := hold{owner, v.shared}
			if !v.counts {
				continue
			}
			if shown[h]++; shown[h] > most {
				foremost, most = h, shown[h]
			}
		}
	}
	if !foremost.shared {
		holder = foremost.owner
	}
	switch {
	case most >= quorum && foremost.shared:
		return keyShared, "", most
	case most >= quorum:
		return keyHeld, holder, most
	case empty >= quorum:
		return keyFree, holder, most
	case most+silent >= quorum || empty+silent >= quorum:
		return keyUnknown, holder, most
	}
	return keySplit, holder, most
}

// line is the verdict in words, with the count that goes with it.
func (k keyState) line(most, nodes int) string {
	switch k {
	case keyHeld:
		return fmt.Sprintf("held %d/%d", most, nodes)
	case keyShared:
		return fmt.Sprintf("shared %d/%d", most, nodes)
	case keyFree, keySplit, keyUnknown:
	}
	return string(k)
}

// color is green if all is well, and yellow if somebody should look. Held is well too: that
// is what locks are for.
func (k keyState) color() cli.Paint {
	switch k {
	case keyHeld, keyShared, keyFree:
		return cli.Green
	case keySplit, keyUnknown:
	}
	return cli.Yellow
}

// slotShows is the holder of a slot of a key, on a quorum of nodes.
type slotShows struct {
	Slot      int    `json:"slot"`
	Holder    string `json:"holder"`
	Remaining int64  `json:"remaining_ms"`
	Revocable bool   `json:"revocable,omitempty"`

	left time.Duration
}

// printSlots shows the slots that are held, if any is.
func (s keyStatus) printSlots(p *cli.Page) {
	if len(s.Slots) == 0 && s.SlotsWaiting == 0 {
		return
	}
	p.Printf("slots: %d held, %d in line\n", len(s.Slots), s.SlotsWaiting)
	rows := [][]cli.Cell{cli.Row("SLOT", "LEFT", "HOLDER")}
	for _, one := range s.Slots {
		rows = append(rows, cli.Row(strconv.Itoa(one.Slot), cli.Short(one.left), marked(one.Holder, one.Revocable)))
	}
	p.Table(rows)
}

// legend gives names that are too long for a table a letter each: a holder's stands in the
// row of each node, and what a reader wants to see is whether they are the same.
type legend struct{ names []string }

// of is the letter of a name: A to Z, then A' to Z'.
func (l *legend) of(name string) string {
	i := slices.Index(l.names, name)
	if i < 0 {
		i = len(l.names)
		l.names = append(l.names, name)
	}
	return letter(i)
}

// letter is the i-th of A to Z, A' to Z', and on.
func letter(i int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return letters[i%len(letters):][:1] + strings.Repeat("'", i/len(letters))
}

// text tells each letter's name, one a line.
func (l *legend) text() string {
	var b strings.Builder
	for i, name := range l.names {
		b.WriteString(cli.Note(letter(i) + ": " + name))
	}
	return b.String()
}
