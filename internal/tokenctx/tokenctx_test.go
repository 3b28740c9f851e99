package tokenctx_test

import (
	"context"
	"testing"

	"github.com/quorumkit/redlock/internal/tokenctx"
)

func TestATokenIsFoundUnderItsOwnResourceOnly(t *testing.T) {
	ctx := tokenctx.With(t.Context(), "a", 1)
	ctx = tokenctx.With(ctx, "b", 2)
	inner := tokenctx.With(ctx, "a", 3)
	shared := tokenctx.WithShared(ctx, "a", 1)

	for _, tt := range []struct {
		name     string
		ctx      context.Context //nolint:containedctx // a table of contexts is what is tested
		resource string
		want     uint64
		found    bool
		shared   bool
	}{
		{"empty context", t.Context(), "a", 0, false, false},
		{"outer", ctx, "a", 1, true, false},
		{"beside it", ctx, "b", 2, true, false},
		{"another resource", ctx, "c", 0, false, false},
		{"the inner hides the outer", inner, "a", 3, true, false},
		{"the inner keeps the others", inner, "b", 2, true, false},
		{"shared", shared, "a", 1, true, true},
		{"beside the shared one", shared, "b", 2, true, false},
		{"another than the shared one", shared, "c", 0, false, false},
		{"an exclusive one hides the shared one", tokenctx.With(shared, "a", 4), "a", 4, true, false},
	} {
		got, ok := tokenctx.From(tt.ctx, tt.resource)
		if kind := tokenctx.Shared(tt.ctx, tt.resource); got != tt.want || ok != tt.found || kind != tt.shared {
			t.Errorf("%s: got %d, %t, shared %t; want %d, %t, %t", tt.name, got, ok, kind, tt.want, tt.found, tt.shared)
		}
	}
}
