package guardtest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

const account = "account:1"

func TestWithoutTheGuardTheStaleWriteLandsAndWithItIsRefused(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			plain := pausedholder.Run(func(token redlock.Token, value string) error {
				tx, err := s.db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				if err := s.write(ctx, tx, int64(token), value); err != nil {
					return err
				}
				return tx.Commit()
			})
			if err := errors.Join(plain.Early, plain.Next, plain.Late); err != nil {
				t.Fatalf("unguarded: got %v; want three writes", err)
			}
			if got, _ := s.value(t); got != pausedholder.PausedLate {
				t.Fatalf("unguarded: got %q; want the stale write %q", got, pausedholder.PausedLate)
			}

			guarded := pausedholder.Run(func(token redlock.Token, value string) error {
				return s.guard.Write(ctx, s.db, nil, account, token, func(tx *sql.Tx) error {
					return s.write(ctx, tx, int64(token), value)
				})
			})
			if err := errors.Join(guarded.Early, guarded.Next); err != nil {
				t.Fatalf("guarded: got %v; want both holders' writes", err)
			}
			wantStale(t, guarded.Late, account, pausedholder.PausedToken, pausedholder.NextToken)
			if got, _ := s.value(t); got != pausedholder.NextValue {
				t.Errorf("guarded: got %q; want %q", got, pausedholder.NextValue)
			}
		})
	}
}

func TestTheTokenCommitsWithTheWriteOrNotAtAll(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			mine := errors.New("the caller's own")
			fail := func(tx *sql.Tx) error {
				return errors.Join(s.write(ctx, tx, 9, "rolled back"), mine)
			}
			if err := s.guard.Write(ctx, s.db, nil, account, 9, fail); !errors.Is(err, mine) {
				t.Errorf("got %v; want the write's own error", err)
			}
			s.wantUntouched(t)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				_ = s.guard.Write(ctx, s.db, nil, account, 9, func(tx *sql.Tx) error {
					panic(fail(tx))
				})
			}()
			s.wantUntouched(t)

			for _, token := range []redlock.Token{3, 3, 4} { // the same token twice
				if _, err := s.writeOften(ctx, nil, hold{token: token}); err != nil {
					t.Errorf("token %d: %v", token, err)
				}
			}
			err := s.guard.Write(ctx, s.db, nil, account, 5, func(tx *sql.Tx) error {
				return s.guard.Check(ctx, tx, account, 4) // backwards within one transaction
			})
			wantStale(t, err, account, 4, 5)
			if got, err := s.guard.Highest(ctx, s.db, account); got != 4 || err != nil {
				t.Errorf("got %d, %v; want 4", got, err)
			}
		})
	}
}

func TestNamesThatOnlyLookAlikeAreDifferentResources(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			names := []string{"a", "A", "a ", "ä", "a\u0308", "á", " a", "a\n", "%", "'; DROP TABLE x; --", "日本"}
			for i, name := range names {
				err := s.guard.Write(t.Context(), s.db, nil, name, redlock.Token(100-i), func(*sql.Tx) error { return nil })
				if err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
			for i, name := range names {
				if got, err := s.guard.Highest(t.Context(), s.db, name); got != redlock.Token(100-i) || err != nil {
					t.Errorf("%q: got %d, %v; want %d", name, got, err, 100-i)
				}
			}
		})
	}
}

func TestTheLargestTokenAndTheLongestNameFit(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			name := fmt.Sprintf("%0*d", fencing.MaxResourceLength, 1)
			err := s.guard.Write(t.Context(), s.db, nil, name, redlock.MaxToken, func(*sql.Tx) error { return nil })
			if got, readErr := s.guard.Highest(t.Context(), s.db, name); err != nil || readErr != nil || got != redlock.MaxToken {
				t.Errorf("got %d, %v, %v; want %d", got, err, readErr, redlock.MaxToken)
			}
		})
	}
}

// wantUntouched fails the test if the guard or the protected row has changed.
func (s *store) wantUntouched(tb testing.TB) {
	tb.Helper()
	if value, token := s.value(tb); value != "nothing" || token != 0 {
		tb.Errorf("the row was written: %q, %d", value, token)
	}
	var rows int
	if err := s.db.QueryRowContext(tb.Context(), "SELECT count(*) FROM "+s.fences).Scan(&rows); err != nil || rows != 0 {
		tb.Errorf("the guard was written: %d rows, %v", rows, err)
	}
}

func wantStale(tb testing.TB, err error, resource string, token, highest redlock.Token) {
	tb.Helper()
	var stale *fencing.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fencing.ErrStale) {
		tb.Fatalf("got %v; want a *StaleError", err)
	}
	if want := (fencing.StaleError{Resource: resource, Token: token, Highest: highest}); *stale != want {
		tb.Errorf("got %+v; want %+v", *stale, want)
	}
}

func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("not in time: %s", what)
		}
	}
}
