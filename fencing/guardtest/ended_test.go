package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// end is a way in which a statement of Write's function ends the transaction,
// with no error that the function would have to return.
type end struct {
	name       string
	statements []string // {table} is one that nothing else uses
	deadlock   bool
}

// ends are those of a database: MariaDB's manual lists the statements that commit
// by themselves.
func (s *store) ends() []end {
	if s.name == "SQLite" {
		return []end{{name: "an error that rolls back", statements: []string{"INSERT OR ROLLBACK INTO {table} VALUES (1), (1)"}}}
	}
	return []end{
		{name: "TRUNCATE", statements: []string{"TRUNCATE TABLE {table}"}},
		{name: "CREATE", statements: []string{"CREATE TABLE {table}_new (id integer)"}},
		{name: "ALTER", statements: []string{"ALTER TABLE {table} ADD COLUMN n integer"}},
		{name: "DROP", statements: []string{"DROP TABLE {table}"}},
		{name: "ANALYZE", statements: []string{"ANALYZE TABLE {table}"}},
		{name: "FLUSH", statements: []string{"FLUSH TABLE {table}"}},
		{name: "COMMIT", statements: []string{"COMMIT"}},
		{name: "COMMIT AND CHAIN", statements: []string{"COMMIT AND CHAIN"}},
		{name: "ROLLBACK", statements: []string{"ROLLBACK"}},
		{name: "another begins", statements: []string{"TRUNCATE TABLE {table}", "START TRANSACTION"}},
		{name: "no autocommit", statements: []string{"SET autocommit = 0", "TRUNCATE TABLE {table}"}},
		{name: "a deadlock", deadlock: true},
	}
}

func (s *store) apply(t *testing.T, tx *sql.Tx, e end) {
	t.Helper()
	ctx := t.Context()
	if e.deadlock {
		_ = s.deadlock(t, tx) // swallowed
		return
	}
	for _, statement := range e.statements {
		_, err := tx.ExecContext(ctx, strings.ReplaceAll(statement, "{table}", s.balance+"_other"))
		if (err != nil) != (s.name == "SQLite") {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// The transaction that held the guard's row ends in the middle, the newer holder
// writes, and the older one writes after it. Write cannot undo that; it must not
// call it done.
func TestAWriteWhoseTransactionEndedInTheMiddleIsNoSuccess(t *testing.T) {
	for _, s := range stores()[1:] { // PostgreSQL: below
		t.Run(s.name, func(t *testing.T) {
			for _, e := range s.ends() {
				t.Run(e.name, func(t *testing.T) {
					s.prepare(t)
					s.exec(t, "CREATE TABLE "+s.balance+"_other (id integer PRIMARY KEY)")
					s.db.SetMaxIdleConns(0) // what the statements set in a session ends with it
					ctx := t.Context()
					err := s.guard.Write(ctx, s.db, nil, account, 41, func(tx *sql.Tx) error {
						s.apply(t, tx, e)
						if _, err := s.writeOften(ctx, nil, hold{token: 42}); err != nil {
							t.Fatalf("the newer holder: %v", err)
						}
						return s.write(ctx, tx, 41, "late")
					})
					if !errors.Is(err, fencing.ErrTxAborted) || s.guard.Retryable(err) {
						_, token := s.value(t)
						t.Errorf("got %v, the row has %d; want ErrTxAborted, not to be retried", err, token)
					}
				})
			}
		})
	}
}

// PostgreSQL's DDL is part of the transaction, and after an error it neither runs
// another statement nor commits.
func TestPostgreSQLCommitsNothingAfterASwallowedError(t *testing.T) {
	s := stores()[0]
	s.prepare(t)
	ctx := t.Context()
	err := s.guard.Write(ctx, s.db, nil, account, 41, func(tx *sql.Tx) error {
		testkit.Must(t, s.write(ctx, tx, 41, "before"))
		if _, err := tx.ExecContext(ctx, "SELECT 1/0"); err == nil {
			t.Fatal("got nil; want an error")
		}
		if err := s.write(ctx, tx, 41, "after"); err == nil {
			t.Error("after the error: got nil; want the statement refused")
		}
		return nil
	})
	if err == nil {
		t.Error("got nil; want an error")
	}
	s.wantUntouched(t)

	other := s.balance + "_other"
	s.exec(t, "CREATE TABLE "+other+" (id integer)")
	mine := errors.New("the caller's own")
	err = s.guard.Write(ctx, s.db, nil, account, 41, func(tx *sql.Tx) error {
		for _, statement := range []string{"TRUNCATE TABLE " + other, "ALTER TABLE " + other + " ADD COLUMN n integer", "DROP TABLE " + other} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				t.Fatal(err)
			}
		}
		return errors.Join(s.write(ctx, tx, 41, "rolled back"), mine)
	})
	if !errors.Is(err, mine) {
		t.Errorf("got %v; want the write's own error", err)
	}
	s.wantUntouched(t)
	s.exec(t, "SELECT id FROM "+other)
}

// With innodb_snapshot_isolation a statement that finds a newer version than its
// snapshot ends the transaction, as a deadlock does.
func TestASwallowedSnapshotErrorIsNoSuccess(t *testing.T) {
	for _, s := range stores()[1:3] {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			strict := openDB(t, "mysql", dsnOf(t, mariadb)+"?innodb_snapshot_isolation=ON")
			opts := &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
			s.exec(t, "CREATE TABLE "+s.balance+"_other (id integer) ENGINE=InnoDB")
			s.exec(t, "INSERT INTO "+s.balance+"_other VALUES (1)")
			if err := strict.PingContext(ctx); err != nil {
				t.Skipf("this server has no innodb_snapshot_isolation: %v", err)
			}
			err := s.guard.Write(ctx, strict, opts, account, 41, func(tx *sql.Tx) error {
				var id int
				testkit.Must(t, tx.QueryRowContext(ctx, "SELECT id FROM "+s.balance+"_other").Scan(&id))
				s.exec(t, "UPDATE "+s.balance+"_other SET id = 2")
				if _, err := tx.ExecContext(ctx, "UPDATE "+s.balance+"_other SET id = 3"); !s.guard.Retryable(err) {
					t.Fatalf("got %v; want error 1020", err)
				}
				if _, err := s.writeOften(ctx, nil, hold{token: 42}); err != nil {
					t.Fatalf("the newer holder: %v", err)
				}
				return s.write(ctx, tx, 41, "late")
			})
			if !errors.Is(err, fencing.ErrTxAborted) {
				t.Errorf("got %v; want ErrTxAborted", err)
			}
		})
	}
}

// A procedure of the server's may commit as well.
func TestAProcedureThatCommitsIsNoSuccess(t *testing.T) {
	for _, s := range stores()[1:3] {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			s.exec(t, "CREATE PROCEDURE "+s.balance+"_commits() COMMIT")
			err := s.guard.Write(ctx, s.db, nil, account, 41, func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "CALL "+s.balance+"_commits()"); err != nil {
					t.Fatal(err)
				}
				return s.write(ctx, tx, 41, "late")
			})
			if !errors.Is(err, fencing.ErrTxAborted) {
				t.Errorf("got %v; want ErrTxAborted", err)
			}
		})
	}
}

// What a function may do in its transaction, savepoints and other resources among
// it, is no end of it.
func TestAWriteThatKeepsItsTransactionSucceeds(t *testing.T) {
	for s, opts := range storesAndLevels() {
		t.Run(s.at(opts), func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			err := s.guard.Write(ctx, s.db, opts, account, 41, func(tx *sql.Tx) error {
				for _, statement := range []string{"SAVEPOINT mine", "ROLLBACK TO SAVEPOINT mine", "RELEASE SAVEPOINT mine", "SAVEPOINT kept"} {
					if _, err := tx.ExecContext(ctx, statement); err != nil {
						t.Fatalf("%s: %v", statement, err)
					}
				}
				err := errors.Join(s.guard.Check(ctx, tx, "account:2", 7), s.guard.Check(ctx, tx, account, 41), s.write(ctx, tx, 41, "kept"))
				if s.name != "PostgreSQL" { // there an error ends the transaction
					if _, refused := tx.ExecContext(ctx, "INSERT INTO "+s.balance+" VALUES (1, 'twice', 0)"); refused == nil {
						t.Error("got nil; want a duplicate refused")
					}
				}
				return err
			})
			testkit.Must(t, err)
			if got := s.applied(t); !slices.Equal(got, []int64{41}) {
				t.Errorf("got %d; want [41]", got)
			}
			for resource, want := range map[string]uint64{account: 41, "account:2": 7} {
				if got, err := s.guard.Highest(ctx, s.db, resource); uint64(got) != want || err != nil {
					t.Errorf("%s: got %d, %v; want %d", resource, got, err, want)
				}
			}
		})
	}
}

// In a transaction of the caller's own, a second Check as its last statement is
// what tells.
func TestASecondCheckMissesATransactionThatHasEnded(t *testing.T) {
	for _, s := range stores()[1:] {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := context.Background()
			s.exec(t, "CREATE TABLE "+s.balance+"_other (id integer PRIMARY KEY)")
			tx := s.begin(t, nil)
			testkit.Must(t, s.guard.Check(ctx, tx, account, 41))
			s.apply(t, tx, s.ends()[0])
			if err := s.guard.Check(ctx, tx, account, 41); !errors.Is(err, fencing.ErrTxAborted) {
				t.Errorf("got %v; want ErrTxAborted", err)
			}
		})
	}
}
