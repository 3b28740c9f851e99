package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// A service ends quietly where errors.Is(err, context.Canceled). Work that returned its
// context's error, as drivers do, had it do so where the lock was lost.
func TestALossDoesNotLookLikeAShutdown(t *testing.T) {
	for what, tt := range map[string]struct {
		says  func(ctx context.Context) error // what the work returns when its context has ended
		words string                          // of the error, after the loss
		also  error
	}{
		"its context's error": {says: context.Context.Err},
		"that, wrapped": {
			says:  func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) },
			words: ": query: context canceled",
		},
		"beside another": {
			says:  func(ctx context.Context) error { return fmt.Errorf("%w: %w", errWork, ctx.Err()) },
			words: ": the work failed: context canceled", also: errWork,
		},
		"its context's cause": {says: context.Cause},
		"both, as this library does": {
			says: func(ctx context.Context) error { return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx)) },
		},
		"a deadline of its own": {
			says: func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				<-ctx.Done()
				return ctx.Err()
			},
			words: ": context deadline exceeded", also: context.DeadlineExceeded,
		},
		"nothing": {says: func(context.Context) error { return nil }},
	} {
		for _, name := range []string{"Do", "TryDo", "DoAll", "Do inside a hold"} {
			for _, goesOn := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					l, nodes := newLocker(t, 3)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					err := works[name](ctx, l, func(inner context.Context) error {
						for _, n := range nodes.Nodes() {
							n.FlushAll()
						}
						<-inner.Done()
						if !goesOn {
							cancel()
						}
						return tt.says(inner)
					})
					what := fmt.Sprintf("%s, its work says %s, the caller's context goes on: %t", name, what, goesOn)
					wantError(t, what, err, redlock.ErrLost)
					if tt.also != nil {
						wantError(t, what, err, tt.also)
					}
					if goesOn && errors.Is(err, context.Canceled) {
						t.Errorf("%s: got %q; want no context.Canceled in it", what, err)
					}
					if text := err.Error(); !strings.HasPrefix(text, "redlock: do ") || !strings.HasSuffix(text, tt.words) || strings.Contains(text, "\n") ||
						strings.Count(text, "lost: ") > 1 {
						t.Errorf("%s: got %q; want one line, the loss once, and then %q", what, text, tt.words)
					}
				})
			}
		}
	}
}

// A shutdown looks like one, with a loss and without, and what the work's error has is found.
func TestAShutdownLooksLikeOne(t *testing.T) {
	for _, name := range []string{"Do", "DoAll", "Campaign"} {
		for _, lost := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				ctx, cancel := context.WithCancel(t.Context())
				err := works[name](ctx, l, func(inner context.Context) error {
					if lost {
						for _, n := range nodes.Nodes() {
							n.FlushAll()
						}
						<-inner.Done()
					}
					cancel()
					<-inner.Done()
					return &fs.PathError{Op: "write", Path: "report", Err: inner.Err()}
				})
				wantError(t, name, err, context.Canceled)
				var path *fs.PathError
				if !errors.As(err, &path) || errors.Is(err, redlock.ErrLost) != lost {
					t.Errorf("%s, lost: %t: got %v; want the work's error in it, and the loss if there was one", name, lost, err)
				}
			})
		}
	}
}
