package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

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

// The wire format pins the stripe of a name; the floor must send the same.
func TestStripeOf(t *testing.T) {
	const fnv1aOfA = 0xaf63dc4c8601ec8c // published test vector of FNV-1a 64 for "a"
	if got, want := stripeOf("a"), int64(fnv1aOfA%stripes); got != want {
		t.Errorf("got %d; want %d", got, want)
	}
}
