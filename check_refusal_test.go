package redlock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
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

// inMemory is what Check always says of nodes that keep nothing on disk and know
// neither CONFIG nor ACL.
func inMemory(nodes ...int) []found {
	var out []found
	for _, i := range nodes {
		out = append(out, found{faultWarning, redlock.FindingPersistence, i},
			found{faultUnknown, redlock.FindingACL, i}, found{faultUnknown, redlock.FindingEviction, i})
	}
	return out
}

func TestCheckSaysWhatItCouldNotSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		r, err := l.Cluster().Check(t.Context())
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		wantFound(t, r, faultUnknown, inMemory(0, 1, 2)...)
	})
}

func TestCheckRefusesAServerThatHidesItsRunID(t *testing.T) {
	plain := redis.NewClient(&redis.Options{
		Addr: miniredis.RunT(t).Addr(), MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, DisableIdentity: true,
	})
	t.Cleanup(func() { _ = plain.Close() })
	r := check(t, []redis.UniversalClient{plain})
	if got := foundAtLeast(r, faultError); !slices.Equal(got, []string{"error run-id at 0"}) {
		t.Errorf("got %q; want run-id", got)
	}
}

func TestCheckLeavesMembershipAloneWhereItIsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithoutMembership())
		if err := nodes.Client(0).HSet(t.Context(), "redlock:node", "format", "9").Err(); err != nil {
			t.Fatal(err)
		}
		r, err := l.Cluster().Check(t.Context())
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		wantFound(t, r, redlock.SeverityInfo, inMemory(0, 1, 2)...)
	})
}

func TestCheckLeavesNothingAndSendsNothingTwice(t *testing.T) {
	lost := []string{"", "INFO", "HMGET", "EVALSHA", "ACL", "CONFIG", "TIME"}
	for _, lose := range lost {
		t.Run("without a reply to "+lose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneCheckWithout(t, lose) })
		})
	}
}

// oneCheckWithout loses every reply to one command, runs Check with a client that
// would resend, and counts.
func oneCheckWithout(t *testing.T, lose string) {
	t.Helper()
	nodes := redlocktest.Start(t, 1)
	before := nodes.Node(0).Miniredis().Dump()
	key, field := "", false // of the lock that is taken
	var mu sync.Mutex       // guards counts
	counts := map[string]int{}
	nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
		mu.Lock()
		defer mu.Unlock()
		counts[args[0]]++
		switch {
		case scriptOf(args) == "acquire" && strings.HasPrefix(args[3], "redlock:probe:") && args[9] == "probe":
			key, field = args[3], true
		case scriptOf(args) == "extend" && args[4] == key, scriptOf(args) == "release" && strings.HasPrefix(args[3], "redlock:probe:"):
		case scriptOf(args) != "":
			t.Errorf("not a probe of a name that is nobody's: %q", args)
		case args[0] == "ACL" && args[1] != "WHOAMI" && args[1] != "DRYRUN", args[0] == "CONFIG" && args[1] != "GET":
			t.Errorf("not a question: %q", args)
		case args[0] == lose:
			return redlocktest.LoseReply()
		}
		return redlocktest.Pass()
	})
	o := nodes.Node(0).Options()
	o.MaxRetries = 3
	c := redis.NewClient(o)
	defer c.Close()
	l, err := redlock.New([]redis.UniversalClient{c})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _ = l.Cluster().Check(t.Context()) // the only node may tell nothing
	mu.Lock()
	defer mu.Unlock()
	most := map[string]int{
		"INFO": 1, "HMGET": 1, "EVALSHA": 5, "ACL": 2, "CONFIG": 8, "TIME": 24, "SCRIPT": 15, "HDEL": 1,
		"ZADD": 1, "ZRANGE": 1, "ZREM": 1, "DEL": 1, "PEXPIRE": 1, "PUBLISH": 1,
	}
	if lose == "TIME" {
		most["TIME"] = 2 // two pings, each sent once
	}
	for command, n := range counts {
		if bound, known := most[command]; n > bound && command != "HELLO" || !known && command != "HELLO" {
			t.Errorf("%s was sent %d times; want at most %d", command, n, bound)
		}
	}
	if counts["INFO"] == 0 {
		t.Errorf("nothing was asked: %v", counts)
	}
	if !field && lose == "" {
		t.Error("no lock was taken; want the node proved")
	}
	time.Sleep(2 * time.Second) // the lease of a probe whose release was lost
	if after := nodes.Node(0).Miniredis().Dump(); after != before {
		t.Errorf("Check changed the node from\n%s\nto\n%s", before, after)
	}
}

func TestCheckWaitsForNoHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		nodes.Node(1).Hang()
		begin := time.Now()
		r, err := l.Cluster().Check(t.Context())
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		wantFound(t, r, faultUnknown, append(inMemory(0, 2), found{faultError, redlock.FindingUnreachable, 1})...)
		if took := time.Since(begin); took > 4*redlock.DefaultNodeTimeout {
			t.Errorf("Check took %v; want at most four node timeouts", took)
		}
		if r.Answered != 2 {
			t.Errorf("got %d nodes that answered; want 2", r.Answered)
		}
		nodes.Node(1).Resume()
	})
}

// A node that is slow while it is proved, and so lets the probe's lock lapse, refuses nothing;
// one that loses it at once does.
func TestCheckBlamesNoNodeForTheLapseOfItsProbe(t *testing.T) {
	for pause, want := range map[time.Duration][]found{
		1500 * time.Millisecond: nil,
		time.Millisecond:        {{faultError, redlock.FindingRefuses, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, redlock.WithNodeTimeout(patient))
			n, proved := nodes.Node(1), 0
			n.Intercept(func(args []string) redlocktest.Verdict {
				if key := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, lua.ProbeKey) }); args[0] == "EVALSHA" && key > 0 {
					if proved++; proved == 2 { // after the grant, before the renewal
						time.Sleep(pause)
						n.Miniredis().Del(args[key])
					}
				}
				return redlocktest.Pass()
			})
			r, err := l.Cluster().Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			wantFound(t, r, faultError, want...)
			if proved < 2 {
				t.Errorf("got %d of the probe's commands; want it proved with a lock", proved)
			}
		})
	}
}

func TestCheckCountsLostReplies(t *testing.T) {
	for lost, want := range map[int]redlock.Severity{1: faultWarning, 100: faultError} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			var mu sync.Mutex // guards times
			times := 0
			nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict {
				mu.Lock()
				defer mu.Unlock()
				if args[0] == "TIME" {
					if times++; times > 1 && times <= 1+lost {
						return redlocktest.LoseReply()
					}
				}
				return redlocktest.Pass()
			})
			r, err := l.Cluster().Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			wantFound(t, r, faultUnknown, append(inMemory(0, 1, 2), found{want, redlock.FindingRoundTrip, 2})...)
		})
	}
}

func TestCheckNamesTwoEntriesThatAreOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		clients[2] = nodes.NewClients()[0]
		l, err := redlock.New(clients, redlock.WithNodeNames("a", "b", "c"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 2 { // the order is the same every time
			r, err := l.Cluster().Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			if f := r.Findings[0]; f.Code != redlock.FindingSameServer || f.Node != 2 || f.Name != "c" || !strings.Contains(f.What, "node 0 (a)") {
				t.Errorf("the first finding is %v; want node 2 (c) as node 0 (a)", f)
			}
			if r.Worst() != faultError {
				t.Errorf("the worst is %v; want error", r.Worst())
			}
		}
	})
}

func TestCheckFailsWhenNothingCanBeLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := l.Cluster().Check(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("when ctx ends: got %v; want its error", err)
		}
		if _, err := l.Cluster().Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a ctx that is done: got %v; want its error", err)
		}
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("Check returned %v after its ctx had ended", took-10*time.Millisecond)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
			n.Stop()
		}
		r, err := l.Cluster().Check(t.Context())
		var none *redlock.QuorumError
		if !errors.Is(err, redlock.ErrNoQuorum) || !errors.As(err, &none) || len(none.Nodes) != 3 {
			t.Errorf("when no node answers: got %v; want *QuorumError with ErrNoQuorum", err)
		}
		wantFound(t, r, faultUnknown, found{faultError, redlock.FindingUnreachable, 0},
			found{faultError, redlock.FindingUnreachable, 1}, found{faultError, redlock.FindingUnreachable, 2})
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
		if _, err := l.Cluster().Check(t.Context()); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("after Close: got %v; want ErrClosed", err)
		}
	})
}

func TestOpensOwnClientsHaveNoFault(t *testing.T) {
	nodes := redlocktest.Start(t, 3, redlocktest.WithTCP())
	l, err := redlock.Open(t.Context(), nodes.URLs(), redlock.WithNodeTimeout(2*time.Second), redlock.WithTTL(8*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Cluster().Check(t.Context())
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	for _, f := range r.Findings {
		if strings.HasPrefix(string(f.Code), "client") {
			t.Errorf("got %v; want nothing about a client", f)
		}
	}
}
