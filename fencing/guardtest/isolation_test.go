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

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// The history is numbered while the transaction has the resource to itself, so
// its order is the order in which the writes were made.
func TestConcurrentWritersLeaveANonDecreasingHistory(t *testing.T) {
	const writers, each = 8, 10
	for s, opts := range storesAndLevels() {
		t.Run(s.at(opts), func(t *testing.T) {
			s.prepare(t)
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
						retries, err := s.writeOften(t.Context(), opts, hold{token: token})
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
}

// writeOften writes under a token, and again for as long as the database gives
// the transaction up.
func (s *store) writeOften(ctx context.Context, opts *sql.TxOptions, by hold) (retries int, err error) {
	for ; ; retries++ {
		err = s.guard.Write(by.under(ctx), s.db, opts, account, by.token, func(tx *sql.Tx) error {
			var before int64
			if err := tx.QueryRowContext(ctx, "SELECT token FROM "+s.balance+" WHERE id = 1").Scan(&before); err != nil {
				return err
			}
			if before > int64(by.token) && !by.shared {
				return fmt.Errorf("token %d was accepted after %d was written", by.token, before)
			}
			return s.write(ctx, tx, int64(by.token), fmt.Sprint(by.token))
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
			for s, opts := range storesAndLevels() {
				t.Run(s.at(opts), func(t *testing.T) {
					s.prepare(t)
					err := s.race(t, opts, hold{token: tt.first}, hold{token: tt.second}, tt.commit)
					if tt.conflict && s.name == "PostgreSQL" && opts.Isolation >= sql.LevelRepeatableRead {
						pg, bare := err.(*pgconn.PgError) //nolint:errorlint // that it is not wrapped is what is tested
						if !bare || pg.Code != "40001" || !s.guard.Retryable(err) {
							t.Fatalf("got %v; want the driver's own 40001, to be retried", err)
						}
						_, err = s.writeOften(t.Context(), opts, hold{token: tt.second})
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
			}
		})
	}
}

// race opens a transaction with the first token, puts the second one to the
// guard in another, waits until that one waits, ends the first, and returns what
// became of the second.
func (s *store) race(t *testing.T, opts *sql.TxOptions, first, second hold, commit bool) error {
	t.Helper()
	ctx := t.Context()
	s.exec(t, fmt.Sprintf("INSERT INTO %s (resource, token) VALUES ('%s', 1)", s.fences, account))
	tx := s.begin(t, opts)
	if err := s.guard.Check(first.under(ctx), tx, account, first.token); err != nil {
		t.Fatalf("first: %v", err)
	}
	testkit.Must(t, s.write(ctx, tx, int64(first.token), "first"))
	result := make(chan error, 1)
	go func() {
		result <- s.guard.Write(second.under(ctx), s.db, opts, account, second.token, func(tx *sql.Tx) error {
			return s.write(ctx, tx, int64(second.token), "second")
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
	testkit.Must(t, end())
	return <-result
}

// awaitWaiter polls the server's own list of waiting transactions. SQLite has
// none, and there it makes no difference when the second one begins.
func (s *store) awaitWaiter(t *testing.T) {
	t.Helper()
	// Not innodb_lock_waits, which shows the same answer to the one who asks often.
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
		testkit.Must(t, s.db.QueryRowContext(t.Context(), query).Scan(&n))
		return n > 0
	})
}

// This is the control for the tests above: the same steps with a comparison that
// is not part of the write.
func TestToCompareFirstAndWriteAfterwardsLetsTheStaleWriteLand(t *testing.T) {
	for s, opts := range storesAndLevels() {
		t.Run(s.at(opts), func(t *testing.T) {
			s.prepare(t)
			switch { // the levels that find the conflict by themselves, or let no other writer in
			case s.name == "SQLite", opts.Isolation == sql.LevelSerializable,
				s.name == "PostgreSQL" && opts.Isolation == sql.LevelRepeatableRead:
				return
			}
			ctx := t.Context()
			old := s.begin(t, opts)
			var seen int64
			if err := old.QueryRowContext(ctx, "SELECT token FROM "+s.balance+" WHERE id = 1").Scan(&seen); err != nil || seen > 5 {
				t.Fatalf("got %d, %v; want a token that lets 5 pass", seen, err)
			}
			if _, err := s.writeOften(ctx, opts, hold{token: 6}); err != nil {
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
}

// This is why Check comes first: it says nothing about what was read before it.
// The levels with a snapshot that writes must fit refuse such a transaction by
// themselves, and the guard leaves their errors as they are.
func TestWhatWasReadBeforeTheCheckMayBeOld(t *testing.T) {
	for s, opts := range storesAndLevels() {
		t.Run(s.at(opts), func(t *testing.T) {
			s.prepare(t)
			if s.name == "SQLite" || s.name != "PostgreSQL" && opts.Isolation == sql.LevelSerializable {
				return // to read is to keep the other writer out
			}
			ctx := t.Context()
			if _, err := s.writeOften(ctx, nil, hold{token: 1}); err != nil {
				t.Fatal(err)
			}
			tx := s.begin(t, opts)
			read := func() (value string) {
				testkit.Must(t, tx.QueryRowContext(ctx, "SELECT value FROM "+s.balance+" WHERE id = 1").Scan(&value))
				return value
			}
			before := read()
			if _, err := s.writeOften(ctx, nil, hold{token: 2}); err != nil {
				t.Fatal(err)
			}
			err := s.guard.Check(ctx, tx, account, 3)
			if s.name == "PostgreSQL" && opts.Isolation >= sql.LevelRepeatableRead {
				if !s.guard.Retryable(err) {
					t.Errorf("got %v; want a serialization failure", err)
				}
				return
			}
			if err != nil || before != "1" {
				t.Fatalf("got %v after %q; want the newer token accepted after 1 was read", err, before)
			}
			want := "2" // read again, after Check
			if opts.Isolation == sql.LevelRepeatableRead {
				want = "1" // still from the snapshot
			}
			if got := read(); got != want {
				t.Errorf("after Check: got %q; want %q", got, want)
			}
		})
	}
}

// Newer versions of MariaDB have innodb_snapshot_isolation on by default.
func TestMariaDBWithSnapshotIsolationRefusesAnOldSnapshot(t *testing.T) {
	s := stores()[1]
	s.prepare(t)
	ctx := t.Context()
	if _, err := s.writeOften(ctx, nil, hold{token: 1}); err != nil {
		t.Fatal(err)
	}
	strict := openDB(t, "mysql", dsnOf(t, mariadb)+"?innodb_snapshot_isolation=ON")
	tx, err := strict.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Skipf("this server has no innodb_snapshot_isolation: %v", err)
	}
	defer func() { _ = tx.Rollback() }()
	var seen int64
	testkit.Must(t, tx.QueryRowContext(ctx, "SELECT token FROM "+s.balance).Scan(&seen))
	if _, err := s.writeOften(ctx, nil, hold{token: 2}); err != nil {
		t.Fatal(err)
	}
	if err := s.guard.Check(ctx, tx, account, 3); !s.guard.Retryable(err) {
		t.Errorf("got %v; want error 1020, to be retried", err)
	}
}

// Check as the first statement makes the snapshot, and makes it new.
func TestWhatIsReadAfterTheCheckIsNew(t *testing.T) {
	for s, opts := range storesAndLevels() {
		t.Run(s.at(opts), func(t *testing.T) {
			s.prepare(t)
			if s.name == "SQLite" {
				return // its transaction begins with the write lock
			}
			ctx := t.Context()
			tx := s.begin(t, opts)
			if _, err := s.writeOften(ctx, nil, hold{token: 2}); err != nil { // after begin, before Check
				t.Fatal(err)
			}
			testkit.Must(t, s.guard.Check(ctx, tx, account, 3))
			var value string
			if err := tx.QueryRowContext(ctx, "SELECT value FROM "+s.balance+" WHERE id = 1").Scan(&value); err != nil || value != "2" {
				t.Errorf("got %q, %v; want 2", value, err)
			}
		})
	}
}
