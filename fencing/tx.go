package fencing

import (
	"context"
	"database/sql"
	"fmt"
)

// Tx is what Check needs of an open transaction. *sql.Tx has it, and so has what
// is made over one: sqlx's and bun's Tx, GORM's Statement.ConnPool, ent's Tx with
// the feature sql/execquery. *sql.Conn has it, for who says BEGIN and COMMIT in
// SQL.
//
// A pool has these methods as well, and must not be given: it would commit the
// token by itself, and leave the write unguarded. So Check also wants Commit and
// Rollback, as transactions have them, or Raw, as *sql.Conn has it, and returns
// ErrNoTx for what has neither. Of what is no *sql.Tx it asks the database whether
// a transaction was begun.
//
// Transactions of drivers that are not database/sql's: see SQL.Statement.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// usable returns an error unless tx is a transaction, or one connection.
func usable(resource string, tx Tx) error {
	switch t := tx.(type) {
	case nil:
		return fmt.Errorf("fencing: check %q: %w: it is nil", resource, ErrTxAborted)
	case *sql.Tx:
		if t == nil {
			return fmt.Errorf("fencing: check %q: %w: it is nil", resource, ErrTxAborted)
		}
		return nil
	case interface {
		Commit() error
		Rollback() error
	}:
		return nil
	case interface {
		Raw(use func(any) error) error
	}:
		return nil
	}
	return fmt.Errorf("fencing: check %q: %w: a %T has no Commit and Rollback, so it may be a pool: give Check the *sql.Tx that it begins", resource, ErrNoTx, tx)
}

// begunIn returns sql.ErrTxDone, or the driver's error, unless a transaction is
// open in tx. Of a *sql.Tx it is known that one was begun.
func (g *SQL) begunIn(ctx context.Context, tx Tx) error {
	if _, known := tx.(*sql.Tx); known {
		return g.open(ctx, tx)
	}
	return asked(ctx, tx, g.dialect.begunIn)
}

// asked returns sql.ErrTxDone where open, if there is one, says no.
func asked(ctx context.Context, tx Tx, open func(context.Context, Tx) (bool, error)) error {
	if open == nil {
		return nil
	}
	is, err := open(ctx, tx)
	if err == nil && !is {
		return sql.ErrTxDone
	}
	return err
}

// oneRow reads the first row of a query into fields; sql.ErrNoRows without one.
func oneRow(ctx context.Context, tx Tx, query string, args, fields []any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(fields...); err != nil {
		return err
	}
	return rows.Close()
}
