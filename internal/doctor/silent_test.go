package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// silentFaults are servers that tell nothing, and why.
func silentFaults() []planted {
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 9, 9, 9)} }
	return []planted{
		{
			"a server that is down", func(s *set) {
				own := testserver.NeedOne(s.T, good)
				testkit.Must(s.T, own.Kill())
				s.clients[4] = clientOf(s.T, own)
			}, "error unreachable 4: Start it",
		},
		{
			"a process that is stopped", func(s *set) {
				s.timeout = time.Second
				own := testserver.NeedOne(s.T, good)
				testkit.Must(s.T, own.Pause())
				s.Cleanup(func() { _ = own.Resume() })
				s.clients[4] = clientOf(s.T, own)
			}, "error unreachable 4: kill -CONT",
		},
		{
			"a server that pauses its clients", func(s *set) {
				s.timeout = time.Second
				server()(s)
				testkit.Must(s.T, s.clients[4].Do(s.Context(), "CLIENT", "PAUSE", "60000").Err())
			}, "error unreachable 4: CLIENT PAUSE ends by itself",
		},
		{
			"a network that is cut for this client alone", func(s *set) {
				s.timeout = time.Second
				proxied(s, 4).Drop(tcpproxy.Both)
			}, "error unreachable 4: whether another machine reaches it",
		},
		{
			"a script that does not end",
			func(s *set) {
				server("--busy-reply-threshold", "1")(s)
				o := *s.clients[4].(*redis.Client).Options()
				o.ReadTimeout = time.Minute
				runner := redis.NewClient(&o)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = runner.Eval(context.Background(), "while true do end", nil).Err() // it is killed
				}()
				s.Cleanup(func() {
					_ = s.clients[4].ScriptKill(context.Background()).Err()
					<-ended
					_ = runner.Close()
				})
				awaitReply(s.T, s.clients[4], "BUSY")
			},
			"error busy 4: SCRIPT KILL",
		},
		{
			"all connections taken",
			func(s *set) {
				configured("maxclients", "1")(s)       // its own
				withClient(func(*redis.Options) {})(s) // a client that must connect
			},
			"error max-clients 4: Raise maxclients",
		},
		{"a certificate that has expired", overTLS(expired, true), "error tls 4: Renew the server's certificate"},
		{"a certificate of nobody known", overTLS(nil, false), "error tls 4: Name the authority"},
		{"a certificate of another host", overTLS(elsewhere, true), "error tls 4: an address that the server's certificate is for"},
		{
			"TLS to a port without it",
			func(s *set) {
				addr := answering(s.T, func(c net.Conn) { _, _ = c.Write([]byte("-ERR Protocol error\r\n")) })
				withClient(func(o *redis.Options) {
					o.Dialer, o.Addr, o.TLSConfig = nil, addr, &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
				})(s)
			},
			"error tls 4: tls-port",
		},
		{
			"a certificate that the server does not accept",
			overTLS(nil, true, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), "error tls 4: Show a certificate that the server accepts",
		},
	}
}

// awaitReply waits until a command is refused with that word.
func awaitReply(t *testing.T, c redis.UniversalClient, word string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !redis.HasErrorPrefix(c.Get(t.Context(), "k").Err(), word); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not say %s", word)
		}
	}
}

// overTLS puts a TLS server with such a certificate before node 4, whose client
// trusts it or does not.
func overTLS(change func(*x509.Certificate), trust bool, more ...func(*tls.Config)) plant {
	return func(s *set) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		testkit.Must(s.T, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if change != nil {
			change(template)
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		testkit.Must(s.T, err)
		signed, err := x509.ParseCertificate(der)
		testkit.Must(s.T, err)
		config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
		for _, f := range more {
			f(config)
		}
		addr := answering(s.T, func(c net.Conn) { _ = tls.Server(c, config).Handshake() }) // which one of them refuses
		roots := x509.NewCertPool()
		if trust {
			roots.AddCert(signed)
		}
		withClient(func(o *redis.Options) {
			o.Dialer, o.Addr, o.TLSConfig = nil, addr, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
		})(s)
	}
}

// answering is the address of a listener that answers each connection so, and closes
// it.
func answering(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
			_, _ = conn.Read(make([]byte, 1024)) // what came is read, so that closing does not take the answer back
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
