package fencing

import (
	"context"
	"fmt"

	"github.com/quorumkit/redlock"
)

// Statement is the check of one token as text, for transactions of drivers that
// are not database/sql's: pgx, and what is built on it (River, sqlc over pgx).
//
//	s, err := guard.Statement(ctx, "invoice:7", token)
//	err = s.Accept(tx.QueryRow(ctx, s.SQL(), s.Args()...).Scan)
//
// It is a value of one check: make a new one for each.
type Statement struct {
	guard    *SQL
	resource string
	token    redlock.Token
	shared   bool
}

// Statement returns what Check would send for token, which is that of a shared
// hold if ctx says so. It sends nothing.
//
// Run it as the first statement of a transaction, and give its one row to Accept.
// Not promised: that there is a transaction. Where each statement commits by
// itself, as in a pool, PostgreSQL keeps the token and guards nothing. MariaDB's
// statement looks, and Accept returns ErrTxAborted.
//
// It returns ErrManyStatements for MySQL and SQLite, where one statement is not
// enough: use Check. Other errors are those of Check for bad input.
func (g *SQL) Statement(ctx context.Context, resource string, token redlock.Token) (*Statement, error) {
	if !g.dialect.alone {
		return nil, fmt.Errorf("fencing: statement for %s: %w: use SQL.Check", g.dialect, ErrManyStatements)
	}
	if err := g.valid(ctx, resource, token); err != nil {
		return nil, err
	}
	return &Statement{guard: g, resource: resource, token: token, shared: IsShared(ctx, resource, token)}, nil
}

// SQL returns the text, with the dialect's placeholders: $1 and so on, or ?.
func (s *Statement) SQL() string {
	text, _ := s.guard.raising(s.resource, s.token, s.shared)
	return text
}

// Args returns the arguments of the text: the resource, and the token once or
// twice.
func (s *Statement) Args() []any {
	_, args := s.guard.raising(s.resource, s.token, s.shared)
	return args
}

// Accept reads the statement's one row by scan, the Scan method of the driver's
// row. It blocks while scan does, which with most drivers is when the statement
// runs: until another transaction that has checked the resource has ended.
//
// If it returns nil, the transaction may write to the resource: the token is kept
// when, and only if, it commits. Else roll it back. The errors are those of Check.
// A transaction's end that the driver knows by itself, such as pgx.ErrTxClosed, is
// the driver's error.
func (s *Statement) Accept(scan func(dest ...any) error) error {
	var r row
	seen, err := s.guard.held(&r, scan(s.guard.fields(&r)...))
	if err != nil {
		return s.guard.classed(s.resource, err)
	}
	_, err = seen.Accept(s.resource, s.token, s.shared)
	return err
}
