package contenders

import "github.com/quorumkit/redlock/internal/testkit/quietredis"

// Servers are killed here on purpose.
var _ = quietredis.On()
