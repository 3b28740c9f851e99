package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

const invoice = "invoice:7"

func TestWritesOfPGXAndSQLCAndGORMAreGuarded(t *testing.T) {
	i := openInvoices(t)
	for name, pay := range i.ways(t) {
		t.Run(name, func(t *testing.T) {
			i.exec(t, "DELETE FROM "+i.fences)
			for _, token := range []redlock.Token{41, 42, 42} {
				i.exec(t, "UPDATE invoices SET state = 'open'")
				if err := pay(t.Context(), token); err != nil || i.state(t) != "paid" {
					t.Fatalf("token %d: got %v and %q; want paid", token, err, i.state(t))
				}
			}
			i.exec(t, "UPDATE invoices SET state = 'open'")
			wantStale(t, pay(t.Context(), 41), invoice, 41, 42)
			if got := i.state(t); got != "open" {
				t.Errorf("the stale write landed: %q", got)
			}
			if got, err := i.guard.Highest(t.Context(), i.db, invoice); got != 42 || err != nil {
				t.Errorf("got %d, %v; want 42", got, err)
			}
		})
	}
}

// A write that fails takes its token with it.
func TestATokenOfPGXOrGORMIsNotKeptWithoutTheWrite(t *testing.T) {
	i := openInvoices(t)
	i.exec(t, "DROP TABLE invoices")
	for name, pay := range i.ways(t) {
		if err := pay(t.Context(), 9); err == nil {
			t.Errorf("%s: got no error; want that of the missing table of invoices", name)
		}
		if got, err := i.guard.Highest(t.Context(), i.db, invoice); got != 0 || err != nil {
			t.Errorf("%s: got %d, %v; want no token", name, got, err)
		}
	}
}

func TestWritesOfPGXAndSQLCAndGORMWaitForAnothersTransaction(t *testing.T) {
	i := openInvoices(t)
	for name, pay := range i.ways(t) {
		for token, want := range map[redlock.Token]error{49: fencing.ErrStale, 51: nil} {
			i.exec(t, "DELETE FROM "+i.fences)
			tx := i.begin(t, nil)
			testkit.Must(t, i.guard.Check(t.Context(), tx, invoice, 50))
			result := make(chan error, 1)
			go func() { result <- pay(t.Context(), token) }()
			i.awaitWaiter(t)
			testkit.Must(t, tx.Commit())
			if err := <-result; !errors.Is(err, want) {
				t.Errorf("%s, token %d: got %v; want %v", name, token, err, want)
			}
		}
	}
}

// Two transactions that wait for each other: the database gives one up, and Retry
// runs it again.
func TestRetryMendsADeadlockOfPGX(t *testing.T) {
	i := openInvoices(t)
	attempts := 0
	other := i.begin(t, nil)
	testkit.Must(t, i.guard.Check(t.Context(), other, "other", 1))
	result := make(chan error, 1)
	err := i.guard.Retry(t.Context(), func(ctx context.Context) error {
		attempts++
		return pgx.BeginFunc(ctx, i.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL deadlock_timeout = '10ms'"); err != nil { // so that it is the one that looks
				return err
			}
			if err := checkPGX(ctx, tx, i.guard, invoice, 5); err != nil {
				return err
			}
			if attempts == 1 {
				go func() {
					err := i.guard.Check(context.WithoutCancel(ctx), other, invoice, 4)
					result <- errors.Join(err, other.Rollback())
				}()
				i.awaitWaiter(t)
			}
			return checkPGX(ctx, tx, i.guard, "other", 2)
		})
	})
	if err != nil || attempts != 2 {
		t.Errorf("got %v after %d attempts; want success after two", err, attempts)
	}
	if err := <-result; err != nil {
		t.Errorf("the other: got %v; want it to go on", err)
	}
}

func TestGORMOutsideOfATransactionIsRefused(t *testing.T) {
	i := openInvoices(t)
	for _, prepared := range []bool{false, true} {
		db := i.gorm(t, prepared)
		if err := i.guard.Check(t.Context(), db.Statement.ConnPool, invoice, 9); !errors.Is(err, fencing.ErrNoTx) {
			t.Errorf("a %T: got %v; want ErrNoTx", db.Statement.ConnPool, err)
		}
	}
	i.wantUntouched(t)
}

// BEGIN and COMMIT as SQL, on one connection.
func TestAConnectionIsGuardedInItsTransactionAndRefusedOutsideOfIt(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := t.Context()
			conn, err := s.db.Conn(ctx)
			testkit.Must(t, err)
			defer conn.Close()
			say := func(statement string) {
				if _, err := conn.ExecContext(ctx, statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			if err := s.guard.Check(ctx, conn, account, 9); !errors.Is(err, fencing.ErrTxAborted) {
				t.Errorf("outside of a transaction: got %v; want ErrTxAborted", err)
			}
			s.wantUntouched(t)

			say("BEGIN")
			if err := s.guard.Check(ctx, conn, account, 6); err != nil {
				t.Errorf("in a transaction: %v", err)
			}
			say("UPDATE " + s.balance + " SET value = 'paid', token = 6 WHERE id = 1")
			say("COMMIT")
			say("BEGIN")
			wantStale(t, s.guard.Check(ctx, conn, account, 5), account, 5, 6)
			say("ROLLBACK")
			if value, token := s.value(t); value != "paid" || token != 6 {
				t.Errorf("got %q, %d; want paid, 6", value, token)
			}
		})
	}
}

// judge puts a token to the guard in a transaction of its own, by its statement.
type judge func(ctx context.Context, resource string, token redlock.Token) error

func TestAStatementDecidesAsCheckDoes(t *testing.T) {
	for _, s := range stores()[:2] {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			guard, err := fencing.NewSQL(s.dialect, fencing.WithTable(s.fences), fencing.WithShared())
			testkit.Must(t, err)
			testkit.Must(t, guard.Migrate(t.Context(), s.db))
			byStatement := s.byStatement(t, guard)
			rng := rand.New(rand.NewPCG(1, uint64(len(s.name))))
			refused := 0
			for n := range 200 {
				h := hold{token: redlock.Token(1 + n/4 + rng.IntN(12)), shared: rng.IntN(2) == 0}
				if h.shared { // no number is issued for both kinds
					h.token = 2 * h.token
				} else {
					h.token = 2*h.token + 1
				}
				checked := guard.Write(under(t, h, "checked"), s.db, nil, "checked", h.token, func(*sql.Tx) error { return nil })
				stated := byStatement(under(t, h, "stated"), "stated", h.token)
				if !errors.Is(checked, fencing.ErrStale) && checked != nil {
					t.Fatal(checked)
				}
				if got, want := fmt.Sprint(stated), strings.ReplaceAll(fmt.Sprint(checked), `"checked"`, `"stated"`); got != want {
					t.Fatalf("step %d, %+v: got %s; want %s", n, h, got, want)
				}
				if checked != nil {
					refused++
				}
			}
			if refused < 20 || refused > 180 {
				t.Errorf("got %d of 200 refused; want some of both", refused)
			}
		})
	}
}

// under is a context that says what kind the hold of a resource is.
func under(t *testing.T, h hold, resource string) context.Context {
	t.Helper()
	carry := fencing.NewContext
	if h.shared {
		carry = fencing.NewSharedContext
	}
	ctx, err := carry(t.Context(), resource, h.token)
	testkit.Must(t, err)
	return ctx
}

// byStatement is pgx on PostgreSQL, and database/sql on MariaDB, which has no other
// driver here.
func (s *store) byStatement(t *testing.T, guard *fencing.SQL) judge {
	t.Helper()
	if s.name == "PostgreSQL" {
		conn, err := pgx.Connect(t.Context(), postgresDSN(t))
		testkit.Must(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return func(ctx context.Context, resource string, token redlock.Token) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return checkPGX(ctx, tx, guard, resource, token) })
		}
	}
	return func(ctx context.Context, resource string, token redlock.Token) error {
		check, err := guard.Statement(ctx, resource, token)
		if err != nil {
			return err
		}
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := check.Accept(tx.QueryRowContext(ctx, check.SQL(), check.Args()...).Scan); err != nil {
			_ = tx.Rollback() // the refusal counts
			return err
		}
		return tx.Commit()
	}
}

func TestMariaDBsStatementLooksForItsTransaction(t *testing.T) {
	s := stores()[1]
	s.prepare(t)
	check, err := s.guard.Statement(t.Context(), account, 9)
	testkit.Must(t, err)
	if err := check.Accept(s.db.QueryRowContext(t.Context(), check.SQL(), check.Args()...).Scan); !errors.Is(err, fencing.ErrTxAborted) {
		t.Errorf("on a pool: got %v; want ErrTxAborted", err)
	}
	s.wantUntouched(t)
}

// The page's code is this module's, so that it compiles and runs.
func TestThePageShowsTheCodeThatRunsHere(t *testing.T) {
	page, err := os.ReadFile("../../docs/FENCING.md")
	testkit.Must(t, err)
	code, err := os.ReadFile("drivers_test.go")
	testkit.Must(t, err)
	functions := regexp.MustCompile(`(?ms)^func (checkPGX|payGORM)\(.*?^}\n`).FindAllString(string(code), -1)
	if len(functions) != 2 {
		t.Fatalf("got %d functions; want two", len(functions))
	}
	for _, f := range functions {
		if !strings.Contains(string(page), f) {
			t.Errorf("docs/FENCING.md lacks\n%s", f)
		}
	}
}
