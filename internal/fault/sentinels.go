package fault

import "errors"

// The sentinels that layers below the door return. The root has them as its own, and
// says there what they mean.
var (
	ErrNotAcquired   = errors.New("redlock: not acquired")
	ErrNoQuorum      = errors.New("redlock: no quorum")
	ErrClosed        = errors.New("redlock: closed")
	ErrInvalidTTL    = errors.New("redlock: invalid TTL")
	ErrInvalidNode   = errors.New("redlock: invalid node")
	ErrMisconfigured = errors.New("redlock: node misconfigured")
)
