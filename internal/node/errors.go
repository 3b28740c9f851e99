package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// The causes of votes, in the node's words. A message about an attempt lists them by node.
var (
	errEpoch = errors.New("its record changed meanwhile: it forgot, or was taken in anew")
	errDead  = errors.New("this attempt was given up")
	// errTokens comes at 2^53: above it Lua's numbers skip, and a token might be given twice.
	errTokens  = errors.New("the token counter is at its end")
	errForeign = errors.New("held by another")
	errKept    = errors.New("free, and kept for another that has waited longer")
	// errSlotKept does not say that the other waits for this slot: it may want one of fewer.
	errSlotKept = errors.New("a slot is free, and another waits before in the line of all slots")
	// ErrGone is a lock that the node has no more.
	ErrGone = errors.New("no longer there")
	// ErrUnreached is a connection that did not come up in time (DialShare).
	ErrUnreached = errors.New("not reached in time")
	// ErrNoReply is a client that tells of no reply and of no error. The command may have
	// happened: the vote is unknown.
	ErrNoReply = errors.New("the client reported success without a reply")
	// ErrProtected is a server in protected mode: it says so to each connection from
	// another machine, unasked, and closes it (networking.c, acceptCommonHandler).
	ErrProtected = errors.New("the server is in protected mode, and refuses all but its own machine: give it a password (requirepass, or a user's), or set protected-mode no where no stranger can reach it")
	// ErrFull is a server that closes each new connection, because it has too many.
	ErrFull = errors.New("the server has as many clients as it takes (maxclients)")
	// ErrSpeaksTLS is a TLS port to which a client spoke without.
	ErrSpeaksTLS = errors.New("that port speaks TLS: give rediss://, or the server's port without TLS")
	// ErrSpeaksPlain is the reverse.
	ErrSpeaksPlain = errors.New("that port speaks no TLS: give redis://, or the server's tls-port")
	// errWordless guesses: both ways of closing look the same from here.
	errWordless = errors.New("closed without a word, as a port does that speaks TLS (rediss://), or a proxy without a server")
)

// ErrNoCredentials is a provider of credentials that failed: nothing was sent.
var ErrNoCredentials = errors.New("no credentials for the connection")

// errExchanged refuses a new connection that leads to another server. The command for which
// it was opened was not sent, so it may go again, over a connection that is admitted. (It
// wraps nothing: go-redis would hand out what is inside.)
var errExchanged = errors.New("another server answers at this address than the one that was verified")

// errNoConnection is a pool whose connections are all in use. Nothing was sent.
var errNoConnection = errors.New("the client's pool has no connection left, the program uses them all: raise its PoolSize, or give redlock a client of its own")

// errComing is a connection that comes up more slowly than a round waits. Nothing was sent.
var errComing = fmt.Errorf("%w: its connection is not up yet", ErrUnreached)

// errUnready: the node was slow, or the client too busy to send in time.
var errUnready = fmt.Errorf("%w: two node timeouts (WithNodeTimeout) ended before a connection was up, or before an earlier command's reply", round.ErrNotSent)

// errUndialled is what a command meets on a connection to pin that would have to be
// dialled first, where only the client itself may do that. It was not sent.
var errUndialled = errors.New("not sent: its connection was not set up by the client itself")

// refusals are the error replies that precede a script's first write: the
// command did not happen. Every other error reply says nothing: a script may have failed
// half way, and Redis undoes no write. OOM is one of them: a script that has written once
// goes on beyond maxmemory (Redis, script.c, scriptVerifyOOM).
var refusals = append([]string{"NOSCRIPT", "NOAUTH", "WRONGPASS", "NOPERM", "LOADING", "OOM", "READONLY", "MISCONF", "NOREPLICAS"}, clusterReplies...)

// clusterReplies are what only a server with cluster-enabled says, before it runs
// anything. Such a server is no node: its keys may move to another one at any time, and with
// them the votes.
var clusterReplies = []string{"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN"}

// Classify tells what an error says of the command: Failed only where it is known that nothing
// happened. That is the safe side: an Unknown vote costs a tombstone and a rollback, a Failed
// one that did happen would leave a key, which nobody releases before its lease ends.
func Classify(err error) quorum.Outcome {
	if err == nil {
		return quorum.Granted
	}
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		if HasAnyPrefix(reply.Error(), refusals...) {
			return quorum.Failed
		}
		return quorum.Unknown
	case undialled(err), errors.Is(err, errExchanged), errors.Is(err, ErrNoCredentials), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return quorum.Failed
	default:
		return quorum.Unknown
	}
}

// undialled tells whether the connection did not come up: then nothing was sent on it.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// IsReply tells whether the node itself gave the error. After such a one the connection is
// good, and the node lives.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsMissingScript tells that nothing happened because the server does not have
// our scripts, or may have them from another time: it is not the one verified.
func IsMissingScript(err error) bool {
	return err != nil && (saysFirst(err, "NOSCRIPT") || errors.Is(err, errExchanged))
}

// Explain puts a node's error into words, and marks with ErrMisconfigured what waiting does
// not mend: a waiter gives up early if such faults leave no quorum. The order of
// the cases matters: an error that was explained before is not explained twice, and the
// cause is sought before the way in which it showed.
func Explain(err error) error {
	var (
		reply     redis.Error
		op        *net.OpError
		untrusted *tls.CertificateVerificationError
		plain     tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, fault.ErrMisconfigured), errors.Is(err, ErrNoCredentials), errors.Is(err, errNoConnection), errors.Is(err, ErrUnreached):
		return err
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", errNoConnection, err)
	case errors.Is(err, ErrProtected), errors.Is(err, ErrSpeaksTLS), errors.Is(err, ErrSpeaksPlain):
		return fmt.Errorf("%w: %w", fault.ErrMisconfigured, err)
	case errors.As(err, &plain): // what should have been a TLS record was text
		if bytes.HasPrefix([]byte("-DENIED"), plain.RecordHeader[:]) {
			return fmt.Errorf("%w: %w: %w", fault.ErrMisconfigured, ErrProtected, err)
		}
		return fmt.Errorf("%w: %w: %w", fault.ErrMisconfigured, ErrSpeaksPlain, err)
	case errors.As(err, &reply):
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "DENIED"):
			return fmt.Errorf("%w: %w: %w", fault.ErrMisconfigured, ErrProtected, err)
		case HasAnyPrefix(text, refusedLogins...):
			return fmt.Errorf("%w: credentials refused: %w (%s)", fault.ErrMisconfigured, err, Remedy(err))
		case lacksRight(err):
			right, what := MissingRight(err), " prints the rights"
			switch {
			case right != "":
				right = " (" + right + ")"
			// The rights are there, and the patterns do not match the name.
			case strings.Contains(text, " key"):
				what = " 'PATTERN' prints the rights for names like it"
			}
			return fmt.Errorf("%w: the user's ACL lacks a right%s: %w; redlock nodes acl%s", fault.ErrMisconfigured, right, err, what)
		case strings.HasPrefix(text, "ERR unknown command"):
			what, _, _ := strings.Cut(text, ", with args") // a script would follow
			return fmt.Errorf("%w: it lacks a command, as does a Sentinel, which keeps no keys: give its master: %s", fault.ErrMisconfigured, what)
		case HasAnyPrefix(text, clusterReplies...):
			return fmt.Errorf("%w: a server in cluster mode, which moves keys to others, can't be a node: set cluster-enabled no: %w", fault.ErrMisconfigured, err)
		case strings.HasPrefix(text, "READONLY"):
			return fmt.Errorf("a replica, which can't be a node: %w", err)
		case strings.HasPrefix(text, "OOM"):
			return fmt.Errorf("out of memory: %w", err)
		}
		return err
	// "remote error" is how Go names an alert of the server: it refused our side of TLS.
	case errors.As(err, &untrusted), errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("%w: TLS failed: %w (%s)", fault.ErrMisconfigured, err, Remedy(err))
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	case errors.Is(err, context.DeadlineExceeded): // our bound, not the caller's
		return fmt.Errorf("%w: %s", round.ErrTimeout, err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", round.ErrTimeout, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("connection lost: %w", err)
	default:
		return err
	}
}

// Discarded is why a transaction failed: EXEC says only that a command before it was refused.
func Discarded(cmds []redis.Cmder, err error) error {
	for _, c := range cmds {
		if why := c.Err(); saysFirst(err, "EXECABORT") && why != nil && !saysFirst(why, "EXECABORT") {
			return why
		}
	}
	return err
}

// refusedLogins begin what a server says to credentials that it does not take.
var refusedLogins = []string{"NOAUTH", "WRONGPASS", "ERR AUTH"}

// RefusesLogin tells whether the server refuses the client's credentials.
func RefusesLogin(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && HasAnyPrefix(reply.Error(), refusedLogins...)
}

// Remedy is what to do where credentials or certificates are refused, as Explain says it and
// the doctor advises; empty for any other error.
func Remedy(err error) string {
	var (
		invalid   x509.CertificateInvalidError
		unknown   x509.UnknownAuthorityError
		host      x509.HostnameError
		untrusted *tls.CertificateVerificationError
		op        *net.OpError
	)
	switch {
	case RefusesLogin(err):
		return "give the user and the password that the server expects: WithCredentials, or the URL's; " +
			"if it restarted since they were changed, set the new password there again, then CONFIG REWRITE or ACL SAVE"
	// A wrong clock here looks the same.
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the server's certificate, have the server read it, and look at the clock of this machine"
	case errors.As(err, &unknown):
		return "name the authority that signed the server's certificate: WithTLS, or the client's TLSConfig"
	case errors.As(err, &host):
		return "use an address that the server's certificate is for, or have one made for this address"
	// Go's alert has no exported type. Those of the client's certificate name it.
	case errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate"):
		return "show a certificate that the server accepts, by WithTLS with Certificates, or set tls-auth-clients no"
	case errors.As(err, &untrusted), op != nil && op.Op == "remote error":
		return "see what the server's certificate and the client's TLS settings are"
	}
	return ""
}

// saysFirst tells whether err is a reply that begins so. Most errors here are nil, and
// redis.HasErrorPrefix allocates for those as well.
func saysFirst(err error, prefix string) bool {
	return err != nil && redis.HasErrorPrefix(err, prefix)
}

// HasAnyPrefix tells whether s begins with one of prefixes. Redis's error replies begin with
// their code, in capitals, and are else worded anew in each version.
func HasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// alert begins what a TLS server says to a client that does not speak it: a record of that
// type, of any version of the protocol (RFC 8446, 5.1).
var alert = []byte{21, 3}

// classifyGoodbye is what a server's first bytes mean if it closes the connection behind them;
// nil if they are no such goodbye.
func classifyGoodbye(first []byte) error {
	switch {
	case bytes.HasPrefix(first, []byte("-DENIED")):
		return ErrProtected
	case bytes.HasPrefix(first, []byte("-ERR max number of clients")):
		return ErrFull
	case bytes.HasPrefix(first, alert):
		return ErrSpeaksTLS
	}
	return nil
}

// Listen makes a client's connections keep what a server says before it closes one. go-redis
// reads it as the reply to its HELLO, takes it for that of an old server, and tells only
// that the next command was not sent: a refusal looks like a network that is dead. Only a
// connection that the pool can look at (syscall.Conn) is wrapped, so that it still can.
func Listen(o *redis.Options) {
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := redis.NewDialer(o)(ctx, network, addr)
		if s, ok := c.(syscall.Conn); ok && err == nil {
			return &listening{Conn: c, raw: s}, nil
		}
		return c, err // TLS says by itself what is wrong
	}
}

// lastWords bounds how long Write reads what a server has said, after a command was not
// sent. It is there already, since the server said it before it closed: the bound is for a
// server that said nothing.
const lastWords = 20 * time.Millisecond

// listening is a connection that names what its server said first, when it ends.
type listening struct {
	net.Conn

	raw   syscall.Conn
	spoke atomic.Bool  // the server has said something
	words atomic.Value // an error: what that meant, if it was a goodbye
}

// SyscallConn is the connection's own: the pool looks by it whether it is closed.
func (c *listening) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// Read reads, and names why there is no more.
func (c *listening) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.spoke.Load() && c.spoke.CompareAndSwap(false, true) {
		if words := classifyGoodbye(p[:n]); words != nil {
			c.words.Store(words)
		}
	}
	return n, c.named(err)
}

// Write writes, and names why it can't. A write fails first on a connection that the server
// has closed, and go-redis does not read behind it: so Write reads itself.
func (c *listening) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !c.spoke.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		if until, bounded := ctx.Deadline(); bounded {
			_ = c.SetReadDeadline(until)
		}
		_, _ = c.Read(make([]byte, 64))
	}
	return n, c.named(err)
}

// named puts what the server said before an error, or that it said nothing. The error stays
// in the chain: Classify goes by it.
func (c *listening) named(err error) error {
	words, told := c.words.Load().(error)
	switch {
	case err == nil:
		return nil
	case told:
		return fmt.Errorf("%w: %w", words, err)
	case errors.Is(err, io.EOF) && !c.spoke.Load():
		return fmt.Errorf("%w: %w", errWordless, err)
	}
	return err
}

// Speaks asks a server at a client's address whether it speaks what the client does not:
// ErrSpeaksTLS or ErrSpeaksPlain; nil if it speaks what the client does, or is not there. It
// tries the other way only: that the client's own way fails is known.
func Speaks(ctx context.Context, o *redis.Options) error {
	switch {
	case o.TLSConfig != nil && answersPlain(ctx, o):
		return ErrSpeaksPlain
	case o.TLSConfig == nil && shakesHands(ctx, o):
		return ErrSpeaksTLS
	}
	return nil
}

// shakesHands tells whether TLS comes up. Nothing is said over it, so it does not matter
// whose the certificate is: neither a password nor a name of a lock goes out.
func shakesHands(ctx context.Context, o *redis.Options) bool {
	d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} //nolint:gosec // G402: see above
	conn, err := d.DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// answersPlain tells whether a PING has an answer without TLS. An error (no password was
// given) is an answer as well; a TLS server answers by an alert, or by nothing.
func answersPlain(ctx context.Context, o *redis.Options) bool {
	conn, err := new(net.Dialer).DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if until, bounded := ctx.Deadline(); bounded {
		_ = conn.SetDeadline(until)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	first := make([]byte, 1)
	k, _ := conn.Read(first)
	return k == 1 && (first[0] == '+' || first[0] == '-')
}

const (
	// FirstBackoff is the pause after a failed probe; it doubles up to the last. The last one
	// bounds how late a node that is back votes again, and how often a dead one is dialled:
	// twice a second by each Locker.
	FirstBackoff = 20 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// backoff is the pause after so many failures in a row, behind the first.
func backoff(failures int) time.Duration { return min(FirstBackoff<<min(failures, 10), lastBackoff) }

// outage is why a node is not talked to, and until when. The node's mu guards it. While it
// lasts, callers are refused until the next probe is due; the first command after that is
// queued, and makes the writer probe. A success ends it, a failure doubles the pause.
type outage struct {
	cause    error         // nil if the node is talked to
	since    clock.Instant // when it was first not reached
	until    clock.Instant // not even a probe before
	failures int           // failed probes in a row
}

// fail starts, or lengthens, the pause before the next probe. The first failure has
// none: a connection may have been stale, and no more.
func (o *outage) fail(cause error, now clock.Instant) (first bool) {
	if o.cause == nil {
		*o = outage{cause: cause, since: now, until: now}
		return true
	}
	o.cause, o.until = cause, now.Add(backoff(o.failures))
	o.failures++
	return false
}

// end ends the outage, and returns how long the node was not talked to.
func (o *outage) end(now clock.Instant) time.Duration {
	lasted := now.Sub(o.since)
	*o = outage{}
	return lasted
}
