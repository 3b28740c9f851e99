package fencing

import (
	"errors"
	"fmt"

	"github.com/quorumkit/redlock"
)

// What a guard can refuse. In each of these cases nothing was written, but where
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
	// ErrResource is returned for a resource name that the guard cannot keep:
	// empty, too long for the column, or not text where the column is text.
	ErrResource = errors.New("resource name cannot be guarded")
	// ErrShared is returned by a SQL guard without WithShared for the token of a
	// shared hold: it keeps no number for those.
	ErrShared = errors.New("the guard takes no shared tokens")
	// ErrNoTable is returned when the guard's table is missing: see SQL.Migrate.
	ErrNoTable = errors.New("the table of tokens is missing")
	// ErrBadTable is returned when the guard's table is there, and cannot guard:
	// see SQL.Migrate. A guard with WithShared returns it also where the columns of
	// shared tokens are missing.
	ErrBadTable = errors.New("the table of tokens cannot guard")
	// ErrTxAborted is returned for a transaction that can no longer commit, or
	// is no longer there: what follows in it would not be atomic. SQL.Write
	// returns it also after its function has written, if the transaction ended
	// before the commit: see there for what is committed then.
	ErrTxAborted = errors.New("transaction is already aborted")
	// ErrNoTx is returned for what is no transaction: a pool of connections commits
	// each statement by itself, so the token would be kept without the write.
	ErrNoTx = errors.New("not a transaction")
	// ErrManyStatements is returned by SQL.Statement for a dialect whose check is
	// more than one statement: MySQL and SQLite. SQL.Check speaks them.
	ErrManyStatements = errors.New("the check is more than one statement")
	// ErrHeader is returned for a Fencing-Token header that is not a token, and
	// for a Fencing-Token-Kind header that is no kind.
	ErrHeader = errors.New("malformed " + Header + " header")
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
	Token         redlock.Token // what the writer showed
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
