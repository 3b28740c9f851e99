package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumkit/redlock"
)

// The columns of shared tokens. token is the larger of the two numbers, as guards
// without WithShared compare it: they refuse an exclusive holder after a newer sharer
// as well. While token is more than shared, it is the exclusive number. Else
// before_shared is: the largest exclusive token that was seen before shared.
var sharedColumns = []string{"shared", "before_shared"}

type sharedOption struct{}

func (sharedOption) applySQL(g *SQL) { g.shared = true }

// WithShared has the guard take tokens of shared holds, and keep two numbers for
// each resource (see Seen). The table needs two columns more: Migrate adds them,
// or a tool of yours with Alterations. Without it the guard keeps one number, uses
// no other column, and answers a shared token with ErrShared.
//
// Guards with and without it may use one table. One without is as exact about
// exclusive tokens, but for one case: it accepts an exclusive token that equals the
// largest shared one, which no lock issues.
func WithShared() SQLOption { return sharedOption{} }

// Alterations returns the statements that give a table that was made without
// WithShared its columns, for the tool that runs your migrations. A row keeps its
// number as the exclusive one, and guards without WithShared go on. To run a
// statement twice is the database's error. Each waits for the open transactions of
// the table, and new ones wait for it; none of the databases copies the rows.
func (g *SQL) Alterations() []string {
	statements := make([]string, len(sharedColumns))
	for i, column := range sharedColumns {
		statements[i] = g.named("ALTER TABLE {table} ADD COLUMN " + g.columnOf(column))
	}
	return statements
}

func (g *SQL) columnOf(name string) string {
	return name + " " + g.dialect.number + " NOT NULL DEFAULT 0"
}

// columns are those of shared tokens in the statement that creates the table.
func (g *SQL) columns() string {
	var b strings.Builder
	if g.shared {
		for _, column := range sharedColumns {
			b.WriteString(",\n\t" + g.columnOf(column))
		}
	}
	return b.String()
}

// numbers are what a guard reads of a row.
func (g *SQL) numbers() string {
	if g.shared {
		return "token, " + strings.Join(sharedColumns, ", ")
	}
	return "token"
}

// row is what {numbers} of a row hold.
type row struct{ token, shared, beforeShared int64 }

// fields are where {numbers} of a row are read into.
func (g *SQL) fields(r *row) []any {
	if !g.shared {
		return []any{&r.token}
	}
	return []any{&r.token, &r.shared, &r.beforeShared}
}

// seen is what the row says.
func (r row) seen() Seen {
	if r.token > r.shared {
		return Seen{Exclusive: redlock.Token(r.token)} //nolint:gosec // the column is checked to be positive
	}
	return Seen{Exclusive: redlock.Token(r.beforeShared), Shared: redlock.Token(r.shared)} //nolint:gosec // no token is above 2^53-1
}

// addColumns adds what columns of shared tokens the table lacks.
func (g *SQL) addColumns(ctx context.Context, db *sql.DB) error {
	for i, statement := range g.Alterations() {
		there := g.hasColumn(ctx, db, sharedColumns[i])
		if there == nil {
			continue
		}
		_, err := db.ExecContext(ctx, statement)
		if err == nil || g.hasColumn(ctx, db, sharedColumns[i]) == nil { // another process was first
			continue
		}
		return fmt.Errorf("add the columns of shared tokens, as by SQL.Alterations: %w", err)
	}
	return nil
}

// hasColumn returns an error if the table lacks the column, or cannot be asked.
func (g *SQL) hasColumn(ctx context.Context, db *sql.DB, column string) error {
	var number int64
	err := db.QueryRowContext(ctx, g.named("SELECT "+column+" FROM {table} WHERE resource = ''")).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
