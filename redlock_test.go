package redlock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }

func TestALockIsHeldByOneAndThenByTheNextWithAGreaterToken(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7, 9} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other := lockerOver(t, nodes)
			first := mustAcquire(t, l, "orders/42")
			if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Fatalf("%d nodes: TryAcquire while held: got %v; want ErrNotAcquired", n, err)
			}
			time.Sleep(time.Minute) // six leases: renewal keeps it
			if err := first.Err(); err != nil {
				t.Fatalf("%d nodes: after a minute: %v", n, err)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Fatalf("%d nodes: Release: %v", n, err)
			}
			second := mustAcquire(t, other, "orders/42")
			if second.Token() <= first.Token() {
				t.Errorf("%d nodes: got token %v after %v; want a greater one", n, second.Token(), first.Token())
			}
			if err := second.Release(t.Context()); err != nil {
				t.Errorf("%d nodes: Release: %v", n, err)
			}
		})
	}
}

func TestANewClusterWaitsMaxTTLAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "Cluster.Admit") {
			t.Fatalf("TryAcquire on new nodes: got %v; want ErrNoQuorum that names Cluster.Admit", err)
		}
		start := time.Now()
		lock := mustAcquire(t, l, "orders/42")
		if waited := time.Since(start); waited < redlock.DefaultMaxTTL-time.Second || waited > redlock.DefaultMaxTTL+2*time.Second {
			t.Errorf("got the lock after %v; want MaxTTL", waited)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

func TestANodeThatForgotVotesAgainAfterMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		nodes.Node(0).Restart()
		nodes.Node(1).Restart()
		time.Sleep(5 * time.Second)
		s, err := l.Cluster().Status(t.Context())
		if err != nil || s.Votes() != 3 || s.Nodes[0].State != redlock.NodeJoining {
			t.Fatalf("after two restarts: got %+v, %v; want 3 votes, node 0 joining", s, err)
		}
		time.Sleep(redlock.DefaultMaxTTL + time.Second)
		if s, err = l.Cluster().Status(t.Context()); err != nil || s.Votes() != 5 {
			t.Fatalf("MaxTTL later: got %+v, %v; want 5 votes", s, err)
		}
		time.Sleep(5 * time.Second)
		in, err := l.Inspect(t.Context(), "orders/42")
		for _, n := range in.Nodes {
			if n.Owner == "" || err != nil {
				t.Errorf("%s does not hold the lock again: %+v, %v", n.Name, n, err)
			}
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// Of the protections, a steady state shows one command: the sample of the clock
// behind what may be granted. It travels with the acquire.
func TestTheProtectionsCostOneSampleForEachAcquireInTheSteadyState(t *testing.T) {
	for _, tt := range []struct {
		name string
		each int // commands a pair and node
		opts []redlock.Option
	}{
		{"protected", 3, nil},
		{"clocks not watched", 2, []redlock.Option{redlock.WithoutClockWatch()}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5, tt.opts...)
			const pairs = 20
			calls := func() int {
				n := 0
				for _, node := range nodes.Nodes() {
					n += node.Calls()
				}
				return n
			}
			for range 3 { // verifications, and the first samples of the clocks
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				synctest.Wait()
			}
			before := calls()
			for range pairs {
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				synctest.Wait()
			}
			// A straggler whose acquire was still queued at the release is spared both.
			if got, most := calls()-before, pairs*tt.each*5; got > most {
				t.Errorf("%s: %d pairs over five nodes: got %d commands; want at most %d", tt.name, pairs, got, most)
			}
		})
	}
}

func TestTokenIsDecimal(t *testing.T) {
	if got, want := redlock.MaxToken.String(), "9007199254740991"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// A black hole takes connections for ever: Open says that the node was not
// reached, waits for it no longer than for others, and longer only where a quorum
// depends on it.
func TestOpenSaysThatANodeWasNotReached(t *testing.T) {
	for _, tt := range []struct {
		holes int
		after time.Duration // at the most
		want  error
	}{
		{1, 4 * redlock.DefaultNodeTimeout, nil},
		{2, 3 * time.Second, redlock.ErrNoQuorum},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			clients := nodes.NewClients()
			end := make(chan struct{})
			t.Cleanup(func() { close(end) })
			for i := range tt.holes {
				o := nodes.Node(i).Options()
				o.Dialer = func(context.Context, string, string) (net.Conn, error) {
					<-end
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
				}
				c := redis.NewClient(o)
				t.Cleanup(func() { _ = c.Close() })
				clients[i] = c
			}
			l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
			began := time.Now()
			err := redlock.WarmUp(t.Context(), l)
			took := time.Since(began)
			if tt.want == nil {
				must(t, err)
			} else {
				wantError(t, "Open", err, tt.want)
			}
			if took > tt.after+redlock.DefaultNodeTimeout {
				t.Errorf("%d of 3 are black holes: took %v; want about %v", tt.holes, took, tt.after)
			}
			var failed *redlock.QuorumError
			if errors.As(err, &failed) {
				for _, n := range failed.Nodes[:tt.holes] {
					if text := n.Err.Error(); !strings.Contains(text, "not reached") || strings.Contains(text, "not sent") {
						t.Errorf("%s: got %q; want that it was not reached", n.Name, text)
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			err = redlock.WarmUp(ctx, l)
			wantError(t, "Open with little time", err, context.DeadlineExceeded)
			wantError(t, "Open with little time", err, redlock.ErrNoQuorum)
		})
	}
}

// A client that Open makes has at most eight connections, no matter what is asked.
func TestOpenNeedsNoMoreThanEightConnections(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{})
	l := openServers(t, []*redisserver.Server{s})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			_, _ = l.Inspect(t.Context(), "orders/"+strconv.Itoa(i)) // some find no connection in time
		})
	}
	wg.Wait()
	list, err := s.Client().ClientList(t.Context()).Result()
	must(t, err)
	if got := strings.Count(list, "\n") - 1; got > 8 { // less the one that asks
		t.Errorf("got %d connections after 64 inspections at once; want at most 8", got)
	}
}

// authority is a CA of the test's own.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redlock test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := authority{cert: template}
	_, a.cert, a.key = a.sign(t, template, true)
	return a
}

// sign makes a certificate, by itself if it is to be the first.
func (a authority) sign(t *testing.T, template *x509.Certificate, self bool) (der []byte, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signer := a.key
	if self {
		signer = key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, signer)
	must(t, err)
	cert, err = x509.ParseCertificate(der)
	must(t, err)
	return der, cert, key
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// files are a certificate for loopback, its key and the CA's certificate, where a
// server can read them.
func (a authority) files(t *testing.T) (cert, key, ca string) {
	t.Helper()
	der, _, private := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, false)
	secret, err := x509.MarshalECPrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", secret), write("ca.pem", "CERTIFICATE", a.cert.Raw)
}

// needTLS starts a server that speaks TLS on a port of its own, and asks for a
// client's certificate. It skips where the server was built without TLS.
func needTLS(t *testing.T, a authority) (s *redisserver.Server, url string, client tls.Certificate) {
	t.Helper()
	port, err := loopback.Port()
	must(t, err)
	cert, key, ca := a.files(t)
	config := redisserver.Config{Args: []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca,
	}}
	if probe, err := redisserver.StartAll(1, config); err != nil && strings.Contains(err.Error(), "tls-port") {
		t.Skipf("the server speaks no TLS: %v", err)
	} else if err == nil {
		must(t, redisserver.CloseAll(probe))
	}
	client, err = tls.LoadX509KeyPair(cert, key)
	must(t, err)
	return testserver.NeedOne(t, config), "rediss://127.0.0.1:" + strconv.Itoa(port), client
}

func TestOpenSpeaksTLSAndSaysWhatIsWrongWithACertificate(t *testing.T) {
	a := newAuthority(t)
	s, url, client := needTLS(t, a)
	right := &tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{client}, MinVersion: tls.VersionTLS12}
	l, err := redlock.Open(t.Context(), []string{url}, redlock.WithTLS(right))
	must(t, err)
	defer l.Close()
	admitted(t, l)
	lock := mustAcquire(t, l, "orders/42")
	if keyOn(t, s, "orders/42") == "" {
		t.Error("the server has no key; want the lock's")
	}
	mustRelease(t, lock)
	for name, tt := range map[string]struct {
		opts   []redlock.Option
		remedy string
	}{
		"another CA":            {opts(redlock.WithTLS(&tls.Config{RootCAs: newAuthority(t).pool(), MinVersion: tls.VersionTLS12})), "(name the authority that signed the server's certificate: WithTLS, or"},
		"the system's CAs":      {nil, "(name the authority that signed"},
		"no client certificate": {opts(redlock.WithTLS(&tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12})), "(show a certificate that the server accepts, by WithTLS with Certificates"},
		"another name":          {opts(redlock.WithTLS(&tls.Config{RootCAs: a.pool(), ServerName: "other", MinVersion: tls.VersionTLS12})), "(use an address that the server's certificate is for"},
	} {
		began := time.Now()
		l, err := redlock.Open(t.Context(), []string{url}, tt.opts...)
		if l != nil {
			must(t, l.Close())
		}
		wantError(t, name, err, redlock.ErrMisconfigured)
		if err != nil && !strings.Contains(err.Error(), tt.remedy) {
			t.Errorf("%s: got %v; want %q in it", name, err, tt.remedy)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: took %v; want it at once, since waiting does not mend it", name, took)
		}
	}
}

func TestWithTLSIsRefusedWhereItCanDoNothing(t *testing.T) {
	_, err := redlock.Open(t.Context(), []string{"127.0.0.1:1", "redis://127.0.0.1:2"}, redlock.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12}))
	wantError(t, "Open without a rediss:// URL", err, redlock.ErrInvalidOption)
	_, err = redlock.New(defaultClients(t, "127.0.0.1:1"), redlock.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12}))
	wantError(t, "New", err, redlock.ErrInvalidOption)
}

// givenNodes are the masters of REDLOCK_TEST_NODES, which somebody else runs.
const givenNodes = "REDLOCK_TEST_NODES"

// What a lock promises on servers that nobody breaks: on those of the test's
// own, and on the given ones, of any kind and version. Nothing else there is
// touched: names have a prefix of this run. New masters are waited for, not
// admitted, since somebody may hold a lock on them.
func TestMastersThatNobodyBreaks(t *testing.T) {
	t.Parallel()
	t.Run("its own", func(t *testing.T) {
		t.Parallel()
		var urls []string
		for _, s := range needMasters(t, 3, redisserver.Config{}) {
			urls = append(urls, s.URL())
		}
		lockOver(t, urls)
	})
	t.Run("given", func(t *testing.T) {
		t.Parallel()
		nodes := os.Getenv(givenNodes)
		if nodes == "" {
			t.Skip(givenNodes + " gives no masters: host:port,host:port,...")
		}
		lockOver(t, strings.Split(nodes, ","))
	})
}

func lockOver(t *testing.T, urls []string) {
	t.Helper()
	prefix := redlock.WithPrefix("redlock-test:" + uuid.NewString() + ":")
	open := func() *redlock.Locker {
		l, err := redlock.Open(t.Context(), urls, prefix, redlock.WithNodeTimeout(2*time.Second))
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		return l
	}
	here, there := open(), open()
	ctx, cancel := context.WithTimeout(t.Context(), 2*redlock.DefaultMaxTTL)
	defer cancel()
	for _, l := range []*redlock.Locker{here, there} {
		if err := l.Cluster().Join(ctx); err != nil {
			t.Fatalf("Join: %v", err)
		}
	}
	t.Run("one holds", func(t *testing.T) { oneHolds(t, here, there) })
	t.Run("renewed", func(t *testing.T) { renewed(t, here, there) })
	t.Run("a crowd", func(t *testing.T) { crowd(t, here, there) })
}

// oneHolds: exclusion, growing tokens, and nothing left after a release.
func oneHolds(t *testing.T, here, there *redlock.Locker) {
	t.Helper()
	lock := mustAcquire(t, here, "one")
	if _, err := there.TryAcquire(t.Context(), "one"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("while it is held: got %v; want ErrNotAcquired", err)
	}
	must(t, lock.Extend(t.Context(), 20*time.Second))
	if left := lock.Remaining(); left < 15*time.Second {
		t.Errorf("got %v left after the extension; want most of 20 s", left)
	}
	must(t, lock.Release(t.Context()))
	next := mustAcquire(t, there, "one")
	if next.Token() <= lock.Token() {
		t.Errorf("got token %d after %d; want a greater one", next.Token(), lock.Token())
	}
	must(t, next.Release(t.Context()))
	eventually(t, 10*time.Second, func() bool { return clean(t, here, "one") })
}

// clean tells whether no node holds the name any more.
func clean(t *testing.T, l *redlock.Locker, name string) bool {
	t.Helper()
	i, err := l.Inspect(t.Context(), name)
	must(t, err)
	for _, n := range i.Nodes {
		if n.Err != nil || n.Owner != "" {
			return false
		}
	}
	return true
}

// renewed: a lock outlives its lease, for as long as it is held.
func renewed(t *testing.T, here, there *redlock.Locker) {
	t.Helper()
	const ttl = 3 * time.Second
	lock := mustAcquire(t, here, "renewed", redlock.WithTTL(ttl))
	ctx, cancel := context.WithTimeout(t.Context(), ttl+time.Second)
	defer cancel()
	if _, err := there.Acquire(ctx, "renewed"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want the deadline: it is held for longer than a lease", err)
	}
	must(t, lock.Err())
	must(t, lock.Release(t.Context()))
}

// crowd: a counter that only the lock guards.
func crowd(t *testing.T, lockers ...*redlock.Locker) {
	t.Helper()
	const each, rounds = 4, 5
	count := 0
	var all sync.WaitGroup
	for _, l := range lockers {
		for range each {
			all.Go(func() {
				for range rounds {
					if err := l.Do(t.Context(), "crowd", func(context.Context, *redlock.Lock) error {
						count++ // the race detector looks on
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if want := len(lockers) * each * rounds; count != want {
		t.Errorf("counted %d; want %d", count, want)
	}
}
