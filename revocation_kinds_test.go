package redlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestEachKindOfHoldCanBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)

		outer := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		inner, err := l.Acquire(outer.Context(), "orders/42", redlock.WithValue("inner"))
		must(t, err)
		synctest.Wait()
		done := revokes(t, other, time.Minute)
		<-outer.Revoked()
		<-inner.Revoked()
		mustRelease(t, outer)
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("got %v while a handle is left; want no end", err)
		default:
		}
		mustRelease(t, inner)
		must(t, <-done)

		a := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		b := mustAcquire(t, third, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		synctest.Wait()
		done = revokes(t, other, time.Minute)
		<-a.Revoked()
		<-b.Revoked()
		mustRelease(t, a)
		time.Sleep(3 * time.Second)
		c := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		select {
		case err := <-done:
			t.Fatalf("got %v while one of two shares it still; want no end", err)
		default:
		}
		mustRelease(t, b)
		must(t, <-done) // though another shares it by now
		if isAsked(c.Revoked()) {
			t.Error("one that came later was asked")
		}
		plain := mustAcquire(t, third, "orders/42", redlock.WithShared())
		wantError(t, "one of two can't be asked", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotRevocable)
		if isAsked(c.Revoked()) {
			t.Error("one was asked in vain: another can't be")
		}
		mustRelease(t, c)
		mustRelease(t, plain)
	})
}

func TestASetIsAskedForByEachOfItsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		names := []string{"orders/43", "orders/42", "orders/41"}
		plain := mustAcquireAll(t, l, names)
		if plain.Revoked() != nil {
			t.Error("got a channel of a set without the option; want nil")
		}
		must(t, plain.Release(t.Context()))
		for range 2 {
			m := mustAcquireAll(t, l, names, redlock.WithRevocation())
			synctest.Wait()
			done := revokes(t, other, time.Minute)
			<-m.Revoked()
			must(t, m.Err())
			must(t, m.Release(t.Context()))
			must(t, <-done)
		}
	})
}

// A set that waits gives a name back that it is asked for, to who waits for it, and those
// behind it; and takes them anew.
func TestASetThatWaitsGivesBackWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		blocker := mustAcquire(t, other, "orders/43")
		gained := wantsAll(t, t.Context(), l, []string{"orders/43", "orders/42", "orders/421", "orders/41"}, redlock.WithRevocation())
		wantLocked(t, nodes, "orders/41", "orders/42", "orders/421", "orders/43")
		waits := wants(t, other)
		must(t, <-revokes(t, other, time.Second))
		lock := (<-waits).Lock
		wantLocked(t, nodes, "orders/41", "orders/42", "orders/43")
		mustRelease(t, lock)
		wantLocked(t, nodes, "orders/41", "orders/42", "orders/421", "orders/43")
		mustRelease(t, blocker)
		m := (<-gained).locks
		if isAsked(m.Revoked()) {
			t.Error("the set was asked for nothing that it holds")
		}
		must(t, m.Release(t.Context()))
		wantNothingLeft(t, nodes)
	})
}

func TestCampaignsCanBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("web"))
		other := separateLocker(t, nodes)
		told := observes(t, other)
		wantVacant(t, isTold(t, told, time.Second))
		ended := make(chan error, 1)
		go func() {
			ended <- l.Campaign(t.Context(), "jobs", func(_ context.Context, lock *redlock.Lock) error {
				<-lock.Revoked()
				return errWork
			}, redlock.WithRevocation(), redlock.WithValue("10.0.0.7"))
		}()
		if s := isTold(t, told, 2*time.Second); s.Value != "10.0.0.7" { // without the mark
			t.Errorf("the observer was told of %q; want the value", s.Value)
		}
		must(t, other.Revoke(t.Context(), "jobs"))
		wantError(t, "the campaign", <-ended, errWork)
	})
}

// Labels and values are shown as they were given, however the hold was come by.
func TestTheMarkIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder(strings.Repeat("h", 200)), redlock.WithTurns(1))
		other := separateLocker(t, nodes)
		value := strings.Repeat("v", 56) // the mark does not count
		_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithRevocation(), redlock.WithValue(value+"v"))
		wantError(t, "a value that is too long", err, redlock.ErrInvalidOption)
		first := mustAcquire(t, other, "orders/42")
		var line []<-chan gained
		for range 3 { // a grant by a release, and hand-overs by its own
			line = append(line, wants(t, l, redlock.WithRevocation(), redlock.WithValue(value)))
		}
		time.Sleep(time.Second)
		mustRelease(t, first)
		for i, next := range line {
			lock := got(t, next).Lock
			if got, want := shownValue(t, other), strings.Repeat("h", 200)+"/"+value+"#56#"; got != want {
				t.Errorf("hold %d: got %q; want %q", i, got, want)
			}
			in, err := other.Inspect(t.Context(), "orders/42")
			must(t, err)
			marked := 0
			for _, n := range in.Nodes {
				if n.Revocable {
					marked++
				}
			}
			if marked < in.Quorum {
				t.Errorf("hold %d is shown as one that can be asked for on %d nodes; want a quorum", i, marked)
			}
			done := revokes(t, other, time.Minute)
			<-lock.Revoked()
			mustRelease(t, lock)
			must(t, <-done)
		}
		shared := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		in, err := other.Inspect(t.Context(), "orders/42")
		must(t, err)
		if s := in.Sharers(); len(s) != 1 || !s[0].Revocable || len(s[0].Owner) != 200+1+36 {
			t.Errorf("got the sharers %+v; want one, without the mark", s)
		}
		mustRelease(t, shared)
		for _, label := range []string{"a~AAAAAAAAAAAAAAAAAAAAAA~", "~AAAAAAAAAAAAAAAAAAAAAA~v#1#", "~AAAAAAAAAAAAAAAAAAAAAA~#0#"} {
			plain := mustAcquire(t, separateLocker(t, nodes, redlock.WithHolder(label)), "orders/42")
			in, err := other.Inspect(t.Context(), "orders/42")
			must(t, err)
			if owner, _ := in.Holder(); in.Nodes[0].Revocable || !strings.HasPrefix(owner, label+"/") {
				t.Errorf("a label that ends as the mark does: got the owner %q, revocable %v; want the label, and no mark", owner, in.Nodes[0].Revocable)
			}
			mustRelease(t, plain)
		}
	})
}

// Each who has a slot is asked, and who waits for one is not. A slot's holder that
// can't be asked keeps all from being asked.
func TestHoldersOfSlotsAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("web"))
		other, third := separateLocker(t, nodes), separateLocker(t, nodes, redlock.WithHolder("cron"))
		a := mustAcquire(t, l, "orders/42", redlock.WithLimit(3), redlock.WithRevocation(), redlock.WithValue("a"))
		b := mustAcquire(t, l, "orders/42", redlock.WithLimit(3), redlock.WithRevocation())
		plain := mustAcquire(t, third, "orders/42", redlock.WithLimit(3))
		synctest.Wait()

		err := other.Revoke(t.Context(), "orders/42")
		wantError(t, "one of three can't be asked", err, redlock.ErrNotRevocable)
		if !strings.Contains(err.Error(), "by cron/") {
			t.Errorf("got %v; want who can't be asked", err)
		}
		if isAsked(a.Revoked()) || isAsked(b.Revoked()) {
			t.Error("one was asked in vain: another can't be")
		}
		mustRelease(t, plain)
		c := mustAcquire(t, third, "orders/42", redlock.WithLimit(3), redlock.WithRevocation())
		next := wants(t, l, redlock.WithLimit(3), redlock.WithRevocation())
		synctest.Wait()

		in, err := other.Inspect(t.Context(), "orders/42")
		must(t, err)
		slots := in.Slots()
		for _, s := range slots {
			if !s.Revocable || strings.Contains(s.Owner, "~") {
				t.Errorf("slot %d is shown as %+v; want one that can be asked for, without the mark", s.Slot, s)
			}
		}
		if len(slots) != 3 {
			t.Errorf("got %d slots; want 3", len(slots))
		}
		done := revokes(t, other, time.Minute)
		for _, lock := range []*redlock.Lock{a, b, c} {
			<-lock.Revoked()
		}
		mustRelease(t, a)
		later := got(t, next).Lock // has the slot of one that was asked
		mustRelease(t, b)
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("got %v while one of three holds on; want no end", err)
		default:
		}
		mustRelease(t, c)
		must(t, <-done)
		if isAsked(later.Revoked()) {
			t.Error("one that came later was asked")
		}
		mustRelease(t, later)
		wantError(t, "nobody has a slot", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotHeld)
	})
}

// A node that shows who holds the name alone, but not who has its slots, counts for nothing.
func TestANodeThatKeepsItsSlotsToItselfSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithLimit(2), redlock.WithRevocation())
		synctest.Wait()
		for _, n := range nodes.Nodes()[:2] {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if strings.EqualFold(args[0], "mget") && strings.HasPrefix(args[1], "redlock:slot:") {
					return redlocktest.ReplyError("NOPERM no permissions to access one of the keys")
				}
				return redlocktest.Pass()
			})
		}
		wantError(t, "two nodes of three", other.Revoke(t.Context(), "orders/42"), redlock.ErrNoQuorum)
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		done := revokes(t, other, time.Minute)
		<-lock.Revoked()
		mustRelease(t, lock)
		must(t, <-done)
	})
}

// Over servers of which one is killed, while the holder's subscriptions are cut, and with
// several who share.
func TestHoldersAreAskedOnRealServers(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 5, redisserver.Config{})
	l, other := openServers(t, servers), openServers(t, servers)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation(), redlock.WithValue("a"))
	done := make(chan error, 1)
	ask := func() { go func() { done <- other.Revoke(ctx, "orders/42") }() }
	must(t, servers[0].Kill())
	for _, s := range servers[1:] {
		c := clientOf(t, s)
		must(t, c.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	ask()
	select {
	case <-lock.Revoked():
	case <-ctx.Done():
		t.Fatal("the holder was not asked")
	}
	must(t, lock.Err())
	mustRelease(t, lock)
	must(t, <-done)

	a := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
	b := mustAcquire(t, other, "orders/42", redlock.WithShared(), redlock.WithRevocation())
	ask()
	for _, lock := range []*redlock.Lock{a, b} {
		select {
		case <-lock.Revoked():
		case <-ctx.Done():
			t.Fatal("one who shares was not asked")
		}
		mustRelease(t, lock)
	}
	must(t, <-done)
	for _, s := range servers[1:] {
		pollUntil(t, 5*time.Second, "nothing of it is left", func() bool { // no key has ended by itself yet
			return !slices.ContainsFunc(keysOn(t, s), func(key string) bool { return strings.Contains(key, "orders/42") })
		})
	}
	wantError(t, "nobody holds", other.Revoke(ctx, "orders/42"), redlock.ErrNotHeld)
}

// A set waits for what somebody holds: what it has meanwhile goes to who asks for it.
func TestASetThatWaitsGivesBackOnRealServers(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	l, other := openServers(t, servers), openServers(t, servers)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	blocker := mustAcquire(t, other, "b")
	set := make(chan error, 1)
	go func() {
		m, err := l.AcquireAll(ctx, []string{"a", "b"}, redlock.WithRevocation())
		if err == nil {
			err = m.Release(ctx)
		}
		set <- err
	}()
	pollUntil(t, 10*time.Second, "the set holds a", func() bool { return other.Revoke(ctx, "a") == nil })
	mustRelease(t, blocker)
	must(t, <-set)
}

// The rights that the page lists are enough to be asked, and to ask.
func TestRevocationNeedsNoFurtherRights(t *testing.T) {
	t.Parallel()
	page := strings.Join(pageRights(t), " ")
	l := lockerWith(t, asUsers(t, page), redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))
	admitted(t, l)
	lock := mustAcquire(t, l, "42", redlock.WithRevocation())
	go func() {
		<-lock.Revoked()
		_ = lock.Release(context.Background())
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, l.Revoke(ctx, "42"))
}
