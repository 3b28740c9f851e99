package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
)

// TestMain lets the test binary be what the workloads' parents start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := playPart(context.Background(), os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Every contender does what is measured of it: so many pairs as were asked for,
// none failed, and nothing stays on the masters but our record.
func TestContendersTakeAndReleaseWhatIsCounted(t *testing.T) {
	specs := append(slices.Clone(field), bareSpec,
		spec{"shared", "", nodes, scriptsOnly, acquiring(redlock.WithShared())}, spec{"set", "", nodes, scriptsOnly, openSets})
	for _, sp := range specs {
		t.Run(sp.name, func(t *testing.T) {
			e := newTestEnv(t)
			const goroutines, pairs = 8, 25
			s, err := measure(t.Context(), e.servers, &entrant{spec: sp, contender: open(t, sp.open, e)}, goroutines, 0, pairs)
			testkit.Must(t, err)
			if len(s.pairs) != goroutines*pairs || s.failures != 0 {
				t.Fatalf("got %d pairs, %d failures (%v); want %d, 0", len(s.pairs), s.failures, s.last, goroutines*pairs)
			}
			if s.script <= 0 {
				t.Errorf("script time: got %v; want some", s.script)
			}
			awaitEmpty(t, e.servers)
		})
	}
}

// awaitEmpty waits for stragglers: a pair is over when a quorum has answered.
func awaitEmpty(t *testing.T, c cluster) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		var left []string
		for _, s := range c {
			keys, err := s.control.Keys(t.Context(), "*").Result()
			testkit.Must(t, err)
			left = append(left, slices.DeleteFunc(keys, func(k string) bool { return k == lua.NodeKey })...)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got keys %q on the masters; want none", left)
		}
	}
}

// A key that somebody else holds on a quorum is taken, for the floor too.
func TestFloorIsExcluded(t *testing.T) {
	e := newTestEnv(t)
	for _, s := range e.servers {
		testkit.Must(t, s.control.Set(t.Context(), "taken", "someone", 0).Err())
	}
	if _, err := open(t, openFloor, e).acquire(t.Context(), "taken"); err == nil {
		t.Error("got the lock; want an error")
	}
}

// recordsOf are holds a millisecond apart, by these goroutines.
func recordsOf(who ...int) (holds []holdRecord) {
	for i, w := range who {
		holds = append(holds, holdRecord{At: int64(i) * int64(time.Millisecond), Wait: int64(time.Millisecond), Who: w, Token: uint64(10 + i)})
	}
	return holds
}

func TestWhatTheLastHolderTookAgainIsNoHandOver(t *testing.T) {
	n, fenced := changesOf(recordsOf(1, 1, 2, 2, 2, 1))
	if n != 2 || !fenced {
		t.Errorf("got %d changes, fenced %v; want 2, true", n, fenced)
	}
	holds := recordsOf(1, 2, 3)
	holds[2].Token = holds[1].Token
	if _, fenced := changesOf(holds); fenced {
		t.Error("a token that does not grow: got fenced; want not")
	}
	holds = recordsOf(1, 2)
	holds[0].Token, holds[1].Token = 0, 0
	if n, fenced := changesOf(holds); n != 1 || !fenced {
		t.Errorf("a library without tokens: got %d changes, fenced %v; want 1, true", n, fenced)
	}
}

func TestSharesAndWaitsOfACrowd(t *testing.T) {
	var s crowdSlice
	holds := recordsOf(0, 1, 0, 1, 0, 1, 0, 0)
	holds[3].Wait = 9 * int64(time.Millisecond)
	s.judge(holds, 2, time.Second)
	if s.perSecond != 6 || s.least != 0.75 || s.most != 1.25 {
		t.Errorf("got %v a second, shares %v to %v; want 6, 0.75 to 1.25", s.perSecond, s.least, s.most)
	}
	if want := []float64{9 * 8 / 16.0}; !slices.Equal(s.longest, want) {
		t.Errorf("longest wait: got %v; want %v", s.longest, want)
	}
	if math.Abs(s.again-1/8.0) > 1e-9 {
		t.Errorf("taken again: got %v; want one of eight", s.again)
	}
	s = crowdSlice{}
	s.judge(nil, 2, time.Second)
	if s.perSecond != 0 || s.least != 0 {
		t.Errorf("nobody held it: got %v a second, least share %v; want 0, 0", s.perSecond, s.least)
	}
}

// A crowd is of real processes, all of which have their share.
func TestProcessesHandANameOn(t *testing.T) {
	r := &run{servers: newTestEnv(t).servers}
	for _, runner := range handoverField() {
		if runner.library != nameRedlock {
			continue
		}
		s, err := r.crowded(t.Context(), runner, crowd{2, 2}, 2*time.Second)
		testkit.Must(t, err)
		if s.perSecond <= 0 || s.least <= 0 || s.commands <= 0 {
			t.Errorf("%s: got %+v; want hand-overs, a share for everybody, and commands", runner.name, s)
		}
	}
}

func TestANameGoesToAndFro(t *testing.T) {
	r := &run{servers: newTestEnv(t).servers}
	for _, library := range []string{nameRedlock, nameRedsync} {
		w := &wakeRunner{library: library, masters: nodes, turns: 4}
		if err := r.toAndFro(t.Context(), w, r.servers.addrs()); err != nil {
			t.Fatalf("%s: %v", library, err)
		}
		if len(w.samples) != w.turns || slices.Min(w.samples) <= 0 {
			t.Errorf("%s: got %v; want %d times, all positive", library, w.samples, w.turns)
		}
	}
}

// With a leader that resigns there is a next one long before a lease would end.
func TestTheNextLeadsWhenTheLeaderResigns(t *testing.T) {
	took, err := (&run{servers: newTestEnv(t).servers}).leads(t.Context(), 2)
	if err != nil || len(took) != 2 || slices.Min(took) <= 0 || slices.Max(took) > redlock.DefaultTTL/4 {
		t.Errorf("got %v, %v; want two times below %v", took, err, redlock.DefaultTTL/4)
	}
}

func TestGates(t *testing.T) {
	tests := []struct {
		name string
		gate gate
		want string
	}{
		{"below the most", demand("w", "x", 1.3, atMost, 1.35, ""), "pass"},
		{"at the most", demand("w", "x", 1.35, atMost, 1.35, ""), "pass"},
		{"above the most", demand("w", "x", 1.36, atMost, 1.35, ""), "FAIL"},
		{"below the least", demand("w", "x", 4.4, atLeast, 4.5, ""), "FAIL"},
		{"no sample at all", demand("w", "x", over(0, 1), atMost, 1.35, ""), "FAIL"},
		{"no throughput at all", demand("w", "x", math.NaN(), atLeast, 4.5, ""), "FAIL"},
		{"only stated", stated(demand("w", "x", 2, atMost, 1, "")), "no (stated, not required)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.gate.verdict(); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			r := report{Gates: []gate{demand("w", "y", 1, atMost, 1, ""), tt.gate}}
			if got, want := r.passed(), tt.want != "FAIL"; got != want {
				t.Errorf("the run: got passed %v; want %v", got, want)
			}
			var out strings.Builder
			r.writeMarkdown(&out)
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("the table does not say %q:\n%s", tt.want, out.String())
			}
		})
	}
}

func TestPercentileAndMedian(t *testing.T) {
	var ds []time.Duration
	for i := range 100 {
		ds = append(ds, time.Duration(100-i))
	}
	if p50, p99, top := percentile(ds, 0.5), percentile(ds, 0.99), percentile(ds, 1); p50 != 51 || p99 != 100 || top != 100 {
		t.Errorf("got %d, %d, %d; want 51, 100, 100", p50, p99, top)
	}
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median: got %v; want 5", got)
	}
}
