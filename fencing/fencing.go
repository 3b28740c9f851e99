// Package fencing is the resource's side of a lock: guards that refuse the write
// of a holder whose time has passed.
//
// A lock cannot stop its holder. A process that is paused after it was granted
// the lock wakes after the lease and writes, and nothing on the lock's side can
// prevent that. The resource can: it remembers the largest token that it has
// seen and refuses a smaller one. All guards here keep the one rule of
// [Seen.Accept], and keep the token in the same atomic unit as the write:
//
//   - [Memory]: one process; the reference.
//   - [SQL]: in the caller's transaction, on PostgreSQL, SQLite, MySQL, MariaDB:
//     one of database/sql or of what is made over it ([Tx]), or pgx ([Statement]).
//   - [Redis]: in one script with the write.
//   - [RequireToken], [GuardRequests], [Transport]: across net/http.
//   - [NewContext], [FromContext]: the token's way through a program's calls.
//
// # What a guard does not promise
//
// It does not exclude two holders: it puts their writes in the order of their
// tokens. A stale holder's write is accepted for as long as no newer holder has
// shown its token to the resource; so show the token before you read what you
// will write from. A guard covers the writers that ask it and nothing else: one writer
// that does not ask undoes it. And a guard that forgets (a dropped table, an evicted
// key, a restarted process with [Memory]) begins again with the first token it
// is shown.
//
// A token is no credential. Anyone who may reach the resource may send any number.
package fencing

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/tokenctx"
)

// The refusals of a guard. In each of these cases nothing was written, except if
// SQL.Write returns ErrTxAborted.
var (
	// ErrStale is what every StaleError unwraps to: the resource has seen a
	// larger token, so a newer holder is, or was, at work.
	ErrStale = errors.New("stale token")
	// ErrNoToken is returned where a token was needed and none was found: in a
	// context, or in a request's header.
	ErrNoToken = errors.New("no token")
	// ErrZeroToken is returned for token zero, which is never issued: it is a
	// lock that was never acquired.
	ErrZeroToken = errors.New("token is zero")
	// ErrTokenRange is returned for a token above redlock.MaxToken. No node
	// issues one, and a guard that remembered it would refuse everybody after.
	ErrTokenRange = errors.New("token above the largest that a node issues")
	// ErrBackwards is returned where one holder replaces its token by a smaller
	// one.
	ErrBackwards = errors.New("token goes backwards within one holder")
	// ErrKind is returned where an exclusive token is to become a shared one:
	// no lock issues one number for both.
	ErrKind = errors.New("token of an exclusive hold taken for a shared one")
	// ErrInvalidResource is returned for a resource name that the guard cannot keep:
	// empty, too long for the column, or not text where the column is text.
	ErrInvalidResource = errors.New("resource name cannot be guarded")
	// ErrShared is returned by a SQL guard without WithShared for the token of a
	// shared hold: it keeps no number for those.
	ErrShared = errors.New("the guard takes no shared tokens")
	// ErrNoTable is returned when the guard's table is missing: see SQL.Migrate.
	ErrNoTable = errors.New("the table of tokens is missing (Migrate makes it)")
	// ErrBadTable is returned when the guard's table is there, and cannot guard:
	// see SQL.Migrate. A guard with WithShared returns it also where the columns of
	// shared tokens are missing.
	ErrBadTable = errors.New("the table of tokens cannot guard")
	// ErrTxAborted is returned for a transaction that can no longer commit, or
	// is no longer there: later statements in it would not be atomic. SQL.Write
	// returns it also after its function has written, if the transaction ended
	// before the commit: see there for what is committed then.
	ErrTxAborted = errors.New("transaction is already aborted")
	// ErrNoTx is returned for a value that is no transaction: a pool of connections commits
	// each statement by itself, so the token would be kept without the write.
	ErrNoTx = errors.New("not a transaction")
	// ErrManyStatements is returned by SQL.Statement for a dialect whose check is
	// more than one statement: MySQL and SQLite. SQL.Check speaks them.
	ErrManyStatements = errors.New("the check is more than one statement")
	// ErrInvalidHeader is returned for a Fencing-Token header that is not a token, and
	// for a Fencing-Token-Kind header that is no kind.
	ErrInvalidHeader = errors.New("malformed " + Header + " header")
	// ErrHeaderRepeated is returned for a request with two Fencing-Token
	// headers, or two of their kinds: neither can be preferred.
	ErrHeaderRepeated = errors.New(Header + " header is there more than once")
	// ErrCorrupt is returned when the place where a guard keeps its token holds
	// something else.
	ErrCorrupt = errors.New("what is kept in the token's place is no token")
)

// StaleError says that a write was refused because the resource has seen a
// larger token that excludes the writer's. It unwraps to ErrStale.
type StaleError struct {
	Resource      string
	Token         redlock.Token // the writer's
	Highest       redlock.Token // the largest that the resource has seen, of those that exclude it
	Shared        bool          // Token is that of a shared hold
	HighestShared bool          // Highest is that of a shared hold
}

// Error names the resource and both tokens, and which of them are shared. Equal
// numbers of two kinds mean that one kind was lost on the way, and it says so.
func (e *StaleError) Error() string {
	kind := map[bool]string{true: "shared "}
	text := fmt.Sprintf("fencing: write %q: %v: got %s%d, the highest %sseen is %d",
		e.Resource, ErrStale, kind[e.Shared], e.Token, kind[e.HighestShared], e.Highest)
	if e.Token == e.Highest {
		text += ", one number of two kinds: was the guard handed the lock's context? See NewSharedContext"
	}
	return text
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// NewContext returns a copy of ctx that carries token for resource. The context
// that redlock's Do hands to its function carries the lock's token already; this
// is for callers of Acquire, and for servers that took a token off the wire.
//
// A context carries one token for each resource: those of two locks do not
// disturb one another, and a token is never found under another name than its
// own. That is the same name, byte for byte, that the lock has and that the
// guard is asked for.
//
// The token is taken for that of an exclusive hold, unless ctx carries it for
// resource as that of a shared one: then it stays one. NewSharedContext is for
// the token of a shared hold.
//
// It returns ErrInvalidResource, ErrZeroToken or ErrTokenRange for an invalid token, and
// ErrBackwards when ctx carries a larger token for resource: then the caller
// mixes up an old lock with the one it holds. ctx is as it was in each case.
func NewContext(ctx context.Context, resource string, token redlock.Token) (context.Context, error) {
	if err := forwards(ctx, resource, token); err != nil {
		return nil, err
	}
	if IsShared(ctx, resource, token) {
		return ctx, nil
	}
	return tokenctx.With(ctx, resource, uint64(token)), nil
}

// NewSharedContext is NewContext for the token of a shared hold. A guard that is
// handed the returned context takes this token of this resource for a shared
// one. Never say so of an exclusive hold's token: sharers do not make one
// another stale, so that an earlier holder's writes would be accepted.
//
// It returns what NewContext returns, and ErrKind when ctx carries the same token
// as that of an exclusive hold.
func NewSharedContext(ctx context.Context, resource string, token redlock.Token) (context.Context, error) {
	if err := forwards(ctx, resource, token); err != nil {
		return nil, err
	}
	if old, ok := tokenctx.From(ctx, resource); ok && uint64(token) == old && !tokenctx.Shared(ctx, resource) {
		return nil, fmt.Errorf("fencing: carry %q: %w: %d", resource, ErrKind, token)
	}
	return tokenctx.WithShared(ctx, resource, uint64(token)), nil
}

// IsShared reports whether ctx carries token for resource as that of a shared
// hold. This is how every guard learns a token's kind, from the context that it
// is handed; where it reports false, the token is taken for an exclusive one. So
// a kind that is lost on the way brings refusals, and lets no stale write pass.
func IsShared(ctx context.Context, resource string, token redlock.Token) bool {
	carried, ok := tokenctx.From(ctx, resource)
	return ok && carried == uint64(token) && tokenctx.Shared(ctx, resource)
}

// forwards returns an error if token is invalid, or smaller than the one in ctx.
func forwards(ctx context.Context, resource string, token redlock.Token) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	if old, ok := tokenctx.From(ctx, resource); ok && uint64(token) < old {
		return fmt.Errorf("fencing: carry %q: %w: got %d after %d", resource, ErrBackwards, token, old)
	}
	return nil
}

// FromContext returns the token that ctx carries for resource, of either kind: a
// guard that is handed ctx beside it knows which. It returns ErrNoToken when
// there is none: a write without a token must fail, so there is
// no form of this function that returns a zero token in silence.
func FromContext(ctx context.Context, resource string) (redlock.Token, error) {
	token, ok := tokenctx.From(ctx, resource)
	if !ok {
		return 0, fmt.Errorf("fencing: the context carries none for %q: %w", resource, ErrNoToken)
	}
	return redlock.Token(token), nil
}
