// Package tokenctx carries fencing tokens in a context.
//
// It stands below both users: the root package sets the token of the lock that
// a function runs under, package fencing reads it, and fencing imports the root,
// so the key can live in neither of them.
package tokenctx

import "context"

type key struct{}

// held is one link of the chain of tokens in a context, innermost first.
// A token means nothing for another resource than its own, so the two travel
// together and a look-up names the resource. Nor does it without its kind.
type held struct {
	resource string
	token    uint64
	shared   bool
	outer    *held
}

// With returns a copy of ctx that carries token, of an exclusive hold, for
// resource. The tokens that ctx carries for other resources stay; one for the
// same resource is hidden.
func With(ctx context.Context, resource string, token uint64) context.Context {
	return with(ctx, &held{resource: resource, token: token})
}

// WithShared is With for the token of a shared hold.
func WithShared(ctx context.Context, resource string, token uint64) context.Context {
	return with(ctx, &held{resource: resource, token: token, shared: true})
}

func with(ctx context.Context, h *held) context.Context {
	h.outer, _ = ctx.Value(key{}).(*held)
	return context.WithValue(ctx, key{}, h)
}

// From returns the token that ctx carries for resource, and whether there is one.
func From(ctx context.Context, resource string) (uint64, bool) {
	if h := find(ctx, resource); h != nil {
		return h.token, true
	}
	return 0, false
}

// Shared reports whether the token that From returns is that of a shared hold.
func Shared(ctx context.Context, resource string) bool {
	h := find(ctx, resource)
	return h != nil && h.shared
}

// find returns the innermost link for resource, nil if there is none.
func find(ctx context.Context, resource string) *held {
	h, _ := ctx.Value(key{}).(*held)
	for h != nil && h.resource != resource {
		h = h.outer
	}
	return h
}
