package chaos

import (
	"context"
	"fmt"
)

// Backend is a kind of stage.
type Backend string

// The backends.
const (
	// Virtual is in memory, by the time of a testing/synctest bubble: hours in a
	// second, and what happens follows from a seed. See [NewVirtual].
	Virtual Backend = "virtual"
	// Embedded is the same in real time, for a program. Nothing follows from the seed but latencies.
	Embedded Backend = "embedded"
	// Real is server processes behind proxies. See [NewReal].
	Real Backend = "real"
)

// backends are all of them, the quickest first.
func backends() []Backend { return []Backend{Virtual, Embedded, Real} }

// OpenStage returns a stage of n nodes on a backend. The virtual one needs a
// caller in a bubble; seed is nothing to the real one. It fails if the backend
// is none of the three, if Real has nothing to start, and with ctx's error if ctx is done
// already.
//
//nolint:contextcheck // a stage outlives the call that opens it
func OpenStage(ctx context.Context, backend Backend, seed uint64, n int) (Stage, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("chaos: %s stage: %w", backend, err)
	}
	switch backend {
	case Virtual:
		return NewVirtual(seed, n)
	case Embedded:
		return NewVirtual(seed, n)
	case Real:
		return NewReal("", n)
	}
	return nil, fmt.Errorf("chaos: no backend %q: there are %q", backend, backends())
}
