package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// sharing has s make its table as a version without shared tokens did, and gives
// it a guard that knows both kinds; it returns one that knows one number.
func (s *store) sharing(tb testing.TB) *fencing.SQL {
	tb.Helper()
	s.prepare(tb)
	one := s.guard
	s.guard = s.both(tb, s.fences)
	if err := s.guard.Migrate(tb.Context(), s.db); err != nil {
		tb.Fatal(err)
	}
	return one
}

// both returns a guard with WithShared over a table.
func (s *store) both(tb testing.TB, table string) *fencing.SQL {
	tb.Helper()
	guard, err := fencing.NewSQL(s.dialect, fencing.WithTable(table), fencing.WithShared())
	if err != nil {
		tb.Fatal(err)
	}
	return guard
}

// hold is a token and its kind.
type hold struct {
	token  redlock.Token
	shared bool
}

// under is a context that says what a lock's own would say of h.
func (h hold) under(ctx context.Context) context.Context {
	if !h.shared {
		return ctx
	}
	ctx, err := fencing.NewSharedContext(ctx, account, h.token)
	if err != nil {
		panic(err) // the tests have no other tokens in their contexts
	}
	return ctx
}

func nothing(*sql.Tx) error { return nil }

// histories are writes one after another of which each part of the rule decides one: what
// is stale for one kind need not be for the other, and a newer token of one kind makes
// neither number of the other be forgotten.
var histories = map[string][]hold{
	"an exclusive token outlives the sharers after it":  {{5, false}, {6, true}, {7, false}, {8, true}, {6, true}, {7, true}, {9, true}, {6, true}, {8, true}},
	"a shared token outlives the exclusive ones before": {{5, true}, {8, true}, {6, false}, {7, true}, {9, false}, {8, true}, {9, true}, {10, true}, {9, false}},
	"sharers in any order":                              {{4, false}, {9, true}, {5, true}, {8, true}, {4, true}, {3, true}, {9, true}, {8, false}, {10, false}, {9, true}},
	"the same token again":                              {{5, false}, {5, false}, {5, true}, {6, true}, {6, true}, {6, false}, {7, false}, {7, false}},
}

// A table made without WithShared is migrated, keeps its number, and
// the guard then does what Seen.Accept does; a guard that knows one number beside
// it does so too, for exclusive tokens that differ from the largest shared one.
func TestSQLAgreesWithTheRuleOfTwoNumbers(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			for name, writes := range histories {
				for _, older := range []bool{false, true} {
					s.agrees(t, name, writes, func() bool { return older })
				}
			}
			for seed := range uint64(8) {
				rng, writes := rand.New(rand.NewPCG(seed, 5)), []hold(nil)
				for i := range uint64(30) { // of numbers that grow, so that not nearly all are stale
					writes = append(writes, hold{redlock.Token(i/2 + rng.Uint64N(6) + 1), rng.IntN(2) > 0})
				}
				s.agrees(t, fmt.Sprintf("seed %d", seed), writes, func() bool { return rng.IntN(3) == 0 })
			}
		})
	}
}

// agrees makes these writes into a table that was migrated, and compares each with the
// rule. older tells whether the guard of one number is to make the next, if it may.
func (s *store) agrees(t *testing.T, name string, writes []hold, older func() bool) {
	t.Helper()
	s.prepare(t)
	one, two := s.guard, s.both(t, s.fences)
	testkit.Must(t, one.Write(t.Context(), s.db, nil, account, 3, nothing))
	testkit.Must(t, two.Migrate(t.Context(), s.db))
	seen := fencing.Seen{Exclusive: 3}
	for _, h := range writes {
		guard := two
		if older() && !h.shared && h.token != seen.Shared {
			guard = one
		}
		ctx := h.under(t.Context())
		next, want := seen.Accept(account, h.token, h.shared)
		got := guard.Write(ctx, s.db, nil, account, h.token, nothing)
		if (got == nil) != (want == nil) || guard == two && want != nil && got.Error() != want.Error() {
			t.Fatalf("%s: %+v, one number: %t, after %+v: got %v; want %v", name, h, guard == one, seen, got, want)
		}
		if highest, err := one.Highest(ctx, s.db, account); err != nil || highest != next.Highest() {
			t.Fatalf("%s: got %d, %v; want %d", name, highest, err, next.Highest())
		}
		seen = next
	}
}

// The two lines of the rule, where the second transaction waits for the first.
func TestATokenOfEitherKindWaitsForTheOpenTransactionOfAnother(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second hold
		commit        bool
		want          error // of the second
	}{
		{"an older sharer after a newer one commits", hold{6, true}, hold{5, true}, true, nil},
		{"an older sharer after a newer one rolls back", hold{6, true}, hold{5, true}, false, nil},
		{"a newer sharer after an older one commits", hold{5, true}, hold{6, true}, true, nil},
		{"a stale sharer after a newer exclusive commits", hold{6, false}, hold{5, true}, true, fencing.ErrStale},
		{"a sharer after a newer exclusive rolls back", hold{6, false}, hold{5, true}, false, nil},
		{"a stale exclusive after a newer sharer commits", hold{6, true}, hold{5, false}, true, fencing.ErrStale},
		{"an exclusive after a newer sharer rolls back", hold{6, true}, hold{5, false}, false, nil},
		{"a newer exclusive after a sharer commits", hold{5, true}, hold{6, false}, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for s, opts := range storesAndLevels() {
				t.Run(s.at(opts), func(t *testing.T) {
					s.sharing(t)
					err := s.race(t, opts, tt.first, tt.second, tt.commit)
					if tt.commit && s.name == "PostgreSQL" && opts.Isolation >= sql.LevelRepeatableRead {
						if !s.guard.Retryable(err) {
							t.Fatalf("got %v; want 40001, to be retried", err)
						}
						_, err = s.writeOften(t.Context(), opts, tt.second)
					}
					if !errors.Is(err, tt.want) {
						t.Fatalf("got %v; want %v", err, tt.want)
					}
					want := tt.second
					if err != nil {
						want = tt.first
						wantStaleKinds(t, err, tt.second, tt.first)
					}
					if _, got := s.value(t); got != int64(want.token) {
						t.Errorf("the value is that of token %d; want %d", got, want.token)
					}
				})
			}
		})
	}
}

func wantStaleKinds(t *testing.T, err error, late, newer hold) {
	t.Helper()
	want := fencing.StaleError{Resource: account, Token: late.token, Shared: late.shared, Highest: newer.token, HighestShared: newer.shared}
	if stale := (*fencing.StaleError)(nil); !errors.As(err, &stale) || *stale != want {
		t.Errorf("got %v; want %+v", err, want)
	}
}

// This is the control for the test above: a guard of one number, to which the
// tokens of sharers are exclusive ones, refuses a sharer that holds.
func TestOneNumberRefusesASharerBehindANewerOne(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			testkit.Must(t, s.guard.Write(t.Context(), s.db, nil, account, 6, nothing))
			if err := s.guard.Write(t.Context(), s.db, nil, account, 5, nothing); !errors.Is(err, fencing.ErrStale) {
				t.Errorf("got %v; want ErrStale", err)
			}
		})
	}
}

// The history is numbered while the transaction has the resource to itself. So the
// rule, applied to it one after the other, must accept every entry. Multiples of
// three are shared.
func TestConcurrentWritersOfBothKindsLeaveAHistoryThatTheRuleAccepts(t *testing.T) {
	const writers, each = 8, 10
	for s, opts := range storesAndLevels() {
		t.Run(s.at(opts), func(t *testing.T) {
			one := s.sharing(t)
			two := s.guard
			var wg sync.WaitGroup
			var issued atomic.Uint64
			var refused atomic.Int64
			for w := range writers {
				rng := rand.New(rand.NewPCG(uint64(w), 11))
				wg.Go(func() {
					mine := *s
					for range each {
						token := redlock.Token(issued.Add(1) + rng.Uint64N(10))
						mine.guard = two
						if token%3 != 0 && rng.IntN(2) > 0 {
							mine.guard = one
						}
						_, err := mine.writeOften(t.Context(), opts, hold{token, token%3 == 0})
						if errors.Is(err, fencing.ErrStale) {
							refused.Add(1)
						} else if err != nil {
							t.Errorf("token %d: %v", token, err)
						}
					}
				})
			}
			wg.Wait()
			applied := s.applied(t)
			t.Logf("%d applied, %d refused, in order: %t", len(applied), refused.Load(), slices.IsSorted(applied))
			if len(applied)+int(refused.Load()) != writers*each {
				t.Errorf("got %d applied and %d refused; want %d together", len(applied), refused.Load(), writers*each)
			}
			var seen fencing.Seen
			for _, token := range applied {
				next, err := seen.Accept(account, redlock.Token(token), token%3 == 0)
				if err != nil {
					t.Fatalf("the history %d has: %v", applied, err)
				}
				seen = next
			}
			if got, err := s.guard.Highest(t.Context(), s.db, account); err != nil || got != seen.Highest() {
				t.Errorf("highest: got %d, %v; want %d", got, err, seen.Highest())
			}
		})
	}
}

// In one transaction, and in a refused one that is committed all the same.
func TestARefusalOfEitherKindChangesNothing(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.sharing(t)
			for i, h := range []hold{{4, false}, {6, true}, {4, true}, {6, false}, {5, true}, {3, false}, {7, false}, {7, true}, {6, true}, {8, true}} {
				tx := s.begin(t, nil)
				err := s.guard.Check(h.under(t.Context()), tx, account, h.token)
				if accepted := slices.Contains([]int{0, 1, 4, 6, 9}, i); (err == nil) != accepted || err != nil && !errors.Is(err, fencing.ErrStale) {
					t.Errorf("%d, %+v: got %v; want accepted: %t", i, h, err, accepted)
				}
				if err := tx.Commit(); err != nil { // the caller who does not look
					t.Fatal(err)
				}
			}
		})
	}
}

func TestAGuardOfOneNumberRefusesSharedTokensAndWritesNothing(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			ctx := hold{5, true}.under(t.Context())
			err := s.guard.Write(ctx, s.db, nil, account, 5, func(tx *sql.Tx) error { return s.write(ctx, tx, 5, "bad") })
			if !errors.Is(err, fencing.ErrShared) || errors.Is(err, fencing.ErrStale) {
				t.Errorf("Write: got %v; want ErrShared", err)
			}
			tx := s.begin(t, nil)
			if err := s.guard.Check(ctx, tx, account, 5); !errors.Is(err, fencing.ErrShared) {
				t.Errorf("Check: got %v; want ErrShared", err)
			}
			testkit.Must(t, tx.Commit())
			s.wantUntouched(t)
			// Another token in the same context is none of sharers.
			if err := s.guard.Write(ctx, s.db, nil, account, 6, nothing); err != nil {
				t.Errorf("got %v; want nil", err)
			}
		})
	}
}

func TestTheLargestSharedTokenFits(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.sharing(t)
			for _, h := range []hold{{redlock.MaxToken - 1, false}, {redlock.MaxToken, true}, {redlock.MaxToken, true}} {
				if err := s.guard.Write(h.under(t.Context()), s.db, nil, account, h.token, nothing); err != nil {
					t.Errorf("%+v: %v", h, err)
				}
			}
			late := hold{redlock.MaxToken - 1, false}
			err := s.guard.Write(t.Context(), s.db, nil, account, late.token, nothing)
			wantStaleKinds(t, err, late, hold{redlock.MaxToken, true})
			if got := fmt.Sprint(s.row(t)); got != fmt.Sprint([]int64{int64(redlock.MaxToken), int64(redlock.MaxToken), int64(redlock.MaxToken - 1)}) {
				t.Errorf("got the row %s", got)
			}
		})
	}
}

// row returns the numbers that the guard's table has of the resource.
func (s *store) row(tb testing.TB) []int64 {
	tb.Helper()
	numbers := make([]int64, 3)
	err := s.db.QueryRowContext(tb.Context(), "SELECT token, shared, before_shared FROM "+s.fences).Scan(&numbers[0], &numbers[1], &numbers[2])
	if err != nil {
		tb.Fatal(err)
	}
	return numbers
}
