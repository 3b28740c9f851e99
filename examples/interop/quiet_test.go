package interop

import "github.com/quorumkit/redlock/internal/testkit/quietredis"

// Tests here break connections on purpose.
var _ = quietredis.On()
