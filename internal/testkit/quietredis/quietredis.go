// Package quietredis keeps out of the tests' output what go-redis writes to stderr
// of connections that tests break on purpose: thousands of lines in one run. Tests
// import it, and nothing else: go-redis has one logger for a whole program, and it
// is the program's to choose.
package quietredis

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

// expected are the beginnings of the formats of what is left out.
var expected = []string{
	"redis: connection pool: failed to dial",
	"redis: connection pool: failed to get a usable connection",
	"Conn has unread data", // a reply that came after its command had timed out
}

// filter passes all else on, as go-redis does by itself.
type filter struct{ to *log.Logger }

// Printf is what go-redis calls.
func (f filter) Printf(_ context.Context, format string, v ...any) {
	for _, e := range expected {
		if strings.HasPrefix(format, e) {
			return
		}
	}
	f.to.Printf(format, v...)
}

// On replaces go-redis's logger for as long as the test binary runs. It returns
// true, so that a test file can say
//
//	var _ = quietredis.On()
//
// in a package that has no TestMain.
func On() bool {
	redis.SetLogger(filter{log.New(os.Stderr, "redis: ", log.LstdFlags)})
	return true
}
