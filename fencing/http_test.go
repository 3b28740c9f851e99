package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/pausedholder"
)

func TestParseHeader(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []string
		token  redlock.Token
		want   error
	}{
		{"missing", nil, 0, fencing.ErrNoToken},
		{"one", []string{"1"}, 1, nil},
		{"the largest", []string{"9007199254740991"}, redlock.MaxToken, nil},
		{"above the largest", []string{"9007199254740992"}, 0, fencing.ErrTokenRange},
		{"17 digits", []string{"10000000000000000"}, 0, fencing.ErrHeader},
		{"more than 64 bits", []string{"18446744073709551617"}, 0, fencing.ErrHeader},
		{"empty", []string{""}, 0, fencing.ErrHeader},
		{"zero", []string{"0"}, 0, fencing.ErrHeader},
		{"leading zero", []string{"07"}, 0, fencing.ErrHeader},
		{"plus", []string{"+7"}, 0, fencing.ErrHeader},
		{"minus", []string{"-7"}, 0, fencing.ErrHeader},
		{"underscore", []string{"1_000"}, 0, fencing.ErrHeader},
		{"hexadecimal", []string{"0x10"}, 0, fencing.ErrHeader},
		{"fraction", []string{"7.0"}, 0, fencing.ErrHeader},
		{"exponent", []string{"1e3"}, 0, fencing.ErrHeader},
		{"space", []string{"7 "}, 0, fencing.ErrHeader},
		{"other digits", []string{"٧"}, 0, fencing.ErrHeader},
		{"word", []string{"seven"}, 0, fencing.ErrHeader},
		{"twice", []string{"7", "7"}, 0, fencing.ErrHeaderRepeated},
		{"twice, joined", []string{"7, 7"}, 0, fencing.ErrHeaderRepeated},
		{"twice, one empty", []string{"", "7"}, 0, fencing.ErrHeaderRepeated},
	} {
		h := http.Header{}
		for _, v := range tt.values {
			h.Add("fencing-token", v)
		}
		got, err := fencing.ParseHeader(h)
		if got != tt.token || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %d, %v; want %d, %v", tt.name, got, err, tt.token, tt.want)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "007", "42", "9007199254740991", "9007199254740992", "1,2", "+1", "٧", "1\x00"} {
		f.Add(seed, "", false)
		f.Add(seed, "7", true)
	}
	f.Fuzz(func(t *testing.T, first, second string, twice bool) {
		h := http.Header{fencing.Header: {first}}
		if twice {
			h.Add(fencing.Header, second)
		}
		got, err := fencing.ParseHeader(h)
		if err != nil {
			if got != 0 {
				t.Errorf("%q: got %d beside %v; want 0", first, got, err)
			}
			if !errors.Is(err, fencing.ErrHeader) && !errors.Is(err, fencing.ErrHeaderRepeated) && !errors.Is(err, fencing.ErrTokenRange) {
				t.Errorf("%q: got %v; want one of the three", first, err)
			}
			return
		}
		// One spelling of each token: what was read is what was written.
		if twice || got == 0 || got > redlock.MaxToken || strconv.FormatUint(uint64(got), 10) != first {
			t.Errorf("%q, twice %t: got %d", first, twice, got)
		}
	})
}

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

// roundTrip is a RoundTripper that keeps what it was sent.
type roundTrip struct{ sent []*http.Request }

func (rt *roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	rt.sent = append(rt.sent, req)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

type closeable struct {
	io.Reader
	closed bool
}

func (c *closeable) Close() error { c.closed = true; return nil }

func TestTransportSendsTheTokenOfItsResourceOrNothing(t *testing.T) {
	var base roundTrip
	transport := fencing.NewTransport(&base, guarded)
	ctx, err := fencing.NewContext(t.Context(), "7", 42)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // a table of contexts is what is tested
		method string
		path   string
		header []string
		want   error
		sent   []string
	}{
		{"with the token", ctx, "PUT", "/docs/7", nil, nil, []string{"42"}},
		{"another resource's token only", ctx, "PUT", "/docs/8", nil, fencing.ErrNoToken, nil},
		{"no token", t.Context(), "PUT", "/docs/7", nil, fencing.ErrNoToken, nil},
		{"a header is there already", ctx, "PUT", "/docs/7", []string{"42"}, fencing.ErrHeaderRepeated, nil},
		{"not guarded", t.Context(), "GET", "/docs/7", nil, nil, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base.sent = nil
			body := &closeable{Reader: strings.NewReader("x")}
			req, err := http.NewRequestWithContext(tt.ctx, tt.method, "http://example.test"+tt.path, body)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range tt.header {
				req.Header.Add(fencing.Header, v)
			}
			resp, err := transport.RoundTrip(req)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v; want %v", err, tt.want)
			}
			if len(req.Header.Values(fencing.Header)) != len(tt.header) {
				t.Errorf("the caller's request was changed: %v", req.Header)
			}
			if err != nil {
				if len(base.sent) > 0 || !body.closed {
					t.Errorf("got %d sent, body closed %t; want 0, true", len(base.sent), body.closed)
				}
				return
			}
			defer resp.Body.Close()
			if got := base.sent[0].Header.Values(fencing.Header); strings.Join(got, "|") != strings.Join(tt.sent, "|") {
				t.Errorf("got %q; want %q", got, tt.sent)
			}
		})
	}
}

func TestTransportJudgesEachHopOfARedirect(t *testing.T) {
	var doc document
	var guard fencing.Memory
	mux := http.NewServeMux()
	mux.Handle("/old", http.RedirectHandler("/docs/7", http.StatusTemporaryRedirect))
	mux.Handle("/docs/", fencing.GuardRequests(&guard, guarded)(&doc))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	ctx, err := fencing.NewContext(t.Context(), "7", 42)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL+"/old", strings.NewReader("moved"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: fencing.NewTransport(nil, guarded)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || doc.value != "moved" || guard.Highest("7") != 42 {
		t.Errorf("got %d, %q, %d; want 200, moved, 42", resp.StatusCode, doc.value, guard.Highest("7"))
	}
}

func TestResponseErrorReadsAGuardsRefusalOnly(t *testing.T) {
	sent := &http.Request{Header: http.Header{fencing.Header: {"41"}}}
	for _, tt := range []struct {
		name    string
		status  int
		highest string
		want    error
	}{
		{"stale", 412, "42", fencing.ErrStale},
		{"another precondition", 412, "", nil},
		{"a highest that is no token", 412, "x", nil},
		{"missing", 428, "", fencing.ErrNoToken},
		{"fine", 200, "42", nil},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{}, Request: sent}
		resp.Header.Set(fencing.HighestHeader, tt.highest)
		err := fencing.ResponseError(resp, "7")
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v; want %v", tt.name, err, tt.want)
		}
		if errors.Is(tt.want, fencing.ErrStale) {
			wantStale(t, err, "7", 41, 42)
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
