package contenders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// holderEnv has the part of a holder, in JSON: this program runs itself with it.
const holderEnv = "REDLOCK_CONTENDERS_HOLDER"

// lookEvery is how often a holder looks whether it still believes.
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

// What holders do.
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
	i := slices.IndexFunc(field, func(s spec) bool { return s.name == p.Contender })
	if i < 0 {
		return fmt.Errorf("no contender %q", p.Contender)
	}
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
		h.obey(ctx, c)
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

// say writes a record of now.
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

func (h *holder) obey(ctx context.Context, c command) {
	switch {
	case c.Do == doAcquire:
		h.acquire(ctx, c)
	case h.lock == nil:
		h.say(trace.Noted, "there is no lock to "+c.Do)
	case c.Do == doRelease:
		h.release(ctx, c)
	case c.Do == doAsk:
		h.ask(ctx)
	default:
		h.say(trace.Noted, "no such command: "+c.Do)
	}
}

// acquire asks until it has the lock: again, where the library gives up by itself.
func (h *holder) acquire(ctx context.Context, c command) {
	ctx, cancel := context.WithTimeout(ctx, c.Bound)
	defer cancel()
	h.say(trace.Asked, "")
	var last error
	for ctx.Err() == nil {
		l, err := h.take(ctx, c.Name)
		if err == nil {
			h.hold(l)
			return
		}
		last = err
		_ = wait(ctx, 2*lookEvery) // the loop looks whether ctx is done
	}
	h.say(trace.Quit, oneLine(last))
}

// hold watches a lock until it is lost or released.
func (h *holder) hold(l *lock) {
	h.write(record{At: monotonic(), Kind: trace.Held, Token: l.fence})
	ctx, cancel := context.WithCancel(context.Background())
	h.lock, h.halt = l, cancel
	h.watch.Go(func() { h.look(ctx, l) })
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
	switch {
	case err != nil:
		h.say(answered, "error: "+oneLine(err))
	case is:
		h.say(answered, "held")
	default:
		h.say(answered, "lost")
	}
}

func oneLine(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
