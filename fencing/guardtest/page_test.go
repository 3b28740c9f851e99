package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// payInSQL and payAgain are docs/FENCING.md's.
func payInSQL(ctx context.Context, db *sql.DB, lock *redlock.Lock) (*fencing.SQL, error) {
	guard, err := fencing.NewSQL(fencing.SQLite()) // or PostgreSQL(), MariaDB(), MySQL()
	if err != nil {
		return nil, err
	}
	err = guard.Migrate(ctx, db)
	if err != nil {
		return nil, err
	}
	err = guard.Write(ctx, db, nil, "invoice:7", lock.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE invoices SET state = 'paid' WHERE id = 7")
		return err
	})
	return guard, err
}

func payAgain(db *sql.DB, guard *fencing.SQL, lock *redlock.Lock, write func(*sql.Tx) error) error {
	err := guard.Retry(lock.Context(), func(ctx context.Context) error {
		return guard.Write(ctx, db, nil, "invoice:7", lock.Token(), write)
	})
	return err
}

func TestTheFirstGuardOfThePageRefusesWhoIsLate(t *testing.T) {
	db, done, err := openExample()
	testkit.Must(t, err)
	defer done()
	nodes := redlocktest.Start(t, 3)
	locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithNodeTimeout(2*time.Second))
	testkit.Must(t, err)
	defer func() { _ = locker.Close() }()
	late, err := locker.Acquire(t.Context(), "invoice:7")
	testkit.Must(t, err)
	testkit.Must(t, late.Release(t.Context()))
	lock, err := locker.Acquire(t.Context(), "invoice:7")
	testkit.Must(t, err)
	guard, err := payInSQL(t.Context(), db, lock)
	testkit.Must(t, err)
	var state string
	if err := db.QueryRow("SELECT state FROM invoices WHERE id = 7").Scan(&state); err != nil || state != "paid" {
		t.Errorf("got %q, %v; want it paid", state, err)
	}
	if _, err := payInSQL(t.Context(), db, late); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("the holder before: got %v; want it refused", err)
	}
	runs := 0
	if err := payAgain(db, guard, lock, func(*sql.Tx) error { runs++; return nil }); err != nil || runs != 1 {
		t.Errorf("got %v after %d runs; want one", err, runs)
	}
}
