package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumkit/redlock"
)

// DefaultTable is the table that a SQL guard uses if WithTable does not say
// otherwise.
const DefaultTable = "fencing_tokens"

// MaxResourceLength is the longest resource name that a SQL guard keeps, in bytes.
// It is the largest key that every one of the databases indexes with its
// defaults, in any encoding.
const MaxResourceLength = 255

// SQL guards the writes of a database transaction. It holds no connection, and is
// safe for concurrent use.
//
// Unit of atomicity: the transaction. The guard's table has one row for each
// resource, and Check raises it in the caller's own transaction: the token and
// the writes commit together or not at all. From Check until its end the
// transaction has that row to itself, so the transactions of one resource pass
// one after another, exclusive holders in the order of their tokens. Those of
// sharers wait for one another as well, in any order.
//
// Not promised: anything about a write that was made in another transaction, or
// about rows that were read before Check. Statements that commit by themselves end the
// transaction, and the guard with it: DDL, TRUNCATE and others of MariaDB and
// MySQL. Write tells of that, and cannot undo it. A transaction that stays open
// keeps newer holders waiting: give it a context with a deadline.
type SQL struct {
	dialect Dialect
	table   string
	shared  bool
	record  string
	share   string
	read    string
	peek    string
}

// SQLOption is an option for NewSQL.
type SQLOption interface{ applySQL(*SQL) }

type tableOption string

func (o tableOption) applySQL(g *SQL) { g.table = string(o) }

// WithTable names the guard's table, with its schema if need be: "app.fences".
func WithTable(name string) SQLOption { return tableOption(name) }

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// NewSQL returns a guard that speaks dialect: PostgreSQL(), SQLite(), MariaDB()
// or MySQL(). It does not touch a database. It returns an error if dialect is
// none of these, or the table's name is not made of letters, digits and
// underscores.
func NewSQL(dialect Dialect, opts ...SQLOption) (*SQL, error) {
	if dialect.name == "" {
		return nil, errors.New("fencing: new SQL guard: no dialect")
	}
	g := &SQL{dialect: dialect, table: DefaultTable}
	for _, o := range opts {
		o.applySQL(g)
	}
	if !tableName.MatchString(g.table) {
		return nil, fmt.Errorf("fencing: new SQL guard: table %q is no plain name", g.table)
	}
	g.record, g.share = g.named(dialect.record), g.named(dialect.share)
	g.read, g.peek = g.named(dialect.read), g.named(dialect.peek)
	return g, nil
}

// named puts the table into a statement of the dialect: {table} is its quoted
// name, {schema} and {name} are the parts of it, {shared} and {numbers} its
// columns, as the guard keeps one number or two.
func (g *SQL) named(statement string) string {
	q := g.dialect.quote
	quoted := q + strings.ReplaceAll(g.table, ".", q+"."+q) + q
	schema, name, found := strings.Cut(g.table, ".")
	if !found {
		schema, name = "", g.table
	}
	return strings.NewReplacer("{table}", quoted, "{schema}", schema, "{name}", name,
		"{shared}", g.columns(), "{numbers}", g.numbers()).Replace(statement)
}

// Check puts token to the guard, inside tx. It is that of a shared hold if ctx
// says so (see IsShared), and the guard must have WithShared then. If Check
// returns nil, tx may write to resource: the token is recorded when, and only if,
// tx commits. If it returns an error, roll tx back.
//
// Call it first in the transaction: before any read, so that nothing can
// change between the reading and the writing. It blocks while another
// transaction that has checked the same resource is open, until ctx is done or
// the database gives up. It costs one statement (MySQL: four; PostgreSQL, if tx is
// no *sql.Tx itself: three). What ends the transaction after it, Check cannot
// know: on MariaDB, MySQL and SQLite a second Check as the last statement before
// Commit returns ErrTxAborted then, unless another transaction has begun in the
// same session.
//
// It returns what Seen.Accept returns; ErrInvalidResource for a name longer than
// MaxResourceLength or not valid text; ErrShared; ErrNoTx for a tx whose type may be a
// pool of connections (see Tx); ErrNoTable; ErrBadTable for a table without the
// columns of shared tokens; ErrTxAborted for a transaction that has ended, that was
// never begun, or that the database has given up. The last three wrap the driver's
// error as well. Every other error is the driver's, untouched: those for which
// Retryable is true call for a new transaction with the same token, as Retry makes
// them.
func (g *SQL) Check(ctx context.Context, tx Tx, resource string, token redlock.Token) error {
	if err := usable(resource, tx); err != nil {
		return err
	}
	if err := g.valid(ctx, resource, token); err != nil {
		return err
	}
	if err := g.begunIn(ctx, tx); err != nil {
		return g.classed(resource, err)
	}
	return g.show(ctx, tx, resource, token)
}

// Write runs write in a transaction of its own that has checked token first, and
// commits it. A write that fails or panics is rolled back, and its token with
// it. write must use the transaction that it is given, and leave its end to
// Write. opts are those of db.BeginTx, and may be nil. It costs what Check costs,
// and on MariaDB two statements more.
//
// It returns what Check returns, or write's error, or that of begin or commit;
// all of these untouched. After an error from commit other than those for which
// Retryable is true, the write may or may not have happened; under the same
// token it may be tried again. Write makes one attempt: see Retry for more.
//
// ErrTxAborted after write has returned nil says that the transaction ended in
// the middle: a statement committed by itself (MariaDB, MySQL: DDL, TRUNCATE,
// LOCK TABLES, a procedure that commits), or write kept an error that had taken
// the transaction away to itself (a deadlock). What came before that statement
// may be committed. What came after it was not guarded, may be committed as well,
// and may have overwritten a newer holder's writes. Nor is it rolled back when
// write returns an error after such a statement. PostgreSQL has no such
// statement, and commits nothing after an error. What Write does not see is a
// COMMIT in SQL, against the rule above, on PostgreSQL; and on SQLite, if a BEGIN
// follows it.
func (g *SQL) Write(ctx context.Context, db *sql.DB, opts *sql.TxOptions, resource string, token redlock.Token, write func(*sql.Tx) error) error {
	if err := g.valid(ctx, resource, token); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing, and after a failure the failure counts
	if err := g.begun(ctx, tx); err != nil {
		return err
	}
	if err := g.show(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	if err := g.same(ctx, tx); err != nil {
		return g.ended(resource, err)
	}
	return tx.Commit()
}

// Highest returns the largest token of either kind that was committed for
// resource, 0 if none. It takes no lock: by the time it returns, the answer may be
// old. It returns ErrNoTable, or the driver's error.
func (g *SQL) Highest(ctx context.Context, db *sql.DB, resource string) (redlock.Token, error) {
	var token int64
	err := db.QueryRowContext(ctx, g.peek, resource).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, g.classed(resource, err)
	}
	return redlock.Token(token), nil //nolint:gosec // the column is checked to be positive
}

// Retryable reports whether err is the database's word that the transaction was
// given up for the sake of another, and may succeed when it is run again from
// its beginning: a serialization failure, a deadlock, a lock that was not had in
// time. A stale token is not: the next attempt would be as stale.
func (g *SQL) Retryable(err error) bool {
	return err != nil && !errors.Is(err, ErrStale) && g.dialect.marks.is(err, g.dialect.marks.retry)
}

// open returns sql.ErrTxDone, or the driver's error, unless tx is there.
func (g *SQL) open(ctx context.Context, tx Tx) error { return asked(ctx, tx, g.dialect.open) }

// begun marks a transaction that was just begun, for same.
func (g *SQL) begun(ctx context.Context, tx *sql.Tx) error {
	if g.dialect.begun == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, g.dialect.begun)
	return err
}

// same returns an error unless tx is still the transaction that begun marked: the
// guard's row has been this transaction's all along.
func (g *SQL) same(ctx context.Context, tx *sql.Tx) error {
	if g.dialect.same == "" {
		return g.open(ctx, tx)
	}
	_, err := tx.ExecContext(ctx, g.dialect.same)
	return err
}

// show puts token to the guard in tx, which is open.
func (g *SQL) show(ctx context.Context, tx Tx, resource string, token redlock.Token) error {
	shared := IsShared(ctx, resource, token)
	seen, err := g.raise(ctx, tx, resource, token, shared)
	if err != nil {
		return g.classed(resource, err)
	}
	_, err = seen.Accept(resource, token, shared)
	return err
}

// raise raises the row in tx, if token is accepted, and returns its new numbers.
func (g *SQL) raise(ctx context.Context, tx Tx, resource string, token redlock.Token, shared bool) (Seen, error) {
	statement, args := g.raising(resource, token, shared)
	if g.read != "" {
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return Seen{}, err
		}
		statement, args = g.read, args[:1]
	}
	var r row
	return g.held(&r, oneRow(ctx, tx, statement, args, g.fields(&r)))
}

// raising is the statement that raises the row, with its arguments.
func (g *SQL) raising(resource string, token redlock.Token, shared bool) (statement string, args []any) {
	number := int64(token) //nolint:gosec // at most 2^53-1, by valid
	if shared {
		return g.share, []any{resource, number, number}
	}
	return g.record, []any{resource, number}
}

// held is the numbers in a row that was read, or why none was.
func (g *SQL) held(r *row, err error) (Seen, error) {
	if errors.Is(err, sql.ErrNoRows) { // the statement's own condition: no transaction
		return Seen{}, sql.ErrTxDone
	}
	return r.seen(), err
}

// classed names the errors that a caller can do something about, and leaves
// all others as the driver made them.
func (g *SQL) classed(resource string, err error) error {
	m := g.dialect.marks
	switch {
	case m.is(err, m.noTable):
		return fmt.Errorf("fencing: check %q: %w: %s: %w", resource, ErrNoTable, g.table, err)
	case g.shared && m.is(err, m.noColumn):
		return fmt.Errorf("fencing: check %q: %w: %s lacks the columns of shared tokens, see SQL.Migrate: %w", resource, ErrBadTable, g.table, err)
	case errors.Is(err, sql.ErrTxDone), m.is(err, m.aborted):
		return fmt.Errorf("fencing: check %q: %w: %w", resource, ErrTxAborted, err)
	}
	return err
}

// ended names the error of a transaction that is not there any more after the
// caller's function has written in it, and leaves all others as they are.
func (g *SQL) ended(resource string, err error) error {
	if errors.Is(err, sql.ErrTxDone) || g.dialect.marks.is(err, g.dialect.marks.aborted) {
		return fmt.Errorf("fencing: write %q: %w: it ended in the middle, by a statement that commits or an error that was not returned; "+
			"what followed was not guarded, and may be committed: %w", resource, ErrTxAborted, err)
	}
	return err
}

// valid refuses a shared token that the guard has no number for, and a name that
// the column would not keep byte for byte. A database may cut or translate such a
// name and so mix up two resources.
func (g *SQL) valid(ctx context.Context, resource string, token redlock.Token) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	switch {
	case !g.shared && IsShared(ctx, resource, token):
		return fmt.Errorf("fencing: check %q: %w: make the guard with WithShared, and Migrate", resource, ErrShared)
	case len(resource) > MaxResourceLength:
		return fmt.Errorf("fencing: check %.32q...: %w: it has %d bytes, the column holds %d", resource, ErrInvalidResource, len(resource), MaxResourceLength)
	case !utf8.ValidString(resource), strings.ContainsRune(resource, 0):
		return fmt.Errorf("fencing: check %q: %w: it is not text", resource, ErrInvalidResource)
	}
	return nil
}

// Tx is the part of an open transaction that Check needs. *sql.Tx has it, and so have
// the types made over one: sqlx's and bun's Tx, GORM's Statement.ConnPool, ent's Tx with
// the feature sql/execquery. *sql.Conn has it, for callers that send BEGIN and COMMIT in
// SQL.
//
// A pool has these methods as well, and must not be given: it would commit the
// token by itself, and leave the write unguarded. So Check also wants Commit and
// Rollback, as transactions have them, or Raw, as *sql.Conn has it, and returns
// ErrNoTx for a value with neither. If the value is no *sql.Tx, it asks the database
// whether a transaction was begun.
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

// Pauses between attempts. A transaction that the database gave up for another waits about
// as long as a short transaction takes; doubled, so that many do not meet again.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Retry runs attempt, and again while it returns an error for which Retryable is
// true. An attempt is a whole transaction, from its beginning to its commit, under
// the same token: a call of Write, or Check in a transaction of your own.
//
// Between attempts it pauses for a random time, from 2.5 to 5 ms at first, twice
// as long each time, to 500 ms at most. It has no bound of its own: it blocks until
// an attempt ends otherwise, or ctx is done. Give it a context with a deadline, or
// Lock.Context, which ends with the lock.
//
// It returns the last attempt's error, untouched, nil if that succeeded. When ctx
// is done in a pause, the error wraps ctx's cause and the last attempt's error.
// A stale token is returned at once: see Retryable.
func (g *SQL) Retry(ctx context.Context, attempt func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt(ctx)
		if !g.Retryable(err) {
			return err
		}
		if !rest(ctx, pause/2+rand.N(pause/2)) {
			return fmt.Errorf("fencing: retry: %w: the last attempt: %w", context.Cause(ctx), err)
		}
	}
}

// rest waits, and reports false if ctx is done before.
func rest(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}
