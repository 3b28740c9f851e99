package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// The cluster's list of nodes changes while clients run.
var changeScenarios = []Scenario{
	{
		Name:     "grow-and-shrink",
		Claim:    "a cluster of one node grows to five under load and shrinks to three, and nodes are dead on the way: each holder keeps its lock through a change, those who wait have it next, and all wait for a dead node only where there are two",
		Lesson:   "two nodes bear no failure: go on to three at once; and give clients each new list before the next change begins",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: 3 * scenarioLease, Patience: 4 * scenarioLease},
		list:     []int{0},
		script:   growAndShrink,
	},
	{
		Name:     "operator-dies",
		Claim:    "four nodes are added, one after another, by operators who die at the first, second, third and last step: the next operator finishes what the nodes have of it, and each holder keeps its lock",
		Lesson:   "a change that was cut short is run again, by anybody",
		Nodes:    7,
		Showings: guarded(trace.NameRedlock, trace.NameRenewing),
		judge:    trace.Judge{Progress: 3 * scenarioLease},
		list:     []int{0, 1, 2},
		script:   operatorDies,
	},
	{
		Name:     "partition-between-lists",
		Claim:    "one client has the list of five nodes and reaches three of them, another has the list of the three that two changes left, and reaches the other two: they share no node, and one of them has the lock at a time, by the greater token, unless nobody asks nodes whom they vote for",
		Lesson:   "two lists at once are safe where quorums of them meet: the list before the last must be refused first",
		Showings: append(guarded(trace.NameRedlock), otherTokens...),
		list:     []int{0, 1, 2, 3, 4},
		script:   partitionBetweenLists,
	},
	{
		Name:     "removed-node-old-data",
		Claim:    "a node that was taken out is back with the data of then, and a client with a list of then asks for what another holds: that node gives it no lock, nor do the others, unless nobody asks nodes whom they vote for",
		Lesson:   "a node that was taken out may come back as it was: it is harmless, dead or not",
		Nodes:    4,
		Showings: append(guarded(trace.NameRedlock), otherTokens...),
		list:     []int{0, 1, 2},
		script:   removedNodeReturns,
	},
	{
		Name:     "removed-node-emptied",
		Claim:    "the only node of the first list was taken out, emptied and started again, and a client that still has that list founds another cluster there: two hold, which is a stated limit",
		Lesson:   "empty a node that was taken out only when no client has a list with it",
		Nodes:    2,
		Showings: []trace.Showing{{Contender: trace.NameRedlock, Guarded: true, Breaks: []Rule{TwoHolders}, May: []Rule{TokenOrder, WrongList}}},
		list:     []int{0},
		script:   removedNodeEmptied,
	},
}

// listed is the stage of which clients know these nodes.
func (s *scene) listed(nodes ...int) Stage { return part{s.all(), nodes} }

// relist adds a node to the list or takes it out, by an operator who dies at that step, and
// the next one.
func (s *scene) relist(ctx context.Context, node int, dies Moment) {
	f := Fault{Kind: ListChange, Node: node, Where: dies}
	ctx, end := context.WithTimeout(ctx, 10*scenarioLease)
	defer end()
	s.history.Add(s.roster.record(trace.Broke, f))
	must(s.roster.change(ctx, f))
	s.history.Add(s.roster.record(trace.Mended, f))
}

// works has clients of a list lock, write and release, until stop is called.
func (s *scene) works(ctx context.Context, stage Stage, names ...string) (stop func()) {
	working, end := context.WithCancel(ctx)
	var all []<-chan error
	for _, name := range names {
		a := s.enterWith(name, stage)
		all = append(all, s.spawn(func() {
			for working.Err() == nil {
				if t, err := s.insist(working, a, 2*scenarioLease); err == nil {
					time.Sleep(aWhile / 4)
					_ = t.Write(ctx)   // refused or not: the trace says it
					_ = t.Release(ctx) // a node that is down can't confirm it
				}
				time.Sleep(aWhile / 8)
			}
		}))
	}
	return func() {
		end()
		for _, done := range all {
			must(<-done)
		}
	}
}

// keeps makes a client of a list hold through what follows, until give is called.
func (s *scene) keeps(ctx context.Context, name string, stage Stage) (give func()) {
	t := s.gets(ctx, s.enterWith(name, stage), 3*scenarioLease)
	stop := s.keep(ctx, t)
	return func() {
		lost := t.Remaining() == 0
		stop()
		if lost {
			must(fmt.Errorf("%s lost its lock", name))
		}
	}
}

func growAndShrink(ctx context.Context, s *scene) {
	stop := s.works(ctx, s.stage, "ann", "bob")
	time.Sleep(aWhile)
	s.relist(ctx, 1, "")
	stop()
	stop = s.works(ctx, s.listed(0, 1), "cara", "dave")
	changed := s.spawn(func() { s.relist(ctx, 2, "") })
	time.Sleep(aWhile)
	s.restart(Fault{Kind: Crash, Node: 1})
	must(<-changed)
	stop()
	give := s.keeps(ctx, "eve", s.listed(0, 1, 2))
	s.breakNow(Fault{Kind: Crash, Node: 0})
	s.relist(ctx, 3, "")
	give()
	s.mend(Fault{Kind: Crash, Node: 0})
	stop = s.works(ctx, s.listed(0, 1, 2, 3), "finn", "gina")
	s.relist(ctx, 4, "")
	stop()
	give = s.keeps(ctx, "hana", s.listed(0, 1, 2, 3, 4))
	s.relist(ctx, 0, "")
	give()
	stop = s.works(ctx, s.listed(1, 2, 3, 4), "ivan")
	s.breakNow(Fault{Kind: Crash, Node: 2})
	s.relist(ctx, 2, "")
	stop()
	stop = s.works(ctx, s.listed(1, 3, 4), "jane")
	s.breakNow(Fault{Kind: Crash, Node: 1})
	time.Sleep(scenarioLease)
	stop()
}

func operatorDies(ctx context.Context, s *scene) {
	list := []int{0, 1, 2}
	for i, step := range trace.ChangeSteps() {
		give := s.keeps(ctx, []string{"ann", "bob", "cara", "dave"}[i], s.listed(slices.Clone(list)...))
		s.relist(ctx, 3+i, step)
		give()
		list = append(list, 3+i)
	}
	s.visit(ctx, s.enterWith("eve", s.listed(list...)), 2*scenarioLease)
}

func partitionBetweenLists(ctx context.Context, s *scene) {
	ann := s.enter("ann")
	s.rehearse(ctx, ann)
	s.breakAll(Fault{Kind: Cut, Client: ann.Name}, 3, 4)
	for range 3 { // whose tokens the other two do not see
		s.visit(ctx, ann, 2*scenarioLease)
	}
	first := s.gets(ctx, ann, 2*scenarioLease)
	stop := s.keep(ctx, first)
	s.relist(ctx, 0, "")
	s.relist(ctx, 1, "")
	bob := s.enterWith("bob", s.listed(2, 3, 4))
	s.breakNow(Fault{Kind: Cut, Client: bob.Name, Node: 2})
	next := s.gets(ctx, bob, 3*scenarioLease)
	must(next.Write(ctx))
	if first.Remaining() > 0 {
		_ = first.Write(ctx) // the harm of it: refused or not, the trace says it
	}
	time.Sleep(aWhile)
	stop()
	must(next.Release(ctx))
}

func removedNodeReturns(ctx context.Context, s *scene) {
	ann := s.enter("ann")
	s.rehearse(ctx, ann)
	old := Fault{Kind: Old, Node: 2}
	s.breakNow(old)
	s.relist(ctx, 2, "")
	s.relist(ctx, 3, "")
	s.mend(old)
	bob := s.enterWith("bob", s.listed(0, 1, 3))
	s.breakAll(Fault{Kind: Cut, Client: bob.Name}, 1)
	first := s.holds(ctx, bob)
	stop := s.keep(ctx, first)
	s.rivalFor(ctx, ann, first, 2*scenarioLease) // the node's wait is over within that
	stop()
}

func removedNodeEmptied(ctx context.Context, s *scene) {
	ann := s.enter("ann")
	s.rehearse(ctx, ann)
	s.relist(ctx, 1, "")
	s.relist(ctx, 0, "")
	s.restart(Fault{Kind: Forget, Node: 0})
	bob := s.enterWith("bob", s.listed(1))
	_, err := s.insist(ctx, ann, 2*scenarioLease) // the node's wait
	must(err)
	must(s.gets(ctx, bob, scenarioLease).Write(ctx))
	time.Sleep(aWhile)
}
