package guardtest_test

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"

	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// store is a database and its guard, with the tables that a test writes to:
// balance is what the lock protects, history has a row for each write to it.
type store struct {
	name    string
	dialect fencing.Dialect
	levels  []sql.IsolationLevel
	open    func(testing.TB) (*sql.DB, string) // the database, and a prefix for names of tables

	db      *sql.DB
	guard   *fencing.SQL
	balance string
	history string
	fences  string
}

var (
	pgLevels    = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	mysqlLevels = []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
)

func stores() []*store {
	all := []*store{
		{name: "PostgreSQL", dialect: fencing.PostgreSQL(), levels: pgLevels, open: openPostgres},
		{name: "MariaDB", dialect: fencing.MariaDB(), levels: mysqlLevels, open: openMariaDB},
		{name: "MySQL", dialect: fencing.MySQL(), levels: mysqlLevels, open: openMariaDB},
		{name: "SQLite", dialect: fencing.SQLite(), levels: []sql.IsolationLevel{sql.LevelDefault}, open: openSQLite},
	}
	if pooled != "" {
		return all[:1]
	}
	return all
}

// storesAndLevels returns every database with each of its isolation levels.
func storesAndLevels() iter.Seq2[*store, *sql.TxOptions] {
	return func(yield func(*store, *sql.TxOptions) bool) {
		for _, s := range stores() {
			for _, level := range s.levels {
				if !yield(s, &sql.TxOptions{Isolation: level}) {
					return
				}
			}
		}
	}
}

// at names a test of s at a level.
func (s *store) at(opts *sql.TxOptions) string {
	return s.name + "/" + strings.ReplaceAll(opts.Isolation.String(), " ", "")
}

var tables atomic.Int64

func (s *store) prepare(tb testing.TB) {
	tb.Helper()
	var prefix string
	s.db, prefix = s.open(tb)
	n := tables.Add(1)
	s.balance = fmt.Sprintf("%sbalance%d", prefix, n)
	s.history = fmt.Sprintf("%shistory%d", prefix, n)
	s.fences = fmt.Sprintf("%sfences%d", prefix, n)
	guard, err := fencing.NewSQL(s.dialect, fencing.WithTable(s.fences))
	testkit.Must(tb, err)
	s.guard = guard
	testkit.Must(tb, guard.Migrate(tb.Context(), s.db))
	s.exec(tb, "CREATE TABLE "+s.balance+" (id integer PRIMARY KEY, value varchar(100) NOT NULL, token bigint NOT NULL)")
	s.exec(tb, "INSERT INTO "+s.balance+" VALUES (1, 'nothing', 0)")
	s.exec(tb, "CREATE TABLE "+s.history+" (seq "+s.serial()+" PRIMARY KEY, token bigint NOT NULL)")
}

func (s *store) serial() string {
	switch s.name {
	case "PostgreSQL":
		return "bigserial"
	case "SQLite":
		return "integer"
	}
	return "bigint AUTO_INCREMENT"
}

func (s *store) exec(tb testing.TB, statement string) {
	tb.Helper()
	if _, err := s.db.ExecContext(tb.Context(), statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// role makes a role of PostgreSQL that may log in, and no more.
func (s *store) role(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("plain%d", tables.Add(1))
	s.exec(tb, "CREATE ROLE "+name+" LOGIN")
	return name
}

// begin begins a transaction that ends with the test at the latest.
func (s *store) begin(tb testing.TB, opts *sql.TxOptions) *sql.Tx {
	tb.Helper()
	tx, err := s.db.BeginTx(context.Background(), opts)
	testkit.Must(tb, err)
	tb.Cleanup(func() { _ = tx.Rollback() }) // most have ended by then
	return tx
}

// write changes what the lock protects, and says so in the history.
func (s *store) write(ctx context.Context, tx *sql.Tx, token int64, value string) error {
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET value = '%s', token = %d WHERE id = 1", s.balance, value, token)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (token) VALUES (%d)", s.history, token))
	return err
}

// value returns what stands in the protected row.
func (s *store) value(tb testing.TB) (string, int64) {
	tb.Helper()
	var value string
	var token int64
	row := s.db.QueryRowContext(tb.Context(), "SELECT value, token FROM "+s.balance+" WHERE id = 1")
	testkit.Must(tb, row.Scan(&value, &token))
	return value, token
}

// applied returns the tokens of the committed writes, in the order in which they
// were made.
func (s *store) applied(tb testing.TB) []int64 {
	tb.Helper()
	rows, err := s.db.QueryContext(tb.Context(), "SELECT token FROM "+s.history+" ORDER BY seq")
	testkit.Must(tb, err)
	defer rows.Close()
	var tokens []int64
	for rows.Next() {
		var token int64
		testkit.Must(tb, rows.Scan(&token))
		tokens = append(tokens, token)
	}
	testkit.Must(tb, rows.Err())
	return tokens
}

func openDB(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	testkit.Must(tb, err)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	tb.Cleanup(func() { db.Close() })
	return db
}

func openPostgres(tb testing.TB) (*sql.DB, string) {
	tb.Helper()
	return openDB(tb, "pgx", postgresDSN(tb)), "public."
}

// postgresDSN is where PostgreSQL is, or a pgbouncer in front of it.
func postgresDSN(tb testing.TB) string {
	tb.Helper()
	if pooled != "" {
		return dsnOf(tb, pgbouncer) + " default_query_exec_mode=" + pooled
	}
	return dsnOf(tb, postgres)
}

func openMariaDB(tb testing.TB) (*sql.DB, string) {
	tb.Helper()
	db := openDB(tb, "mysql", dsnOf(tb, mariadb))
	if _, err := db.ExecContext(tb.Context(), "CREATE DATABASE IF NOT EXISTS app"); err != nil {
		tb.Fatal(err)
	}
	return db, "app."
}

// openSQLite opens a file: what is in memory has no second connection. Its
// transactions begin IMMEDIATE, as the guide advises.
func openSQLite(tb testing.TB) (*sql.DB, string) {
	tb.Helper()
	return openDB(tb, "sqlite3", "file:"+filepath.Join(tb.TempDir(), "db")+"?_journal_mode=WAL&_txlock=immediate&_busy_timeout=20000"), ""
}
