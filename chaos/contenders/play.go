package contenders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumkit/redlock/internal/lab/process"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// record is a line of a trace, by CLOCK_MONOTONIC, which processes of a machine share. An
// Extended one is a look at which the holder believed, and the Text of one that is Told says
// by whom.
type record = trace.Record

// What the records of holders tell beside what those of other traces do.
const (
	ready    trace.Kind = "ready"
	answered trace.Kind = "answered" // what the servers said when it asked whether it still holds
	returned trace.Kind = "returned" // a call to release did
)

func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("contenders: CLOCK_MONOTONIC: %v", err)) // every system that has SIGSTOP has it
	}
	return time.Duration(t.Nano())
}

// play is one scenario with one contender: its servers, its holders, its trace, and what
// it showed. Its first error ends it, as FailNow ends a test.
type play struct {
	ctx    context.Context //nolint:containedctx // a play is one call
	spec   spec
	system *system
	name   string // the lock's
	o      *outcome
	actors []*actor
	before map[*node][]*tcpproxy.Proxy

	mu      sync.Mutex // guards the rest
	err     error
	records []record
	heard   chan struct{} // closed at the next record
}

func (p *play) run(scenario func(p *play)) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.leave()
		scenario(p)
	}()
	<-done
	return p.err
}

// must ends the goroutine of the play with an error, if it is one.
func (p *play) must(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	p.err = cmp.Or(p.err, err)
	p.mu.Unlock()
	runtime.Goexit()
}

// note writes that something breaks or is mended: of the servers, where who is empty.
func (p *play) note(kind trace.Kind, who string, what trace.Break) time.Duration {
	f := trace.Fault{Kind: what, Client: who}
	if who != "" {
		f.Node = trace.Everything
	}
	if what == trace.Step {
		f.Delay = anHour * time.Second
	}
	r := f.Record(kind, []string{servers})
	r.At, r.Client = monotonic(), who
	p.add(r)
	return r.At
}

func (p *play) add(r record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
	close(p.heard)
	p.heard = make(chan struct{})
}

func (p *play) trace() []record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.records)
}

// seen returns the first record of a holder that is one of these, not before from, and
// waits for it for so long. That there is none is no error.
func (p *play) seen(a *actor, from time.Duration, bound time.Duration, what ...trace.Kind) (record, bool) {
	ctx, cancel := context.WithTimeout(p.ctx, bound)
	defer cancel()
	for {
		p.mu.Lock()
		records, heard := p.records, p.heard
		p.mu.Unlock()
		for _, r := range records {
			if r.Client == a.who && r.At >= from && slices.Contains(what, r.Kind) {
				return r, true
			}
		}
		select {
		case <-heard:
		case <-ctx.Done():
			p.must(p.ctx.Err())
			return record{}, false
		}
	}
}

func (p *play) await(a *actor, from time.Duration, bound time.Duration, what ...trace.Kind) record {
	r, ok := p.seen(a, from, bound, what...)
	if !ok {
		p.must(fmt.Errorf("%s: %s within %v: it did not come about", a.who, what, bound))
	}
	return r
}

func (p *play) pause(d time.Duration) { p.must(wait(p.ctx, d)) }

// actor is a holder: its process, and the proxies between it and the servers.
type actor struct {
	who     string
	cmd     *exec.Cmd // nil: it was not started
	in      *json.Encoder
	proxies []*tcpproxy.Proxy
	read    chan struct{} // closed when all that it wrote has been read
}

// enter starts a holder. A plain one has library and client as they come.
func (p *play) enter(who string, plain bool) *actor {
	a := &actor{who: who, read: make(chan struct{})}
	p.actors = append(p.actors, a)
	is := part{Contender: p.spec.name, Who: who, Plain: plain}
	for _, n := range p.system.nodes {
		proxy, err := tcpproxy.New(n.addr)
		p.must(err)
		a.proxies, p.before[n] = append(a.proxies, proxy), append(p.before[n], proxy)
		is.Addrs = append(is.Addrs, proxy.Addr())
	}
	program, err := os.Executable()
	p.must(err)
	args := []string{program}
	if p.spec.holder != nil {
		args = p.spec.holder(p.system)
	}
	p.must(a.start(args, is, p.add))
	p.await(a, 0, startBound, ready)
	return a
}

func (a *actor) start(program []string, is part, heard func(record)) error {
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	cmd := exec.Command(program[0], program[1:]...) //nolint:gosec,noctx // this program, or node; leave ends it
	cmd.Env = append(os.Environ(), holderEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	process.DieWithParent(cmd)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	a.cmd, a.in = cmd, json.NewEncoder(in)
	go func() {
		defer close(a.read)
		lines := json.NewDecoder(out)
		for {
			var r record
			if lines.Decode(&r) != nil { // at the end; the last line of one that was killed may be half
				return
			}
			heard(r)
		}
	}()
	return nil
}

func (p *play) do(a *actor, c command) { p.must(a.in.Encode(c)) }

func (p *play) acquire(a *actor, bound time.Duration) { p.do(a, command{doAcquire, p.name, bound}) }

func (p *play) hold(a *actor) record {
	from := monotonic()
	p.acquire(a, startBound)
	return p.await(a, from, startBound, trace.Held)
}

// release gives the lock back, and returns when its call began.
func (p *play) release(a *actor) time.Duration {
	from := monotonic()
	p.do(a, command{Do: doRelease})
	return p.await(a, from, patience, trace.Released).At
}

// signal stops, continues or kills a holder's process, and writes what was done: for
// a stop the moment after it, for the others the moment before.
func (p *play) signal(a *actor, sig syscall.Signal, kind trace.Kind) (at time.Duration) {
	if sig != syscall.SIGSTOP {
		at = p.note(kind, a.who, trace.Suspend)
	}
	p.must(a.cmd.Process.Signal(sig))
	if sig == syscall.SIGSTOP {
		at = p.note(kind, a.who, trace.Suspend)
	}
	return at
}

func (p *play) down(nodes []*node) time.Duration {
	at := p.note(trace.Broke, "", trace.Crash)
	for _, n := range nodes {
		p.must(n.kill())
		for _, proxy := range p.before[n] {
			proxy.Refuse()
		}
	}
	return at
}

func (p *play) up(nodes []*node) time.Duration {
	for _, n := range nodes {
		for _, proxy := range p.before[n] {
			p.must(proxy.Heal())
		}
	}
	at := p.note(trace.Mended, "", trace.Crash)
	p.must(p.system.up(p.ctx, nodes))
	return at
}

// leave ends all holders, and wakes the servers that a play which failed left hung.
func (p *play) leave() {
	for _, n := range p.system.nodes {
		_ = n.wake() // it may have ended
	}
	for _, a := range p.actors {
		if a.cmd != nil {
			_ = a.cmd.Process.Kill() // it may have ended
			<-a.read
			_ = a.cmd.Wait() // it was killed
		}
		for _, proxy := range a.proxies {
			proxy.Close()
		}
	}
}
