package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

var (
	errEpoch   = errors.New("the node's membership record has changed")
	errGone    = errors.New("no longer there")
	errDead    = errors.New("this attempt was given up")
	errTokens  = errors.New("the token counter is at its end")
	errForeign = errors.New("held by another")
	errKept    = errors.New("free, and kept for another that has waited longer")
	// errSlotKept says nothing of who waits: that may want one of fewer slots.
	errSlotKept = errors.New("a slot is free, and another waits before in the line of all slots")
	// ErrUnreached is a connection that did not come up in time.
	ErrUnreached = errors.New("not reached in time")
	// ErrNoReply is a client that tells of no reply and of no error.
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
	errWordless    = errors.New("closed without a word, as a port does that speaks TLS (rediss://), or a proxy without a server")
)

// refusals are the error replies that precede a script's first write: the
// command did not happen. Every other error reply says nothing.
var refusals = append([]string{"NOSCRIPT", "NOAUTH", "WRONGPASS", "NOPERM", "LOADING", "OOM", "READONLY", "MISCONF", "NOREPLICAS"}, clusterReplies...)

// clusterReplies are what only a server with cluster-enabled says, before it runs
// anything.
var clusterReplies = []string{"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN"}

// Classify tells what an error says of the command.
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

// undialled tells a connection that did not come up.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// IsReply tells an error that the node gave from one of the way to it.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsMissingScript tells that nothing happened because the server does not have
// our scripts, or may have them from another time: it is not the one verified.
func IsMissingScript(err error) bool {
	return err != nil && (saysFirst(err, "NOSCRIPT") || errors.Is(err, errExchanged))
}

// Explain puts a node's error into words, and marks what waiting does not mend.
func Explain(err error) error {
	var (
		reply     redis.Error
		op        *net.OpError
		untrusted *tls.CertificateVerificationError
		plain     tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, fault.ErrMisconfigured), errors.Is(err, ErrNoCredentials), errors.Is(err, errNoConnection):
		return err
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", errNoConnection, err)
	case errors.Is(err, ErrProtected), errors.Is(err, ErrSpeaksTLS), errors.Is(err, ErrSpeaksPlain):
		return fmt.Errorf("%w: %w", fault.ErrMisconfigured, err)
	case errors.As(err, &plain):
		if bytes.HasPrefix([]byte("-DENIED"), plain.RecordHeader[:]) {
			return fmt.Errorf("%w: %w: %w", fault.ErrMisconfigured, ErrProtected, err)
		}
		return fmt.Errorf("%w: %w: %w", fault.ErrMisconfigured, ErrSpeaksPlain, err)
	case errors.As(err, &reply):
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "DENIED"):
			return fmt.Errorf("%w: %w: %w", fault.ErrMisconfigured, ErrProtected, err)
		case HasAnyPrefix(text, "NOAUTH", "WRONGPASS"):
			return fmt.Errorf("%w: credentials refused: %w", fault.ErrMisconfigured, err)
		case strings.HasPrefix(text, "NOPERM"), strings.Contains(text, "The user executing the script can't run"),
			strings.Contains(text, "ACL failure in script"): // Redis 7.0, and later
			return fmt.Errorf("%w: the user's ACL lacks a right: %w", fault.ErrMisconfigured, err)
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
	case errors.As(err, &untrusted), errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("%w: TLS failed: %w", fault.ErrMisconfigured, err)
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("connection lost: %w", err)
	default:
		return err
	}
}

// saysFirst tells whether err is a reply that begins so. Most are nil, and
// redis.HasErrorPrefix allocates for those as well.
func saysFirst(err error, prefix string) bool {
	return err != nil && redis.HasErrorPrefix(err, prefix)
}

// HasAnyPrefix tells whether s begins with one of them.
func HasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
