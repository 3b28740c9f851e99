package contenders

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

type scenario struct {
	name string
	what string // happens
	next string // what Next is measured from
	play func(p *play)
}

// The holder, the one who waits, the one who gives up, and what is the node of records of
// the servers.
const (
	first   = "A"
	second  = "B"
	third   = "C"
	servers = "servers"
)

const (
	// warmUp is how long a holder holds, and another one waits, before a fault.
	warmUp = 500 * time.Millisecond
	// outage is how long servers are down, or a holder stands still at least.
	outage = lease + time.Second
	// watchFor is how long the play watches after the fault has been mended.
	watchFor = 1500 * time.Millisecond
	// patience bounds the wait for the next holder.
	patience = 5 * lease
	// learnFor bounds the wait for a holder that has not learned yet: some libraries retry
	// before they tell.
	learnFor = 2 * lease
	// hungBound bounds the wait for a lock while a server hangs, and that for its release.
	hungBound = 10 * lease
	// settleFor lets a system come to rest after what was done to its servers: nodes that
	// forgot vote again, elections are over.
	settleFor = lease + time.Second
	// rounds is how often a hand-over is measured.
	rounds = 5
	// anHour is by how much clocks step, in seconds.
	anHour = 3600
)

var (
	errOneServer = fmt.Errorf("it has one server: %w", errors.ErrUnsupported)
	errNoReplica = fmt.Errorf("it has no replica here: %w", errors.ErrUnsupported)
)

// scenarios is all of them. Those that leave servers in another state come last.
var scenarios = []scenario{
	{"hand-over", "the holder gives up, and another one waits", "the release", playHandOver},
	{"pause", "the holder's process stands still (SIGSTOP) for longer than its lease", "the stop", playPause},
	{"holder-killed", "the holder's process is killed (SIGKILL)", "the kill", playHolderKilled},
	{"holder-cut", "nothing gets from the holder to the servers or back, and its connections stay open", "the cut", playHolderCut},
	{"given-up", "most servers stand still for two seconds, and meanwhile somebody asks for a free name and gives up", "when they go on", playGivenUp},
	{"hung-server", "the leading server stands still, or the first where none leads: it accepts connections and does not answer, and somebody asks for a free name", "the ask", playHungServer},
	{"one-server", "the leading server is killed, or the first where none leads, for four seconds", "the release, where the lock was kept; otherwise when the server is back, or the kill, if the next one held before", func(p *play) { p.outage(p.most()[:1]) }},
	{"majority", "more than half of the servers are killed for four seconds", "the same", playMajority},
	{"restart", "more than half of the servers are killed and started again at once", "the restart", playRestart},
	{"failover", "a replica of the first server lags, the lock is taken, the server is killed, and clients are led to the replica", "the kill, or the release, where the lock was kept", playFailover},
	{"clock-one", "the wall clock of one server of several steps ahead by an hour", "the step, or the release, where the lock was kept", playClockOne},
	{"clock", "the wall clocks of more than half of the servers step ahead by an hour", "the step", func(p *play) { p.stepClocks(p.most()) }},
}

// both brings in a holder and one who waits for it.
func (p *play) both() (a, b *actor) {
	a, b = p.enter(first, false), p.enter(second, false)
	p.hold(a)
	p.acquire(b, 2*patience)
	if p.spec.optimistic { // nobody waits: it is at work too
		p.await(b, 0, startBound, trace.Held)
	}
	p.pause(warmUp)
	return a, b
}

func (p *play) most() []*node {
	nodes, err := p.system.most(p.ctx)
	p.must(err)
	return nodes
}

func (p *play) several() {
	if len(p.system.nodes) == 1 {
		p.must(errOneServer)
	}
}

// next waits until the second has the lock, and notes how long it took. Where nobody was
// locked out, it is until its write.
func (p *play) next(b *actor, from time.Duration) {
	if !p.spec.optimistic {
		p.nextHold(b, from)
	} else if became, at := p.write(b); became == writeDone {
		p.o.Next = took(from, at)
	}
}

func (p *play) nextHold(b *actor, from time.Duration) {
	if r, ok := p.seen(b, from, patience, trace.Held); ok {
		p.o.Next = took(from, r.At)
	}
}

// took is a time that is not 0: 0 stands for what did not come about.
func took(from, to time.Duration) time.Duration { return max(to-from, time.Microsecond) }

// close waits for the holder to learn of its loss, from learns on, and asks it at the end.
func (p *play) close(a *actor, learns time.Duration) {
	if p.spec.optimistic {
		p.o.Write, _ = p.write(a) // after the second one did
		return
	}
	p.seen(a, learns, learnFor, trace.Told)
	from := monotonic()
	p.do(a, command{Do: doAsk})
	r, _ := p.seen(a, from, 2*callBound, answered)
	p.o.Answer = r.Text
}

func (p *play) repeated(times []time.Duration) {
	slices.Sort(times)
	p.o.Next = times[len(times)/2]
	p.o.judge(p.trace(), "", 0)
}

func playHandOver(p *play) {
	a, b := p.both()
	if p.spec.optimistic {
		p.takeTurns(a, b)
		return
	}
	var times []time.Duration
	for i := range rounds {
		p.pause(warmUp / 2)
		from := p.release(a)
		if i == 0 {
			p.o.zero = from
		}
		times = append(times, p.await(b, from, patience, trace.Held).At-from)
		p.acquire(a, patience)
		a, b = b, a
	}
	p.repeated(times)
}

func playPause(p *play) {
	a, b := p.both()
	p.o.zero = p.signal(a, syscall.SIGSTOP, trace.Broke)
	p.outlast(b)
	on := p.signal(a, syscall.SIGCONT, trace.Mended)
	p.pause(watchFor)
	p.close(a, on)
	p.o.judge(p.trace(), a.who, on)
	p.o.Late = p.o.Two > 0 // a process that stands still does nothing
}

// outlast waits for the next one, and for longer than the lease in any case.
func (p *play) outlast(b *actor) {
	p.next(b, p.o.zero)
	p.pause(outage - (monotonic() - p.o.zero))
	p.pause(warmUp)
}

func playHolderKilled(p *play) {
	a, b := p.both()
	p.o.zero = p.signal(a, syscall.SIGKILL, trace.Broke)
	p.next(b, p.o.zero)
	p.pause(warmUp) // for the picture
	p.o.judge(p.trace(), "", 0)
}

func playHolderCut(p *play) {
	a, b := p.both()
	p.o.zero = p.note(trace.Broke, a.who, trace.Cut)
	for _, proxy := range a.proxies {
		proxy.Hold(tcpproxy.Both)
	}
	p.outlast(b)
	p.note(trace.Mended, a.who, trace.Cut)
	for _, proxy := range a.proxies {
		p.must(proxy.Heal())
	}
	p.pause(watchFor)
	p.close(a, p.o.zero)
	p.o.judge(p.trace(), a.who, p.o.zero)
}

// playGivenUp looks for what an attempt leaves behind that was given up.
func playGivenUp(p *play) {
	c, b := p.enter(third, false), p.enter(second, false)
	nodes := p.most()
	for _, n := range nodes {
		p.must(n.hang())
	}
	p.note(trace.Broke, "", trace.Stall)
	p.acquire(c, time.Second)
	p.pause(2 * time.Second)
	for _, n := range nodes {
		p.must(n.wake())
	}
	p.o.zero = p.note(trace.Mended, "", trace.Stall)
	if p.await(c, 0, patience, trace.Quit, trace.Held).Kind == trace.Held {
		p.must(errors.New("the call did not end with its context, and got the lock when the servers went on"))
	}
	p.acquire(b, patience)
	p.nextHold(b, p.o.zero)
	p.pause(warmUp) // for the picture
	p.o.judge(p.trace(), "", 0)
}

// playHungServer has two ask, each for a name of its own: one as in the other scenarios,
// and one with library and client as they come, where these differ.
func playHungServer(p *play) {
	p.several()
	hung := p.most()[0]
	b := p.enter(second, false)
	var both sync.WaitGroup
	defer both.Wait()
	var plain *actor
	if p.spec.plain != nil {
		plain = p.enter(third, true)
	}
	p.pause(warmUp)
	p.must(hung.hang())
	p.o.zero = p.note(trace.Broke, "", trace.Stall)
	if plain != nil {
		both.Go(func() { p.o.Plain = p.roundTrip(plain, p.name+"-plain") })
	}
	p.o.Trip = p.roundTrip(b, p.name)
	p.o.Next = p.o.Trip.Taken
	both.Wait()
	p.note(trace.Mended, "", trace.Stall)
	p.must(hung.wake())
}

func (p *play) roundTrip(a *actor, name string) *trip {
	from := monotonic()
	p.do(a, command{doAcquire, name, hungBound})
	asked := p.await(a, from, patience, trace.Asked)
	got, ok := p.seen(a, from, hungBound+callBound, trace.Held, trace.Quit)
	if !ok || got.Kind == trace.Quit {
		return &trip{}
	}
	p.do(a, command{Do: doRelease, Bound: hungBound})
	begun := p.await(a, from, patience, trace.Released)
	ended := p.await(a, from, hungBound+callBound, returned)
	return &trip{took(asked.At, got.At), took(begun.At, ended.At)}
}

func playMajority(p *play) {
	p.several()
	p.outage(p.most())
}

// outage kills nodes for longer than a lease. If most are left and the holder has the lock
// all the same, it gives up while they are down, and Next is from there; otherwise it is from when
// the servers are back, or from the kill, where the next one has it before.
func (p *play) outage(nodes []*node) {
	a, b := p.both()
	p.o.zero = p.down(nodes)
	p.pause(outage)
	if len(nodes) < p.system.majority() && p.holdsNow(a) {
		p.giveUp(a, b)
		p.up(nodes)
		p.o.judge(p.trace(), a.who, p.o.zero)
		return
	}
	back := p.up(nodes)
	if r, ok := p.seen(b, p.o.zero, 0, trace.Held); ok && r.At < back {
		back = p.o.zero
	}
	p.aftermath(a, b, back)
}

func (p *play) giveUp(a, b *actor) {
	p.o.Kept = true
	p.next(b, p.release(a))
}

func (p *play) holdsNow(a *actor) bool {
	_, ok := p.seen(a, monotonic(), 50*lookEvery, trace.Extended)
	return ok
}

func playRestart(p *play) {
	nodes := p.most()
	a, b := p.both()
	p.o.zero = p.down(nodes)
	p.up(nodes)
	p.aftermath(a, b, p.o.zero)
}

// playFailover: what a lagging replica has not seen is not there after its promotion.
func playFailover(p *play) {
	if !p.system.kind.redis {
		p.must(errNoReplica)
	}
	old := p.system.nodes[0]
	line, err := tcpproxy.New(old.addr) // between the node and its replica
	p.must(err)
	defer line.Close()
	replica, err := p.system.follow(p.ctx, line.Addr())
	p.must(err)
	p.pause(settleFor) // a master that has its first replica may have to abstain
	line.Hold(tcpproxy.Both)
	a, b := p.both()
	p.o.zero = p.down([]*node{old})
	line.Close()
	p.must(replica.promote(p.ctx))
	for _, proxy := range p.before[old] {
		proxy.Aim(replica.addr)
		p.must(proxy.Heal())
	}
	p.system.nodes[0] = replica
	p.note(trace.Mended, "", trace.Crash)
	p.aftermath(a, b, p.o.zero)
}

// playClockOne steps the clock of a server that is not among most: the next scenario finds
// those as they were.
func playClockOne(p *play) {
	p.several()
	p.stepClocks(p.system.nodes[len(p.system.nodes)-1:])
}

func (p *play) stepClocks(nodes []*node) {
	for _, n := range nodes { // to what they are: can they be set at all?
		p.must(n.step(0))
	}
	a, b := p.both()
	p.o.zero = p.note(trace.Broke, "", trace.Step)
	for _, n := range nodes {
		p.must(n.step(anHour))
	}
	p.aftermath(a, b, p.o.zero)
}

// aftermath watches for longer than a lease who has the lock. A holder that still has it
// gives up; where nobody was locked out, both write.
func (p *play) aftermath(a, b *actor, from time.Duration) {
	if p.spec.optimistic {
		p.next(b, from)
		p.pause(watchFor) // for the picture
		p.close(a, from)
	} else {
		p.pause(outage)
		if _, taken := p.seen(b, p.o.zero, 0, trace.Held); !taken && p.holdsNow(a) {
			p.giveUp(a, b)
		} else {
			p.next(b, from)
			p.close(a, p.o.zero)
		}
	}
	p.o.judge(p.trace(), a.who, p.o.zero)
}

const (
	writeDone    = "accepted"
	writeRefused = "refused"
)

// write has one who is at work write. The time is that of the answer.
func (p *play) write(a *actor) (became string, at time.Duration) {
	from := monotonic()
	p.do(a, command{Do: doRelease, Bound: patience})
	r := p.await(a, from, patience+callBound, returned)
	return cmp.Or(r.Text, writeDone), r.At
}

// takeTurns is the hand-over where nobody is locked out: one writes, the other one's write
// is late, and it begins again. Next is from the first write to that.
func (p *play) takeTurns(a, b *actor) {
	var times []time.Duration
	p.o.Write = writeRefused
	for i := range rounds {
		p.pause(warmUp / 2)
		from := monotonic()
		became, at := p.write(a)
		if became != writeDone {
			p.must(errors.New("the first write: " + became))
		}
		if i == 0 {
			p.o.zero = at
		}
		if became, _ = p.write(b); became != writeRefused {
			p.o.Write = became
		}
		times = append(times, p.hold(b).At-from)
		p.hold(a) // beside it
		a, b = b, a
	}
	p.repeated(times)
}
