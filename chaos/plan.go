package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// Plan is a run of a cluster under load and faults, all of it decided before:
// the same plan gives the same run on a virtual stage.
type Plan struct {
	Seed    uint64        `json:"seed"`
	Nodes   int           `json:"nodes"`
	Clients int           `json:"clients"`
	Names   int           `json:"names"` // of resources; half the load is on the first
	Lease   time.Duration `json:"lease"`
	For     time.Duration `json:"for"`
	MaxTTL  time.Duration `json:"maxTTL"` // that the cluster is founded with
	Faults  []Fault       `json:"faults"`
	// Linger is how seldom a holder rests past the end of its lease: one pause in
	// so many. 0: one in fifty.
	Linger int `json:"linger,omitempty"`
	// Retry is the longest pause between two attempts. 0: 350 ms.
	Retry time.Duration `json:"retry,omitempty"`
	// Waits has clients whose library knows how wait in line, instead of asking
	// again and again; and at times give up.
	Waits bool `json:"waits,omitempty"`
	// Threads is how many goroutines each of them has that wait. 0: one.
	Threads int `json:"threads,omitempty"`
	// Renews has the library lengthen the leases; else clients do, and a lease that
	// nobody lengthened ends. Releases grant only such locks to who waits in line.
	Renews bool `json:"renews,omitempty"`
	// Shares is how seldom clients ask to share what they want: one ask in so many.
	// 0: never.
	Shares int `json:"shares,omitempty"`
	// Sets is how seldom they ask for a set of two or three names at once: one ask in so
	// many, and where leases are renewed, which a set needs. 0: never.
	Sets int `json:"sets,omitempty"`
	// Slots is how seldom clients that wait want a slot of a name, of which it has two: one
	// wait in so many. 0: never.
	Slots int `json:"slots,omitempty"`
	// Leads is how seldom clients that wait stand for an election instead, of which each
	// client observes who leads: one wait in so many. 0: never, and nobody observes.
	Leads int `json:"leads,omitempty"`
	Habits
}

// The measures of [NewPlan]: five nodes, twenty clients, eight names, and a fault
// about every eight seconds.
const (
	planNodes    = 5
	planClients  = 20
	planNames    = 8
	planLease    = 3 * time.Second
	planMaxTTL   = 4 * time.Second
	planFaults   = 8 * time.Second        // mean time between two
	planFaultFor = 6 * time.Second        // the longest
	planPatience = 3 * time.Minute        // of one of ten contenders who draw their pauses
	planSlow     = 400 * time.Millisecond // the most that a message is late by
	planUneven   = 4                      // doublings of that, at most, that a reordered message is late by
	planStep     = 8 * time.Second        // the most that a clock steps, either way: twice the longest lease
	planDrift    = 10 * time.Millisecond  // the most that a clock gains or loses a second: what leases allow for
	planLinger   = 50                     // one pause in so many outlasts the lease
	planRetry    = 350 * time.Millisecond // the longest pause between two attempts

	// clientsBegin is when every client of a plan is there: faults come later.
	clientsBegin = time.Second
)

// rejoins is how long a node takes to vote again once it may.
const rejoins = 2 * time.Second

// recovery is how long a node that may have forgotten need not vote after it was mended.
func (p *Plan) recovery() time.Duration { return p.MaxTTL + rejoins }

// attemptSlack is what an attempt may take beside the timeouts of its rounds.
const attemptSlack = 50 * time.Millisecond

// Redlock is the kit of that name, with the plan's lease and MaxTTL. Clients extend by
// themselves, at times that follow from the seed: without renewal, unless the plan has it.
func (p Plan) Redlock(name string, opts ...redlock.Option) Kit {
	own := []redlock.Option{redlock.WithTTL(p.Lease), redlock.WithMaxTTL(p.MaxTTL), redlock.WithTurns(p.turns())}
	if !p.Renews {
		own = append(own, redlock.WithFixedLease())
	}
	return Redlock(name, append(own, opts...)...)
}

// Judge is the judge of the plan's trace: leases, progress and patience included.
// Progress is less than a lease, because what a failed attempt leaves behind would
// keep everybody else out for a whole one; but a client that is stopped asks
// nobody.
func (p Plan) Judge() Judge {
	transit, uneven := time.Duration(0), time.Duration(0)
	for _, f := range p.Faults {
		transit = max(transit, f.For)
		if f.Kind == Reorder {
			uneven = max(uneven, f.Delay)
		}
	}
	j := Judge{Lease: p.MaxTTL + p.skew(), Transit: transit + uneven, Progress: p.Lease*2/3 + p.stopped(), Patience: planPatience}
	j.Repeated = p.shortest()
	j.Orphan, j.Notice = 2*redlock.DefaultNodeTimeout+2*lookEvery, redlock.DefaultNodeTimeout
	if p.Waits {
		j.Turns = p.turns()
		j.Seen = seenWithin
	} else {
		j.Attempt = 2*redlock.DefaultNodeTimeout + attemptSlack
	}
	if p.Renews {
		j.Renewed = p.MaxTTL + rejoins
	}
	return j
}

// Mix says which faults a plan is drawn from. What is zero has a default.
type Mix struct {
	// Kinds: by default all but an operator's DEL, which no lock survives on a node
	// that its quorum needs; a clock that steps, which the watch sees only at its
	// next sample; and another node list, of which a Locker over clients that it did
	// not make learns when it next verifies the node. What is evicted is the node's
	// record: that of a lock would be the same as a DEL.
	Kinds []Break
	// Every is the mean time between two faults: eight seconds.
	Every time.Duration
	// Longest is how long a fault lasts at most: six seconds.
	Longest time.Duration
	// Nodes, Clients and Names are how many there are: five, twenty and eight. Faults
	// befall those that there are. A plan of a negative number has no faults, and can't be
	// played.
	Nodes, Clients, Names int
}

// NewPlan draws a plan of the given length from a seed: of five nodes, twenty
// clients and eight names, unless mix says otherwise.
func NewPlan(seed uint64, length time.Duration, mix Mix) Plan {
	if mix.Kinds == nil {
		mix.Kinds = borne()
	}
	mix.Every, mix.Longest = cmp.Or(mix.Every, planFaults), cmp.Or(mix.Longest, planFaultFor)
	return newPlan(seed, length, mix, func(p *Plan) {
		p.Nodes, p.Clients, p.Names = cmp.Or(mix.Nodes, p.Nodes), cmp.Or(mix.Clients, p.Clients), cmp.Or(mix.Names, p.Names)
	})
}

// borne are the faults that redlock promises to bear. A clock that steps is not
// among them: what a node gives away between the step and the next sample of its
// clock, a stated limit of the watch, random plans find within minutes. Nor is
// another node list: of a Locker by New an address may lead to a node that it has
// already, while it counts that one as down, and then both vote.
func borne() []Break {
	return []Break{
		Crash, Forget, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, Slow, Reset, Flush, Pause,
		Old, Failover, Evict, Drift, Suspend, Jitter, Reorder, HalfOpen, Refuse,
	}
}

// newPlan draws the faults of a plan whose measures resize has changed.
func newPlan(seed uint64, length time.Duration, mix Mix, resize func(*Plan)) Plan {
	p := Plan{
		Seed: seed, Nodes: planNodes, Clients: planClients, Names: planNames,
		Lease: planLease, For: length, MaxTTL: planMaxTTL,
	}
	resize(&p)
	if p.validate() != nil {
		return p // to play it says why
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for at := clientsBegin + spread(random, 2*mix.Every); at < length; at += spread(random, 2*mix.Every) {
		if f := p.draw(random, mix, at); f.Kind != Drift || !p.drifts(f.Node, at) {
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

// drifts tells whether a node's clock drifts already: two drifts add up to more
// than leases allow for.
func (p *Plan) drifts(node int, at time.Duration) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return f.Kind == Drift && f.At+f.For >= at && (f.Node == node || f.Node == Everything || node == Everything)
	})
}

// spread draws a time up to d, to the nanosecond.
func spread(random *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(random.Int64N(int64(d)))
}

// draw makes one fault.
func (p *Plan) draw(random *rand.Rand, mix Mix, at time.Duration) Fault {
	f := Fault{Kind: mix.Kinds[random.IntN(len(mix.Kinds))], At: at, Node: random.IntN(p.Nodes)}
	if f.Kind.lasts() {
		f.For = spread(random, mix.Longest)
	}
	switch {
	case f.Kind.ofClient(), f.Kind == OtherList:
		f.Client = clientName(random.IntN(p.Clients))
	case f.Kind.ofLink() && random.IntN(2) == 0:
		f.Client = clientName(random.IntN(p.Clients))
		if random.IntN(2) == 0 {
			f.Node = Everything
		}
	}
	switch f.Kind {
	case Slow:
		if f.Client == "" && random.IntN(2) == 0 {
			f.Node = Everything // the network as a whole
		}
		f.Delay = spread(random, planSlow>>random.IntN(3)) // as likely within a node timeout as beyond
	case Jitter:
		f.Delay = spread(random, planSlow)
	case Reorder:
		f.Delay = spread(random, planSlow<<random.IntN(planUneven))
	case OtherList:
		f.To = (f.Node + 1 + random.IntN(max(p.Nodes-1, 1))) % p.Nodes
	case Pause:
		f.Where = Moments()[random.IntN(len(Moments()))]
	case Step:
		f.Delay = planStep - spread(random, 2*planStep)
	case Drift:
		f.Delay = planDrift - spread(random, 2*planDrift)
		f.For = max(p.For-at, 1) // to the end: the mend would be a step
		if random.IntN(2) == 0 {
			f.Node = Everything // to the nodes, it is the clients' clocks that drift
		}
	case Evict:
		f.Key = recordKey
	case Crash, Forget, Old, Failover, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Reset, HalfOpen, Refuse, Flush, Delete, Suspend:
	}
	return f
}

// recordKey is where a node keeps what it knows of its membership, and the
// counters: part of the wire format.
const recordKey = "redlock:node"

func clientName(i int) string { return fmt.Sprintf("client-%d", i) }

// String returns the plan as one line of JSON: what [ParsePlan] reads.
func (p Plan) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error() // a Plan has nothing that can't be marshalled
	}
	return string(text)
}

// ParsePlan reads what [Plan.String] wrote.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Plan{}, fmt.Errorf("chaos: parse plan: %w", err)
	}
	return p, p.validate()
}

func (p *Plan) validate() error {
	switch {
	case p.Nodes < 1 || p.Clients < 1 || p.Names < 1:
		return fmt.Errorf("chaos: plan: %d nodes, %d clients, %d names: give at least one of each", p.Nodes, p.Clients, p.Names)
	case p.Threads < 0:
		return fmt.Errorf("chaos: plan: %d threads: give none or more", p.Threads)
	case p.Shares < 0 || p.Sets < 0 || p.Slots < 0 || p.Leads < 0:
		return fmt.Errorf("chaos: plan: shares %d, sets %d, slots %d, leads %d: give none or positive ones", p.Shares, p.Sets, p.Slots, p.Leads)
	case p.Habits.negative():
		return fmt.Errorf("chaos: plan: %+v: give none or positive ones", p.Habits)
	case p.Linger < 0 || p.Retry < 0 || p.Retry > 0 && p.Retry < time.Millisecond:
		return fmt.Errorf("chaos: plan: linger %d, retry %v: give none or positive ones, a retry of at least %v", p.Linger, p.Retry, time.Millisecond)
	case p.Lease <= 0 || p.For <= 0 || p.MaxTTL < p.Lease:
		return fmt.Errorf("chaos: plan: a lease of %v, a length of %v, a MaxTTL of %v: give positive ones, MaxTTL the larger", p.Lease, p.For, p.MaxTTL)
	}
	return nil
}

// Play runs the plan with clients of one kit on a stage, records what happens,
// and waits until all has ended and every lease has run out. In a
// testing/synctest bubble the time is virtual. It returns what was recorded, and
// an error if the plan can't be played: not if a rule was broken.
func (p Plan) Play(stage Stage, kit Kit) ([]Record, error) {
	return p.play(stage, false, func(r *run, i int) error { return r.client(kit, i) })
}

// PlayWatched is Play with a witness: the trace has what each node stores and how it is,
// too, which a page draws ([Stored], [Turned]). On a virtual stage all else happens as it
// does without.
func (p Plan) PlayWatched(stage Stage, kit Kit) ([]Record, error) {
	return p.play(stage, true, func(r *run, i int) error { return r.client(kit, i) })
}

// play runs the plan with clients that live as client says.
func (p Plan) play(stage Stage, watched bool, client func(r *run, i int) error) ([]Record, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := found(stage, p.MaxTTL); err != nil {
		return nil, err
	}
	r := &run{plan: p, stage: stage, history: NewHistory(), guard: &fencing.Memory{}}
	r.history.lines = newLines(stage, r.history)
	r.history.senders = newSenders(r.history)
	if watched {
		rest, err := witnessed(stage, r.history)
		if err != nil {
			return nil, err
		}
		defer rest()
	}
	stop := observe(stage, r.history, p.shortest())
	var (
		work sync.WaitGroup
		errs = make([]error, p.Clients+1)
	)
	for i := range p.Clients {
		work.Go(func() { errs[i] = client(r, i) })
	}
	work.Go(func() { errs[p.Clients] = r.breakAndMend() })
	work.Wait()
	stop(true)
	return r.history.Records(), errors.Join(errs...)
}

// witnessed has a witness follow the history, aside of all clients where that can be.
func witnessed(stage Stage, history *History) (func(), error) {
	if v, ok := stage.(*virtual); ok {
		return attest(stage, history, v.connectAside)
	}
	return attest(stage, history, stage.Connect)
}

// foundFor bounds the founding of a cluster: machines that are busy need a few
// attempts.
const foundFor = 20 * time.Second

// found makes the nodes a cluster that votes, as an operator would.
func found(stage Stage, maxTTL time.Duration) error {
	clients, err := stage.Connect("founder")
	if err != nil {
		return err
	}
	locker, err := redlock.New(clients, redlock.WithNodeNames(stage.Names()...), redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
	if err != nil {
		return fmt.Errorf("chaos: found the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), foundFor)
	defer cancel()
	for err = locker.Cluster().Admit(ctx); err != nil && ctx.Err() == nil; err = locker.Cluster().Admit(ctx) {
		time.Sleep(askEvery)
	}
	return errors.Join(err, locker.Close())
}

// run is a plan that is played.
type run struct {
	plan    Plan
	stage   Stage
	history *History
	guard   *fencing.Memory
}

// turn is a point in time when the driver of faults does something.
type turn struct {
	at time.Duration
	do func() error
}

// breakAndMend carries the faults out. What is broken at the end is mended, and
// then it waits until every lease has run out.
func (r *run) breakAndMend() error {
	var turns []turn
	for _, f := range r.plan.Faults {
		turns = append(turns, turn{f.At, func() error {
			r.history.Add(f.record(Broke, r.stage))
			return r.stage.Break(f)
		}})
		if f.Kind.lasts() {
			turns = append(turns, turn{min(f.At+f.For, max(r.plan.For, f.At)), func() error {
				r.history.Add(f.record(Mended, r.stage))
				return r.stage.Mend(f)
			}})
		}
	}
	for _, s := range r.plan.quorumHealth() {
		turns = append(turns, turn{s.at, func() error {
			r.history.Add(Record{Kind: s.kind})
			return nil
		}})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	for _, t := range turns {
		time.Sleep(t.at - r.history.Now())
		if err := t.do(); err != nil {
			return err
		}
	}
	time.Sleep(max(r.plan.For, r.history.Now()) + 2*r.plan.Lease + r.plan.recovery() - r.history.Now())
	return nil
}

// client is the life of one client: it wants something, insists, works, gives it
// back, over and over; and at times its library is closed and opened again.
func (r *run) client(kit Kit, i int) (err error) {
	random := rand.New(rand.NewPCG(r.plan.Seed, uint64(i)+1)) //nolint:gosec // i is small
	time.Sleep(spread(random, clientsBegin))
	a, err := NewActor(clientName(i), kit, r.stage, r.history, r.guard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlessUnconfirmed(a.Close())) }()
	for {
		ends := r.plan.lifeEnds(random, r.history.Now())
		if r.plan.Waits {
			r.waiters(a, i, ends)
		} else {
			r.asks(a, i, ends, random)
		}
		if ends == r.plan.For {
			return nil
		}
		if err := unlessUnconfirmed(a.Close()); err != nil {
			return err
		}
		if a, err = a.reopened(kit); err != nil {
			return err
		}
	}
}

// asks is the life of a client that asks again and again.
func (r *run) asks(a *Actor, i int, ends time.Duration, random *rand.Rand) {
	ctx, cancel := r.while(i, 0, ends)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(spread(random, time.Second))
		if r.plan.seldom(random, r.plan.Bursts) {
			r.burst(ctx, a, random)
			continue
		}
		w, lease := r.plan.onTerms(random, r.plan.want(random)), r.plan.lease(random)
		t, err := a.InsistOn(ctx, w, lease, func() time.Duration { return r.plan.pause(random) })
		if err == nil {
			r.plan.work(ctx, random, t)
		}
	}
}

// while is up to a point in time, for one goroutine of a client: not all end at one
// moment.
func (r *run) while(client, thread int, ends time.Duration) (context.Context, context.CancelFunc) {
	own := time.Duration(1 + client + thread*r.plan.Clients)
	return context.WithTimeout(context.Background(), ends-r.history.Now()+own)
}

// pause draws the pause between two attempts.
func (p *Plan) pause(random *rand.Rand) time.Duration {
	retry := cmp.Or(p.Retry, planRetry)
	return retry/7 + spread(random, retry*6/7)
}

// unlessUnconfirmed drops the error of a close that could not release all: nodes may be
// broken, and what it left is in the trace.
func unlessUnconfirmed(err error) error {
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrNoQuorum) || strings.Contains(err.Error(), "close: not released")) {
		return nil
	}
	return err
}

// name draws a resource: half the load is on the first.
func (p *Plan) name(random *rand.Rand) string {
	n := 0
	if random.IntN(2) == 0 {
		n = random.IntN(p.Names)
	}
	return fmt.Sprintf("name-%d", n)
}

// largestSet is how many names a set of a plan has at most.
const largestSet = 3

// want draws what a client asks for: a resource, at times more, at times to share.
func (p *Plan) want(random *rand.Rand) Want {
	w := Want{Resources: []string{p.name(random)}}
	if p.Shares > 0 {
		w.Shared = random.IntN(p.Shares) == 0
	}
	if p.Sets > 0 && p.Renews && random.IntN(p.Sets) == 0 {
		for range 1 + random.IntN(largestSet-1) {
			if name := p.name(random); !slices.Contains(w.Resources, name) {
				w.Resources = append(w.Resources, name)
			}
		}
	}
	return w
}

// work writes a few times, with pauses that are short as a rule, and at times
// longer than the lease.
func (p *Plan) work(ctx context.Context, random *rand.Rand, t *Tenure) {
	p.toil(ctx, random, t)
	p.stay(ctx, random, t)
	breathe(random)
	if ctx.Err() != nil && p.seldom(random, p.Reopens) {
		t.leaveToClose()
		return
	}
	_ = t.Release(ctx)
}

// toil is work without the release.
func (p *Plan) toil(ctx context.Context, random *rand.Rand, t *Tenure) {
	for range 1 + random.IntN(3) {
		pause := p.Lease / 40
		if random.IntN(cmp.Or(p.Linger, planLinger)) == 0 {
			pause = p.Lease * 3 / 2
		}
		time.Sleep(spread(random, pause))
		if random.IntN(4) == 0 {
			_ = t.Extend(ctx, p.lease(random)) // what comes of it is in the trace
			breathe(random)
		}
		if t.Write(ctx) != nil {
			return
		}
	}
}

// breathe is the time that a client's own code takes between two calls of its
// lock. Without it the second could begin at the very moment at which the first
// returned, while goroutines of the library still run for that one: which of them
// is first would follow from nothing.
func breathe(random *rand.Rand) { time.Sleep(spread(random, time.Millisecond)) }
