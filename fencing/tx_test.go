package fencing_test

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

// These types offer a transaction's methods, and are none.
type (
	wrappedPool struct{ *sql.DB }
	twoMethods  struct{ db *sql.DB }
)

func (m twoMethods) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return m.db.ExecContext(ctx, query, args...)
}

func (m twoMethods) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return m.db.QueryContext(ctx, query, args...)
}

// wrappedTx is a transaction as sqlx and bun have it.
type wrappedTx struct{ *sql.Tx }

func TestAPoolIsNoTransactionAndIsToldNothing(t *testing.T) {
	for _, dialect := range []fencing.Dialect{fencing.PostgreSQL(), fencing.SQLite(), fencing.MariaDB(), fencing.MySQL()} {
		guard, err := fencing.NewSQL(dialect)
		testkit.Must(t, err)
		var r recorder
		db := sql.OpenDB(&r)
		for _, pool := range []fencing.Tx{db, wrappedPool{db}, &wrappedPool{db}, twoMethods{db}} {
			if err := guard.Check(t.Context(), pool, "r", 7); !errors.Is(err, fencing.ErrNoTx) {
				t.Errorf("%s, a %T: got %v; want ErrNoTx", dialect, pool, err)
			}
		}
		if len(r.said) > 0 {
			t.Errorf("%s was told %q; want nothing", dialect, r.said)
		}
		if err := errors.Join(db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A *sql.Conn and a transaction of another type say by their methods only that they
// may be one.
func TestWhatIsNoSQLTxIsAskedForItsTransactionFirst(t *testing.T) {
	guard := postgresGuard(t)
	var r recorder
	db := sql.OpenDB(&r)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	testkit.Must(t, err)
	defer conn.Close()
	tx, err := conn.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	r.said = nil
	for _, tt := range []struct {
		in   fencing.Tx
		want []string // how the statements begin
	}{
		{tx, []string{"INSERT"}},
		{conn, []string{"SAVEPOINT redlock_fencing\n", "RELEASE SAVEPOINT redlock_fencing\n", "INSERT"}},
		{wrappedTx{tx}, []string{"SAVEPOINT redlock_fencing\n", "RELEASE SAVEPOINT redlock_fencing\n", "INSERT"}},
	} {
		if err := guard.Check(t.Context(), tt.in, "r", 7); err != nil {
			t.Errorf("a %T: %v", tt.in, err)
		}
		if !slices.EqualFunc(r.said, tt.want, strings.HasPrefix) {
			t.Errorf("a %T: got %q; want %q", tt.in, r.said, tt.want)
		}
		r.said = nil
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}
