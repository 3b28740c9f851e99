package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// percentile returns the value below which a share p of the samples lie. It
// sorts them.
func percentile[T cmp.Ordered](samples []T, p float64) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	slices.Sort(samples)
	return samples[min(int(p*float64(len(samples))), len(samples)-1)]
}

// median returns the middle of the values; the lower of two.
func median[T cmp.Ordered](values []T) T {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	return sorted[(len(sorted)-1)/2]
}

// micros is a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// over is a ratio of two latencies. Without a sample there is none, and no gate
// may take that for a good one.
func over(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return math.Inf(1)
	}
	return a / b
}
