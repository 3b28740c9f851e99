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

// ErrOnlyChecked is the cause of a context under which a call checks its arguments and does no
// more: it returns this where they are usable, and is no event. Package adapters makes such calls.
var ErrOnlyChecked = errors.New("redlock: only checked")
