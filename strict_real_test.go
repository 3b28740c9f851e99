package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// An application with strict recovery, and one client without it, over servers of
// which all, or all but one, forgot.
func TestOneClientWithoutTheOptionDoesNotUndoStrictRecoveryOnRealServers(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]int{"one record is left": 2, "no record is left": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 3, redisserver.Config{})
			app := openWithout(t, servers, nil, append(short(), redlock.WithStrictRecovery())...)
			admitted(t, app)
			warm(t, app)
			for _, s := range servers[:forget] {
				must(t, s.RestartEmpty())
			}
			command := openWithout(t, servers, nil, short()...)
			if forget < 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 3*shortMax)
				defer cancel()
				_, err := command.Acquire(ctx, "reports")
				wantError(t, "Acquire without the option", err, redlock.ErrNoQuorum)
				wantText(t, "Acquire without the option", errorText(err), "(strict recovery)", "Cluster.Admit")
				if got := votes(t, command); got != 1 {
					t.Errorf("got %d votes; want one, of the server that remembers", got)
				}
			} else {
				mustRelease(t, mustAcquire(t, command, "reports")) // nothing says strict any more
				var err error
				pollUntil(t, 10*time.Second, "the application is told", func() bool {
					_, err = app.TryAcquire(t.Context(), "orders/42")
					return errorText(err) != "" && errors.Is(err, redlock.ErrMisconfigured)
				})
				wantText(t, "TryAcquire", errorText(err), "was founded without strict recovery")
			}
			admitted(t, app)
			mustRelease(t, mustAcquire(t, app, "orders/42"))
			for i, n := range status(t, app).Nodes {
				if !n.Strict {
					t.Errorf("node %d: not strict after the operator's word", i)
				}
			}
		})
	}
}
