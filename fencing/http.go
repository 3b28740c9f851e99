package fencing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/quorumkit/redlock"
)

// Header carries a request's token, in decimal, and KindHeader its kind, "shared"
// or "exclusive"; a token without a kind is exclusive. HighestHeader is in a
// refusal and names the largest token that the resource has seen; KindHeader
// beside it says that this one is shared.
const (
	Header        = "Fencing-Token"
	KindHeader    = "Fencing-Token-Kind"
	HighestHeader = "Fencing-Token-Highest"
)

// The status codes of a refusal. A malformed or repeated header is 400 Bad
// Request.
const (
	StatusMissing = http.StatusPreconditionRequired // 428: send a token
	StatusStale   = http.StatusPreconditionFailed   // 412: you no longer hold the lock
)

// ParseHeader returns the token of a request's header. A token is written as 1
// to 16 digits, the first of them not zero: there is one spelling of each, so
// that nothing on the way can read another number out of it.
//
// It returns ErrNoToken when the header is missing, ErrHeaderRepeated when it is
// there more than once (also when a proxy joined the values with a comma),
// ErrInvalidHeader when it does not parse, and ErrTokenRange above redlock.MaxToken.
func ParseHeader(h http.Header) (redlock.Token, error) {
	values := h.Values(Header)
	switch {
	case len(values) == 0:
		return 0, fmt.Errorf("fencing: the request has no %s header: %w", Header, ErrNoToken)
	case len(values) > 1:
		return 0, fmt.Errorf("fencing: %w: %d times", ErrHeaderRepeated, len(values))
	}
	return parseToken(values[0])
}

// ParseKind reports whether the token of a request's header is that of a shared
// hold, as KindHeader says. Without this header it is not: a client that knows
// no kinds has exclusive holds.
//
// It returns ErrHeaderRepeated when the header is there more than once, and
// ErrInvalidHeader when it is neither "shared" nor "exclusive".
func ParseKind(h http.Header) (shared bool, err error) {
	values := h.Values(KindHeader)
	switch {
	case len(values) == 0:
		return false, nil
	case len(values) > 1:
		return false, fmt.Errorf("fencing: %w: %s, %d times", ErrHeaderRepeated, KindHeader, len(values))
	case values[0] == sharedWord:
		return true, nil
	case values[0] == exclusiveWord:
		return false, nil
	}
	return false, fmt.Errorf("fencing: %w: %s is %.40q, and may be %s or %s", ErrInvalidHeader, KindHeader, values[0], sharedWord, exclusiveWord)
}

// withToken returns a copy of ctx that carries the token of h for name.
func withToken(ctx context.Context, h http.Header, name string) (context.Context, redlock.Token, error) {
	token, err := ParseHeader(h)
	if err != nil {
		return nil, 0, err
	}
	shared, err := ParseKind(h)
	if err != nil {
		return nil, 0, err
	}
	carry := NewContext
	if shared {
		carry = NewSharedContext
	}
	ctx, err = carry(ctx, name, token)
	return ctx, token, err
}

func parseToken(value string) (redlock.Token, error) {
	if strings.Contains(value, ",") {
		return 0, fmt.Errorf("fencing: %w: %.40q", ErrHeaderRepeated, value)
	}
	// ParseUint alone takes 007, and with it a second spelling of 7.
	if value == "" || value[0] < '1' || value[0] > '9' || len(value) > 16 {
		return 0, fmt.Errorf("fencing: %w: %.40q", ErrInvalidHeader, value)
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fencing: %w: %.40q", ErrInvalidHeader, value)
	}
	if n > uint64(redlock.MaxToken) {
		return 0, fmt.Errorf("fencing: %w: got %d, the largest is %d", ErrTokenRange, n, redlock.MaxToken)
	}
	return redlock.Token(n), nil
}

// RequireToken returns a middleware that lets a request through only with a
// token, which the handler finds in the request's context by FromContext, and a
// guard with its kind. It does not judge the token: the handler does, in the
// transaction or script that writes, and answers with WriteError. This is the form for a resource that
// several servers write.
//
// resource names what a request writes to; a request for which it returns "" is
// not guarded and passes untouched. It panics if resource is nil.
func RequireToken(resource func(*http.Request) string) func(http.Handler) http.Handler {
	if resource == nil {
		panic("fencing: RequireToken: nil resource")
	}
	return func(next http.Handler) http.Handler {
		return requireToken(resource, next, func(w http.ResponseWriter, r *http.Request, _ string, _ redlock.Token) {
			next.ServeHTTP(w, r)
		})
	}
}

// requireToken hands the requests that are not guarded to next, and the others,
// with their resource and token, to guarded. resource is asked once: a
// second answer may differ, and let a request through that nobody judged.
func requireToken(resource func(*http.Request) string, next http.Handler,
	guarded func(w http.ResponseWriter, r *http.Request, name string, token redlock.Token),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := resource(r)
		if name == "" {
			next.ServeHTTP(w, r)
			return
		}
		ctx, token, err := withToken(r.Context(), r.Header, name)
		if err != nil {
			refuse(w, err)
			return
		}
		guarded(w, r.WithContext(ctx), name, token)
	})
}

// refuse answers a request that is not handed on.
func refuse(w http.ResponseWriter, err error) {
	if !WriteError(w, err) {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// GuardRequests is RequireToken with the judgement: the handler runs inside
// guard.Write, so that a stale request is refused before the handler sees it.
//
// Unit of atomicity: the handler's whole call. Requests for one resource run one
// after another, and one that is slow to send its body keeps the next one
// waiting: bound it by http.Server's timeouts. Not promised: anything about
// another process, or about this one after a restart.
//
// It panics if guard or resource is nil.
func GuardRequests(guard *Memory, resource func(*http.Request) string) func(http.Handler) http.Handler {
	if guard == nil {
		panic("fencing: GuardRequests: nil guard")
	}
	if resource == nil {
		panic("fencing: GuardRequests: nil resource")
	}
	return func(next http.Handler) http.Handler {
		return requireToken(resource, next, func(w http.ResponseWriter, r *http.Request, name string, token redlock.Token) {
			err := guard.Write(r.Context(), name, token, func(ctx context.Context) error {
				next.ServeHTTP(w, r.WithContext(ctx))
				return nil
			})
			if err != nil {
				refuse(w, err)
			}
		})
	}
}

// WriteError answers a request with the status code of a guard's error, and
// reports whether err was one: StatusMissing for ErrNoToken, StatusStale with
// HighestHeader, and KindHeader where that one is shared, for a *StaleError, 400 Bad Request for a token or a resource
// name that no guard takes. Nothing is written for any other error, nil
// included.
func WriteError(w http.ResponseWriter, err error) bool {
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		w.Header().Set(HighestHeader, stale.Highest.String())
		if stale.HighestShared {
			w.Header().Set(KindHeader, sharedWord)
		}
		http.Error(w, err.Error(), StatusStale)
	case errors.Is(err, ErrNoToken):
		http.Error(w, err.Error(), StatusMissing)
	case errors.Is(err, ErrInvalidHeader), errors.Is(err, ErrHeaderRepeated),
		errors.Is(err, ErrZeroToken), errors.Is(err, ErrTokenRange),
		errors.Is(err, ErrBackwards), errors.Is(err, ErrKind), errors.Is(err, ErrInvalidResource):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		return false
	}
	return true
}

// Transport is a http.RoundTripper that sends the token of a request's context
// along. Make one with NewTransport. It is safe for concurrent use if its base
// is.
type Transport struct {
	base     http.RoundTripper
	resource func(*http.Request) string
}

// NewTransport returns a Transport over base, or over http.DefaultTransport if
// base is nil. resource names what a request writes to, as the holder of the
// lock calls it; a request for which it returns "" is sent as it is. It panics
// if resource is nil.
func NewTransport(base http.RoundTripper, resource func(*http.Request) string) *Transport {
	if resource == nil {
		panic("fencing: NewTransport: nil resource")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport{base: base, resource: resource}
}

// RoundTrip sends req with the Fencing-Token header, and with KindHeader where the
// token is that of a shared hold. A server that knows no kinds takes it for an
// exclusive one: it refuses more, and no stale write passes. Each hop of a redirect is
// judged, and gets its token, by itself.
//
// It returns ErrNoToken when the context carries no token for the resource, and
// ErrHeaderRepeated when req has one of the headers already; nothing is sent then. A
// refusal by the server is a response like any other: see ResponseError.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	name := t.resource(req)
	if name == "" {
		return t.base.RoundTrip(req)
	}
	ctx := req.Context()
	token, err := FromContext(ctx, name)
	if err == nil && len(req.Header.Values(Header))+len(req.Header.Values(KindHeader)) > 0 {
		err = fmt.Errorf("fencing: send %q: %w: the request has one before the transport adds its own", name, ErrHeaderRepeated)
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper closes it on errors too; this one is of no interest
		}
		return nil, err
	}
	req = req.Clone(ctx) // a RoundTripper may not change its request
	req.Header.Set(Header, token.String())
	if IsShared(ctx, name, token) {
		req.Header.Set(KindHeader, sharedWord)
	}
	return t.base.RoundTrip(req)
}

// ResponseError turns a server's refusal of a write to resource into the guard's
// error: a *StaleError for StatusStale, ErrNoToken for StatusMissing. It returns
// nil for every other response, and for a 412 that speaks of another
// precondition (it has no HighestHeader). It does not read or close the body.
func ResponseError(resp *http.Response, resource string) error {
	switch resp.StatusCode {
	case StatusMissing:
		return fmt.Errorf("fencing: send %q: the server asks for a token: %w", resource, ErrNoToken)
	case StatusStale:
		highest, err := parseToken(resp.Header.Get(HighestHeader))
		if err != nil {
			return nil //nolint:nilerr // without the header it is not a guard's 412
		}
		stale := &StaleError{Resource: resource, Highest: highest}
		stale.HighestShared, _ = ParseKind(resp.Header) // a malformed header counts as not shared
		if resp.Request != nil {
			stale.Token, _ = ParseHeader(resp.Request.Header) // 0 if the caller took the request away
			stale.Shared, _ = ParseKind(resp.Request.Header)
		}
		return stale
	}
	return nil
}
