package guardtest_test

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// BenchmarkCost measures a guarded write beside an unguarded one. The two take
// turns, so that all else that the machine does falls on both; the medians are
// reported, and their ratio.
func BenchmarkCost(b *testing.B) {
	b.Run("store=Memory", costMemory)
	b.Run("store=HTTP", func(b *testing.B) {
		costHTTP(b, func(resource func(*http.Request) string) func(http.Handler) http.Handler {
			return fencing.GuardRequests(new(fencing.Memory), resource)
		})
	})
	b.Run("store=RequireToken", func(b *testing.B) { costHTTP(b, fencing.RequireToken) })
	b.Run("store=Redis", costRedis)
	for _, s := range stores() {
		b.Run("store="+s.name, func(b *testing.B) { costSQL(b, s) })
	}
}

func cost(b *testing.B, plain, guarded func(redlock.Token) error) {
	b.Helper()
	var took [2][]time.Duration
	token := redlock.Token(1)
	for b.Loop() {
		for i, write := range []func(redlock.Token) error{plain, guarded} {
			start := time.Now()
			testkit.Must(b, write(token))
			took[i] = append(took[i], time.Since(start))
		}
		token++
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2])
	}
	b.ReportMetric(0, "ns/op") // the sum of the two says nothing
	b.ReportMetric(median[0]/1e3, "plain-us")
	b.ReportMetric(median[1]/1e3, "guarded-us")
	b.ReportMetric(median[1]/median[0], "ratio")
}

func costMemory(b *testing.B) {
	var guard fencing.Memory
	var value redlock.Token
	ctx := b.Context()
	cost(b, func(token redlock.Token) error {
		value = token
		return nil
	}, func(token redlock.Token) error {
		return guard.Write(ctx, account, token, func(context.Context) error {
			value = token
			return nil
		})
	})
	_ = value
}

// costHTTP puts over loopback. RequireToken by itself judges nothing: its share is
// what the header costs on both sides, and the handler's guard comes on top.
func costHTTP(b *testing.B, middleware func(func(*http.Request) string) func(http.Handler) http.Handler) {
	b.Helper()
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	resource := func(*http.Request) string { return account }
	open, closed := httptest.NewServer(h), httptest.NewServer(middleware(resource)(h))
	defer open.Close()
	defer closed.Close()
	put := func(client *http.Client, url string) func(redlock.Token) error {
		return func(token redlock.Token) error {
			ctx, err := fencing.NewContext(b.Context(), account, token)
			if err != nil {
				return err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("value"))
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return fencing.ResponseError(resp, account)
		}
	}
	cost(b, put(&http.Client{}, open.URL), put(&http.Client{Transport: fencing.NewTransport(nil, resource)}, closed.URL))
}

func costRedis(b *testing.B) {
	guard, client := openRedis(b)
	ctx := b.Context()
	cost(b, func(redlock.Token) error {
		return client.Set(ctx, "plain", "value", 0).Err()
	}, func(token redlock.Token) error {
		return guard.Do(ctx, account, token, "SET", "guarded", "value").Err()
	})
}

// costSQL writes one row in a transaction, as the guard does.
func costSQL(b *testing.B, s *store) {
	b.Helper()
	s.prepare(b)
	ctx := b.Context()
	update := func(tx *sql.Tx, token redlock.Token) error {
		_, err := tx.ExecContext(ctx, "UPDATE "+s.balance+" SET token = "+token.String()+" WHERE id = 1")
		return err
	}
	cost(b, func(token redlock.Token) error {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := update(tx, token); err != nil {
			return err
		}
		return tx.Commit()
	}, func(token redlock.Token) error {
		return s.guard.Write(ctx, s.db, nil, account, token, func(tx *sql.Tx) error { return update(tx, token) })
	})
}
