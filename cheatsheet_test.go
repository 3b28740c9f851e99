package redlock_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// The calls of docs/CHEATSHEET.md, as they stand there.
func TestTheCallsOfTheCheatSheetWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		ctx := t.Context()
		released := func(lock *redlock.Lock, err error) {
			t.Helper()
			must(t, err)
			if lock.Err() != nil || lock.Remaining() == 0 || lock.Token() == 0 {
				t.Errorf("got %v, %v, token %v; want it held", lock.Err(), lock.Remaining(), lock.Token())
			}
			must(t, lock.Release(ctx))
			<-lock.Done()
			<-lock.Context().Done()
		}
		ran := 0
		work := func(context.Context, *redlock.Lock) error { ran++; return nil }
		lead := work

		must(t, locker.Do(ctx, "orders/42", work))
		released(locker.Acquire(ctx, "orders/42"))
		released(locker.Acquire(ctx, "orders/42", redlock.WithWait(5*time.Second)))
		must(t, locker.TryDo(ctx, "orders/42", work))
		released(locker.TryAcquire(ctx, "orders/42"))
		released(locker.Acquire(ctx, "data", redlock.WithShared()))
		released(locker.Acquire(ctx, "render", redlock.WithLimit(3)))
		locks, err := locker.AcquireAll(ctx, []string{"stock/1", "stock/2"})
		must(t, err)
		must(t, locks.Release(ctx))
		must(t, locker.Campaign(ctx, "billing", lead))
		for leader, err := range locker.Observe(ctx, "billing") {
			if err != nil || leader.Held {
				t.Errorf("got %+v, %v; want nobody to lead", leader, err)
			}
			break
		}
		lock, err := locker.Acquire(ctx, "report", redlock.WithRevocation())
		must(t, err)
		go func() {
			<-lock.Revoked()
			_ = lock.Release(context.Background())
		}()
		must(t, locker.Revoke(ctx, "report"))
		seen, err := locker.Inspect(ctx, "orders/42")
		must(t, err)
		if owner, held := seen.Holder(); held || ran != 3 {
			t.Errorf("got holder %q, and %d calls of work and lead; want none, and 3", owner, ran)
		}
	})
}

// The test above has each call of the sheet.
func TestEachCallOfTheCheatSheetIsTested(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "cheatsheet_test.go", nil, 0)
	must(t, err)
	tested := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			tested[types.ExprString(call)] = true
		}
		return true
	})
	calls := regexp.MustCompile("`(lock(?:er)?\\.[^`]*)`").FindAllStringSubmatch(read(t, "docs/CHEATSHEET.md"), -1)
	if len(calls) < 15 {
		t.Errorf("got %d calls; the search for them is broken", len(calls))
	}
	for _, c := range calls {
		call, err := parser.ParseExpr(c[1])
		must(t, err)
		if !tested[types.ExprString(call)] {
			t.Errorf("docs/CHEATSHEET.md has %s: have TestTheCallsOfTheCheatSheetWork call it", c[1])
		}
	}
}
