package fencing_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
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
