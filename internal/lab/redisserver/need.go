package redisserver

import (
	"errors"
	"os"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/process"
)

// requireServers, set to anything but empty, makes a missing server or
// C compiler fail a test instead of skipping it: CI must not pass because
// nothing ran.
const requireServers = "REDLOCK_REQUIRE_SERVERS"

// NeedAll starts n servers for a test and closes them when it ends. Where
// there is no server program, or no C compiler for FakeClock, the test is
// skipped with the reason, unless REDLOCK_REQUIRE_SERVERS is set; any other
// failure to start ends the test as failed. If the test has failed in the end,
// the last lines of each server's log are in its output.
func NeedAll(tb testing.TB, n int, config Config) []*Server {
	tb.Helper()
	servers, err := StartAll(n, config)
	missing := errors.Is(err, ErrNoServer) || errors.Is(err, ErrNoFakeClock)
	switch {
	case missing && os.Getenv(requireServers) == "":
		tb.Skipf("needs real servers: %v", err)
	case err != nil:
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for i, s := range servers {
				tb.Logf("the log of server %d, %s:\n%s", i, s.Addr(), process.Tail(s.Log))
			}
		}
		if err := CloseAll(servers); err != nil {
			tb.Errorf("closing the servers: %v", err)
		}
	})
	return servers
}

// Need is [NeedAll] for one server.
func Need(tb testing.TB, config Config) *Server {
	tb.Helper()
	return NeedAll(tb, 1, config)[0]
}
