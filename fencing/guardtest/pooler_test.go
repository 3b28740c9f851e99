package guardtest_test

import (
	"database/sql"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// pooled is pgx's mode of queries while tests reach PostgreSQL through pgbouncer, which
// gives a session to a transaction and not to a connection. It is empty otherwise.
var pooled string

func through(t *testing.T, mode string) {
	t.Helper()
	dsnOf(t, pgbouncer) // or skips
	pooled = mode
	t.Cleanup(func() { pooled = "" })
}

// The tests of the guard on PostgreSQL, by database/sql, pgx, sqlc's form and GORM, once
// more through pgbouncer, in the two modes of pgx that keep nothing in a session.
func TestTheGuardHoldsThroughPgBouncerInTransactionMode(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		for _, test := range []func(*testing.T){
			TestWithoutTheGuardTheStaleWriteLandsAndWithItIsRefused, TestTheTokenCommitsWithTheWriteOrNotAtAll,
			TestConcurrentWritersLeaveANonDecreasingHistory, TestATokenWaitsForTheOpenTransactionOfAnother,
			TestSQLAgreesWithTheRuleOfTwoNumbers, TestATokenOfEitherKindWaitsForTheOpenTransactionOfAnother,
			TestConcurrentWritersOfBothKindsLeaveAHistoryThatTheRuleAccepts, TestTheLargestTokenAndTheLongestNameFit,
			TestAnAbortedTransactionIsRefused, TestPostgreSQLCommitsNothingAfterASwallowedError,
			TestAWriteThatKeepsItsTransactionSucceeds, TestADeadlineEndsTheWaitForAnOpenTransaction,
			TestMigrateMayRunTwiceAndByManyAtOnce, TestWritesOfPGXAndSQLCAndGORMAreGuarded,
			TestATokenOfPGXOrGORMIsNotKeptWithoutTheWrite, TestWritesOfPGXAndSQLCAndGORMWaitForAnothersTransaction,
			TestRetryMendsADeadlockOfPGX, TestAStatementDecidesAsCheckDoes,
		} {
			name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
			t.Run(mode+"/"+name[strings.LastIndex(name, ".")+1:], func(t *testing.T) {
				through(t, mode)
				test(t)
			})
		}
	}
}

// pgx's own mode prepares statements. A pgbouncer that knows max_prepared_statements (1.21)
// carries them over its sessions. Before that some writes fail, and none is made unguarded.
func TestPreparedStatementsThroughPgBouncer(t *testing.T) {
	through(t, "cache_statement")
	s := stores()[0]
	plain, own := dsnOf(t, pgbouncer)+" default_query_exec_mode=simple_protocol", postgresDSN(t)
	s.open = func(tb testing.TB) (*sql.DB, string) { tb.Helper(); return openDB(tb, "pgx", plain), "public." }
	s.prepare(t)
	_, missing := openDB(t, "pgx", strings.Replace(plain, "dbname=postgres", "dbname=pgbouncer", 1)).ExecContext(t.Context(), "SET max_prepared_statements = 100")
	failed, last := 0, redlock.Token(0)
	for token := redlock.Token(2); token <= 20; token++ {
		db := openDB(t, "pgx", own) // a connection of its own
		write := func(tx *sql.Tx) error { return s.write(t.Context(), tx, int64(token), "paid") }
		if err := s.guard.Write(t.Context(), db, nil, account, token, write); err != nil {
			failed++
		} else {
			last = token
		}
		if err := s.guard.Write(t.Context(), db, nil, account, 1, write); err == nil || missing == nil && !errors.Is(err, fencing.ErrStale) {
			t.Errorf("a stale token after %d: got %v; want it refused", last, err)
		}
	}
	highest, err := s.guard.Highest(t.Context(), s.db, account)
	testkit.Must(t, err)
	if _, token := s.value(t); highest != last || token != int64(last) {
		t.Errorf("got the write of token %d, and %d kept; want %d", token, highest, last)
	}
	t.Logf("%d of 19 writes failed; SET max_prepared_statements: %v", failed, missing)
	if (failed > 0) != (missing != nil) {
		t.Error("want failures where pgbouncer knows no prepared statements, and there only")
	}
}
