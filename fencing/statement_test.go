package fencing_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestAStatementIsWhatCheckSends(t *testing.T) {
	sharer, err := fencing.NewSharedContext(t.Context(), "r", 7)
	testkit.Must(t, err)
	for _, dialect := range []fencing.Dialect{fencing.PostgreSQL(), fencing.MariaDB()} {
		for _, opts := range [][]fencing.SQLOption{nil, {fencing.WithShared()}} {
			guard, err := fencing.NewSQL(dialect, opts...)
			testkit.Must(t, err)
			ctx := t.Context()
			if opts != nil {
				ctx = sharer
			}
			var r recorder
			db := sql.OpenDB(&r)
			tx, err := db.BeginTx(ctx, nil)
			testkit.Must(t, err)
			_ = guard.Check(ctx, tx, "r", 7) // the recorder has one column
			testkit.Must(t, errors.Join(tx.Rollback(), db.Close()))
			s, err := guard.Statement(ctx, "r", 7)
			testkit.Must(t, err)
			got := s.SQL()
			for i, a := range s.Args() {
				got += fmt.Sprintf("\n  -- %d: %v", i+1, a)
			}
			if want := r.said[1]; got+"\n" != want {
				t.Errorf("%s: got %s; want %s", dialect, got, want)
			}
		}
	}
}

func TestAStatementJudgesTheRowThatItIsGiven(t *testing.T) {
	guard := postgresGuard(t)
	holds := func(n int64) func(...any) error {
		return func(dest ...any) error {
			if len(dest) != 1 {
				return fmt.Errorf("got %d fields; want one", len(dest))
			}
			*dest[0].(*int64) = n
			return nil
		}
	}
	fails := func(err error) func(...any) error { return func(...any) error { return err } }
	broken := errors.New("broken pipe")
	for name, tt := range map[string]struct {
		scan func(...any) error
		want error
	}{
		"its own token":   {holds(7), nil},
		"a newer one":     {holds(8), fencing.ErrStale},
		"no table":        {fails(state("42P01")), fencing.ErrNoTable},
		"aborted":         {fails(state("25P02")), fencing.ErrTxAborted},
		"no row":          {fails(sql.ErrNoRows), fencing.ErrTxAborted},
		"what is unknown": {fails(broken), broken},
	} {
		s, err := guard.Statement(t.Context(), "r", 7)
		testkit.Must(t, err)
		if err := s.Accept(tt.scan); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v; want %v", name, err, tt.want)
		}
	}
}

func TestAStatementRefusesBadInputAndDialectsOfMany(t *testing.T) {
	sharer, err := fencing.NewSharedContext(t.Context(), "r", 7)
	testkit.Must(t, err)
	guard := postgresGuard(t)
	_, zero := guard.Statement(t.Context(), "r", 0)
	_, large := guard.Statement(t.Context(), "r", redlock.MaxToken+1)
	_, unnamed := guard.Statement(t.Context(), "", 7)
	_, shared := guard.Statement(sharer, "r", 7)
	for got, want := range map[error]error{
		zero: fencing.ErrZeroToken, large: fencing.ErrTokenRange, unnamed: fencing.ErrInvalidResource, shared: fencing.ErrShared,
	} {
		if !errors.Is(got, want) {
			t.Errorf("got %v; want %v", got, want)
		}
	}
	for _, dialect := range []fencing.Dialect{fencing.SQLite(), fencing.MySQL()} {
		guard, err := fencing.NewSQL(dialect)
		testkit.Must(t, err)
		if _, err := guard.Statement(t.Context(), "r", 7); !errors.Is(err, fencing.ErrManyStatements) {
			t.Errorf("%s: got %v; want ErrManyStatements", dialect, err)
		}
	}
}
