package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

func ExampleSeen_Accept() {
	var seen fencing.Seen
	write := func(token redlock.Token, shared bool) {
		next, err := seen.Accept("invoice:7", token, shared)
		fmt.Println(next, err)
		seen = next
	}
	write(41, false) // an exclusive holder
	write(42, true)  // two that share the resource
	write(43, true)
	write(42, true)  // the first of them again
	write(41, false) // woke too late
	write(44, false) // the next exclusive holder
	write(43, true)  // woke too late
	// Output:
	// 41 <nil>
	// 41 42 <nil>
	// 41 43 <nil>
	// 41 43 <nil>
	// 41 43 fencing: write "invoice:7": stale token: got 41, the highest shared seen is 43
	// 44 <nil>
	// 44 fencing: write "invoice:7": stale token: got shared 43, the highest seen is 44
}

func ExampleSeen_Highest() {
	fmt.Println(fencing.Seen{Exclusive: 41, Shared: 43}.Highest())
	// Output:
	// 43
}

func ExampleSeen_String() {
	fmt.Println(fencing.Seen{Exclusive: 41})
	fmt.Println(fencing.Seen{Exclusive: 41, Shared: 43})
	// Output:
	// 41
	// 41 43
}

func ExampleParseSeen() {
	seen, err := fencing.ParseSeen("41 43")
	fmt.Println(seen.Exclusive, seen.Shared, err)
	_, err = fencing.ParseSeen("43 41")
	fmt.Println(err)
	// Output:
	// 41 43 <nil>
	// fencing: read what was seen: what is kept in the token's place is no token: "43 41"
}

func ExampleStaleError() {
	_, err := fencing.Seen{Exclusive: 42}.Accept("invoice:7", 41, false)
	err = fmt.Errorf("saving the invoice: %w", err)

	var stale *fencing.StaleError
	if errors.As(err, &stale) {
		fmt.Printf("lost %s to the holder of token %d\n", stale.Resource, stale.Highest)
	}
	fmt.Println(errors.Is(err, fencing.ErrStale))
	// Output:
	// lost invoice:7 to the holder of token 42
	// true
}

func ExampleMemory_Write() {
	var guard fencing.Memory
	ctx := context.Background()
	var invoice string
	set := func(value string) func(context.Context) error {
		return func(context.Context) error {
			invoice = value
			return nil
		}
	}
	fmt.Println(guard.Write(ctx, "invoice:7", 42, set("paid")))
	fmt.Println(guard.Write(ctx, "invoice:7", 41, set("open"))) // woke too late
	fmt.Println(invoice)
	// Output:
	// <nil>
	// fencing: write "invoice:7": stale token: got 41, the highest seen is 42
	// paid
}

func ExampleMemory_Highest() {
	var guard fencing.Memory
	fmt.Println(guard.Highest("invoice:7"))
	_ = guard.Write(context.Background(), "invoice:7", 42, func(context.Context) error { return nil })
	fmt.Println(guard.Highest("invoice:7"))
	// Output:
	// 0
	// 42
}

// Redlock's Do does this for its function's context.
func ExampleNewContext() {
	ctx, err := fencing.NewContext(context.Background(), "invoice:7", 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = fencing.NewContext(ctx, "invoice:7", 41)
	fmt.Println(err)
	// Output:
	// fencing: carry "invoice:7": token goes backwards within one holder: got 41 after 42
}

// The context of a lock that is shared says this by itself.
func ExampleNewSharedContext() {
	var guard fencing.Memory
	ctx := context.Background()
	shared := func(token redlock.Token) context.Context {
		ctx, err := fencing.NewSharedContext(ctx, "invoice:7", token)
		if err != nil {
			fmt.Println(err)
		}
		return ctx
	}
	write := func(context.Context) error { return nil }
	fmt.Println(guard.Write(shared(43), "invoice:7", 43, write))
	fmt.Println(guard.Write(shared(42), "invoice:7", 42, write)) // shares it with 43
	fmt.Println(guard.Write(ctx, "invoice:7", 42, write))        // does not
	// Output:
	// <nil>
	// <nil>
	// fencing: write "invoice:7": stale token: got 42, the highest shared seen is 43
}

func ExampleIsShared() {
	ctx, err := fencing.NewSharedContext(context.Background(), "invoice:7", 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fencing.IsShared(ctx, "invoice:7", 42))
	fmt.Println(fencing.IsShared(ctx, "invoice:7", 43))
	// Output:
	// true
	// false
}

func ExampleFromContext() {
	ctx, err := fencing.NewContext(context.Background(), "invoice:7", 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fencing.FromContext(ctx, "invoice:7"))
	fmt.Println(fencing.FromContext(ctx, "invoice:8"))
	// Output:
	// 42 <nil>
	// 0 fencing: the context carries none for "invoice:8": no token
}

// invoiceOf says which requests are guarded, and what they write to.
func invoiceOf(r *http.Request) string {
	if r.Method != http.MethodPut {
		return ""
	}
	return strings.Replace(strings.TrimPrefix(r.URL.Path, "/"), "/", ":", 1)
}

func ExampleGuardRequests() {
	var guard fencing.Memory
	handler := fencing.GuardRequests(&guard, invoiceOf)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "saved")
	}))
	for _, token := range []string{"42", "41", ""} {
		req := httptest.NewRequest(http.MethodPut, "/invoice/7", nil)
		if token != "" {
			req.Header.Set(fencing.Header, token)
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		fmt.Print(rec.Code, " ", rec.Body)
	}
	// Output:
	// 200 saved
	// 412 fencing: write "invoice:7": stale token: got 41, the highest seen is 42
	// 428 fencing: the request has no Fencing-Token header: no token
}

// The handler asks the guard that is nearest to the data, here a Redis.
func ExampleRequireToken() {
	srv, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	guard := fencing.NewRedis(redis.NewClient(&redis.Options{Addr: srv.Addr()}))

	handler := fencing.RequireToken(invoiceOf)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, name := r.Context(), invoiceOf(r)
		token, err := fencing.FromContext(ctx, name)
		if err == nil {
			err = guard.Do(ctx, name, token, "SET", name, "paid").Err()
		}
		if fencing.WriteError(w, err) {
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "saved")
	}))
	for _, token := range []string{"42", "41"} {
		req := httptest.NewRequest(http.MethodPut, "/invoice/7", nil)
		req.Header.Set(fencing.Header, token)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		fmt.Print(rec.Code, " ", rec.Body)
	}
	// Output:
	// 200 saved
	// 412 fencing: write "invoice:7": stale token: got 41, the highest seen is 42
}

func ExampleWriteError() {
	rec := httptest.NewRecorder()
	_, err := fencing.Seen{Exclusive: 42}.Accept("invoice:7", 41, false)
	fmt.Println(fencing.WriteError(rec, err))
	fmt.Println(rec.Code, rec.Header().Get(fencing.HighestHeader))
	fmt.Println(fencing.WriteError(rec, io.ErrUnexpectedEOF)) // not a guard's: yours to answer
	// Output:
	// true
	// 412 42
	// false
}

func ExampleParseHeader() {
	fmt.Println(fencing.ParseHeader(http.Header{"Fencing-Token": {"42"}}))
	fmt.Println(fencing.ParseHeader(http.Header{"Fencing-Token": {"042"}}))
	fmt.Println(fencing.ParseHeader(http.Header{"Fencing-Token": {"41", "42"}}))
	// Output:
	// 42 <nil>
	// 0 fencing: malformed Fencing-Token header: "042"
	// 0 fencing: Fencing-Token header is there more than once: 2 times
}

func ExampleParseKind() {
	fmt.Println(fencing.ParseKind(http.Header{})) // a client that knows no kinds
	fmt.Println(fencing.ParseKind(http.Header{"Fencing-Token-Kind": {"shared"}}))
	fmt.Println(fencing.ParseKind(http.Header{"Fencing-Token-Kind": {"yes"}}))
	// Output:
	// false <nil>
	// true <nil>
	// false fencing: malformed Fencing-Token header: Fencing-Token-Kind is "yes", and may be shared or exclusive
}

func ExampleNewTransport() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the server got", r.Header.Get(fencing.Header))
	}))
	defer srv.Close()
	client := &http.Client{Transport: fencing.NewTransport(nil, invoiceOf)}

	ctx, err := fencing.NewContext(context.Background(), "invoice:7", 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL+"/invoice/7", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Print(string(body))
	fmt.Println(err)
	// Output:
	// the server got 42
	// <nil>
}

func ExampleResponseError() {
	resp := &http.Response{
		StatusCode: http.StatusPreconditionFailed,
		Header:     http.Header{fencing.HighestHeader: {"42"}},
		Request:    &http.Request{Header: http.Header{fencing.Header: {"41"}}},
	}
	fmt.Println(fencing.ResponseError(resp, "invoice:7"))
	// Output:
	// fencing: write "invoice:7": stale token: got 41, the highest seen is 42
}

func ExampleRedis_Do() {
	srv, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	client := redis.NewClient(&redis.Options{Addr: srv.Addr()}) // the target, none of the lock's nodes
	guard := fencing.NewRedis(client)

	ctx := context.Background()
	fmt.Println(guard.Do(ctx, "invoice:7", 42, "HSET", "invoices", "7", "paid").Err())
	fmt.Println(guard.Do(ctx, "invoice:7", 41, "HSET", "invoices", "7", "open").Err())
	fmt.Println(client.HGet(ctx, "invoices", "7").Val())
	fmt.Println(guard.Highest(ctx, "invoice:7"))
	fmt.Println(guard.TokenKey("invoice:7"))
	// Output:
	// <nil>
	// fencing: write "invoice:7": stale token: got 41, the highest seen is 42
	// paid
	// 42 <nil>
	// fencing:{invoice:7}
}

func ExampleRedis_Run() {
	srv, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	guard := fencing.NewRedis(redis.NewClient(&redis.Options{Addr: srv.Addr()}))

	// A script of your own: what it finds in KEYS and ARGV is what Run is given.
	deposit := fencing.NewRedisScript(`
		redis.call('RPUSH', KEYS[2], ARGV[1])
		return redis.call('INCRBY', KEYS[1], ARGV[1])`)

	ctx := context.Background()
	keys := []string{"balance", "entries"}
	fmt.Println(guard.Run(ctx, deposit, "account:1", 42, keys, 100).Int())
	fmt.Println(guard.Run(ctx, deposit, "account:1", 42, keys, 50).Int())
	fmt.Println(guard.Run(ctx, deposit, "account:1", 41, keys, 7).Int())
	// Output:
	// 100 <nil>
	// 150 <nil>
	// 0 fencing: write "account:1": stale token: got 41, the highest seen is 42
}

func ExampleRedisPrologue() {
	fmt.Println(strings.SplitN(fencing.RedisPrologue(), "\n", 2)[0])
	// Output:
	// -- Fencing prologue: stands before the body of a script and refuses a stale token.
}

// The guardtest module runs the guard on real databases; this shows what goes to
// a migration tool.
func ExampleSQL_Migration() {
	guard, err := fencing.NewSQL(fencing.PostgreSQL(), fencing.WithTable("app.fences"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(guard.Migration())
	// Output:
	// CREATE TABLE IF NOT EXISTS "app"."fences" (
	// 	resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 255),
	// 	token bigint NOT NULL CHECK (token > 0)
	// )
}

// With pgx, or another driver that is not database/sql's, the statement is run in its
// transaction, and its row given to Statement.Accept.
func ExampleSQL_Statement() {
	for _, dialect := range []fencing.Dialect{fencing.PostgreSQL(), fencing.MariaDB(), fencing.MySQL()} {
		guard, err := fencing.NewSQL(dialect)
		if err != nil {
			fmt.Println(err)
			return
		}
		check, err := guard.Statement(context.Background(), "invoice:7", 42)
		if errors.Is(err, fencing.ErrManyStatements) {
			fmt.Println(dialect, "takes several: use Check")
			continue
		}
		fmt.Println(dialect, len(check.SQL()) > 0, check.Args())
	}
	// Output:
	// PostgreSQL true [invoice:7 42]
	// MariaDB true [invoice:7 42]
	// MySQL takes several: use Check
}
