package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// certificate is one that has signed itself: for a server on loopback, for its
// clients, and as their authority.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redlock test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "EC PRIVATE KEY", secret)
}

// speakingTLS is the URL of a server that asks for certificates signed by one of those, and
// the server.
func speakingTLS(t *testing.T, cert, key, authorities string) (string, *redisserver.Server) {
	t.Helper()
	port, err := loopback.Port()
	must(t, err)
	config := redisserver.Config{Args: []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authorities,
	}}
	if probe, err := redisserver.StartAll(1, config); err != nil && strings.Contains(err.Error(), "tls-port") {
		t.Skipf("the server speaks no TLS: %v", err)
	} else if err == nil {
		must(t, redisserver.CloseAll(probe))
	}
	return "rediss://127.0.0.1:" + strconv.Itoa(port), testserver.NeedOne(t, config)
}

func TestNodesWithCertificatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	nodes, _ := speakingTLS(t, cert, key, cert)
	other, otherKey := certificate(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"nodes admit --yes --cacert " + cert + " --cert " + cert + " --key " + key, 0, "1 vote of 1 node"},
		{"--cacert " + cert + " --cert " + cert + " --key " + key + " exec k true", 0, ""},
		{"nodes", 69, "(name the authority that signed"},
		{"nodes --cacert " + other + " --cert " + cert + " --key " + key, 69, "certificate"},
		{"exec -n --cacert " + cert + " k true", 78, "certificate"},
		{"exec -n --cacert " + cert + " --cert " + other + " --key " + otherKey + " k true", 78, "by --cert and --key, or set tls-auth-clients no)"},
		{"nodes --cert " + cert, 64, "--key"},
		{"nodes --cacert " + key, 78, "no certificate"},
		{"nodes --cacert " + cert + ".none", 78, "--cacert"},
		{"nodes --cert " + cert + " --key " + otherKey, 78, "--key"},
		{"nodes --cacert " + cert + " --nodes 127.0.0.1:1", 64, "rediss://"},
	} {
		args := append([]string{"--node-timeout", "1s"}, strings.Fields(c.args)...)
		r := run(t, nodes, args...)
		// In TLS 1.3 the server's alert comes behind the handshake: a reset that overtakes
		// it leaves nothing to read.
		for range 10 {
			if !strings.Contains(r.errs, "connection reset") {
				break
			}
			r = run(t, nodes, args...)
		}
		if r.code != c.code || !strings.Contains(r.out+r.errs, c.says) {
			t.Errorf("%q: got exit status %d and %s%s; want %d and %q", c.args, r.code, r.out, r.errs, c.code, c.says)
		}
	}
}

// Server and client get new certificates of a new authority while a lock is held: each dial
// of the command reads its files again. Between two files the last ones that fit count.
func TestCertificatesRotateUnderAHeldLock(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	nodes, server := speakingTLS(t, cert, key, cert)
	dir := t.TempDir()
	put := func(name, from string) {
		text, err := os.ReadFile(from)
		must(t, err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	put("ca", cert)
	put("cert", cert)
	put("key", key)
	files := []string{"--node-timeout", "1s", "--cacert", dir + "/ca", "--cert", dir + "/cert", "--key", dir + "/key"}
	run(t, nodes, append(files, "nodes", "admit", "--yes")...).want(t, 0)
	p := start(t, prepare(t, nodes, append(files, "hold", "--ttl", "4s", "k")...))
	eventually(t, "it is held", func() bool { return strings.Contains(p.stdout(), "held") })

	other, otherKey := certificate(t)
	put("key", otherKey) // it does not fit to cert
	c := server.Client()
	cut := func() {
		must(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
		must(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	cut()
	renewed := func(what string) {
		until := c.PTTL(t.Context(), "k").Val()
		eventually(t, "it is renewed over new connections, "+what, func() bool { now := c.PTTL(t.Context(), "k").Val(); ok := now > until; until = now; return ok })
	}
	renewed("with the old files")
	put("cert", other)
	put("ca", other)
	must(t, c.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", other, "tls-key-file", otherKey, "tls-ca-cert-file", other).Err())
	cut()
	renewed("with the new ones")
	run(t, nodes, append(files, "status", "k")...).want(t, 0, "held 1/1")
	run(t, nodes, "--node-timeout", "1s", "--cacert", cert, "--cert", cert, "--key", key, "nodes").want(t, 69, "certificate")
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0)
}

// The list of nodes is public where a file or a variable has the password, which rotates.
func TestThePasswordComesFromAFileOrAVariable(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 1, redisserver.Config{Users: []string{"locks on >first ~* &* +@all"}})
	nodes, file := servers[0].Addr(), filepath.Join(t.TempDir(), "password")
	put := func(password string) { must(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	put("first")
	flags := []string{"--node-timeout", "1s", "--user", "locks", "--password-file", file}
	run(t, nodes, append(flags, "nodes", "admit", "--yes")...).want(t, 0, "1 vote of 1 node")
	for _, c := range []struct {
		env, args string
		code      int
		says      string
	}{
		{"REDLOCK_USER=locks REDLOCK_PASSWORD=first", "status k", 0, "free"},
		{"REDLOCK_USER=locks REDLOCK_PASSWORD=wrong", "exec -n k true", 78, "WRONGPASS"},
		{"REDLOCK_USER=locks REDLOCK_PASSWORD=wrong", "status k --nodes redis://locks:first@" + nodes, 0, "free"},
		{"REDLOCK_PASSWORD=wrong", "status k --user locks --password-file " + file, 0, "free"},
		{"REDLOCK_USER=locks", "nodes", 78, "give it by --password-file, or REDLOCK_PASSWORD"},
		{"X=", "nodes --password-file " + os.DevNull, 78, "no password"},
		{"X=", "nodes --password-file " + file + ".none", 78, "--password-file: open"},
		{"X=", "nodes --user locks --password-file " + file + " --nodes redis://:x@" + nodes, 64, "leave that out"},
	} {
		cmd := prepare(t, nodes, append([]string{"--node-timeout", "1s"}, strings.Fields(c.args)...)...)
		cmd.Env = append(cmd.Env, strings.Fields(c.env)...)
		r := finish(t, cmd)
		r.want(t, c.code, c.says)
		if strings.Contains(r.out+r.errs, "first") {
			t.Errorf("got %s%s; want no password in it", r.out, r.errs)
		}
	}
	must(t, os.Chmod(file, 0o604))
	run(t, nodes, append(flags, "nodes")...).want(t, 0, "warning: --password-file "+file)
	must(t, os.Chmod(file, 0o600))

	p := start(t, prepare(t, nodes, append(flags, "hold", "--ttl", "4s", "k")...))
	eventually(t, "it is held", func() bool { return strings.Contains(p.stdout(), "held") })
	c := servers[0].Client()
	must(t, c.Do(t.Context(), "ACL", "SETUSER", "locks", "resetpass", ">second").Err())
	put("second")
	must(t, c.Do(t.Context(), "CLIENT", "KILL", "USER", "locks").Err())
	until := c.PTTL(t.Context(), "k").Val()
	eventually(t, "it is renewed with the new password", func() bool { now := c.PTTL(t.Context(), "k").Val(); ok := now > until; until = now; return ok })
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0)
}
