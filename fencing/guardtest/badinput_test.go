package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestBadInputIsRefusedAndNothingIsWritten(t *testing.T) {
	long := strings.Repeat("x", fencing.MaxResourceLength+1)
	for _, tt := range []struct {
		name     string
		resource string
		token    redlock.Token
		want     error
	}{
		{"zero token", account, 0, fencing.ErrZeroToken},
		{"token above the largest", account, redlock.MaxToken + 1, fencing.ErrTokenRange},
		{"empty name", "", 1, fencing.ErrInvalidResource},
		{"name too long", long, 1, fencing.ErrInvalidResource},
		{"name too long in bytes only", strings.Repeat("ä", fencing.MaxResourceLength/2+1), 1, fencing.ErrInvalidResource},
		{"name with a NUL", "a\x00b", 1, fencing.ErrInvalidResource},
		{"name that is no text", "a\xff", 1, fencing.ErrInvalidResource},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range stores() {
				t.Run(s.name, func(t *testing.T) {
					s.prepare(t)
					ctx := t.Context()
					err := s.guard.Write(ctx, s.db, nil, tt.resource, tt.token, func(tx *sql.Tx) error {
						return s.write(ctx, tx, int64(tt.token), "bad")
					})
					if !errors.Is(err, tt.want) {
						t.Errorf("Write: got %v; want %v", err, tt.want)
					}
					tx := s.begin(t, nil)
					if err := s.guard.Check(ctx, tx, tt.resource, tt.token); !errors.Is(err, tt.want) {
						t.Errorf("Check: got %v; want %v", err, tt.want)
					}
					if err := tx.Commit(); err != nil { // the caller who does not look
						t.Fatal(err)
					}
					s.wantUntouched(t)
				})
			}
		})
	}
}

func TestAMissingTableIsNamed(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			s.exec(t, "DROP TABLE "+s.fences)
			err := s.guard.Write(ctx, s.db, nil, account, 1, func(tx *sql.Tx) error {
				return s.write(ctx, tx, 1, "unguarded")
			})
			if !errors.Is(err, fencing.ErrNoTable) || s.guard.Retryable(err) {
				t.Errorf("Write: got %v; want ErrNoTable, not to be retried", err)
			}
			if _, err := s.guard.Highest(ctx, s.db, account); !errors.Is(err, fencing.ErrNoTable) {
				t.Errorf("Highest: got %v; want ErrNoTable", err)
			}
			testkit.Must(t, s.guard.Migrate(ctx, s.db))
			s.wantUntouched(t)
		})
	}
}

func TestAnAbortedTransactionIsRefused(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			tx := s.aborted(t)
			err := s.guard.Check(ctx, tx, account, 9)
			if !errors.Is(err, fencing.ErrTxAborted) || s.guard.Retryable(err) {
				t.Errorf("got %v; want ErrTxAborted", err)
			}
			_ = tx.Rollback() // some drivers report that there is none
			s.wantUntouched(t)

			done := s.begin(t, nil)
			testkit.Must(t, done.Rollback())
			for name, tx := range map[string]*sql.Tx{"rolled back": done, "nil": nil} {
				if err := s.guard.Check(ctx, tx, account, 9); !errors.Is(err, fencing.ErrTxAborted) {
					t.Errorf("%s: got %v; want ErrTxAborted", name, err)
				}
			}
			s.wantUntouched(t)
		})
	}
}

// aborted returns a transaction that the database has given up, while
// database/sql still takes it for an open one.
func (s *store) aborted(t *testing.T) *sql.Tx {
	t.Helper()
	ctx := t.Context()
	tx := s.begin(t, nil)
	var err error
	switch s.name {
	case "PostgreSQL":
		_, err = tx.ExecContext(ctx, "SELECT 1/0")
	case "SQLite":
		_, err = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO "+s.balance+" VALUES (1, 'twice', 0)")
	default:
		err = s.deadlock(t, tx)
	}
	if err == nil {
		t.Fatal("the transaction was not aborted")
	}
	return tx
}

// deadlock makes victim one of two transactions that wait for each other; InnoDB
// gives up the one that has changed less.
func (s *store) deadlock(t *testing.T, victim *sql.Tx) error {
	t.Helper()
	ctx := t.Context()
	locks := s.balance + "_locks"
	s.exec(t, "CREATE TABLE "+locks+" (id integer PRIMARY KEY, n integer) ENGINE=InnoDB")
	s.exec(t, "INSERT INTO "+locks+" VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
	other := s.begin(t, nil)
	change := func(ctx context.Context, tx *sql.Tx, where string) error {
		_, err := tx.ExecContext(ctx, "UPDATE "+locks+" SET n = n + 1 WHERE "+where)
		return err
	}
	testkit.Must(t, errors.Join(change(ctx, other, "id >= 2"), change(ctx, victim, "id = 1")))
	survivor := make(chan error, 1)
	go func() { survivor <- change(ctx, other, "id = 1") }()
	s.awaitWaiter(t)
	err := change(ctx, victim, "id = 2")
	if err := <-survivor; err != nil {
		t.Fatalf("the wrong one was given up: %v", err)
	}
	if !s.guard.Retryable(err) {
		t.Fatalf("got %v; want a deadlock, to be retried", err)
	}
	return err
}

// A deferred transaction of SQLite that has read cannot write after somebody
// else has: its snapshot is old.
func TestSQLiteRefusesAReaderThatWritesTooLate(t *testing.T) {
	s := stores()[3]
	s.prepare(t)
	ctx := t.Context()
	conn, err := s.db.Conn(ctx)
	testkit.Must(t, err)
	defer conn.Close()
	deferred, err := sql.Open("sqlite3", sqliteFile(t, conn)+"?_txlock=deferred")
	testkit.Must(t, err)
	defer deferred.Close()
	tx, err := deferred.BeginTx(ctx, nil)
	testkit.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	var seen int64
	testkit.Must(t, tx.QueryRowContext(ctx, "SELECT token FROM "+s.balance).Scan(&seen))
	if _, err := s.writeOften(ctx, nil, hold{token: 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.guard.Check(ctx, tx, account, 4); !s.guard.Retryable(err) {
		t.Errorf("got %v; want an error to be retried", err)
	}
	if got := s.applied(t); !slices.Equal(got, []int64{3}) {
		t.Errorf("got %d; want [3]", got)
	}
}

func sqliteFile(t *testing.T, conn *sql.Conn) string {
	t.Helper()
	var seq int
	var name, file string
	testkit.Must(t, conn.QueryRowContext(t.Context(), "PRAGMA database_list").Scan(&seq, &name, &file))
	return "file:" + file
}

func TestADeadlineEndsTheWaitForAnOpenTransaction(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			if s.name == "SQLite" {
				return // BEGIN IMMEDIATE is what waits there, and by its own timeout
			}
			tx := s.begin(t, nil)
			testkit.Must(t, s.guard.Check(t.Context(), tx, account, 5))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				s.awaitWaiter(t)
				cancel()
			}()
			err := s.guard.Write(ctx, s.db, nil, account, 6, func(tx *sql.Tx) error {
				return s.write(ctx, tx, 6, "too late")
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v; want the context's error", err)
			}
			testkit.Must(t, tx.Commit())
			if got, err := s.guard.Highest(t.Context(), s.db, account); got != 5 || err != nil {
				t.Errorf("got %d, %v; want 5", got, err)
			}
		})
	}
}

func TestMigrateMayRunTwiceAndByManyAtOnce(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			if _, err := s.writeOften(t.Context(), nil, hold{token: 7}); err != nil {
				t.Fatal(err)
			}
			if err := s.guard.Migrate(t.Context(), s.db); err != nil {
				t.Errorf("again: %v", err)
			}
			if got, err := s.guard.Highest(t.Context(), s.db, account); got != 7 || err != nil {
				t.Errorf("got %d, %v; want the token to have stayed: 7", got, err)
			}
			for round := range 5 {
				guard, err := fencing.NewSQL(s.dialect, fencing.WithTable(fmt.Sprintf("%s_%d", s.fences, round)))
				testkit.Must(t, err)
				var wg sync.WaitGroup
				for range 6 {
					wg.Go(func() {
						if err := guard.Migrate(t.Context(), s.db); err != nil {
							t.Errorf("at once: %v", err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// An application's own user may often not create tables. One that is there must
// be enough; one that is not must be missed.
func TestMigrateNeedsNoPrivilegeForATableThatIsThere(t *testing.T) {
	s := stores()[0]
	s.prepare(t)
	user := s.role(t)
	s.exec(t, "GRANT SELECT, INSERT, UPDATE ON "+s.fences+" TO "+user)
	plain := openDB(t, "pgx", dsnOf(t, postgres)+" user="+user)
	if err := s.guard.Migrate(t.Context(), plain); err != nil {
		t.Errorf("got %v; want nil", err)
	}
	missing, err := fencing.NewSQL(s.dialect, fencing.WithTable(s.fences+"_missing"))
	testkit.Must(t, err)
	if err := missing.Migrate(t.Context(), plain); err == nil {
		t.Error("got nil; want the privilege to be missed")
	}
}

func TestAGuardWithoutADialectOrAPlainNameIsRefused(t *testing.T) {
	if _, err := fencing.NewSQL(fencing.Dialect{}); err == nil {
		t.Error("no dialect: got nil; want an error")
	}
	for _, name := range []string{"", ".", "a.", ".a", "a.b.c", `a"b`, "a b", "a;b", "1a", "ä", strings.Repeat("a", 64)} {
		if _, err := fencing.NewSQL(fencing.SQLite(), fencing.WithTable(name)); err == nil {
			t.Errorf("table %q: got nil; want an error", name)
		}
	}
}
