package contenders

import (
	"context"
	"time"
)

// poll tries until it has a lock: again after pollEvery while somebody else has it. It
// returns when the attempt was sent that won.
func poll[T any](ctx context.Context, try func() (got T, taken bool, err error)) (T, int64, error) {
	for {
		sent := monotonic()
		got, taken, err := try()
		if !taken {
			return got, sent, err
		}
		select {
		case <-ctx.Done():
			return got, 0, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
