package redlock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// configured puts another server in node 4's place and changes its configuration
// when it runs.
func configured(config redisserver.Config, change func(s *set, c redis.UniversalClient)) plant {
	return func(s *set) []redlock.Option {
		instead(config)(s)
		change(s, s.clients[4])
		return nil
	}
}

func setConfig(s *set, c redis.UniversalClient, name, value string) {
	s.Helper()
	if err := c.ConfigSet(s.Context(), name, value).Err(); err != nil {
		s.Fatal(err)
	}
}

// usedMemory is what the server says that it uses, in bytes.
func usedMemory(s *set, c redis.UniversalClient) int {
	s.Helper()
	info, err := c.Info(s.Context(), "memory").Result()
	_, rest, _ := strings.Cut(info, "used_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, convErr := strconv.Atoi(text)
	if err != nil || convErr != nil {
		s.Fatal(err, convErr)
	}
	return n
}

// refusalFaults are servers that run, and refuse what a lock needs.
func refusalFaults() []planted {
	good := redisserver.Config{AOF: redisserver.FsyncAlways}
	renamed := func(command string) plant {
		return instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--rename-command", command, ""}})
	}
	return []planted{
		{
			"a full memory", configured(good, func(s *set, c redis.UniversalClient) { setConfig(s, c, "maxmemory", "1") }),
			[]found{at4(faultError, redlock.FindingRefuses), at4(faultError, redlock.FindingMemory)},
		},
		{
			"a memory that is nearly full", configured(good, func(s *set, c redis.UniversalClient) {
				if err := c.SetRange(s.Context(), "ballast", 64<<20, "x").Err(); err != nil {
					s.Fatal(err)
				}
				setConfig(s, c, "maxmemory", strconv.Itoa(usedMemory(s, c)/93*100))
			}),
			[]found{at4(faultWarning, redlock.FindingMemory)},
		},
		{
			"replicas that are missing", configured(good, func(s *set, c redis.UniversalClient) { setConfig(s, c, "min-replicas-to-write", "1") }),
			[]found{at4(faultError, redlock.FindingRefuses), at4(faultError, redlock.FindingMinReplicas)},
		},
		{
			"nearly all connections taken", configured(good, func(s *set, c redis.UniversalClient) {
				setConfig(s, c, "maxclients", "30")
				for range 27 {
					conn, err := net.Dial("tcp", c.(*redis.Client).Options().Addr)
					if err != nil {
						s.Fatal(err)
					}
					s.Cleanup(func() { _ = conn.Close() })
				}
				awaitInfo(s.T, c, "connected_clients:28")
			}),
			[]found{at4(faultWarning, redlock.FindingMaxClients)},
		},
		{"EVALSHA renamed away", renamed("EVALSHA"), []found{at4(faultError, redlock.FindingCommand)}},
		{"SCRIPT renamed away", renamed("SCRIPT"), []found{at4(faultError, redlock.FindingCommand)}},
		{"a script's command renamed away", renamed("PTTL"), []found{at4(faultError, redlock.FindingCommand)}},
		{
			"EVALSHA renamed away, and no right to ask for rights",
			instead(redisserver.Config{
				AOF: redisserver.FsyncAlways, Users: []string{"lock on >secret &* ~* +@all -acl"}, Args: []string{"--rename-command", "EVALSHA", ""},
			}, func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }),
			[]found{at4(faultError, redlock.FindingRefuses), at4(faultUnknown, redlock.FindingACL)},
		},
		{
			"no right to the keys of waiting",
			asUser("~redlock:node ~redlock:dead:* ~redlock:queue:* ~redlock:probe:* ~redlock-check +@all"),
			[]found{at4(faultError, redlock.FindingACL)},
		},
		{
			"no right to the keys of waiting, nor to ask for rights",
			asUser("~redlock:node ~redlock:dead:* ~redlock:queue:* ~redlock:probe:* ~redlock-check +@all -acl"),
			[]found{at4(faultError, redlock.FindingRefuses), at4(faultUnknown, redlock.FindingACL)},
		},
		{
			"no right to the signs of life, nor to ask for rights",
			asUser("~redlock:waiting ~redlock:node ~redlock:dead:* ~redlock:queue:* ~redlock:probe:* ~redlock-check +@all -acl"),
			[]found{at4(faultError, redlock.FindingRefuses), at4(faultUnknown, redlock.FindingACL)},
		},
		{
			"no right to wake, nor to ask for rights", asUser("~* +@all -publish -acl"),
			[]found{at4(faultWarning, redlock.FindingRefuses), at4(faultUnknown, redlock.FindingACL)},
		},
	}
}

// silentFaults are servers that tell nothing, and why.
func silentFaults() []planted {
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 9, 9, 9)} }
	return []planted{
		{
			"a script that does not end",
			func(s *set) []redlock.Option {
				instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--busy-reply-threshold", "1"}})(s)
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
				return nil
			},
			[]found{at4(faultError, redlock.FindingBusy)},
		},
		{
			"all connections taken",
			func(s *set) []redlock.Option {
				instead(redisserver.Config{AOF: redisserver.FsyncAlways})(s)
				setConfig(s, s.clients[4], "maxclients", "1") // its own
				withClient(func(*redis.Options) {})(s)        // a client that must connect
				return nil
			},
			[]found{at4(faultError, redlock.FindingMaxClients)},
		},
		{"a certificate that has expired", overTLS(expired, true), []found{at4(faultError, redlock.FindingTLS)}},
		{"a certificate of nobody known", overTLS(nil, false), []found{at4(faultError, redlock.FindingTLS)}},
		{"a certificate of another host", overTLS(elsewhere, true), []found{at4(faultError, redlock.FindingTLS)}},
		{
			"TLS to a port without it",
			func(s *set) []redlock.Option {
				addr := answering(s.T, func(c net.Conn) { _, _ = c.Write([]byte("-ERR Protocol error\r\n")) })
				return withClient(func(o *redis.Options) {
					o.Dialer, o.Addr, o.TLSConfig = nil, addr, &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
				})(s)
			},
			[]found{at4(faultError, redlock.FindingTLS)},
		},
		{
			"a certificate that the server does not accept",
			func(s *set) []redlock.Option {
				return overTLS(nil, true, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })(s)
			},
			[]found{at4(faultError, redlock.FindingTLS)},
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
	return func(s *set) []redlock.Option {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			s.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if change != nil {
			change(template)
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			s.Fatal(err)
		}
		signed, err := x509.ParseCertificate(der)
		if err != nil {
			s.Fatal(err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
		for _, f := range more {
			f(config)
		}
		addr := answering(s.T, func(c net.Conn) { _ = tls.Server(c, config).Handshake() }) // which one of them refuses
		roots := x509.NewCertPool()
		if trust {
			roots.AddCert(signed)
		}
		return withClient(func(o *redis.Options) {
			o.Dialer, o.Addr, o.TLSConfig = nil, addr, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
		})(s)
	}
}

// answering is the address of a listener that answers each connection so, and closes
// it.
func answering(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// A cluster that was founded, and filled up: what operators see of it.
func TestNodesThatRefuseWritesAreSeenEverywhere(t *testing.T) {
	for _, fault := range []struct{ setting, value, says string }{
		{"maxmemory", "1", "OOM"}, {"min-replicas-to-write", "1", "NOREPLICAS"},
	} {
		t.Run(fault.says, func(t *testing.T) {
			servers := testserver.Need(t, 3, redisserver.Config{AOF: redisserver.FsyncAlways})
			var urls []string
			for _, s := range servers {
				urls = append(urls, s.URL())
			}
			told := &events{}
			l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(patient), redlock.WithTTL(4*patient), told.option())
			must(t, err)
			defer l.Close()
			must(t, l.Cluster().Admit(t.Context()))
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			set := func(value string) {
				for _, s := range servers[1:] {
					must(t, s.Client().ConfigSet(t.Context(), fault.setting, value).Err())
				}
			}
			set(fault.value)
			report, err := l.Cluster().Check(t.Context())
			must(t, err)
			refused := 0
			for _, f := range report.Findings {
				if f.Code == redlock.FindingRefuses && f.Severity == redlock.SeverityError && strings.Contains(f.What, "take a lock: "+fault.says) {
					refused++
				}
			}
			if refused != 2 {
				t.Errorf("Check: got %v; want that two nodes refuse to take a lock", report.Findings)
			}
			status, err := l.Cluster().Status(t.Context())
			must(t, err)
			if status.Votes() != 1 || status.Nodes[0].Refuses != "" || !strings.Contains(status.Nodes[2].Refuses, fault.says) {
				t.Errorf("Status: got %+v; want one vote, and why", status)
			}
			for i := range 3 {
				_, err = l.TryAcquire(t.Context(), "orders/42")
				wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
				if n := len(told.of(redlock.NodeRefusesWrites)); i == 2 && n != 2 {
					t.Errorf("got %d events; want one of each node", n)
				}
			}
			set("0")
			status, err = l.Cluster().Status(t.Context())
			must(t, err)
			if status.Votes() != 3 {
				t.Errorf("Status after it was mended: got %+v; want three votes", status)
			}
			eventually(t, 10*time.Second, func() bool { return len(told.of(redlock.NodeTakesWrites)) == 2 })
			mustRelease(t, mustAcquire(t, l, "orders/42"))
		})
	}
}

// A member is proved with a lock; what would keep the lock from being taken is
// found though nothing else tells it.
func TestCheckProvesMembersWithALock(t *testing.T) {
	clients := goodClients(t, 3)
	plantRecord(t, clients, 3)
	wantFound(t, check(t, clients), redlock.SeverityUnknown)
	for _, c := range clients {
		eventually(t, 10*time.Second, func() bool { // a tombstone lives for a millisecond
			left, err := c.Keys(t.Context(), "*").Result()
			return err == nil && len(left) == 1 && left[0] == lua.NodeKey
		})
		if counter, err := c.HExists(t.Context(), lua.NodeKey, "probe").Result(); counter || err != nil {
			t.Errorf("the probe's counter is there: %t (%v); want it gone", counter, err)
		}
	}
	// Of another type: the lock can't be counted there.
	must(t, clients[1].HSet(t.Context(), lua.NodeKey, "probe", "not a number").Err())
	wantFound(t, check(t, clients), redlock.SeverityUnknown, found{faultError, redlock.FindingRefuses, 1})
	must(t, clients[1].HDel(t.Context(), lua.NodeKey, "probe").Err())
}
