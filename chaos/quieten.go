package chaos

import (
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

var quiet sync.Once

// quieten has go-redis keep to itself that it could not dial, which faults see to
// thousands of times in a run: it would say so on stderr. It happens with the first stage
// of the process and replaces the logger of then, which can't be asked for; a logger that
// is set later stays.
func quieten() {
	quiet.Do(func() { redis.SetLogger(logging.NewBlacklistLogger([]string{"failed to dial"})) })
}
