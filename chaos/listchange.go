package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/lua"
)

// roster is the cluster's list of nodes while something is played, what clients have of it,
// and the operators who change it, and the rest of the configuration.
type roster struct {
	stage  Stage         // all of it
	maxTTL time.Duration // the longest that there is

	refuses func() // clients may be refused from now on, by nobody's fault; nil: nobody asks

	mu        sync.Mutex // guards the rest
	list      []int      // nil: all nodes
	operators int
	strange   error            // what operators ended with that they may not
	copies    map[int]listCopy // by client
}

// listCopy is the list that a client has, until it is given another.
type listCopy struct {
	list []int
	used []int           // by the library that the client has open
	over context.Context //nolint:containedctx // what is over when the client is given another
	end  func()
}

// of is the part of the stage that a client knows, and a context that is done when it is
// given another list.
func (r *roster) of(client int) (Stage, context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, has := r.copies[client]
	if !has {
		c = r.giveLocked(client)
	}
	c.used = c.list
	r.copies[client] = c
	return part{r.stage, c.list}, c.over
}

// giveLocked gives a client the list of now.
func (r *roster) giveLocked(client int) listCopy {
	c, has := r.copies[client]
	if has {
		c.end()
	}
	c.list = r.list
	c.over, c.end = context.WithCancel(context.Background())
	r.copies[client] = c
	return c
}

// behindLocked tells whether a client has an earlier list still: it may hold a lock by it.
func (r *roster) behindLocked() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.copies)), func(c listCopy) bool { return !slices.Equal(c.used, r.list) })
}

// give gives a client the list of now.
func (r *roster) give(client int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveLocked(client)
}

// turned is a list with the node added or, if it is there, taken out; Everything: as it is.
func turned(list []int, node int) []int {
	if node == Everything {
		return list
	}
	next := slices.DeleteFunc(slices.Clone(list), func(n int) bool { return n == node })
	if len(next) == len(list) {
		next = append(next, node)
	}
	slices.Sort(next)
	return next
}

// record is that a change begins or ends, with the list of then.
func (r *roster) record(k trace.Kind, f Fault) Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := f.Record(k, r.stage.Names())
	rec.Value = strings.Trim(fmt.Sprint(r.list), "[]")
	return rec
}

// change has operators change the configuration, as the fault says, until one has done so. Its error is
// what the last one ended with.
func (r *roster) change(ctx context.Context, f Fault) error {
	var work sync.WaitGroup
	defer work.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	began, first := time.Now(), make(chan error, 1)
	work.Go(func() { first <- r.operate(ctx, f, f.Where) })
	var next <-chan time.Time // another operator comes, though the first may be at it
	if f.For > 0 {
		next = time.After(f.For)
	}
	var err error
	select {
	case err = <-first:
		if err != nil {
			sleep(ctx, f.For-time.Since(began))
		}
	case <-next:
		err = errors.New("not done yet")
	}
	for err != nil && ctx.Err() == nil {
		if err = r.operate(ctx, f, ""); err != nil {
			sleep(ctx, r.rests(err))
		}
	}
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = turned(r.list, f.Node)
	}
	return err
}

// operate is the work of one operator. It dies as it sends its first command of that step;
// empty: it lives.
//
//nolint:contextcheck // a Locker's own goroutines outlive every call
func (r *roster) operate(ctx context.Context, f Fault, dies Moment) error {
	r.mu.Lock()
	r.operators++
	name, list := fmt.Sprintf("operator-%d", r.operators), r.list
	if r.refuses != nil && r.behindLocked() {
		r.refuses()
	}
	r.mu.Unlock()
	nodes, err := r.stage.Connect(name)
	if err != nil {
		return err
	}
	ctx, die := context.WithCancel(ctx)
	defer die()
	if script, ok := map[Moment]*lua.Script{AtSettle: lua.SettleScript, AtAccept: lua.AcceptScript, AtForce: lua.ForceScript, AtInstall: lua.InstallScript}[dies]; ok {
		record(nodes, recorder{sent: func(data []byte) {
			if bytes.Contains(data, []byte(script.Hash)) {
				die()
			}
		}})
	}
	longer := list
	if !slices.Contains(list, f.Node) {
		longer = turned(list, f.Node)
	}
	l, err := redlock.New(pick(nodes, longer), redlock.WithNodeNames(pick(r.stage.Names(), longer)...), redlock.WithTTL(r.maxTTL), redlock.WithMaxTTL(r.maxTTL))
	if err != nil {
		return err
	}
	err = l.Cluster().Change(ctx, wanted(f, list, r.stage.Names()), redlock.ChangeOptions{EndStragglers: true})
	_ = l.Close() // it holds nothing
	if err != nil && !slices.ContainsFunc(operatorsEnds, func(end error) bool { return errors.Is(err, end) }) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.strange = errors.Join(r.strange, err)
	}
	return err
}

// wanted returns the change that the fault asks for, by this list and these names.
func wanted(f Fault, list []int, names []string) redlock.Wanted {
	w := redlock.Wanted{MaxTTL: f.MaxTTL}
	switch {
	case f.Node == Everything:
	case slices.Contains(list, f.Node):
		w.Remove = []string{names[f.Node]}
	default:
		w.Add = []string{names[f.Node]}
	}
	if f.Strict != "" {
		strict := f.Strict == trace.StrictOn
		w.Strict = &strict
	}
	return w
}

// operatorsEnds are the errors with which an operator may end: the last two as it dies, or the plan ends.
var operatorsEnds = []error{redlock.ErrContested, redlock.ErrNoQuorum, redlock.ErrMisconfigured, context.Canceled, context.DeadlineExceeded}

// rests is how long an operator leaves the list alone who ended so. Where another is at work
// that is one to three times the longest lease, and seldom as long as that one's next rest.
func (r *roster) rests(err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, redlock.ErrContested) {
		return time.Duration(1+r.operators%3) * r.maxTTL
	}
	return 20 * askEvery
}

const (
	// Clients have a new list within so long, but for one in staleOf.
	givenWithin = 2 * time.Second
	staleOf     = 4
)

// changeLists carries out the plan's changes of the configuration. Rivals are at work at once; others
// follow each other. Behind each change clients are given the list: most of them soon, some of
// them maybe after the next change has begun, which refuses them. So are leases above MaxTTL.
func (r *run) changeLists() error {
	r.roster.refuses = sync.OnceFunc(func() { r.health(trace.Sick) })
	if r.plan.largest() > r.plan.MaxTTL {
		r.roster.refuses()
	}
	nth := uint64(0)
	for _, rivals := range r.plan.changes() {
		time.Sleep(rivals[0].At - r.history.Now())
		var work sync.WaitGroup
		for _, f := range rivals {
			random := rand.New(rand.NewPCG(r.plan.Seed, 9+nth<<32))
			nth++
			work.Go(func() { r.changeList(f, random) })
		}
		work.Wait()
	}
	return r.roster.strange
}

// changeList carries out a change, if there is time, until it is done.
func (r *run) changeList(f Fault, random *rand.Rand) {
	time.Sleep(f.At - r.history.Now())
	if r.history.Now() >= r.plan.For {
		return
	}
	// A shorter MaxTTL ends with a close: behind a node that was added that refuses clients which
	// lack it, and they are given the list only when all is done.
	if f.MaxTTL != 0 && (r.plan.largest() > f.MaxTTL || f.Node != Everything && f.MaxTTL < r.plan.longest()) {
		r.roster.refuses()
	}
	r.history.Add(r.roster.record(trace.Broke, f))
	ctx, end := context.WithTimeout(context.Background(), r.plan.For-r.history.Now())
	defer end()
	err := r.roster.change(ctx, f)
	ended := r.roster.record(trace.Mended, f)
	if err == nil {
		ended.Text = trace.Done(f)
	}
	r.history.Add(ended)
	if err != nil {
		r.history.Add(Record{Kind: trace.Noted, Text: err.Error()})
		return
	}
	for i := range r.plan.Clients {
		within := givenWithin
		if random.IntN(staleOf) == 0 {
			within = 2 * r.plan.For / 3
		}
		time.AfterFunc(spread(random, within), func() { r.roster.give(i) })
	}
}

// health records that the cluster need not make progress, for a reason more, or that one of
// the reasons is over.
func (r *run) health(k trace.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.ill > 0
	if k == trace.Sick {
		r.ill++
	} else {
		r.ill--
	}
	if (r.ill > 0) != was {
		r.history.Add(Record{Kind: k})
	}
}

// changes are the plan's changes of the configuration, rivals together: each of them begins within
// MaxTTL of the one before.
func (p *Plan) changes() (all [][]Fault) {
	last := -p.MaxTTL
	for _, f := range p.Faults {
		switch {
		case f.Kind != ListChange:
			continue
		case f.At-last < p.MaxTTL:
			all[len(all)-1] = append(all[len(all)-1], f)
		default:
			all = append(all, []Fault{f})
		}
		last = f.At
	}
	return all
}

// founders are the nodes that the cluster is founded with; nil: all, and no list is changed.
func (p *Plan) founders() (list []int) {
	if p.List == 0 && p.changes() == nil {
		return nil
	}
	for i := range cmp.Or(p.List, p.Nodes) {
		list = append(list, i)
	}
	return list
}

// fewest is how many nodes the shortest of the lists has. Of rivals any may be the first.
func (p *Plan) fewest() int {
	list := p.founders()
	if list == nil {
		return p.Nodes
	}
	least := len(list)
	for _, rivals := range p.changes() {
		gone := 0
		for _, f := range rivals {
			if slices.Contains(list, f.Node) {
				gone++
			}
		}
		least = min(least, len(list)-gone)
		for _, f := range rivals {
			list = turned(list, f.Node)
		}
	}
	return least
}

// reopens tells whether libraries are opened again.
func (p *Plan) reopens() bool { return p.Reopens > 0 || p.changes() != nil }

// rivalsOf: one change in so many has a rival, whose operator wants another list at the same time.
const rivalsOf = 2

// longest is the longest MaxTTL of the plan.
func (p *Plan) longest() time.Duration {
	longest := p.MaxTTL
	for _, f := range p.Faults {
		longest = max(longest, f.MaxTTL)
	}
	return longest
}

// largest is the longest lease that clients ask for.
func (p *Plan) largest() time.Duration {
	if p.Varied > 0 {
		return p.longest()
	}
	return p.Lease
}

// strict reports whether recovery is strict at times.
func (p *Plan) strict() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Strict == trace.StrictOn })
}

// drawLists draws changes of the list. One of the first nodes stays in each list, and never
// forgets: where all nodes of a client's list have forgotten, it founds another cluster
// (docs/SAFETY.md).
func (p *Plan) drawLists(random *rand.Rand) {
	if p.validate() != nil {
		return // to play it says why
	}
	p.List = 1 + random.IntN(p.Nodes-1)
	stays := random.IntN(p.List)
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
		return f.Forgets() && f.Kind != Drift && f.Kind != Twice && (f.Node == stays || f.Node == Everything)
	})
	// Each comes or goes once: one that was taken out may not come back.
	nodes := slices.DeleteFunc(random.Perm(p.Nodes), func(n int) bool { return n == stays })
	for at, rival := clientsBegin+spread(random, p.MaxTTL), false; len(nodes) > 0 && at < p.For-p.MaxTTL; nodes = nodes[1:] {
		p.Faults = append(p.Faults, Fault{
			Kind: ListChange, At: at, For: spread(random, 3*p.MaxTTL), Node: nodes[0], Where: append(trace.ChangeSteps(), "", "")[random.IntN(6)],
		})
		if rival = !rival && random.IntN(rivalsOf) == 0; rival {
			at += between(random, time.Microsecond, p.MaxTTL-1)
		} else {
			at += p.MaxTTL + spread(random, 2*p.MaxTTL)
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

const (
	// One plan in so many whose list changes has changes of the rest of the configuration, too.
	settingsOf = 2
	// As many changes have no node, at most.
	mostAlone = 3
)

// drawSettings draws what changes of the list set besides, and changes that have no node: of
// MaxTTL, from the plan's lease up, of strict recovery, and closes.
func (p *Plan) drawSettings(random *rand.Rand) {
	if p.validate() != nil || random.IntN(settingsOf) > 0 {
		return // what is wrong, to play it says
	}
	founded, all := p.MaxTTL, p.Faults
	for range 1 + random.IntN(mostAlone) {
		all = append(all, Fault{
			Kind: ListChange, At: clientsBegin + spread(random, max(p.For-clientsBegin-founded, 1)), For: spread(random, 3*founded), Node: Everything,
			Where: append(trace.ChangeSteps()[:3], "", "")[random.IntN(5)],
		})
	}
	for i := range all {
		f := &all[i]
		if f.Kind != ListChange {
			continue
		}
		if random.IntN(2) == 0 {
			f.MaxTTL = max(p.Lease, p.Lease+spread(random, founded*3/2-p.Lease)).Truncate(time.Millisecond)
		}
		f.Strict = []string{"", "", trace.StrictOn, trace.StrictOff}[random.IntN(4)]
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	p.Faults = all
}
