package fencing_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/fencing"
)

// recorder is a database that writes down what it is told, and says of every
// number that it is 7. What real ones make of it is tested in guardtest.
type recorder struct{ said []string }

func (r *recorder) Connect(context.Context) (driver.Conn, error) { return recorded{r}, nil }
func (r *recorder) Driver() driver.Driver                        { return nil }

type recorded struct{ *recorder }

func (c recorded) say(text string, args []driver.NamedValue) {
	for _, a := range args {
		text += fmt.Sprintf("\n  -- %d: %v", a.Ordinal, a.Value)
	}
	c.said = append(c.said, text+"\n")
}

func (c recorded) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c recorded) Close() error                        { return nil }
func (c recorded) Begin() (driver.Tx, error)           { c.say("BEGIN", nil); return c, nil }
func (c recorded) Commit() error                       { c.say("COMMIT", nil); return nil }
func (c recorded) Rollback() error                     { c.say("ROLLBACK", nil); return nil }

func (c recorded) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.say(text, args)
	return driver.RowsAffected(1), nil
}

func (c recorded) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.say(text, args)
	return &sevens{}, nil
}

// sevens is one row of one number.
type sevens struct{ read bool }

func (s *sevens) Columns() []string { return []string{"number"} }
func (s *sevens) Close() error      { return nil }

func (s *sevens) Next(row []driver.Value) error {
	if s.read {
		return io.EOF
	}
	s.read, row[0] = true, int64(7)
	return nil
}

// testdata/one_number.sql is what the version before there were shared tokens had
// said to each database.
func TestAGuardOfOneNumberSaysWhatItAlwaysSaidToTheDatabase(t *testing.T) {
	want, err := os.ReadFile("testdata/one_number.sql")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, dialect := range []fencing.Dialect{fencing.PostgreSQL(), fencing.SQLite(), fencing.MariaDB(), fencing.MySQL()} {
		guard, err := fencing.NewSQL(dialect, fencing.WithTable("app.fences"))
		if err != nil {
			t.Fatal(err)
		}
		var r recorder
		db := sql.OpenDB(&r)
		_ = guard.Write(t.Context(), db, nil, "r", 7, func(*sql.Tx) error { return nil })
		_ = guard.Write(t.Context(), db, nil, "r", 6, func(*sql.Tx) error { return nil })
		_, _ = guard.Highest(t.Context(), db, "r")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "-- %s\n%s\n%s", dialect, guard.Migration(), strings.Join(r.said, ""))
	}
	if got.String() != string(want) {
		t.Errorf("got %s; want %s", &got, want)
	}
}
