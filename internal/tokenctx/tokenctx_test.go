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

	for _, tt := range []struct {
		name     string
		ctx      context.Context //nolint:containedctx // a table of contexts is what is tested
		resource string
		want     uint64
		found    bool
	}{
		{"empty context", t.Context(), "a", 0, false},
		{"outer", ctx, "a", 1, true},
		{"beside it", ctx, "b", 2, true},
		{"another resource", ctx, "c", 0, false},
		{"the inner hides the outer", inner, "a", 3, true},
		{"the inner keeps the others", inner, "b", 2, true},
	} {
		got, ok := tokenctx.From(tt.ctx, tt.resource)
		if got != tt.want || ok != tt.found {
			t.Errorf("%s: got %d, %t; want %d, %t", tt.name, got, ok, tt.want, tt.found)
		}
	}
}
