//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// oldProcess is a process of clients of before names could be shared: it stands in line,
// gives signs of life, takes what a release grants to it, renews, and hands on.
type oldProcess struct {
	*oldClient

	id        string
	lease     time.Duration
	n         int // holds
	heard     chan struct{}
	ask, look *redis.Script
	handOne   *redis.Script
	hand      *redis.Script
	leave     *redis.Script
	acquires  *redis.Script
	extend    *redis.Script
}

func newOldProcess(t *testing.T, servers []*chaos.Server, n int, lease time.Duration) *oldProcess {
	t.Helper()
	p := &oldProcess{
		oldClient: newOldClient(t, servers), id: fmt.Sprintf("old-process-%010d", n), lease: lease, heard: make(chan struct{}, 1),
		ask: oldScript(t, "ask"), look: oldScript(t, "look"), handOne: oldScript(t, "hand_one"), hand: oldScript(t, "hand"),
		leave: oldScript(t, "release_batch"), acquires: oldScript(t, "acquire_batch"),
		extend: redis.NewScript(lua.ExtendScript.Body), // has not changed
	}
	p.serial.Store(int64(n) << 32)
	for _, s := range p.servers {
		calls := s.Subscribe(t.Context(), lua.WakeChannel+p.id)
		_, err := calls.Receive(t.Context())
		must(t, err)
		t.Cleanup(func() { _ = calls.Close() })
		go func() {
			for range calls.Channel() {
				select {
				case p.heard <- struct{}{}:
				default:
				}
			}
		}()
	}
	return p
}

// hears waits until it is called or granted something, or for that long.
func (p *oldProcess) hears(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.heard:
	case <-timer.C:
	}
}

// owner is a new owner value.
func (p *oldProcess) owner() string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", p.serial.Add(1))
}

// asks asks one server, by a place or for one.
func (p *oldProcess) asks(ctx context.Context, i int, key, owner string, place int64) (reply, more int64, err error) {
	out, err := p.ask.Run(ctx, p.servers[i], []string{lua.NodeKey, key, lua.TombstoneKey + owner},
		p.epochs[i], p.id, lua.StripeOf(key), owner, p.lease.Milliseconds(), 0, place, 1, 1).Int64Slice()
	if err != nil {
		return 0, 0, err
	}
	return out[0], out[1], nil
}

// waits waits in line until it has the name: an empty owner value says that ctx has ended.
func (p *oldProcess) waits(ctx context.Context, key string) (owner string, err error) {
	place := int64(0)
	for ctx.Err() == nil {
		owner = p.owner()
		granted := make([]bool, len(p.servers))
		next := place
		for i := range p.servers {
			reply, more, err := p.asks(context.WithoutCancel(ctx), i, key, owner, place)
			if err != nil {
				return "", err
			}
			granted[i] = reply > 0
			if place == 0 && reply <= -3 {
				next = max(next, more)
			}
		}
		for end := time.Now().Add(300 * time.Millisecond); place > 0 && count(granted) <= len(granted)/2 && time.Now().Before(end) && ctx.Err() == nil; {
			p.hears(50 * time.Millisecond)
			if err := p.looks(context.WithoutCancel(ctx), key, owner, place, granted); err != nil {
				return "", err
			}
		}
		if count(granted) > len(granted)/2 {
			confirmed, err := p.renews(context.WithoutCancel(ctx), key, owner)
			if confirmed || err != nil {
				return owner, err
			}
		}
		if err := p.leaves(context.WithoutCancel(ctx), key, owner, place); err != nil {
			return "", err
		}
		if place = next; count(granted) > 0 {
			pause(time.Duration(rand.IntN(20)) * time.Millisecond) // another has the rest
		}
	}
	return "", nil
}

// looks gives a sign of life for an attempt, and asks where the name is free.
func (p *oldProcess) looks(ctx context.Context, key, owner string, place int64, granted []bool) error {
	for i, s := range p.servers {
		if granted[i] {
			continue
		}
		out, err := p.look.Run(ctx, s, []string{key}, p.id, place, 1, owner).Int64Slice()
		if err != nil {
			return err
		}
		switch out[1] {
		case -3:
			granted[i] = true
		case -2:
			reply, _, err := p.asks(ctx, i, key, owner, place)
			if err != nil {
				return err
			}
			granted[i] = reply > 0
		}
	}
	return nil
}

// renews lengthens the lease; it reports whether a quorum has confirmed it.
func (p *oldProcess) renews(ctx context.Context, key, owner string) (bool, error) {
	confirmed := 0
	for i, s := range p.servers {
		out, err := p.extend.Run(ctx, s, []string{lua.NodeKey, key}, p.epochs[i], owner, p.lease.Milliseconds()).Int64Slice()
		if err != nil {
			return false, err
		}
		if out[0] == 1 {
			confirmed++
		}
	}
	return confirmed > len(p.servers)/2, nil
}

// leaves gives back what an attempt got, with its entry.
func (p *oldProcess) leaves(ctx context.Context, key, owner string, place int64) error {
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, p.leave.Run(ctx, s, []string{key, lua.TombstoneKey + owner}, 1, owner, 1000, p.id, 1, 1, place, "").Err())
	}
	return errors.Join(errs...)
}

// releases grants to the next in line, or calls it: one name alone, or two in a call.
func (p *oldProcess) releases(ctx context.Context, key, owner string, calls bool) error {
	hint := 0
	if calls {
		hint = -1
	}
	var errs []error
	p.n++
	for i, s := range p.servers {
		if p.n%2 == 0 {
			errs = append(errs, p.handOne.Run(ctx, s, []string{key, lua.NodeKey}, owner, p.epochs[i], hint, lua.StripeOf(key), p.id, 1, "", owner).Err())
			continue
		}
		other := key + "/other" // not held
		errs = append(errs, p.hand.Run(ctx, s, []string{lua.NodeKey, key, other},
			p.epochs[i], lua.StripeOf(key), lua.StripeOf(other), owner, owner, hint, hint, p.id, 1, "", "", owner, owner).Err())
	}
	return errors.Join(errs...)
}

// tryTwo takes two names in a call, without standing in line, and says whether it has the
// first of them. They are given back in a call as well.
func (p *oldProcess) tryTwo(ctx context.Context, key string, within func()) (held bool, err error) {
	other, owner := key+"/other", p.owner()
	granted, lease := 0, p.lease.Milliseconds()
	for i, s := range p.servers {
		out, err := p.acquires.Run(ctx, s, []string{lua.NodeKey, key, other, lua.TombstoneKey + owner, lua.TombstoneKey + owner},
			p.epochs[i], lua.StripeOf(key), lua.StripeOf(other), owner, owner, lease, lease, 0, 0).Int64Slice()
		if err != nil {
			return false, err
		}
		if out[0] > 0 {
			granted++
		}
	}
	if held = granted > len(p.servers)/2; held {
		within()
	}
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, p.leave.Run(ctx, s, []string{key, other, lua.TombstoneKey + owner}, 2, owner, owner, 1000).Err())
	}
	return held, errors.Join(errs...)
}

func count(of []bool) (n int) {
	for _, yes := range of {
		if yes {
			n++
		}
	}
	return n
}

// Old clients that stand in line, are granted the name, renew and take names in batches,
// beside new ones that share it or wait to be alone: one who holds alone is alone, no hold
// of theirs is taken from them, and all get their turns.
func TestOldClientsInLineWithNewOnesAreExcluded(t *testing.T) {
	t.Parallel()
	const (
		lease = 10 * time.Second
		least = 30 // holds of each kind; a tenth by old batches
	)
	servers := testserver.Need(t, 3, chaos.ServerConfig{})
	open := func() *redlock.Locker {
		return openServers(t, servers, redlock.WithTTL(4*patient), redlock.WithNodeTimeout(patient))
	}
	lockers := []*redlock.Locker{open(), open()}
	for _, l := range lockers {
		warm(t, l)
	}
	kinds := []string{"shared", "alone", "old in line", "old in batches"}
	var readers, writers atomic.Int32
	var counts [4]atomic.Int64
	hold := func(kind int) {
		if kind == 0 {
			readers.Add(1)
			if n := writers.Load(); n != 0 {
				t.Errorf("%d hold it alone beside one who shares it", n)
			}
		} else if n, m := writers.Add(1), readers.Load(); n != 1 || m != 0 {
			t.Errorf("%s: %d hold it alone, %d share it", kinds[kind], n, m)
		}
		pause(time.Duration(1+rand.IntN(3)) * time.Millisecond)
		if kind == 0 {
			readers.Add(-1)
		} else {
			writers.Add(-1)
		}
		counts[kind].Add(1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var longest atomic.Int64 // wait of one who shares
	for g := range 4 {       // those who share and those who are alone in processes of their own
		wg.Go(func() {
			var opts []redlock.AcquireOption
			if g%2 == 0 {
				opts = append(opts, redlock.WithShared())
			}
			for ctx.Err() == nil {
				asked := time.Now()
				lock, err := lockers[g%2].Acquire(ctx, "orders/42", opts...)
				if err != nil {
					continue
				}
				if g%2 == 0 {
					longest.Store(max(longest.Load(), int64(time.Since(asked))))
				}
				hold(g % 2)
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("%s: its release: %v", kinds[g%2], err)
				}
				pause(time.Duration(rand.IntN(40)) * time.Millisecond)
			}
		})
	}
	for n := range 2 {
		p := newOldProcess(t, servers, n+1, lease)
		wg.Go(func() {
			for ctx.Err() == nil {
				owner, err := p.waits(ctx, "orders/42")
				if owner != "" && err == nil {
					hold(2)
					var still bool
					if still, err = p.renews(t.Context(), "orders/42", owner); !still && err == nil {
						t.Errorf("an old client's hold was taken from it")
					}
					err = errors.Join(err, p.releases(t.Context(), "orders/42", owner, rand.IntN(4) == 0))
					pause(time.Duration(rand.IntN(40)) * time.Millisecond)
				}
				if err != nil {
					t.Errorf("an old client: %v", err)
					return
				}
			}
		})
	}
	p := newOldProcess(t, servers, 3, lease)
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := p.tryTwo(t.Context(), "orders/42", func() { hold(3) }); err != nil {
				t.Errorf("an old client's batch: %v", err)
				return
			}
			pause(time.Duration(rand.IntN(3)) * time.Millisecond)
		}
	})
	pollUntil(t, time.Minute, "each kind has had it", func() bool {
		// A batch does not stand in line: it has its turn where nobody does.
		return t.Failed() || min(counts[0].Load(), counts[1].Load(), counts[2].Load(), 10*counts[3].Load()) >= least
	})
	cancel()
	wg.Wait()
	for kind, name := range kinds {
		t.Logf("%s: %d", name, counts[kind].Load())
	}
	t.Logf("the longest wait of one who shares: %v", time.Duration(longest.Load()))
}

// Who waits to share is passed over by old clients that hand on among themselves. An old
// release calls nobody who waits to share: it has the name by its own look, when the lease
// that it knows of would have ended, or within eight seconds.
func TestWhoWaitsToShareGoesWhenNoOldClientStandsInLine(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	servers := testserver.Need(t, 3, chaos.ServerConfig{})
	l := openServers(t, servers)
	warm(t, l)
	first, second := newOldProcess(t, servers, 1, lease), newOldProcess(t, servers, 2, lease)
	eyes := look(t, servers).eyes

	owner, err := first.waits(t.Context(), "orders/42")
	must(t, err)
	done := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := l.Acquire(t.Context(), "orders/42", redlock.WithShared())
		if err != nil && t.Context().Err() == nil {
			t.Errorf("who waits to share: %v", err)
		}
		done <- lock
	}()
	inLine := func(line string, n int64) func() bool {
		return func() bool {
			there := 0
			for _, c := range eyes {
				if c.ZCard(t.Context(), line+"orders/42").Val() == n {
					there++
				}
			}
			return there == len(eyes)
		}
	}
	pollUntil(t, 10*time.Second, "one waits to share", inLine(lua.SharersKey, 1))

	granted := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		owner, err := second.waits(ctx, "orders/42")
		if err != nil {
			t.Errorf("the second old client: %v", err)
		}
		granted <- owner
	}()
	pollUntil(t, 10*time.Second, "an old client waits behind", inLine(lua.QueueKey, 2)) // its id, and its owner
	must(t, first.releases(t.Context(), "orders/42", owner, false))
	owner = <-granted // past the one who waits to share
	if len(done) != 0 {
		t.Error("one shares it beside an old client's hold")
	}
	released := time.Now()
	must(t, second.releases(t.Context(), "orders/42", owner, false))
	lock := <-done
	if lock == nil {
		return // said already
	}
	if wait := time.Since(released); wait > lease+time.Second {
		t.Errorf("who waits to share had it %v after the last old release; want it within the lease, %v", wait, lease)
	} else {
		t.Logf("who waits to share had it %v after the last old release", wait)
	}
	mustRelease(t, lock)
}
