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
// The token is taken for that of an exclusive hold, unless ctx carries it for
// resource as that of a shared one: then it stays one. NewSharedContext is for
// the token of a shared hold.
//
// It returns ErrResource, ErrZeroToken or ErrTokenRange for what is no token, and
// ErrBackwards when ctx carries a larger token for resource: then the caller
// mixes up an old lock with the one it holds. ctx is as it was in each case.
func NewContext(ctx context.Context, resource string, token redlock.Token) (context.Context, error) {
	if err := forwards(ctx, resource, token); err != nil {
		return nil, err
	}
	if IsShared(ctx, resource, token) {
		return ctx, nil
	}
	return tokenctx.With(ctx, resource, uint64(token)), nil
}

// NewSharedContext is NewContext for the token of a shared hold. A guard that is
// handed the returned context takes this token of this resource for a shared
// one. Never say so of an exclusive hold's token: sharers do not make one
// another stale, so that an earlier holder's writes would be accepted.
//
// It returns what NewContext returns, and ErrKind when ctx carries the same token
// as that of an exclusive hold.
func NewSharedContext(ctx context.Context, resource string, token redlock.Token) (context.Context, error) {
	if err := forwards(ctx, resource, token); err != nil {
		return nil, err
	}
	if old, ok := tokenctx.From(ctx, resource); ok && uint64(token) == old && !tokenctx.Shared(ctx, resource) {
		return nil, fmt.Errorf("fencing: carry %q: %w: %d", resource, ErrKind, token)
	}
	return tokenctx.WithShared(ctx, resource, uint64(token)), nil
}

// IsShared reports whether ctx carries token for resource as that of a shared
// hold. This is how every guard learns a token's kind, from the context that it
// is handed; where it reports false, the token is taken for an exclusive one. So
// a kind that is lost on the way brings refusals, and lets no stale write pass.
func IsShared(ctx context.Context, resource string, token redlock.Token) bool {
	carried, ok := tokenctx.From(ctx, resource)
	return ok && carried == uint64(token) && tokenctx.Shared(ctx, resource)
}

// forwards returns an error if token is none, or smaller than what ctx carries.
func forwards(ctx context.Context, resource string, token redlock.Token) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	if old, ok := tokenctx.From(ctx, resource); ok && uint64(token) < old {
		return fmt.Errorf("fencing: carry %q: %w: got %d after %d", resource, ErrBackwards, token, old)
	}
	return nil
}

// FromContext returns the token that ctx carries for resource, of either kind: a
// guard that is handed ctx beside it knows which. It returns ErrNoToken when
// there is none: a write without a token must fail, so there is
// no form of this function that returns a zero token in silence.
func FromContext(ctx context.Context, resource string) (redlock.Token, error) {
	token, ok := tokenctx.From(ctx, resource)
	if !ok {
		return 0, fmt.Errorf("fencing: the context carries none for %q: %w", resource, ErrNoToken)
	}
	return redlock.Token(token), nil
}
