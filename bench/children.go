package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
)

// children are the parts that this program plays when it runs itself, by argument: a
// process of a workload is a process of the operating system, with a scheduler, sockets
// and a heap of its own.
var children = map[string]func(ctx context.Context, p *part, c *contender, parent *wire) error{
	tokensArg: tokensChild,
	crowdArg:  crowdChild,
	wakeArg:   wakeChild,
}

// part is the first message to a child: which library it opens over which addresses.
type part struct {
	Library    string
	Addrs      []string
	Names      []string // of the servers, where Addrs are of proxies
	Turns      int      // 0: as the library has it
	Name       string
	Goroutines int
}

var openers = map[string]opener{
	nameRedlock: openRedlock, nameRedsync: openRedsync, nameRueidis: openRueidis, nameOneKey: openRueidisOneKey,
}

// wire is a pipe each way between a child and its parent. Messages are JSON.
type wire struct {
	in  *json.Decoder
	out *json.Encoder
}

// playPart opens the part's library, says so, and lets the child play it.
func playPart(ctx context.Context, arg string) error {
	parent, p := &wire{json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)}, &part{}
	if err := parent.in.Decode(p); err != nil {
		return err
	}
	e := &env{addrs: p.Addrs}
	if p.Names != nil {
		e.options = append(e.options, redlock.WithNodeNames(p.Names...))
	}
	if p.Turns > 0 {
		e.options = append(e.options, redlock.WithTurns(p.Turns))
	}
	c, err := openers[p.Library](ctx, e)
	if err != nil {
		return err
	}
	defer c.close() //nolint:errcheck // keys that it leaves on a busy node lapse, and fail no measurement
	if _, err = pair(ctx, c, "warm:"+p.Name); err == nil {
		err = parent.out.Encode("ready")
	}
	if err != nil {
		return err
	}
	return children[arg](ctx, p, c, parent)
}

type child struct {
	wire
	end func() error // tells the child that nothing comes any more, and waits until it has gone
}

// startChildren runs this program n times in a part, and waits until they are ready.
func startChildren(ctx context.Context, arg string, n int, p part) (cs []*child, err error) {
	self, err := os.Executable()
	for i := 0; i < n && err == nil; i++ {
		cmd := exec.CommandContext(ctx, self, arg) //nolint:gosec // this program itself
		cmd.Stderr = os.Stderr
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		if err = errors.Join(errIn, errOut, cmd.Start()); err != nil {
			break
		}
		c := &child{
			wire{json.NewDecoder(bufio.NewReaderSize(out, 1<<16)), json.NewEncoder(in)},
			func() error { return errors.Join(in.Close(), cmd.Wait()) },
		}
		cs = append(cs, c)
		var ready string
		if err = errors.Join(c.out.Encode(p), c.in.Decode(&ready)); err != nil {
			err = fmt.Errorf("a child of %s did not begin: %w", p.Library, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, endChildren(cs))
	}
	return cs, nil
}

// played gives all children one cue, and returns their replies.
func played[T any](cs []*child, cue any) (all []T, err error) {
	for _, c := range cs {
		err = errors.Join(err, c.out.Encode(cue))
	}
	for _, c := range cs {
		var one T
		err = errors.Join(err, c.in.Decode(&one))
		all = append(all, one)
	}
	return all, err
}

func endChildren(cs []*child) (err error) {
	for _, c := range cs {
		err = errors.Join(err, c.end())
	}
	return err
}

const tokensArg = "-tokens-child"

// tokenFleet acquires fresh names at once.
var tokenFleet = crowd{processes: 4, goroutines: 128}

type tokenCount struct {
	Pairs, Failures int64
	Acquired        uint64
	SecondRounds    uint64 // of those attempts
}

func (r *run) tokens(ctx context.Context) error {
	const name = "tokens"
	d := time.Duration(r.scale(10000, 1500)) * time.Millisecond
	var total tokenCount
	used, err := r.servers.during(ctx, func() (err error) {
		cs, err := startChildren(ctx, tokensArg, tokenFleet.processes, part{
			Library: nameRedlock, Addrs: r.servers.addrs(), Name: name, Goroutines: tokenFleet.goroutines,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endChildren(cs)) }()
		counts, err := played[tokenCount](cs, d)
		for _, one := range counts {
			total.Pairs, total.Failures = total.Pairs+one.Pairs, total.Failures+one.Failures
			total.Acquired, total.SecondRounds = total.Acquired+one.Acquired, total.SecondRounds+one.SecondRounds
		}
		return err
	})
	if err != nil {
		return err
	}
	rate := 100 * float64(total.SecondRounds) / float64(total.Acquired) // of none: NaN, which passes no gate
	r.add(section{
		Workload: name, Load: used,
		Title:  fmt.Sprintf("%d processes of %d goroutines on fresh names, %v", tokenFleet.processes, tokenFleet.goroutines, d),
		Header: []string{"contender", "pairs", "pairs/s", "second round trips", "per 100 acquisitions", "failed"},
		Rows: [][]string{{
			nameRedlock, strconv.FormatInt(total.Pairs, 10), number3(float64(total.Pairs) / d.Seconds()),
			strconv.FormatUint(total.SecondRounds, 10), number3(rate), strconv.FormatInt(total.Failures, 10),
		}},
	},
		demand(name, "second round trips per 100 acquisitions", rate, atMost, 0.5, ""),
		demand(name, "failed pairs", float64(total.Failures), atMost, 0, ""))
	return nil
}

func tokensChild(ctx context.Context, p *part, c *contender, parent *wire) error {
	var d time.Duration
	if err := parent.in.Decode(&d); err != nil {
		return err
	}
	before := c.locker.Stats()
	until, prefix := time.Now().Add(d), p.Name+":"+strconv.Itoa(os.Getpid())+":"
	var workers sync.WaitGroup
	var next, pairs, failures atomic.Int64
	for range p.Goroutines {
		workers.Go(func() {
			for time.Now().Before(until) {
				if _, err := pair(ctx, c, prefix+strconv.FormatInt(next.Add(1), 10)); err != nil {
					failures.Add(1)
					continue
				}
				pairs.Add(1)
			}
		})
	}
	workers.Wait()
	after := c.locker.Stats()
	return parent.out.Encode(tokenCount{pairs.Load(), failures.Load(), after.Acquired - before.Acquired, after.SecondRounds - before.SecondRounds})
}

// wakeArg makes this program the one or the other of two processes that pass a
// name to and fro.
const wakeArg = "-wake-child"

const (
	// wakeSettle is how long a waiter is given to stand in line.
	wakeSettle = 50 * time.Millisecond
	// wakeBound is after how long a waiter asks anew: rueidislock was seen to wait for a
	// free name for ever. Its sample includes that cost.
	wakeBound = 5 * time.Second
)

// wakeChild acquires and releases the name, each time that it is told something, and says
// when: when it held the lock, and when it began to release it.
func wakeChild(ctx context.Context, p *part, c *contender, parent *wire) error {
	for cue := ""; parent.in.Decode(&cue) == nil; {
		h, err := acquireAnew(ctx, c, p.Name)
		if err == nil {
			err = parent.out.Encode(time.Now().UnixNano())
		}
		if err != nil {
			return err
		}
		_ = parent.in.Decode(&cue) // if nothing comes any more it is time to release, too
		from := time.Now().UnixNano()
		_ = h.Release(ctx) // after a failure the lease cleans up
		_ = parent.out.Encode(from)
	}
	return nil
}

func acquireAnew(ctx context.Context, c *contender, name string) (held, error) {
	for {
		once, cancel := context.WithCancel(ctx)
		late := time.AfterFunc(wakeBound, cancel)
		h, err := c.acquire(once, name)
		late.Stop() // that context goes on: rueidislock's holds end with it
		if err == nil || ctx.Err() != nil {
			return h, err
		}
	}
}

type wakeRunner struct {
	note    string
	library string
	masters int
	far     bool
	turns   int // passes in a round
	samples []time.Duration
}

func (t *wakeRunner) at(p float64) float64 { return micros(percentile(t.samples, p)) / 1000 }

// wakeField is the contenders that pass a name to and fro; the figures of the first four,
// and of the last, are compared.
func (r *run) wakeField() []*wakeRunner {
	const away = ", 5 ms each way"
	return []*wakeRunner{
		{library: nameRedlock, note: "fenced, five masters", masters: nodes, turns: r.scale(60, 20)},
		{library: nameRueidis, note: "one server", masters: 1, turns: r.scale(60, 20)},
		{library: nameRedsync, note: "five masters", masters: nodes, turns: r.scale(20, 6)},
		{library: nameRedlock, note: "fenced, five masters" + away, masters: nodes, far: true, turns: r.scale(40, 12)},
		{library: nameRueidis, note: "one server" + away, masters: 1, far: true, turns: r.scale(40, 12)},
		{library: nameRedsync, note: "five masters" + away, masters: nodes, far: true, turns: r.scale(8, 4)},
		{library: nameOneKey, note: "one server", masters: 1, turns: r.scale(60, 20)},
	}
}

func (r *run) wake(ctx context.Context) error {
	const name = "wake"
	field := r.wakeField()
	far, end, err := r.servers.far() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return err
	}
	defer end()
	used, err := r.servers.during(ctx, func() error {
		for range r.rounds {
			for _, t := range field {
				addrs := r.servers.addrs()
				if t.far {
					addrs = far
				}
				if err := r.toAndFro(ctx, t, addrs[:t.masters]); err != nil {
					return fmt.Errorf("%s, %s: %w", t.library, t.note, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := section{
		Workload: name, Title: "from the call of Release in one process to the lock held in another, which waited", Load: used,
		Header: []string{"library", "p50 ms", "p90 ms", "p99 ms", "samples"},
	}
	for _, t := range field {
		table.Rows = append(table.Rows, []string{
			t.library + " (" + t.note + ")", number3(t.at(0.5)), number3(t.at(0.9)), number3(t.at(0.99)), strconv.Itoa(len(t.samples)),
		})
	}
	ours, away, trip := field[0], field[3], 2*float64(farDelay.Milliseconds())
	r.add(table,
		demand(name, "p50 with 5 ms each way, in added round trips", away.at(0.5)/trip, atMost, 3, ""),
		demand(name, "p99 with 5 ms each way, in added round trips", away.at(0.99)/trip, atMost, 4, ""),
		demand(name, "p50 over rueidislock's on one server", over(ours.at(0.5), field[1].at(0.5)), atMost, 2, ""),
		stated(demand(name, "p50 over rueidislock's with one key", over(ours.at(0.5), field[6].at(0.5)), atMost, 2, "")),
		stated(demand(name, "p50 over redsync's", over(ours.at(0.5), field[2].at(0.5)), atMost, 1, "")))
	return nil
}

func (r *run) toAndFro(ctx context.Context, t *wakeRunner, addrs []string) (err error) {
	r.serial++
	cs, err := startChildren(ctx, wakeArg, 2, part{Library: t.library, Addrs: addrs, Names: r.servers.addrs()[:len(addrs)], Name: "to-and-fro:" + strconv.Itoa(r.serial)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	var released, held int64
	if err := errors.Join(cs[0].out.Encode("acquire"), cs[0].in.Decode(&held)); err != nil {
		return err
	}
	settle := wakeSettle
	if t.far {
		settle += 8 * farDelay
	}
	for i := range t.turns {
		holder, waiter := cs[i%2], cs[1-i%2]
		if err := errors.Join(waiter.out.Encode("acquire"), wait(ctx, settle+rand.N(wakeSettle))); err != nil {
			return err
		}
		if err := errors.Join(holder.out.Encode("release"), waiter.in.Decode(&held), holder.in.Decode(&released)); err != nil {
			return err
		}
		t.samples = append(t.samples, time.Duration(held-released))
	}
	return nil
}
