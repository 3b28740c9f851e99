// Package testserver starts real servers for the tests of the full tier.
//
// The few smoke tests of the quick tier call [chaos.NeedServers] themselves.
package testserver

import (
	"testing"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Need is [chaos.NeedServers] for a test of the full tier.
func Need(tb testing.TB, n int, config chaos.ServerConfig) []*chaos.Server {
	tb.Helper()
	testkit.Full(tb)
	return chaos.NeedServers(tb, n, config)
}

// NeedOne is [Need] for one server.
func NeedOne(tb testing.TB, config chaos.ServerConfig) *chaos.Server {
	tb.Helper()
	return Need(tb, 1, config)[0]
}
