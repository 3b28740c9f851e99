package contenders

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// play is one scenario with one contender: its servers, its holders, and the trace.
type play struct {
	spec   spec
	system *system
	name   string // the lock's

	mu      sync.Mutex // guards records and heard
	records []record
	heard   chan struct{} // closed at the next record

	actors []*actor
}

func newPlay(s spec, system *system, name string) *play {
	return &play{spec: s, system: system, name: name, heard: make(chan struct{})}
}

// note writes a record of the play itself.
func (p *play) note(who, what string) int64 {
	r := record{At: monotonic(), Who: who, What: what}
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

// find returns the first record of who that is one of these, not before from. The
// channel is closed when there is another record.
func (p *play) find(who string, from int64, what ...string) (record, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.records {
		if r.Who != who || r.At < from {
			continue
		}
		for _, w := range what {
			if r.What == w {
				return r, true, nil
			}
		}
	}
	return record{}, false, p.heard
}

// errNotSeen means that a record did not come in time.
var errNotSeen = errors.New("it did not come about")

// await waits for such a record.
func (p *play) await(ctx context.Context, who string, from int64, bound time.Duration, what ...string) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		r, ok, heard := p.find(who, from, what...)
		if ok {
			return r, nil
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return r, fmt.Errorf("%s: %s within %v: %w", who, strings.Join(what, " or "), bound, errNotSeen)
		}
	}
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// actor is a holder: its process, and the proxies between it and the servers.
type actor struct {
	who     string
	cmd     *exec.Cmd
	in      io.WriteCloser
	proxies []*chaos.Proxy
	read    chan struct{} // closed when all that it wrote has been read
}

// enter starts a holder, and waits until it is ready.
func (p *play) enter(ctx context.Context, who string) (*actor, error) {
	return p.enters(ctx, part{Contender: p.spec.name, Who: who})
}

// enterPlain starts one with library and client as they come.
func (p *play) enterPlain(ctx context.Context, who string) (*actor, error) {
	return p.enters(ctx, part{Contender: p.spec.name, Who: who, Plain: true})
}

func (p *play) enters(ctx context.Context, is part) (*actor, error) {
	a := &actor{who: is.Who, read: make(chan struct{})}
	p.actors = append(p.actors, a)
	for _, addr := range p.system.addrs() {
		proxy, err := chaos.NewProxy(addr)
		if err != nil {
			return nil, err
		}
		a.proxies = append(a.proxies, proxy)
		is.Addrs = append(is.Addrs, proxy.Addr())
	}
	program, err := p.program()
	if err == nil {
		err = a.start(program, is, p.add)
	}
	if err != nil {
		return nil, err
	}
	if _, err := p.await(ctx, is.Who, 0, startBound, ready); err != nil {
		return nil, err
	}
	return a, nil
}

// program is what a holder is a process of: this program, or another one.
func (p *play) program() ([]string, error) {
	if p.spec.holder != nil {
		return p.spec.holder(p.system), nil
	}
	self, err := os.Executable()
	return []string{self}, err
}

// start runs a program as a holder.
func (a *actor) start(program []string, is part, heard func(record)) error {
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	a.cmd = exec.Command(program[0], program[1:]...) //nolint:gosec,noctx // this program, or node; leave ends it
	a.cmd.Env = append(os.Environ(), holderEnv+"="+string(text))
	a.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(a.cmd.SysProcAttr)
	a.cmd.Stderr = os.Stderr
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := a.cmd.Start(); err != nil {
		a.cmd = nil
		return err
	}
	go func() {
		defer close(a.read)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var r record
			if json.Unmarshal(lines.Bytes(), &r) == nil { // the last line of one that was killed may be half
				heard(r)
			}
		}
	}()
	return nil
}

// do gives the holder its next command.
func (a *actor) do(what, name string, bound time.Duration) error {
	text, err := json.Marshal(command{what, name, bound})
	if err != nil {
		return err
	}
	_, err = a.in.Write(append(text, '\n'))
	return err
}

// acquire has the holder ask for the play's lock.
func (p *play) acquire(a *actor, bound time.Duration) error { return a.do(doAcquire, p.name, bound) }

// hold has it take the lock, which is free.
func (p *play) hold(ctx context.Context, a *actor) (record, error) {
	from := monotonic()
	if err := p.acquire(a, startBound); err != nil {
		return record{}, err
	}
	return p.await(ctx, a.who, from, startBound, acquired)
}

// signal stops, continues or kills a holder's process, and writes what was done: for
// a stop the moment after it, for the others the moment before.
func (p *play) signal(a *actor, sig syscall.Signal, what string) (int64, error) {
	if sig == syscall.SIGSTOP {
		err := a.cmd.Process.Signal(sig)
		return p.note(a.who, what), err
	}
	at := p.note(a.who, what)
	return at, a.cmd.Process.Signal(sig)
}

// leave ends all holders.
func (p *play) leave() {
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
	p.actors = nil
}

// cut holds back all that goes between the holder and the servers.
func (a *actor) cut() {
	for _, proxy := range a.proxies {
		proxy.Hold(chaos.Both)
	}
}

func (a *actor) heal() error {
	var errs []error
	for _, proxy := range a.proxies {
		errs = append(errs, proxy.Heal())
	}
	return errors.Join(errs...)
}

// before is the proxies before a node.
func (p *play) before(n node) []*chaos.Proxy {
	var found []*chaos.Proxy
	for i, other := range p.system.nodes {
		if other != n {
			continue
		}
		for _, a := range p.actors {
			found = append(found, a.proxies[i])
		}
	}
	return found
}
