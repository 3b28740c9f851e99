// Package locktest has what tests of whole Lockers share, in each package whose decisions
// they look at: how Lockers, nodes and servers are made and broken, and what is left on them.
package locktest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/quietredis"
)

// Main lets more tests run side by side than there are cores: those that do are
// over real servers, and wait most of the time. Under the race detector they compute.
func Main(m *testing.M) {
	quietredis.On()
	flag.Parse()
	if !testkit.UnderRace {
		_ = flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
	}
	debug.SetGCPercent(400) // an eighth of the time went there
	os.Exit(m.Run())
}
