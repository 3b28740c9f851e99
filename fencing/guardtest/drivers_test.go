package guardtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// ---- what docs/FENCING.md shows, word for word

// checkPGX puts a token to the guard in a transaction of pgx.
func checkPGX(ctx context.Context, tx pgx.Tx, guard *fencing.SQL, resource string, token redlock.Token) error {
	check, err := guard.Statement(ctx, resource, token)
	if err != nil {
		return err
	}
	return check.Accept(tx.QueryRow(ctx, check.SQL(), check.Args()...).Scan)
}

func payPGX(ctx context.Context, pool *pgxpool.Pool, guard *fencing.SQL, token redlock.Token) error {
	return guard.Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := checkPGX(ctx, tx, guard, "invoice:7", token); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE invoices SET state = 'paid' WHERE id = 7")
			return err
		})
	})
}

func paySQLC(ctx context.Context, pool *pgxpool.Pool, queries *Queries, guard *fencing.SQL, token redlock.Token) error {
	return guard.Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := checkPGX(ctx, tx, guard, "invoice:7", token); err != nil {
				return err
			}
			return queries.WithTx(tx).SetInvoiceState(ctx, SetInvoiceStateParams{ID: 7, State: "paid"})
		})
	})
}

func payGORM(ctx context.Context, db *gorm.DB, guard *fencing.SQL, token redlock.Token) error {
	return guard.Retry(ctx, func(ctx context.Context) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := guard.Check(ctx, tx.Statement.ConnPool, "invoice:7", token); err != nil {
				return err
			}
			return tx.Model(&Invoice{ID: 7}).Update("state", "paid").Error
		})
	})
}

// ---- what stands around it in a program

// DBTX, Queries and what follows have the form in which sqlc writes code for pgx/v5.
type DBTX interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

type Queries struct{ db DBTX }

func (*Queries) WithTx(tx pgx.Tx) *Queries { return &Queries{db: tx} }

type SetInvoiceStateParams struct {
	ID    int64
	State string
}

func (q *Queries) SetInvoiceState(ctx context.Context, arg SetInvoiceStateParams) error {
	_, err := q.db.Exec(ctx, "UPDATE invoices SET state = $2 WHERE id = $1", arg.ID, arg.State)
	return err
}

// Invoice is a model of GORM.
type Invoice struct {
	ID    int64
	State string
}

// invoices is PostgreSQL with one open invoice, and the guard's table.
type invoices struct {
	*store
	pool *pgxpool.Pool
}

func openInvoices(t *testing.T) *invoices {
	t.Helper()
	s := stores()[0]
	s.prepare(t)
	pool, err := pgxpool.New(t.Context(), postgresDSN(t))
	testkit.Must(t, err)
	t.Cleanup(pool.Close)
	s.exec(t, "DROP TABLE IF EXISTS invoices")
	s.exec(t, "CREATE TABLE invoices (id bigint PRIMARY KEY, state text NOT NULL)")
	s.exec(t, "INSERT INTO invoices VALUES (7, 'open')")
	return &invoices{s, pool}
}

func (i *invoices) state(t *testing.T) (state string) {
	t.Helper()
	testkit.Must(t, i.db.QueryRowContext(t.Context(), "SELECT state FROM invoices WHERE id = 7").Scan(&state))
	return state
}

func (i *invoices) gorm(t *testing.T, prepared bool) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: i.db}), &gorm.Config{PrepareStmt: prepared, Logger: logger.Discard})
	testkit.Must(t, err)
	return db
}

// ways are the three of the page, and GORM with its cache of prepared statements.
func (i *invoices) ways(t *testing.T) map[string]func(context.Context, redlock.Token) error {
	t.Helper()
	queries, plain, prepared := &Queries{db: i.pool}, i.gorm(t, false), i.gorm(t, true)
	all := map[string]func(context.Context, redlock.Token) error{
		"pgx":            func(ctx context.Context, n redlock.Token) error { return payPGX(ctx, i.pool, i.guard, n) },
		"sqlc":           func(ctx context.Context, n redlock.Token) error { return paySQLC(ctx, i.pool, queries, i.guard, n) },
		"GORM":           func(ctx context.Context, n redlock.Token) error { return payGORM(ctx, plain, i.guard, n) },
		"GORM, prepared": func(ctx context.Context, n redlock.Token) error { return payGORM(ctx, prepared, i.guard, n) },
	}
	if pooled != "" {
		delete(all, "GORM, prepared") // TestPreparedStatementsThroughPgBouncer
	}
	return all
}
