package contenders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// opener makes one process's end of a contender. It is closed with the process.
type opener func(ctx context.Context, addrs []string) (acquirer, error)

// acquirer waits until it has the lock on name, or until ctx is done.
type acquirer func(ctx context.Context, name string) (*lock, error)

const pollEvery = 100 * time.Millisecond

// lock is a hold, as its holder sees it.
type lock struct {
	told    <-chan struct{}                         // closed when the holder is told of its loss; nil: nobody ever does
	teller  string                                  // who tells
	sure    func() bool                             // false: what the holder knows by itself says that the lock is lost; nil: it knows nothing
	by      string                                  // who says so then
	ask     func(ctx context.Context) (bool, error) // asks the servers, where nobody tells and the holder knows nothing
	fence   redlock.Token                           // greater than that of every earlier hold; 0 if there is none
	release func(ctx context.Context) error
}

// held is what the holder may believe by itself, and who says so where it may not.
func (l *lock) held() (bool, string) {
	select {
	case <-l.told:
		return false, l.teller
	default:
		return l.sure == nil || l.sure(), l.by
	}
}

const (
	byLibrary = "library"   // unasked: a channel closes, a context ends, a state changes
	byCount   = "own count" // the holder's own code, which counts the lease
	byRenewal = "renewal"   // the renewal that the holder's own code sent
	bySession = "session"   // the connection or session that the lock lives by
	byWrite   = "its write" // the write of its work, which was refused
)

// errNotHeld means that a renewal found the lock with nobody, or with somebody else.
var errNotHeld = errors.New("the lock is not held any more")

// errLate means that a write was refused: somebody else wrote since the work began.
var errLate = errors.New(writeRefused)

// renewal is the holder's own code around a lock that somebody must renew: it sends a
// renewal each third of the lease, counts the lease from when the last one was sent
// that succeeded, and stops believing at the end.
type renewal struct {
	until atomic.Int64 // by monotonic
	over  atomic.Bool  // at some look it was
	f     func(ctx context.Context) error
}

// renewed is a lock that was asked for at sent, and is renewed by f. A renewal that fails
// with an error that is errNotHeld is the end, of which who tells; after any other it is
// tried again. The release comes after the last renewal: to break that off would break the
// session that some locks live by.
func renewed(sent time.Duration, who string, f, release func(ctx context.Context) error) *lock {
	ctx, stop := context.WithCancel(context.Background())
	r, lost, done := &renewal{f: f}, make(chan struct{}), make(chan struct{})
	r.until.Store(int64(sent + countedLease))
	go func() {
		defer close(done)
		for tick := time.Tick(lease / 3); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			if again, err := r.send(); errors.Is(err, errNotHeld) {
				close(lost)
				return
			} else if !again {
				return
			}
		}
	}()
	return &lock{told: lost, teller: who, sure: r.sure, by: byCount, release: func(ctx context.Context) error {
		stop()
		<-done
		return release(ctx)
	}}
}

// send sends a renewal. None follows one that succeeds when the lease is over: it is ours
// again, to nobody's use.
func (r *renewal) send() (again bool, err error) {
	over, sent := r.over.Load(), monotonic()
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	if err = r.f(ctx); err == nil {
		r.until.Store(int64(sent + countedLease))
	}
	return err != nil || !over, err
}

func (r *renewal) sure() bool {
	if monotonic() >= time.Duration(r.until.Load()) {
		r.over.Store(true)
	}
	return !r.over.Load()
}

// poll tries until it has a lock: again after pollEvery while somebody else has it. It
// returns when the attempt was sent that won.
func poll[T any](ctx context.Context, try func() (got T, taken bool, err error)) (T, time.Duration, error) {
	for {
		sent := monotonic()
		got, taken, err := try()
		if !taken {
			return got, sent, err
		}
		if err := wait(ctx, pollEvery); err != nil {
			return got, 0, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet is the logger of clients: what a holder is told is in its records.
var quiet = log.New(io.Discard, "", 0)

// holderEnv names the variable with a holder's part, in JSON: this program runs itself with it.
const holderEnv = "REDLOCK_CONTENDERS_HOLDER"

const lookEvery = 10 * time.Millisecond

// callBound bounds each question, and each release that has no bound of its own.
const callBound = 5 * time.Second

type part struct {
	Contender string
	Who       string
	Addrs     []string
	Plain     bool // library and client as they come
}

type command struct {
	Do    string
	Name  string
	Bound time.Duration // of an acquire or a release; 0: callBound
}

const (
	doAcquire = "acquire"
	doRelease = "release"
	doAsk     = "ask"
)

type holder struct {
	who   string
	take  acquirer
	lock  *lock
	watch sync.WaitGroup
	halt  context.CancelFunc // ends the watch

	mu  sync.Mutex // guards out
	out *json.Encoder
}

// playHolder is the whole life of a holder: it is ready when it has taken and given
// back a lock of its own, so that its connections are open and its scripts loaded.
func playHolder(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	i := slices.IndexFunc(field, func(s spec) bool { return s.name == p.Contender }) // it is one: this program said so
	take, err := opened(ctx, field[i], p)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Contender, err)
	}
	h := &holder{who: p.Who, take: take, out: json.NewEncoder(out)}
	h.say(ready, "")
	lines := json.NewDecoder(in)
	for {
		var c command
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case c.Do == doAcquire:
			h.acquire(ctx, c)
		case h.lock == nil:
			h.say(trace.Noted, "there is no lock to "+c.Do)
		case c.Do == doRelease:
			h.release(ctx, c)
		case c.Do == doAsk:
			h.ask(ctx)
		}
	}
}

// opened is a client that has had a lock. On a machine that is busy with everything
// else the first calls may find their timeouts over: they are tried again.
func opened(ctx context.Context, s spec, p part) (take acquirer, err error) {
	open := s.open
	if p.Plain {
		open = s.plain
	}
	err = eventually(ctx, "open", func(context.Context) (err error) {
		take, err = open(ctx, p.Addrs)
		return err
	})
	if err != nil {
		return nil, err
	}
	return take, eventually(ctx, "take a first lock", func(context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*callBound)
		defer cancel()
		l, err := take(ctx, "warm-"+p.Who)
		if err != nil {
			return err
		}
		return l.release(ctx)
	})
}

func (h *holder) say(what trace.Kind, text string) {
	h.write(record{At: monotonic(), Kind: what, Text: text})
}

func (h *holder) write(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Client = h.who
	if err := h.out.Encode(r); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

// acquire asks until it has the lock: again, where the library gives up by itself.
func (h *holder) acquire(ctx context.Context, c command) {
	bounded, cancel := context.WithTimeout(ctx, c.Bound)
	defer cancel()
	h.say(trace.Asked, "")
	var last error
	for bounded.Err() == nil {
		l, err := h.take(bounded, c.Name)
		if err == nil {
			h.write(record{At: monotonic(), Kind: trace.Held, Token: l.fence})
			watched, halt := context.WithCancel(ctx)
			h.lock, h.halt = l, halt
			h.watch.Go(func() { h.look(watched, l) })
			return
		}
		last = err
		_ = wait(bounded, 2*lookEvery) // the loop looks whether it is over
	}
	h.say(trace.Quit, oneLine(last))
}

// look tells what the holder believes. A belief is dated before the look, not after:
// who holds at the look held then, and a process that is stopped between the two
// claims nothing that was not so.
func (h *holder) look(ctx context.Context, l *lock) {
	believed := true
	for tick := time.Tick(lookEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-l.told:
			h.say(trace.Told, l.teller)
			return
		case <-tick:
		}
		from := monotonic()
		believes, by := l.held()
		if believes {
			h.write(record{At: from, Kind: trace.Extended})
		} else if believed {
			h.say(trace.Told, by)
		}
		believed = believes
	}
}

func (h *holder) release(ctx context.Context, c command) {
	h.halt()
	h.watch.Wait()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Bound, callBound))
	defer cancel()
	h.say(trace.Released, "")
	err := h.lock.release(ctx)
	if errors.Is(err, errLate) {
		h.say(trace.Told, byWrite)
	}
	h.lock = nil
	h.say(returned, oneLine(err))
}

// ask says what the servers say; where there is no such call, what the library does.
func (h *holder) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	var err error
	is, _ := h.lock.held()
	if h.lock.ask != nil {
		is, err = h.lock.ask(ctx)
	}
	said := map[bool]string{true: "held", false: "lost"}[is]
	if err != nil {
		said = "error: " + oneLine(err)
	}
	h.say(answered, said)
}

func oneLine(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
