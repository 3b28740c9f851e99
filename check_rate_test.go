package redlock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// slewed are clients of five servers, of which those that slewed names have a clock
// of that rate.
func slewed(t *testing.T, rate string, nodes ...int) []redis.UniversalClient {
	t.Helper()
	var out []redis.UniversalClient
	for i, s := range testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true}) {
		if slices.Contains(nodes, i) {
			must(t, s.SetClock("+0 x"+rate))
		}
		out = append(out, clientOf(t, s))
	}
	return out
}

// A time service that slews faster than the drift factor looks like a clock that
// steps, again and again.
func TestCheckTellsClocksThatRunTooFastOrTooSlow(t *testing.T) {
	for _, c := range []struct {
		rate string
		at   []int
		want []found
	}{
		{"1.0", nil, nil},
		{"1.0005", []int{4}, nil}, // ntpd's fastest
		{"1.0833", []int{4}, []found{at4(faultError, redlock.FindingClockRate)}}, // chronyd's
		{"0.9167", []int{4}, []found{at4(faultError, redlock.FindingClockRate)}},
		{"1.0833", []int{0, 1, 2, 3, 4}, []found{inAll(faultError, redlock.FindingClockRate)}},
	} {
		t.Run(c.rate, func(t *testing.T) {
			r := check(t, slewed(t, c.rate, c.at...))
			r.Findings = slices.DeleteFunc(r.Findings, func(f redlock.Finding) bool { return f.Code != redlock.FindingClockRate })
			wantFound(t, r, faultInfo, c.want...)
		})
	}
}

// What doctor warns of is so: a quorum whose clocks run a twelfth too fast grants
// nothing, and within the drift factor it does.
func TestAQuorumThatIsSlewedBeyondTheDriftStopsLocking(t *testing.T) {
	for rate, stops := range map[string]bool{"1.0833": true, "1.002": false} {
		t.Run(rate, func(t *testing.T) {
			l, err := redlock.New(slewed(t, rate, 2, 3, 4), redlock.WithNodeNames(letters(5)...), redlock.WithNodeTimeout(patient))
			must(t, err)
			defer l.Close()
			must(t, l.Cluster().Admit(t.Context()))
			refused := func() error {
				lock, err := l.TryAcquire(t.Context(), "orders/42")
				if err == nil {
					_ = lock.Release(t.Context())
				}
				return err
			}
			if stops {
				eventually(t, patient*5, func() bool { return strings.Contains(errorText(refused()), "stepped") })
				for range 10 {
					wantError(t, "TryAcquire", refused(), redlock.ErrNoQuorum)
				}
				return
			}
			for i := range 300 {
				if err := refused(); err != nil {
					t.Fatalf("refused after %d tries: %v; want a rate within the drift factor to be no step", i, err)
				}
			}
		})
	}
}
