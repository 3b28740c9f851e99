package contenders

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// servers is who records of the servers are of.
const servers = "servers"

// anHour is by how much clocks step, in seconds.
const anHour = 3600

// most is more than half of the nodes, the leading one first.
func (p *play) most(ctx context.Context) ([]node, error) {
	lead, err := p.system.first(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []node{p.system.nodes[lead]}
	for i, n := range p.system.nodes {
		if i != lead && len(nodes) < p.system.majority() {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// down kills nodes.
func (p *play) down(nodes []node) (int64, error) {
	at := p.note(servers, down)
	for _, n := range nodes {
		if err := n.kill(); err != nil {
			return at, err
		}
		for _, proxy := range p.before(n) {
			proxy.Refuse()
		}
	}
	return at, nil
}

// up starts them again, and waits until the system answers.
func (p *play) up(ctx context.Context, nodes []node) (int64, error) {
	for _, n := range nodes {
		for _, proxy := range p.before(n) {
			if err := proxy.Heal(); err != nil {
				return 0, err
			}
		}
	}
	at := p.note(servers, up)
	return at, p.system.up(ctx, nodes)
}

// playOneServer: a system goes on without one server, or it has no other.
func playOneServer(ctx context.Context, p *play, o *outcome) error {
	nodes, err := p.most(ctx)
	if err != nil {
		return err
	}
	return p.outage(ctx, o, nodes[:1])
}

func playMajority(ctx context.Context, p *play, o *outcome) error {
	nodes, err := p.most(ctx)
	if err != nil {
		return err
	}
	if len(nodes) == 1 {
		return errOneServer
	}
	return p.outage(ctx, o, nodes)
}

// outage kills nodes for longer than a lease. If most are left and the holder has the lock
// all the same, it gives up while they are down, and Next is from there; otherwise it is from when
// the servers are back, or from the kill, where the next one has it before.
func (p *play) outage(ctx context.Context, o *outcome, nodes []node) error {
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	at, err := p.down(nodes)
	if err != nil {
		return err
	}
	o.zero = at
	pause(ctx, outage)
	if len(nodes) < p.system.majority() && p.holdsNow(ctx, a) {
		o.Kept = true
		if err := p.giveUp(ctx, o, a, b); err != nil {
			return err
		}
		_, err := p.up(ctx, nodes)
		o.judge(p.trace(), a.who, at)
		return err
	}
	back, err := p.up(ctx, nodes)
	if err != nil {
		return err
	}
	if r, ok, _ := p.find(b.who, at, acquired); ok && r.At < back {
		back = at
	}
	return p.aftermath(ctx, o, a, b, back)
}

// giveUp has the holder release, and the next one take.
func (p *play) giveUp(ctx context.Context, o *outcome, a, b *actor) error {
	from := monotonic()
	if err := a.do(doRelease, "", 0); err != nil {
		return err
	}
	r, err := p.await(ctx, a.who, from, patience, releasing)
	if err != nil {
		return err
	}
	return p.next(ctx, o, b, r.At)
}

// holdsNow is whether a holder believes.
func (p *play) holdsNow(ctx context.Context, a *actor) bool {
	_, err := p.await(ctx, a.who, monotonic(), 50*lookEvery, holds)
	return err == nil
}

func playRestart(ctx context.Context, p *play, o *outcome) error {
	nodes, err := p.most(ctx)
	if err != nil {
		return err
	}
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	at, err := p.down(nodes)
	if err == nil {
		_, err = p.up(ctx, nodes)
	}
	if err != nil {
		return err
	}
	o.zero = at
	return p.aftermath(ctx, o, a, b, o.zero)
}

// playHungServer has two ask: one whose client is as in the other scenarios, and one
// with all options of library and client as they come, where these differ.
func playHungServer(ctx context.Context, p *play, o *outcome) error {
	nodes, err := p.most(ctx)
	if err != nil {
		return err
	}
	if len(p.system.nodes) == 1 {
		return errOneServer
	}
	b, err := p.enter(ctx, second)
	if err != nil {
		return err
	}
	var plain *actor
	if p.spec.plain != nil {
		if plain, err = p.enterPlain(ctx, third); err != nil {
			return err
		}
	}
	pause(ctx, warmUp)
	if err := nodes[0].hang(); err != nil {
		return err
	}
	o.zero = p.note(servers, stopped)
	var both sync.WaitGroup // at the same time, and each a name of its own
	var plainErr error
	if plain != nil {
		o.Plain = true
		both.Go(func() { o.PlainNext, o.PlainGivenBack, plainErr = p.roundTrip(ctx, plain, p.name+"-plain") })
	}
	o.Next, o.GivenBack, err = p.roundTrip(ctx, b, p.name)
	both.Wait()
	err = errors.Join(err, plainErr)
	p.note(servers, continued)
	if err := errors.Join(err, nodes[0].wake()); err != nil {
		return err
	}
	o.records = p.trace() // two names, and nobody to judge
	return nil
}

// hungBound bounds the wait for a lock while a server hangs, and that for its release.
const hungBound = 10 * lease

// roundTrip is how long a holder takes to get the lock, and to give it back; 0 for what
// did not come about within hungBound.
func (p *play) roundTrip(ctx context.Context, a *actor, name string) (taken, back time.Duration, err error) {
	from := monotonic()
	if err := a.do(doAcquire, name, hungBound); err != nil {
		return 0, 0, err
	}
	asked, err := p.await(ctx, a.who, from, patience, asking)
	if err != nil {
		return 0, 0, err
	}
	got, err := p.await(ctx, a.who, from, hungBound+callBound, acquired, gaveUp)
	if errors.Is(err, errNotSeen) || err == nil && got.What == gaveUp {
		return 0, 0, nil // that is the result
	}
	if err != nil {
		return 0, 0, err
	}
	if err := a.do(doRelease, "", hungBound); err != nil {
		return 0, 0, err
	}
	begun, err1 := p.await(ctx, a.who, from, patience, releasing)
	ended, err2 := p.await(ctx, a.who, from, hungBound+callBound, released)
	return max(between(asked.At, got.At), time.Microsecond), max(between(begun.At, ended.At), time.Microsecond), errors.Join(err1, err2)
}

// playFailover: what a lagging replica has not seen is not there after its promotion.
func playFailover(ctx context.Context, p *play, o *outcome) error {
	n, ok := p.system.nodes[0].(followed)
	if !ok {
		return errNoReplica
	}
	r, err := n.follow(ctx)
	if err != nil {
		return err
	}
	defer r.leave()
	settle(ctx) // a master that has its first replica may have to abstain
	r.lag()
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	if o.zero, err = p.down([]node{n}); err != nil {
		return err
	}
	if err := r.promote(ctx); err != nil {
		return err
	}
	for _, proxy := range p.before(n) {
		proxy.Aim(n.addr())
		if err := proxy.Heal(); err != nil {
			return err
		}
	}
	p.note(servers, up)
	return p.aftermath(ctx, o, a, b, o.zero)
}

// playClockOne steps the clock of a server that is not among most: playClock finds those
// as they were.
func playClockOne(ctx context.Context, p *play, o *outcome) error {
	if len(p.system.nodes) == 1 {
		return errOneServer
	}
	return p.stepClocks(ctx, o, p.system.nodes[len(p.system.nodes)-1:])
}

// playClock steps the clocks of most servers.
func playClock(ctx context.Context, p *play, o *outcome) error {
	nodes, err := p.most(ctx)
	if err != nil {
		return err
	}
	return p.stepClocks(ctx, o, nodes)
}

func (p *play) stepClocks(ctx context.Context, o *outcome, nodes []node) error {
	for _, n := range nodes { // to what they are: can they be set at all?
		if err := n.step(0); err != nil {
			return err
		}
	}
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	o.zero = p.note(servers, stepped)
	for _, n := range nodes {
		if err := n.step(anHour); err != nil {
			return err
		}
	}
	return p.aftermath(ctx, o, a, b, o.zero)
}

// aftermath watches for longer than a lease who has the lock, and whether the holder
// knows. If it is still the holder's, it gives up.
func (p *play) aftermath(ctx context.Context, o *outcome, a, b *actor, from int64) error {
	if p.spec.optimistic {
		return p.bothWrite(ctx, o, a, b, from)
	}
	pause(ctx, outage)
	if _, taken, _ := p.find(b.who, o.zero, acquired); !taken && p.holdsNow(ctx, a) {
		o.Kept = true
		if err := p.giveUp(ctx, o, a, b); err != nil {
			return err
		}
	} else if err := errors.Join(p.next(ctx, o, b, from), p.close(ctx, o, a, o.zero)); err != nil {
		return err
	}
	o.judge(p.trace(), a.who, o.zero)
	return nil
}

// trace is the records up to now.
func (p *play) trace() []record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.records)
}

// settle lets a system come to rest after what was done to its servers: nodes that
// forgot vote again, elections are over.
func settle(ctx context.Context) { pause(ctx, lease+time.Second) }
