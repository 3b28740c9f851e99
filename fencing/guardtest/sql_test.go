package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/pausedholder"
)

const account = "account:1"

func TestWithoutTheGuardTheStaleWriteLandsAndWithItIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
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

// The history is numbered while the transaction has the resource to itself, so
// its order is the order in which the writes were made.
func TestConcurrentWritersLeaveANonDecreasingHistory(t *testing.T) {
	const writers, each = 8, 10
	eachLevel(t, func(t *testing.T, s *store, opts *sql.TxOptions) {
		var wg sync.WaitGroup
		var issued atomic.Uint64
		var mu sync.Mutex // guards the three below
		var most redlock.Token
		var refused, retried int
		for w := range writers {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			wg.Go(func() {
				for range each {
					// Rising, as nodes issue them, and up to ten out of order.
					token := redlock.Token(issued.Add(1) + rng.Uint64N(10))
					retries, err := s.writeOften(t.Context(), opts, token)
					mu.Lock()
					most = max(most, token)
					retried += retries
					if errors.Is(err, fencing.ErrStale) {
						refused++
					} else if err != nil {
						t.Errorf("token %d: %v", token, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		applied := s.applied(t)
		t.Logf("%d applied, %d refused, %d run again", len(applied), refused, retried)
		if len(applied)+refused != writers*each {
			t.Errorf("got %d applied and %d refused; want %d together", len(applied), refused, writers*each)
		}
		if !slices.IsSorted(applied) {
			t.Errorf("the history goes backwards: %d", applied)
		}
		// The largest token of all is never stale, so its write is the last.
		highest, err := s.guard.Highest(t.Context(), s.db, account)
		if err != nil || highest != most {
			t.Errorf("highest: got %d, %v; want %d", highest, err, most)
		}
		if _, got := s.value(t); got != int64(most) {
			t.Errorf("the value is that of token %d; want %d", got, most)
		}
	})
}

// writeOften writes under token, and again for as long as the database gives
// the transaction up.
func (s *store) writeOften(ctx context.Context, opts *sql.TxOptions, token redlock.Token) (retries int, err error) {
	for ; ; retries++ {
		err = s.guard.Write(ctx, s.db, opts, account, token, func(tx *sql.Tx) error {
			var before int64
			if err := tx.QueryRowContext(ctx, "SELECT token FROM "+s.balance+" WHERE id = 1").Scan(&before); err != nil {
				return err
			}
			if before > int64(token) {
				return fmt.Errorf("token %d was accepted after %d was written", token, before)
			}
			return s.write(ctx, tx, int64(token), fmt.Sprint(token))
		})
		if !s.guard.Retryable(err) {
			return retries, err
		}
	}
}

func TestATokenWaitsForTheOpenTransactionOfAnother(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second redlock.Token
		commit        bool
		want          error // of the second
		conflict      bool  // a snapshot that is older than the first's commit is a conflict
	}{
		{"the older after the newer commits", 6, 5, true, fencing.ErrStale, true},
		{"the older after the newer rolls back", 6, 5, false, nil, false},
		{"the newer after the older commits", 5, 6, true, nil, true},
		{"the newer after the older rolls back", 5, 6, false, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachLevel(t, func(t *testing.T, s *store, opts *sql.TxOptions) {
				err := s.race(t, opts, tt.first, tt.second, tt.commit)
				if tt.conflict && s.name == "PostgreSQL" && opts.Isolation >= sql.LevelRepeatableRead {
					pg, bare := err.(*pgconn.PgError) //nolint:errorlint // that it is not wrapped is what is tested
					if !bare || pg.Code != "40001" || !s.guard.Retryable(err) {
						t.Fatalf("got %v; want the driver's own 40001, to be retried", err)
					}
					_, err = s.writeOften(t.Context(), opts, tt.second)
				}
				if !errors.Is(err, tt.want) {
					t.Fatalf("got %v; want %v", err, tt.want)
				}
				if tt.want != nil {
					wantStale(t, err, account, tt.second, tt.first)
				}
				wantValue := tt.second
				if tt.want != nil {
					wantValue = tt.first
				}
				if _, got := s.value(t); got != int64(wantValue) {
					t.Errorf("the value is that of token %d; want %d", got, wantValue)
				}
			})
		})
	}
}

// race opens a transaction with the first token, puts the second one to the
// guard in another, waits until that one waits, ends the first, and returns what
// became of the second.
func (s *store) race(t *testing.T, opts *sql.TxOptions, first, second redlock.Token, commit bool) error {
	t.Helper()
	ctx := t.Context()
	s.exec(t, fmt.Sprintf("INSERT INTO %s (resource, token) VALUES ('%s', 1)", s.fences, account))
	tx, err := s.db.BeginTx(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := s.guard.Check(ctx, tx, account, first); err != nil {
		t.Fatalf("first: %v", err)
	}
	if err := s.write(ctx, tx, int64(first), "first"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		result <- s.guard.Write(ctx, s.db, opts, account, second, func(tx *sql.Tx) error {
			return s.write(ctx, tx, int64(second), "second")
		})
	}()
	s.awaitWaiter(t)
	select {
	case err := <-result:
		t.Fatalf("the second did not wait: %v", err)
	default:
	}
	end := tx.Rollback
	if commit {
		end = tx.Commit
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return <-result
}

// awaitWaiter polls the server's own list of waiting transactions. SQLite has
// none, and there it makes no difference when the second one begins.
func (s *store) awaitWaiter(t *testing.T) {
	t.Helper()
	// Not innodb_lock_waits, which shows the same answer to whoever asks often.
	const innodb = `SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'`
	query := map[string]string{
		"PostgreSQL": "SELECT count(*) FROM pg_locks WHERE NOT granted",
		"MariaDB":    innodb,
		"MySQL":      innodb,
	}[s.name]
	if query == "" {
		return
	}
	eventually(t, "the second transaction waits", func() bool {
		var n int
		if err := s.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// This is the control for the tests above: the same steps with a comparison that
// is not part of the write.
func TestToCompareFirstAndWriteAfterwardsLetsTheStaleWriteLand(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *store, opts *sql.TxOptions) {
		switch { // the levels that find the conflict by themselves, or let no other writer in
		case s.name == "SQLite", opts.Isolation == sql.LevelSerializable,
			s.name == "PostgreSQL" && opts.Isolation == sql.LevelRepeatableRead:
			return
		}
		ctx := t.Context()
		old, err := s.db.BeginTx(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Rollback()
		var seen int64
		if err := old.QueryRowContext(ctx, "SELECT token FROM "+s.balance+" WHERE id = 1").Scan(&seen); err != nil || seen > 5 {
			t.Fatalf("got %d, %v; want a token that lets 5 pass", seen, err)
		}
		if _, err := s.writeOften(ctx, opts, 6); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.write(ctx, old, 5, "stale"), old.Commit()); err != nil {
			t.Fatalf("got %v; want the stale write to land", err)
		}
		if got := s.applied(t); !slices.Equal(got, []int64{6, 5}) {
			t.Errorf("got %d; want the history to go backwards: [6 5]", got)
		}
	})
}

func TestTheTokenCommitsWithTheWriteOrNotAtAll(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
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
			if _, err := s.writeOften(ctx, nil, token); err != nil {
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

func TestNamesThatOnlyLookAlikeAreDifferentResources(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
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

func TestTheLargestTokenAndTheLongestNameFit(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		name := fmt.Sprintf("%0*d", fencing.MaxResourceLen, 1)
		err := s.guard.Write(t.Context(), s.db, nil, name, redlock.MaxToken, func(*sql.Tx) error { return nil })
		if got, readErr := s.guard.Highest(t.Context(), s.db, name); err != nil || readErr != nil || got != redlock.MaxToken {
			t.Errorf("got %d, %v, %v; want %d", got, err, readErr, redlock.MaxToken)
		}
	})
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
