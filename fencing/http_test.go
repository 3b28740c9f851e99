package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

// guarded names what a request of these tests writes to: reading is free, and so
// is every path but one.
func guarded(r *http.Request) string {
	if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/docs/") {
		return ""
	}
	return strings.TrimPrefix(r.URL.Path, "/docs/")
}

// document is a handler that keeps what was last put.
type document struct{ value string }

func (d *document) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // of a test's own request
	d.value = string(body)
}

// client returns a function that puts a value under a token, over transport.
func client(t *testing.T, transport http.RoundTripper, url string) func(redlock.Token, string) error {
	t.Helper()
	c := &http.Client{Transport: transport}
	return func(token redlock.Token, value string) error {
		ctx, err := fencing.NewContext(t.Context(), "7", token)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/docs/7", strings.NewReader(value))
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := fencing.ResponseError(resp, "7"); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		return nil
	}
}

func TestHTTPRefusesThePausedHolder(t *testing.T) {
	var doc document
	open := httptest.NewServer(&doc)
	defer open.Close()
	plain := pausedholder.Run(client(t, nil, open.URL))
	plainLast := doc.value

	var guard fencing.Memory
	srv := httptest.NewServer(fencing.GuardRequests(&guard, guarded)(&doc))
	defer srv.Close()
	result := pausedholder.Run(client(t, fencing.NewTransport(nil, guarded), srv.URL))
	wantScenario(t, "7", plain, result, plainLast, doc.value)
}

// putting returns a function that puts under the token of its context, to a server
// that guard guards.
func putting(t *testing.T, name string, guard *fencing.Memory) func(context.Context, redlock.Token) error {
	t.Helper()
	srv := httptest.NewServer(fencing.GuardRequests(guard, guarded)(new(document)))
	t.Cleanup(srv.Close)
	c := &http.Client{Transport: fencing.NewTransport(nil, guarded)}
	return func(ctx context.Context, token redlock.Token) error {
		ctx, err := fencing.NewContext(ctx, name, token)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL+"/docs/"+name, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fencing.ResponseError(resp, name)
	}
}

func TestGuardRequestsTakesTheKindFromItsHeader(t *testing.T) {
	var doc document
	var guard fencing.Memory
	h := fencing.GuardRequests(&guard, guarded)(&doc)
	for _, tt := range []struct {
		name    string
		token   string
		kinds   []string
		status  int
		highest string
		kind    string // of highest
	}{
		{"a client that knows no kinds", "42", nil, 200, "", ""},
		{"exclusive", "42", []string{"exclusive"}, 200, "", ""},
		{"an exclusive's number, shared", "42", []string{"shared"}, 412, "42", ""},
		{"shared", "44", []string{"shared"}, 200, "", ""},
		{"another that shares", "43", []string{"shared"}, 200, "", ""},
		{"stale, and knows no kinds", "43", nil, 412, "44", "shared"},
		{"the sharers' number, the kind lost", "44", nil, 412, "44", "shared"},
		{"malformed", "44", []string{"Shared"}, 400, "", ""},
		{"empty", "44", []string{""}, 400, "", ""},
		{"twice", "44", []string{"shared", "shared"}, 400, "", ""},
		{"twice, joined", "44", []string{"shared, shared"}, 400, "", ""},
		{"a kind and no token", "", []string{"shared"}, 428, "", ""},
		{"the next exclusive", "45", nil, 200, "", ""},
		{"a stale sharer", "44", []string{"shared"}, 412, "45", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc.value = "before"
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs/7", strings.NewReader("after"))
			if tt.token != "" {
				req.Header.Set(fencing.Header, tt.token)
			}
			for _, kind := range tt.kinds {
				req.Header.Add(fencing.KindHeader, kind)
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if got := rec.Header(); rec.Code != tt.status || got.Get(fencing.HighestHeader) != tt.highest || got.Get(fencing.KindHeader) != tt.kind {
				t.Errorf("got %d, highest %q %q; want %d, %q %q", rec.Code,
					got.Get(fencing.HighestHeader), got.Get(fencing.KindHeader), tt.status, tt.highest, tt.kind)
			}
			if written := doc.value == "after"; written != (tt.status == 200) {
				t.Errorf("got %q", doc.value)
			}
		})
	}
}

func TestRequireTokenHandsTheKindOn(t *testing.T) {
	for kind, want := range map[string]bool{"": false, "exclusive": false, "shared": true} {
		var got bool
		h := fencing.RequireToken(guarded)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = fencing.IsShared(r.Context(), "7", 42)
		}))
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs/7", nil)
		req.Header.Set(fencing.Header, "42")
		if kind != "" {
			req.Header.Set(fencing.KindHeader, kind)
		}
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, req); rec.Code != http.StatusOK || got != want {
			t.Errorf("%q: got %d, shared %t; want 200, %t", kind, rec.Code, got, want)
		}
	}
}

// onTwoServers plays the scenario on a resource that two servers write: the write
// of the next holder goes to the second, the others to the first. It returns what
// the data is at the end.
func onTwoServers(t *testing.T, transport http.RoundTripper, handler func(*document) http.Handler) (pausedholder.Result, string) {
	t.Helper()
	var shared document
	var urls [2]string
	for i := range urls {
		srv := httptest.NewServer(handler(&shared))
		t.Cleanup(srv.Close)
		urls[i] = srv.URL
	}
	writes := [2]func(redlock.Token, string) error{client(t, transport, urls[0]), client(t, transport, urls[1])}
	result := pausedholder.Run(func(token redlock.Token, value string) error {
		if token == pausedholder.NextToken {
			return writes[1](token, value)
		}
		return writes[0](token, value)
	})
	return result, shared.value
}

// RequireToken judges nothing: what refuses the paused holder is the guard that
// both servers' handlers ask, and WriteError tells it so. A Memory of both stands
// for the database that servers have in common.
func TestRequireTokenWithAGuardOfAllServersRefusesThePausedHolder(t *testing.T) {
	transport := fencing.NewTransport(nil, guarded)
	plain, plainLast := onTwoServers(t, transport, func(data *document) http.Handler {
		return fencing.RequireToken(guarded)(data)
	})
	var guard fencing.Memory
	result, last := onTwoServers(t, transport, func(data *document) http.Handler {
		return fencing.RequireToken(guarded)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, err := fencing.FromContext(r.Context(), "7")
			if err == nil {
				err = guard.Write(r.Context(), "7", token, func(context.Context) error {
					data.ServeHTTP(w, r)
					return nil
				})
			}
			if err != nil && !fencing.WriteError(w, err) {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
	})
	wantScenario(t, "7", plain, result, plainLast, last)
}

func TestGuardRequestsAnswersByTheReason(t *testing.T) {
	var doc document
	var guard fencing.Memory
	h := fencing.GuardRequests(&guard, guarded)(&doc)
	for _, tt := range []struct {
		name    string
		method  string
		path    string
		tokens  []string
		status  int
		highest string
	}{
		{"accepted", "PUT", "/docs/7", []string{"42"}, 200, ""},
		{"the same again", "PUT", "/docs/7", []string{"42"}, 200, ""},
		{"stale", "PUT", "/docs/7", []string{"41"}, 412, "42"},
		{"another resource", "PUT", "/docs/8", []string{"1"}, 200, ""},
		{"missing", "PUT", "/docs/7", nil, 428, ""},
		{"malformed", "PUT", "/docs/7", []string{"x"}, 400, ""},
		{"too large", "PUT", "/docs/7", []string{"9007199254740992"}, 400, ""},
		{"twice", "PUT", "/docs/7", []string{"43", "44"}, 400, ""},
		{"not guarded: reading", "GET", "/docs/7", nil, 200, ""},
		{"not guarded: elsewhere", "PUT", "/health", []string{"x"}, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc.value = "before"
			req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader("after"))
			for _, token := range tt.tokens {
				req.Header.Add(fencing.Header, token)
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if rec.Code != tt.status || rec.Header().Get(fencing.HighestHeader) != tt.highest {
				t.Errorf("got %d, highest %q; want %d, %q", rec.Code, rec.Header().Get(fencing.HighestHeader), tt.status, tt.highest)
			}
			want := "before"
			if tt.status == 200 {
				want = "after"
			}
			if doc.value != want {
				t.Errorf("got %q; want %q", doc.value, want)
			}
		})
	}
	if got := guard.Highest("7"); got != 42 {
		t.Errorf("got %d; want the refused ones not to be stored: 42", got)
	}
}

// What a request writes to is asked once: a second answer may differ, as where it
// depends on the request's body, and would let it through unjudged.
func TestGuardRequestsAsksOnceForTheResource(t *testing.T) {
	for name, middleware := range map[string]func(func(*http.Request) string) func(http.Handler) http.Handler{
		"RequireToken": fencing.RequireToken,
		"GuardRequests": func(resource func(*http.Request) string) func(http.Handler) http.Handler {
			return fencing.GuardRequests(new(fencing.Memory), resource)
		},
	} {
		asked, served := 0, 0
		once := func(*http.Request) string {
			if asked++; asked > 1 {
				return ""
			}
			return "orders/42"
		}
		handler := middleware(once)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served++
			if token, err := fencing.FromContext(r.Context(), "orders/42"); token != 7 || err != nil {
				t.Errorf("%s: the handler finds token %d, %v; want 7", name, token, err)
			}
		}))
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/orders/42", nil)
		req.Header.Set(fencing.Header, "7")
		handler.ServeHTTP(httptest.NewRecorder(), req)
		if asked != 1 || served != 1 {
			t.Errorf("%s: asked %d times and served %d; want once each", name, asked, served)
		}
	}
}

func TestGuardRequestsGivesTheTurnBackAfterAPanic(t *testing.T) {
	var guard fencing.Memory
	h := fencing.GuardRequests(&guard, guarded)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	for range 2 { // the second would hang
		func() {
			defer func() { _ = recover() }()
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs/7", nil)
			req.Header.Set(fencing.Header, "1")
			h.ServeHTTP(httptest.NewRecorder(), req)
		}()
	}
}

func TestGuardRequestsAnswers503WhenTheClientLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var guard fencing.Memory
		release := make(chan struct{})
		h := fencing.GuardRequests(&guard, guarded)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		serve := func(ctx context.Context) int {
			req := httptest.NewRequestWithContext(ctx, http.MethodPut, "/docs/7", nil)
			req.Header.Set(fencing.Header, "1")
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			return rec.Code
		}
		first := make(chan int)
		go func() { first <- serve(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan int)
		go func() { second <- serve(ctx) }()
		synctest.Wait()
		cancel()
		if got := <-second; got != http.StatusServiceUnavailable {
			t.Errorf("got %d; want %d", got, http.StatusServiceUnavailable)
		}
		close(release)
		if got := <-first; got != http.StatusOK {
			t.Errorf("got %d; want %d", got, http.StatusOK)
		}
	})
}

func TestRequireTokenHandsTheTokenOnAndDoesNotJudgeIt(t *testing.T) {
	var got redlock.Token
	h := fencing.RequireToken(guarded)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = fencing.FromContext(r.Context(), "7")
	}))
	for _, token := range []redlock.Token{42, 41} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs/7", nil)
		req.Header.Set(fencing.Header, token.String())
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if got != token || rec.Code != http.StatusOK {
			t.Errorf("got %d, %d; want %d, %d", got, rec.Code, token, http.StatusOK)
		}
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs/7", nil))
	if rec.Code != fencing.StatusMissing {
		t.Errorf("got %d; want %d", rec.Code, fencing.StatusMissing)
	}
}

func TestWriteErrorLeavesOtherErrorsToTheHandler(t *testing.T) {
	for _, err := range []error{nil, errors.New("the disk is full"), fencing.ErrNoTable} {
		rec := httptest.NewRecorder()
		if fencing.WriteError(rec, err) || rec.Body.Len() > 0 {
			t.Errorf("%v: got an answer; want none", err)
		}
	}
}

func TestNilArgumentsPanicWhereTheyAreGiven(t *testing.T) {
	for name, f := range map[string]func(){
		"RequireToken":                func() { fencing.RequireToken(nil) },
		"GuardRequests":               func() { fencing.GuardRequests(nil, guarded) },
		"GuardRequests: nil resource": func() { fencing.GuardRequests(new(fencing.Memory), nil) },
		"NewTransport":                func() { fencing.NewTransport(nil, nil) },
		"NewRedis":                    func() { fencing.NewRedis(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "fencing: "+name) {
					t.Errorf("got %q; want a panic that names the function", got)
				}
			}()
			f()
		})
	}
}
