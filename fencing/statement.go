package fencing

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumkit/redlock"
)

// Statement is the check of one token as text, for transactions of drivers that
// are not database/sql's: pgx, and libraries built on it (River, sqlc over pgx).
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

// Statement returns the statement that Check would send for token, a shared hold's
// if ctx says so. It sends nothing.
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

// Dialect is the SQL that differs between databases. It is data: the guard's logic
// is in SQL. The zero value is refused by NewSQL.
type Dialect struct {
	name  string
	quote string
	// create makes the table. {table} stands for the quoted name, {shared} for the
	// columns of shared tokens, which are made like number.
	create string
	number string
	// faults are queries that name what makes a table unable to guard, and those
	// of columnFault each of the columns of shared tokens.
	faults      []string
	columnFault string
	// record raises the row to the larger of its token and the one given, and
	// returns the row's new {numbers}. If read is set, the database
	// cannot do both in one statement and read fetches it, as a reader that sees
	// and locks the newest version of the row.
	record string
	read   string
	// share is record for a shared token, which is given twice.
	share string
	// peek reads the token without a lock.
	peek string
	// open reports whether the transaction is there, where the database lets
	// statements run on without it. nil: the database refuses them by itself.
	open func(ctx context.Context, tx Tx) (bool, error)
	// begunIn is open where nobody but the caller says that a transaction was begun:
	// in a Tx that is no *sql.Tx. nil: the statement itself tells.
	begunIn func(ctx context.Context, tx Tx) (bool, error)
	// alone says that record and share do all there is to do: see SQL.Statement.
	alone bool
	// begun and same are the statements that tell whether a transaction is still
	// the one that it was, where the session may have begun another: a savepoint
	// and its release, which is an error without it. Empty: open is enough.
	begun string
	same  string
	// marks tells errors apart without the driver's types: by SQLSTATE where the
	// driver offers the method, else by a constant part of the message.
	marks marks
}

type marks struct {
	states   bool // SQLSTATE; else substrings of the message
	noTable  []string
	noColumn []string
	aborted  []string
	retry    []string
}

// String returns the name of the database.
func (d Dialect) String() string { return d.name }

// PostgreSQL returns the dialect of PostgreSQL 9.5 and newer. It was tested on
// version 15 through pgx; lib/pq reports errors by the same method.
//
// The unique index on resource finds the row or makes it, and ON CONFLICT locks
// it until the transaction ends. At read committed the comparison is made with
// the newest committed version, also when the snapshot is older; at repeatable
// read and serializable a version newer than the snapshot is a serialization
// failure instead (SQLSTATE 40001).
func PostgreSQL() Dialect {
	return Dialect{
		name:  "PostgreSQL",
		quote: `"`,
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 255),
	token bigint NOT NULL CHECK (token > 0){shared}
)`,
		number: "bigint",
		record: `INSERT INTO {table} AS seen (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = GREATEST(seen.token, EXCLUDED.token)
RETURNING {numbers}`,
		share: `INSERT INTO {table} AS seen (resource, token, shared) VALUES ($1, $2, $3)
ON CONFLICT (resource) DO UPDATE SET
	before_shared = CASE WHEN seen.token > seen.shared THEN seen.token ELSE seen.before_shared END,
	shared = CASE WHEN EXCLUDED.token > seen.token THEN EXCLUDED.token ELSE seen.shared END,
	token = GREATEST(seen.token, EXCLUDED.token)
RETURNING {numbers}`,
		peek:        `SELECT token FROM {table} WHERE resource = $1`,
		faults:      faultsPostgreSQL,
		columnFault: columnFaultPostgreSQL,
		begunIn:     openSavepoint,
		alone:       true,
		marks: marks{
			states:   true,
			noTable:  []string{"42P01", "3F000"},
			noColumn: []string{"42703"},
			aborted:  []string{"25P02", "25P01"}, // given up; never begun
			retry:    []string{"40001", "40P01"},
		},
	}
}

// SQLite returns the dialect of SQLite 3.37 and newer.
//
// SQLite has one writer at a time: the statement takes the database's write lock
// and keeps it until the transaction ends. A transaction that has read before
// cannot always take it (SQLITE_BUSY); one that begins IMMEDIATE can.
func SQLite() Dialect {
	return Dialect{
		name:  "SQLite",
		quote: `"`,
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 255),
	token INTEGER NOT NULL CHECK (token > 0){shared}
) STRICT, WITHOUT ROWID`,
		number: "INTEGER",
		record: `INSERT INTO {table} AS seen (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = max(seen.token, excluded.token)
RETURNING {numbers}`,
		share: `INSERT INTO {table} AS seen (resource, token, shared) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET
	before_shared = CASE WHEN seen.token > seen.shared THEN seen.token ELSE seen.before_shared END,
	shared = CASE WHEN excluded.token > seen.token THEN excluded.token ELSE seen.shared END,
	token = max(seen.token, excluded.token)
RETURNING {numbers}`,
		peek:        `SELECT token FROM {table} WHERE resource = ?`,
		faults:      faultsSQLite,
		columnFault: columnFaultSQLite,
		open:        openSQLite,
		begunIn:     openSQLite,
		marks: marks{
			noTable:  []string{"no such table"},
			noColumn: []string{"no such column", "has no column named"},
			retry:    []string{"database is locked", "database table is locked"},
		},
	}
}

// MariaDB returns the dialect of MariaDB 10.5 and newer; it was tested on 10.11.
//
// The primary key finds the row or makes it, and InnoDB locks it exclusively
// until the transaction ends. The statement reads the newest committed version
// at every isolation level, the snapshot notwithstanding. A deadlock takes the
// whole transaction away and lets the session go on without one, and so does the
// commit that DDL and TRUNCATE bring with them. The condition on @@in_transaction
// sees that, and a savepoint sees it where another transaction has begun.
func MariaDB() Dialect {
	d := mysqlFamily("MariaDB")
	d.alone = true
	d.record = `INSERT INTO {table} (resource, token)
SELECT ?, ? FROM DUAL WHERE @@in_transaction = 1
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
RETURNING {numbers}`
	d.share = `INSERT INTO {table} (resource, token, shared)
SELECT ?, ?, ? FROM DUAL WHERE @@in_transaction = 1
` + shareMySQL + `
RETURNING {numbers}`
	return d
}

// MySQL returns a dialect for MySQL 8.0, which MariaDB understands as well. It
// does in four statements what MariaDB does in one. It was tested on MariaDB
// only: it keeps to the promises in both manuals.
func MySQL() Dialect {
	d := mysqlFamily("MySQL")
	d.record = `INSERT INTO {table} (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`
	d.share = `INSERT INTO {table} (resource, token, shared) VALUES (?, ?, ?)
` + shareMySQL
	d.read = `SELECT {numbers} FROM {table} WHERE resource = ? FOR UPDATE`
	d.open, d.begunIn = openSavepoint, openSavepoint
	return d
}

// shareMySQL relies on the order of the assignments: each sees those before it,
// and none of these needs the new value of one before it.
const shareMySQL = `ON DUPLICATE KEY UPDATE
	before_shared = IF(token > shared, token, before_shared),
	shared = IF(VALUES(token) > token, VALUES(token), shared),
	token = GREATEST(token, VALUES(token))`

// mysqlFamily stores the column as bytes: a text column compares by a collation
// that takes "A" for "a" and "a " for "a", which would mix two resources up.
func mysqlFamily(name string) Dialect {
	return Dialect{
		name:  name,
		quote: "`",
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource varbinary(255) NOT NULL PRIMARY KEY,
	token bigint NOT NULL CHECK (token > 0){shared}
) ENGINE=InnoDB`,
		number:      "bigint",
		peek:        `SELECT token FROM {table} WHERE resource = ?`,
		faults:      faultsMySQL,
		columnFault: columnFaultMySQL,
		begun:       "SAVEPOINT redlock_fencing_write",
		same:        "RELEASE SAVEPOINT redlock_fencing_write",
		marks: marks{
			noTable:  []string{"Error 1146 "},
			noColumn: []string{"Error 1054 "},
			aborted:  []string{"Error 1305 "}, // the savepoint went with its transaction
			retry:    []string{"Error 1213 ", "Error 1205 ", "Error 1020 "},
		},
	}
}

// openSQLite asks for a second BEGIN, which only an open transaction refuses.
// Some errors (OR ROLLBACK, a full disk) end a transaction behind the driver's
// back, and later statements would commit by themselves, one by one.
func openSQLite(ctx context.Context, tx Tx) (bool, error) {
	_, err := tx.ExecContext(ctx, "BEGIN")
	if err == nil {
		_, err = tx.ExecContext(ctx, "ROLLBACK")
		return false, err
	}
	if strings.Contains(err.Error(), "within a transaction") {
		return true, nil
	}
	return false, err
}

// openSavepoint sets a savepoint and releases it. Without a transaction MySQL's is
// gone as soon as it is set, and the release is error 1305; PostgreSQL refuses to
// set it, with 25P01. Its name is not that of begun, which it would replace.
func openSavepoint(ctx context.Context, tx Tx) (bool, error) {
	for _, statement := range []string{"SAVEPOINT redlock_fencing", "RELEASE SAVEPOINT redlock_fencing"} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return false, err
		}
	}
	return true, nil
}

// is reports whether err bears one of the dialect's marks.
func (m marks) is(err error, what []string) bool {
	text := err.Error()
	if m.states {
		var s interface{ SQLState() string }
		if !errors.As(err, &s) {
			return false
		}
		text = s.SQLState()
	}
	for _, mark := range what {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// Seen is a guard's state of a resource: two numbers. Sharers of a resource
// do not exclude one another, so that none of them makes another one stale, and
// their tokens need a number of their own. The zero value has seen nothing.
//
// It is exported for guards that are written elsewhere. Those must store it in
// the same atomic unit as the write; to compare first and to write afterwards is
// the fault that fencing is there to remove.
type Seen struct {
	Exclusive redlock.Token // the largest exclusive token, 0 if none
	Shared    redlock.Token // the largest shared token; 0 if none is above Exclusive
}

// Accept is the rule that every guard keeps. An exclusive token is accepted when
// it is at least the largest exclusive one seen, and above the largest shared
// one. A shared token is accepted when it is above the largest exclusive one.
// Equal is accepted within a kind, because one holder writes more than once
// under its token, and because sharers have one number together. It is not
// accepted across kinds: no lock issues one number for both.
//
// So an exclusive token is refused when a newer hold of either kind was seen, and
// a shared one when a newer exclusive hold was. Where all are exclusive, a token is
// accepted that is at least the highest seen, and the first may be of any size.
//
// It returns the guard's new state. After an error that is s: a
// *StaleError, ErrInvalidResource (the name is empty), ErrZeroToken or ErrTokenRange.
// See IsShared for where the kind comes from.
func (s Seen) Accept(resource string, token redlock.Token, shared bool) (Seen, error) {
	if err := valid(resource, token); err != nil {
		return s, err
	}
	switch {
	case shared && token <= s.Exclusive:
		return s, &StaleError{Resource: resource, Token: token, Shared: true, Highest: s.Exclusive}
	case shared:
		return Seen{Exclusive: s.Exclusive, Shared: max(s.Shared, token)}, nil
	case token <= s.Shared:
		return s, &StaleError{Resource: resource, Token: token, Highest: s.Highest(), HighestShared: s.Shared > s.Exclusive}
	case token < s.Exclusive:
		return s, &StaleError{Resource: resource, Token: token, Highest: s.Exclusive}
	}
	// The shared number is below this one, and decides nothing any more.
	return Seen{Exclusive: token}, nil
}

// Highest returns the larger of the two numbers, 0 if nothing was seen.
func (s Seen) Highest() redlock.Token { return max(s.Exclusive, s.Shared) }

// valid says whether a write may be put to a guard at all. Guards ask it before
// they touch their store.
func valid(resource string, token redlock.Token) error {
	switch {
	case resource == "":
		return fmt.Errorf("fencing: write: %w: it is empty", ErrInvalidResource)
	case token == 0:
		return fmt.Errorf("fencing: write %q: %w", resource, ErrZeroToken)
	case token > redlock.MaxToken:
		return fmt.Errorf("fencing: write %q: %w: got %d, the largest is %d", resource, ErrTokenRange, token, redlock.MaxToken)
	}
	return nil
}

// sharedWord marks a shared token: in the prologue's argument and reply, and in
// KindHeader.
const (
	sharedWord    = "shared"
	exclusiveWord = "exclusive"
)

// String returns the text form that guards store: the exclusive number in
// decimal, and behind a space the shared one if it is larger. So a resource that
// has only seen exclusive tokens has one number there.
func (s Seen) String() string {
	if s.Shared <= s.Exclusive {
		return s.Exclusive.String()
	}
	return s.Exclusive.String() + " " + s.Shared.String()
}

// ParseSeen reads the text of String. It returns ErrCorrupt for any other text, and
// for the zero value's, which no guard keeps.
func ParseSeen(text string) (Seen, error) {
	exclusive, shared, both := strings.Cut(text, " ")
	var s Seen
	var err error
	if !both || exclusive != "0" {
		s.Exclusive, err = parseToken(exclusive)
	}
	if err == nil && both {
		s.Shared, err = parseToken(shared)
	}
	if err != nil || both && s.Shared <= s.Exclusive {
		return Seen{}, fmt.Errorf("fencing: read what was seen: %w: %.40q", ErrCorrupt, text)
	}
	return s, nil
}
