package clock_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

func TestValidityIsTheLeaseFromItsSendingLessDrift(t *testing.T) {
	for _, c := range []struct {
		start  clock.Instant
		ttl    time.Duration
		factor float64
		want   clock.Instant
	}{
		{0, 10 * time.Second, 0.01, clock.Instant(9898 * time.Millisecond)},
		{clock.Instant(time.Hour), 10 * time.Second, 0.01, clock.Instant(time.Hour + 9898*time.Millisecond)},
		{0, 10 * time.Second, 0, clock.Instant(9998 * time.Millisecond)},
		{0, 30 * time.Second, 0.25, clock.Instant(22498 * time.Millisecond)},
		{5, 2 * time.Millisecond, 0, 5},                            // nothing is left
		{0, time.Millisecond, 0, clock.Instant(-time.Millisecond)}, // never valid
		{0, 100 * time.Millisecond, 0.5, clock.Instant(48 * time.Millisecond)},
	} {
		if got := clock.ValidFrom(c.start, c.ttl, c.factor).Until; got != c.want {
			t.Errorf("%v from %d, drift %v: got %d; want %d", c.ttl, c.start, c.factor, got, c.want)
		}
	}
}

// untilExactly computes with fractions of any size: start + ttl - ttl*factor - 2ms.
func untilExactly(start clock.Instant, ttl time.Duration, thousandths int64) *big.Rat {
	drift := new(big.Rat).Mul(big.NewRat(int64(ttl), 1), big.NewRat(thousandths, 1000))
	until := new(big.Rat).Add(big.NewRat(int64(start), 1), big.NewRat(int64(ttl), 1))
	until.Sub(until, drift)
	return until.Sub(until, big.NewRat(2_000_000, 1))
}

// checkValidity compares with the exact value, and then moves start, lease and
// drift in ways whose effect is known.
func checkValidity(t *testing.T, start clock.Instant, ttl time.Duration, thousandths int64) {
	t.Helper()
	factor := float64(thousandths) / 1000
	v := clock.ValidFrom(start, ttl, factor)
	off, _ := new(big.Rat).Sub(big.NewRat(int64(v.Until), 1), untilExactly(start, ttl, thousandths)).Float64()
	if off < -2 || off > 2 { // nanoseconds: the rounding of one product
		t.Fatalf("%v from %d, drift %v: %.0f ns off", ttl, start, factor, off)
	}
	if moved := clock.ValidFrom(start+12345, ttl, factor); moved.Until != v.Until+12345 {
		t.Fatalf("%v from %d: sent 12345 ns later, it ends %d later", ttl, start, moved.Until-v.Until)
	}
	if longer := clock.ValidFrom(start, ttl+time.Millisecond, factor); longer.Until <= v.Until {
		t.Fatalf("%v from %d, drift %v: a longer lease ends sooner", ttl, start, factor)
	}
	if looser := clock.ValidFrom(start, ttl, factor+0.01); looser.Until > v.Until {
		t.Fatalf("%v from %d, drift %v: with more drift it ends later", ttl, start, factor)
	}
	if end := start + clock.Instant(ttl-clock.DriftFloor); v.Until > end {
		t.Fatalf("%v from %d, drift %v: it ends after the lease", ttl, start, factor)
	}
	for _, now := range []clock.Instant{start, v.Until - 1, v.Until, v.Until + 1, v.Until + 1<<40} {
		checkRemaining(t, v, now)
	}
}

// checkRemaining: what is left counts down to 0 and stays there, and it holds
// while something is left.
func checkRemaining(t *testing.T, v clock.Validity, now clock.Instant) {
	t.Helper()
	left := v.Remaining(now)
	if want := time.Duration(max(int64(v.Until)-int64(now), 0)); left != want {
		t.Fatalf("until %d at %d: got %v; want %v", v.Until, now, left, want)
	}
	if v.Holds(now) != (left > 0) {
		t.Fatalf("until %d at %d: %v is left, but holds is %v", v.Until, now, left, v.Holds(now))
	}
}

func anyLease(rnd *rand.Rand) (start clock.Instant, ttl time.Duration, thousandths int64) {
	return clock.Instant(rnd.Int64N(1 << 50)), time.Duration(1 + rnd.Int64N(int64(time.Hour))), rnd.Int64N(500)
}

func TestValidityIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 0))
	for range 50_000 {
		start, ttl, thousandths := anyLease(rnd)
		checkValidity(t, start, ttl, thousandths)
	}
}

func FuzzValidity(f *testing.F) {
	f.Add(int64(0), int64(10*time.Second), int64(10))
	f.Fuzz(func(t *testing.T, start, ttl, thousandths int64) {
		if start < 0 || start > 1<<50 || ttl <= 0 || ttl > int64(time.Hour) || thousandths < 0 || thousandths > 500 {
			return
		}
		checkValidity(t, clock.Instant(start), time.Duration(ttl), thousandths)
	})
}

func validUntil(t clock.Instant) clock.Validity { return clock.Validity{Until: t} }

func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name             string
		until, next, now clock.Instant
		want             clock.Instant
		ok               bool
	}{
		{"in time", 100, 200, 50, 200, true},
		{"at the last moment", 100, 200, 99, 200, true},
		{"as it ends: a lapse is final", 100, 200, 100, 100, false},
		{"late: a lapse is final", 100, 200, 150, 100, false},
		{"late, for a lease that is over as well", 100, 200, 250, 100, false},
		{"a shorter lease never replaces a longer one", 100, 80, 50, 100, true},
		{"the same", 100, 100, 50, 100, true},
		{"never valid", 0, 200, 0, 0, false},
	} {
		got, ok := validUntil(c.until).Confirm(validUntil(c.next), c.now)
		if got.Until != c.want || ok != c.ok {
			t.Errorf("%s: got %d, %v; want %d, %v", c.name, got.Until, ok, c.want, c.ok)
		}
	}
}

// checkConfirm: a life as a list of moments, valid or not, in the place of an end.
func checkConfirm(t *testing.T, until, next, now clock.Instant) {
	t.Helper()
	v, n := validUntil(until), validUntil(next)
	got, ok := v.Confirm(n, now)
	for _, at := range []clock.Instant{now, until - 1, until, until + 1, next - 1, next, next + 1} {
		if at < now {
			continue
		}
		want := v.Holds(at) || v.Holds(now) && n.Holds(at)
		if got.Holds(at) != want {
			t.Fatalf("until %d, confirmed for %d at %d: holds at %d is %v; want %v", until, next, now, at, got.Holds(at), want)
		}
	}
	if ok != v.Holds(now) {
		t.Fatalf("until %d at %d: confirmed is %v", until, now, ok)
	}
	if again, _ := got.Confirm(n, now); again != got {
		t.Fatalf("until %d, confirmed for %d at %d twice: got %d; want %d", until, next, now, again.Until, got.Until)
	}
}

func TestConfirmNeverRevives(t *testing.T) {
	for until := range clock.Instant(8) {
		for next := range clock.Instant(8) {
			for now := range clock.Instant(10) {
				checkConfirm(t, until, next, now)
			}
		}
	}
}

func FuzzConfirm(f *testing.F) {
	f.Add(int64(100), int64(200), int64(150))
	f.Fuzz(func(t *testing.T, until, next, now int64) {
		if min(until, next, now) < 0 || max(until, next, now) > 1<<60 {
			return
		}
		checkConfirm(t, clock.Instant(until), clock.Instant(next), clock.Instant(now))
	})
}
