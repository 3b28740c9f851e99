package fencing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

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
	testkit.Must(t, err)
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
			testkit.Must(t, err)
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

// What an exclusive hold sends is what was always sent.
func TestTransportSendsTheKindOfASharedTokenOnly(t *testing.T) {
	var base roundTrip
	transport := fencing.NewTransport(&base, guarded)
	exclusive, err := fencing.NewContext(t.Context(), "7", 42)
	testkit.Must(t, err)
	for _, tt := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // a table of contexts is what is tested
		method string
		preset string
		want   error
		sent   []string
	}{
		{"shared", sharing(t, "7", 42), "PUT", "", nil, []string{"shared"}},
		{"exclusive", exclusive, "PUT", "", nil, nil},
		{"the caller has set a kind", exclusive, "PUT", "shared", fencing.ErrHeaderRepeated, nil},
		{"not guarded", sharing(t, "7", 42), "GET", "", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base.sent = nil
			req, err := http.NewRequestWithContext(tt.ctx, tt.method, "http://example.test/docs/7", http.NoBody)
			testkit.Must(t, err)
			if tt.preset != "" {
				req.Header.Set(fencing.KindHeader, tt.preset)
			}
			resp, err := transport.RoundTrip(req)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v; want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			defer resp.Body.Close()
			if got := base.sent[0].Header.Values(fencing.KindHeader); !slices.Equal(got, tt.sent) {
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
	testkit.Must(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL+"/old", strings.NewReader("moved"))
	testkit.Must(t, err)
	resp, err := (&http.Client{Transport: fencing.NewTransport(nil, guarded)}).Do(req)
	testkit.Must(t, err)
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

func TestResponseErrorSaysWhichTokensAreShared(t *testing.T) {
	for _, tt := range []struct {
		name          string
		sent, highest http.Header
		want          fencing.StaleError
	}{
		{
			"a stale exclusive",
			http.Header{fencing.Header: {"41"}},
			http.Header{fencing.HighestHeader: {"42"}, fencing.KindHeader: {"shared"}},
			fencing.StaleError{Resource: "7", Token: 41, Highest: 42, HighestShared: true},
		},
		{
			"a stale sharer",
			http.Header{fencing.Header: {"41"}, fencing.KindHeader: {"shared"}},
			http.Header{fencing.HighestHeader: {"42"}},
			fencing.StaleError{Resource: "7", Token: 41, Highest: 42, Shared: true},
		},
		{
			"a kind that is none",
			http.Header{fencing.Header: {"41"}},
			http.Header{fencing.HighestHeader: {"42"}, fencing.KindHeader: {"x"}},
			fencing.StaleError{Resource: "7", Token: 41, Highest: 42},
		},
	} {
		err := fencing.ResponseError(&http.Response{
			StatusCode: fencing.StatusStale, Header: tt.highest, Request: &http.Request{Header: tt.sent},
		}, "7")
		var stale *fencing.StaleError
		if !errors.As(err, &stale) || *stale != tt.want {
			t.Errorf("%s: got %+v; want %+v", tt.name, err, tt.want)
		}
	}
}
