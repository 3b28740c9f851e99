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

func TestNodesWithCertificatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	port, err := loopback.Port()
	must(t, err)
	config := redisserver.Config{Args: []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
	}}
	if probe, err := redisserver.StartAll(1, config); err != nil && strings.Contains(err.Error(), "tls-port") {
		t.Skipf("the server speaks no TLS: %v", err)
	} else if err == nil {
		must(t, redisserver.CloseAll(probe))
	}
	testserver.NeedOne(t, config)
	nodes := "rediss://127.0.0.1:" + strconv.Itoa(port)
	other, otherKey := certificate(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"nodes admit --yes --cacert " + cert + " --cert " + cert + " --key " + key, 0, "1 vote of 1 node"},
		{"--cacert " + cert + " --cert " + cert + " --key " + key + " exec k true", 0, ""},
		{"nodes", 69, "certificate"},
		{"nodes --cacert " + other + " --cert " + cert + " --key " + key, 69, "certificate"},
		{"exec -n --cacert " + cert + " k true", 78, "certificate"},
		{"exec -n --cacert " + cert + " --cert " + other + " --key " + otherKey + " k true", 78, "certificate"},
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
