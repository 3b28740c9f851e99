package fencing

import (
	"context"
	"fmt"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/tokenctx"
)

// NewContext returns a copy of ctx that carries token for resource. The context
// that redlock's Do hands to its function carries the lock's token already; this
// is for callers of Acquire, and for servers that took a token off the wire.
//
// A context carries one token for each resource: those of two locks do not
// disturb one another, and a token is never found under another name than its
// own. That is the same name, byte for byte, that the lock has and that the
// guard is asked for.
//
// It returns ErrResource, ErrZeroToken or ErrTokenRange for what is no token, and
// ErrBackwards when ctx carries a larger token for resource: then the caller
// mixes up an old lock with the one it holds. ctx is as it was in each case.
func NewContext(ctx context.Context, resource string, token redlock.Token) (context.Context, error) {
	if err := valid(resource, token); err != nil {
		return nil, err
	}
	if old, ok := tokenctx.From(ctx, resource); ok && uint64(token) < old {
		return nil, fmt.Errorf("fencing: carry %q: %w: got %d after %d", resource, ErrBackwards, token, old)
	}
	return tokenctx.With(ctx, resource, uint64(token)), nil
}

// FromContext returns the token that ctx carries for resource. It returns
// ErrNoToken when there is none: a write without a token must fail, so there is
// no form of this function that returns a zero token in silence.
func FromContext(ctx context.Context, resource string) (redlock.Token, error) {
	token, ok := tokenctx.From(ctx, resource)
	if !ok {
		return 0, fmt.Errorf("fencing: the context carries none for %q: %w", resource, ErrNoToken)
	}
	return redlock.Token(token), nil
}
