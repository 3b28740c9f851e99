package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
)

// What the findings about reaching a node say.
var (
	aboutSilence = diagnosis{
		FindingUnreachable,
		"It can't vote, so it uses up one of the failures that the others may have",
		"Start it, or mend the address, the network or the firewall; a TLS port wants rediss://, any other redis://",
	}
	aboutLoading = diagnosis{
		FindingUnreachable,
		"It can't vote until its data are loaded",
		"Wait; INFO persistence tells how far it is",
	}
	aboutCredentials = diagnosis{
		FindingCredentials,
		"It can't vote, and waiting does not mend it",
		"Give the client the user and the password that the server expects",
	}
	aboutFull = diagnosis{FindingMaxClients, "It runs, and closes each new connection: it can't vote for this client", aboutMaxClients.remedy}
	aboutBusy = diagnosis{
		FindingBusy,
		"One script or function has run there for longer than busy-reply-threshold, and nothing else is answered until it ends: it can't vote",
		"End it with SCRIPT KILL, or FUNCTION KILL (one that has written can be ended by SHUTDOWN NOSAVE only), and find out whose it is: redlock's own take microseconds",
	}
)

// Why TLS can't be set up; each ends in a remedy of its own.
const tlsWhy = "It can't vote for this client, and waiting does not mend it"

var (
	aboutExpired = diagnosis{FindingTLS, tlsWhy, "Renew the server's certificate, have the server read it, and look at the clock of this machine"}
	aboutUnknown = diagnosis{FindingTLS, tlsWhy, "Name the authority that signed the server's certificate: --cacert, WithTLS, or the client's TLSConfig"}
	aboutHost    = diagnosis{FindingTLS, tlsWhy, "Use an address that the server's certificate is for, or have one made for this address"}
	aboutShown   = diagnosis{FindingTLS, tlsWhy, "The server does not accept this client's certificate: show one that it does (--cert and --key, WithTLS), or set tls-auth-clients no"}
	aboutNoTLS   = diagnosis{FindingTLS, tlsWhy, "That port speaks no TLS: give the server's tls-port, or a URL with redis://"}
	aboutOnlyTLS = diagnosis{FindingTLS, tlsWhy, "That port speaks TLS alone: give rediss://, or the server's port without it"}
	aboutTLS     = diagnosis{FindingTLS, tlsWhy, "See what the server's certificate and the client's TLS settings are"}
)

// aboutProtected is of a server that would answer on its own machine.
var aboutProtected = diagnosis{
	FindingUnreachable,
	"It runs, and refuses each client that is not on its own machine: it can't vote, and waiting does not mend it",
	"Give it a password (requirepass, or an ACL user's) and its clients too, or set protected-mode no where no stranger can reach it",
}

// silent is a node that told nothing.
func (d *doctor) silent(i int, err error) {
	if isRefused(err) {
		d.find(SeverityError, i, aboutCredentials, "it refuses the client: %s", fault.Reason(err))
		return
	}
	if errors.Is(err, node.ErrProtected) || strings.HasPrefix(err.Error(), "DENIED") {
		d.find(SeverityError, i, aboutProtected, "it is in protected mode: %s", fault.Reason(err))
		return
	}
	if about, ok := tlsFault(err); ok {
		d.find(SeverityError, i, about, "no TLS connection: %s", fault.Reason(err))
		return
	}
	for _, s := range []struct {
		sign  string
		about diagnosis
	}{{"BUSY ", aboutBusy}, {"ERR max number of clients", aboutFull}, {"LOADING", aboutLoading}} {
		if strings.Contains(err.Error(), s.sign) {
			d.find(SeverityError, i, s.about, "it refuses every command: %v", err)
			return
		}
	}
	d.find(SeverityError, i, aboutSilence, "it does not answer: %v", err)
}

// partingWords is what a server says to a connection that it closes before it was asked
// anything, because it has too many: a client that writes first may never read it.
func partingWords(ctx context.Context, n *node.Node, err error) error {
	c, ok := n.Client.(*redis.Client)
	var op *net.OpError
	if dialing := errors.As(err, &op) && op.Op == "dial"; !ok || node.IsReply(err) || dialing || errors.Is(err, node.ErrTimeout) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	o := c.Options()
	conn, dialErr := o.Dialer(ctx, o.Network, o.Addr)
	if dialErr != nil {
		return err
	}
	defer conn.Close()
	if until, bounded := ctx.Deadline(); bounded {
		_ = conn.SetReadDeadline(until)
	}
	said := make([]byte, 256)
	if k, _ := conn.Read(said); k > 1 && said[0] == '-' {
		return fmt.Errorf("%s: %w", strings.TrimSpace(string(said[1:k])), err)
	}
	return err
}

// tlsFault tells what is wrong with TLS, if that is what keeps the node away.
func tlsFault(err error) (diagnosis, bool) {
	var (
		invalid   x509.CertificateInvalidError
		unknown   x509.UnknownAuthorityError
		host      x509.HostnameError
		untrusted *tls.CertificateVerificationError
		plain     tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return aboutExpired, true
	case errors.As(err, &unknown):
		return aboutUnknown, true
	case errors.As(err, &host):
		return aboutHost, true
	case errors.As(err, &plain), errors.Is(err, node.ErrSpeaksPlain):
		return aboutNoTLS, true
	case errors.Is(err, node.ErrSpeaksTLS):
		return aboutOnlyTLS, true
	case errors.As(err, &op) && op.Op == "remote error":
		return aboutShown, true
	case errors.As(err, &untrusted):
		return aboutTLS, true
	}
	return diagnosis{}, false
}
