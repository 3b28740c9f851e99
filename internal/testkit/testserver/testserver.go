// Package testserver starts real servers for the tests of the full tier.
//
// The few smoke tests of the quick tier call [redisserver.NeedAll] themselves.
package testserver

import (
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Need is [redisserver.NeedAll] for a test of the full tier.
func Need(tb testing.TB, n int, config redisserver.Config) []*redisserver.Server {
	tb.Helper()
	testkit.Full(tb)
	return redisserver.NeedAll(tb, n, config)
}

// NeedOne is [Need] for one server.
func NeedOne(tb testing.TB, config redisserver.Config) *redisserver.Server {
	tb.Helper()
	return Need(tb, 1, config)[0]
}
