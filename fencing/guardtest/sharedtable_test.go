package guardtest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// columns are the names of the table's.
func (s *store) columns(tb testing.TB) []string {
	tb.Helper()
	// PostgreSQL keeps the columns of a statement that it has seen before.
	rows, err := s.db.QueryContext(tb.Context(), fmt.Sprintf("SELECT * FROM %s WHERE %d = 0", s.fences, tables.Add(1)))
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err := errors.Join(err, rows.Err()); err != nil {
		tb.Fatal(err)
	}
	return names
}

func TestMigrateWithoutSharedTokensMakesAndAltersNoOtherColumn(t *testing.T) {
	one, three := []string{"resource", "token"}, []string{"resource", "token", "shared", "before_shared"}
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			testkit.Must(t, s.guard.Migrate(t.Context(), s.db))
			if got := s.columns(t); !slices.Equal(got, one) {
				t.Errorf("got %q; want %q", got, one)
			}
			testkit.Must(t, s.both(t, s.fences).Migrate(t.Context(), s.db))
			if got := s.columns(t); !slices.Equal(got, three) {
				t.Errorf("altered: got %q; want %q", got, three)
			}
			if err := s.guard.Migrate(t.Context(), s.db); err != nil {
				t.Errorf("a guard of one number over the altered table: %v", err)
			}
			s.exec(t, "DROP TABLE "+s.fences)
			testkit.Must(t, s.both(t, s.fences).Migrate(t.Context(), s.db))
			if got := s.columns(t); !slices.Equal(got, three) {
				t.Errorf("new: got %q; want %q", got, three)
			}
		})
	}
}

// The table goes on as it was for the one who knows one number, and earlier rows keep
// theirs.
func TestAnAlteredTableServesGuardsOfOneNumber(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			if _, err := s.writeOften(ctx, nil, hold{token: 7}); err != nil {
				t.Fatal(err)
			}
			for _, statement := range s.guard.Alterations() { // as a tool would
				s.exec(t, statement)
			}
			for token, want := range map[redlock.Token]error{6: fencing.ErrStale, 7: nil} {
				if _, err := s.writeOften(ctx, nil, hold{token: token}); !errors.Is(err, want) {
					t.Errorf("%d: got %v; want %v", token, err, want)
				}
			}
			if got := s.row(t); !slices.Equal(got, []int64{7, 0, 0}) {
				t.Errorf("got the row %d; want [7 0 0]", got)
			}
			one, both := *s, *s
			both.guard = s.both(t, s.fences)
			for i, step := range []struct {
				by   *store
				hold hold
				row  []int64
			}{
				{&both, hold{9, true}, []int64{9, 9, 7}},
				{&both, hold{8, true}, []int64{9, 9, 7}},
				{&one, hold{10, false}, []int64{10, 9, 7}}, // what stands behind it decides nothing
				{&both, hold{12, true}, []int64{12, 12, 10}},
				{&both, hold{13, false}, []int64{13, 12, 10}},
			} {
				if _, err := step.by.writeOften(ctx, nil, step.hold); err != nil {
					t.Errorf("%d: %v", i, err)
				}
				if got := s.row(t); !slices.Equal(got, step.row) {
					t.Errorf("%d: got the row %d; want %d", i, got, step.row)
				}
			}
			if _, err := one.writeOften(ctx, nil, hold{token: 12}); !errors.Is(err, fencing.ErrStale) {
				t.Errorf("got %v; want ErrStale", err)
			}
		})
	}
}

// Nothing is written, and the error names the remedy: also where one of the two
// columns is there.
func TestATableWithoutTheColumnsOfSharedTokensIsNamed(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			s.guard = s.both(t, s.fences)
			for _, statement := range s.guard.Alterations() {
				for _, h := range []hold{{5, false}, {5, true}} {
					err := s.guard.Write(h.under(ctx), s.db, nil, account, 5, func(tx *sql.Tx) error {
						return s.write(ctx, tx, 5, "unguarded")
					})
					if !errors.Is(err, fencing.ErrBadTable) || !strings.Contains(err.Error(), "SQL.Migrate") || s.guard.Retryable(err) {
						t.Errorf("%+v: got %v; want ErrBadTable, and its remedy", h, err)
					}
				}
				if got, err := s.guard.Highest(ctx, s.db, account); got != 0 || err != nil {
					t.Errorf("Highest: got %d, %v; want 0", got, err)
				}
				s.wantUntouched(t)
				s.exec(t, statement)
			}
			if _, err := s.writeOften(ctx, nil, hold{5, true}); err != nil {
				t.Errorf("with both: %v", err)
			}
		})
	}
}

// What another made of the columns: each is left as it is.
func TestMigrateRefusesColumnsThatCannotKeepSharedTokens(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			number, small := "bigint", "smallint"
			if s.name == "SQLite" {
				number, small = "INTEGER", "TEXT"
			}
			for name, tt := range map[string]struct{ column, fault string }{
				"too small":           {"shared " + small + " NOT NULL DEFAULT 0", "shared is " + strings.ToLower(small)},
				"begins with another": {"shared " + number + " NOT NULL DEFAULT 5", "make it"},
				"no value":            {"before_shared " + number + " DEFAULT 0", "before_shared is"},
				"null":                {"before_shared " + number, "before_shared is"},
			} {
				t.Run(name, func(t *testing.T) {
					s.exec(t, "DROP TABLE "+s.fences)
					s.exec(t, s.guard.Migration())
					s.exec(t, "ALTER TABLE "+s.fences+" ADD COLUMN "+tt.column)
					for range 2 {
						err := s.both(t, s.fences).Migrate(t.Context(), s.db)
						if !errors.Is(err, fencing.ErrBadTable) || !strings.Contains(err.Error(), tt.fault) {
							t.Errorf("got %v; want ErrBadTable, and %q", err, tt.fault)
						}
					}
					if err := s.guard.Migrate(t.Context(), s.db); err != nil {
						t.Errorf("a guard of one number: %v", err)
					}
				})
			}
		})
	}
}

// While others write: what they wrote is kept.
func TestManyMayAddTheColumnsAtOnce(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			for range 3 {
				s.prepare(t)
				both := s.both(t, s.fences)
				var wg sync.WaitGroup
				for range 6 {
					wg.Go(func() {
						if err := both.Migrate(t.Context(), s.db); err != nil && !s.guard.Retryable(err) {
							t.Errorf("at once: %v", err)
						}
					})
				}
				for i := range 20 {
					if _, err := s.writeOften(t.Context(), nil, hold{token: redlock.Token(i + 1)}); err != nil {
						t.Errorf("%d: %v", i, err)
					}
				}
				wg.Wait()
				if err := both.Migrate(t.Context(), s.db); err != nil {
					t.Error(err)
				}
				if got := fmt.Sprint(s.row(t)); got != "[20 0 0]" {
					t.Errorf("got the row %s; want [20 0 0]", got)
				}
			}
		})
	}
}

// Who may not alter the table is told so where it needs to be, and only there.
func TestMigrateNeedsNoPrivilegeForColumnsThatAreThere(t *testing.T) {
	for _, s := range stores()[:2] {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			var plain *sql.DB
			user := "sharer"
			if s.name == "PostgreSQL" {
				user = s.role(t)
				plain = openDB(t, "pgx", dsnOf(t, postgres)+" user="+user)
			} else {
				s.exec(t, "CREATE USER IF NOT EXISTS sharer")
				plain = openDB(t, "mysql", strings.Replace(dsnOf(t, mariadb), "root@", "sharer@", 1))
			}
			s.exec(t, "GRANT SELECT, INSERT, UPDATE ON "+s.fences+" TO "+user)
			both := s.both(t, s.fences)
			err := both.Migrate(t.Context(), plain)
			if err == nil || errors.Is(err, fencing.ErrBadTable) || !strings.Contains(err.Error(), "SQL.Alterations") {
				t.Errorf("got %v; want the privilege to be missed, and the remedy", err)
			}
			testkit.Must(t, both.Migrate(t.Context(), s.db))
			if err := both.Migrate(t.Context(), plain); err != nil {
				t.Errorf("got %v; want nil", err)
			}
			ctx := hold{5, true}.under(t.Context())
			if err := both.Write(ctx, plain, nil, account, 5, nothing); err != nil {
				t.Errorf("got %v; want nil", err)
			}
		})
	}
}
