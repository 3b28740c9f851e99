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
// together and a look-up names the resource.
type held struct {
	resource string
	token    uint64
	outer    *held
}

// With returns a copy of ctx that carries token for resource. The tokens that
// ctx carries for other resources stay; one for the same resource is hidden.
func With(ctx context.Context, resource string, token uint64) context.Context {
	outer, _ := ctx.Value(key{}).(*held)
	return context.WithValue(ctx, key{}, &held{resource: resource, token: token, outer: outer})
}

// From returns the token that ctx carries for resource, and whether there is one.
func From(ctx context.Context, resource string) (uint64, bool) {
	h, _ := ctx.Value(key{}).(*held)
	for ; h != nil; h = h.outer {
		if h.resource == resource {
			return h.token, true
		}
	}
	return 0, false
}
