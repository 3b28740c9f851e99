package redlock_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// patient is a node timeout that a busy machine keeps.
const patient = 3 * time.Second

// found is what a test compares of a finding.
type found struct {
	severity redlock.Severity
	code     redlock.FindingCode
	node     int
}

func (f found) String() string { return fmt.Sprintf("%s %s at %d", f.severity, f.code, f.node) }

// foundAtLeast are the findings of that severity and worse, sorted.
func foundAtLeast(r redlock.Report, s redlock.Severity) []string {
	var out []string
	for _, f := range r.AtLeast(s) {
		out = append(out, found{f.Severity, f.Code, f.Node}.String())
	}
	slices.Sort(out)
	return out
}

// wantFound compares all findings of that severity and worse.
func wantFound(t *testing.T, r redlock.Report, s redlock.Severity, want ...found) {
	t.Helper()
	texts := []string{}
	for _, f := range want {
		texts = append(texts, f.String())
	}
	slices.Sort(texts)
	if got := foundAtLeast(r, s); !slices.Equal(got, texts) {
		t.Errorf("got  %q\nwant %q", got, texts)
		for _, f := range r.AtLeast(s) {
			t.Log(f)
		}
	}
}

// clientOf is a client of a server that Check finds no fault with.
func clientOf(t *testing.T, s *redisserver.Server, change ...func(*redis.Options)) redis.UniversalClient {
	t.Helper()
	o := s.Options()
	o.DialTimeout = time.Second
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// goodClients are clients of n servers that Check finds no fault with.
func goodClients(t *testing.T, n int) []redis.UniversalClient {
	t.Helper()
	var out []redis.UniversalClient
	for _, s := range testserver.Need(t, n, redisserver.Config{AOF: redisserver.FsyncAlways}) {
		out = append(out, clientOf(t, s))
	}
	return out
}

func letters(n int) []string { return strings.Split("abcdefghijklmnopqrstuvwxyz"[:n], "") }

// check runs Check over the clients, which are named a, b, c and so on.
func check(t *testing.T, clients []redis.UniversalClient, opts ...redlock.Option) redlock.Report {
	t.Helper()
	opts = append([]redlock.Option{redlock.WithNodeNames(letters(len(clients))...), redlock.WithNodeTimeout(patient)}, opts...)
	l, err := redlock.New(clients, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Cluster().Check(t.Context())
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	return r
}

// plantRecord makes each node a member, as install.lua leaves it, but for the
// fields given, and takes the record away with the test.
func plantRecord(t *testing.T, clients []redis.UniversalClient, n int, fields ...string) {
	t.Helper()
	for _, c := range clients {
		run := infoField(t, c, "server", "run_id") + "." + infoField(t, c, "replication", "master_replid")
		record := append([]string{
			"format", "1", "epoch", "e", "cluster", "c", "n", fmt.Sprint(n), "names", strings.Join(letters(n), "\n"),
			"maxttl", fmt.Sprint(redlock.DefaultMaxTTL.Milliseconds()), "run", run, "base", "7", "retired", "", "replaced", "",
		}, fields...)
		if err := c.HSet(t.Context(), "redlock:node", record).Err(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Del(context.Background(), "redlock:node") })
	}
}

func infoField(t *testing.T, c redis.UniversalClient, section, field string) string {
	t.Helper()
	info, err := c.Info(t.Context(), section).Result()
	must(t, err)
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func TestCheckInventsNothingOnAGoodSet(t *testing.T) {
	clients := goodClients(t, 5)
	r := check(t, clients)
	if r.Nodes != 5 || r.Answered != 5 || r.Quorum != 3 {
		t.Errorf("got %d nodes, %d answered, quorum %d; want 5, 5, 3", r.Nodes, r.Answered, r.Quorum)
	}
	wantFound(t, r, redlock.SeverityUnknown)
	plantRecord(t, clients, 5)
	wantFound(t, check(t, clients), redlock.SeverityInfo)
}

func TestCheckCountsTheNodes(t *testing.T) {
	clients := goodClients(t, 4)
	even, few := inAll(faultWarning, redlock.FindingEvenNodes), inAll(faultWarning, redlock.FindingFewNodes)
	for n, want := range map[int][]found{1: {few}, 2: {even, few}, 3: nil, 4: {even}} {
		wantFound(t, check(t, clients[:n]), faultUnknown, want...)
	}
}

// TestCheckFindsManyFaultsAtOnce is a set of twelve servers with nineteen
// findings.
func TestCheckFindsManyFaultsAtOnce(t *testing.T) {
	t.Parallel()
	clients := goodClients(t, 12)
	plantRecord(t, clients[8:], 12)
	in := func(i int, p plant) {
		s := &set{t, []redis.UniversalClient{nil, clients[0], nil, nil, clients[i]}}
		p(s)
		if clients[i] = s.clients[4]; s.clients[3] != nil {
			clients[i-1] = s.clients[3]
		}
	}
	in(2, serverFaults()[4].plant) // a replica of node 1
	in(3, instead(redisserver.Config{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}}))
	in(4, asUser("~* +@all -script|load -config"))
	in(5, infoSays(redisVersion, "redis_version:6.2.1"))
	in(6, instead(redisserver.Config{AOF: redisserver.FsyncAlways, Password: "secret"}, func(o *redis.Options) { o.Password = "" }))
	in(7, instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--cluster-enabled", "yes"}}))
	plantRecord(t, clients[8:9], 12, "n", "3", "names", "a\nb\nc")
	plantRecord(t, clients[9:10], 12, "format", "9")
	plantRecord(t, clients[10:11], 12, "gone", "1")
	plantRecord(t, clients[11:], 12, "maxttl", "60000")
	in(11, serverFaults()[3].plant) // the same server as node 0
	in(10, withClient(func(o *redis.Options) { o.DialTimeout = time.Minute }))
	in(9, withClient(func(o *redis.Options) { o.PoolSize = 1 }))
	slowly, err := tcpproxy.New(clients[8].(*redis.Client).Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slowly.Close)
	slowly.Delay(tcpproxy.Requests, patient*3/5)
	in(8, withClient(func(o *redis.Options) { o.Addr = slowly.Addr() }))
	r := check(t, clients)
	wantFound(t, r, faultUnknown,
		inAll(faultWarning, redlock.FindingEvenNodes),
		found{faultWarning, redlock.FindingHasReplicas, 1},
		found{faultWarning, redlock.FindingBacklog, 1},
		found{faultError, redlock.FindingReplica, 2}, found{faultError, redlock.FindingRefuses, 2},
		found{faultError, redlock.FindingEviction, 3}, found{faultWarning, redlock.FindingPersistence, 3},
		found{faultError, redlock.FindingACL, 4}, found{faultUnknown, redlock.FindingPersistence, 4},
		found{faultError, redlock.FindingVersion, 5},
		found{faultError, redlock.FindingCredentials, 6},
		found{faultError, redlock.FindingMode, 7}, found{faultError, redlock.FindingRefuses, 7}, found{faultUnknown, redlock.FindingRecord, 7},
		found{faultError, redlock.FindingOtherNodes, 8}, found{faultWarning, redlock.FindingRoundTrip, 8},
		found{faultWarning, redlock.FindingTTLRound, 8},
		found{faultError, redlock.FindingRecord, 9}, found{faultWarning, redlock.FindingPool, 9},
		found{faultWarning, redlock.FindingRetired, 10}, found{faultWarning, redlock.FindingDial, 10},
		found{faultError, redlock.FindingSameServer, 11},
	)
	if !slices.IsSortedFunc(r.Findings, func(a, b redlock.Finding) int { return int(b.Severity) - int(a.Severity) }) {
		t.Error("the report does not begin with the worst")
	}
}

func TestCheckInventsNothingOnAClusterThatWasFounded(t *testing.T) {
	var urls []string
	for _, s := range testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways}) {
		urls = append(urls, s.URL())
	}
	l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(patient))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Cluster().Admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.Cluster().Check(t.Context())
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	wantFound(t, r, faultInfo)
}

// The report names the server of each node as the server does. Valkey says that it is
// a Redis 7.2 as well.
func TestCheckNamesTheServerOfEachNode(t *testing.T) {
	server := testserver.NeedOne(t, redisserver.Config{AOF: redisserver.FsyncAlways})
	told, err := exec.CommandContext(t.Context(), server.Program(), "--version").Output()
	must(t, err)
	m := regexp.MustCompile(`^(Redis|Valkey) server v=(\S+)`).FindStringSubmatch(string(told))
	if m == nil {
		t.Fatalf("--version says %q", told)
	}
	down := testserver.NeedOne(t, redisserver.Config{})
	must(t, down.Kill())
	clients := []redis.UniversalClient{clientOf(t, server), clientOf(t, down), clientOf(t, testserver.NeedOne(t, redisserver.Config{}))}
	s := &set{t, make([]redis.UniversalClient, 5)}
	s.clients[4] = clients[2]
	infoSays(`redis_git_sha1:\S+`, "valkey_version:9.0.1")(s)
	clients[2] = s.clients[4]
	if got, want := check(t, clients).Servers, []string{m[1] + " " + m[2], "", "Valkey 9.0.1"}; !slices.Equal(got, want) {
		t.Errorf("got the servers %q; want %q", got, want)
	}
}

// planted is one fault in an otherwise good set of five, at node 4 unless want
// says otherwise.
type planted struct {
	name  string
	plant plant
	want  []found
}

// set is what a fault is planted in.
type set struct {
	*testing.T
	clients []redis.UniversalClient
}

// plant changes a node of the set, or returns options to check it with.
type plant func(s *set) []redlock.Option

// instead puts another server in node 4's place.
func instead(config redisserver.Config, change ...func(*redis.Options)) plant {
	return func(s *set) []redlock.Option {
		s.clients[4] = clientOf(s.T, testserver.NeedOne(s.T, config), change...)
		return nil
	}
}

// infoSays gives node 4 a client that reads something else in INFO: what servers
// say that are not installed. The new text may not be longer than the old.
func infoSays(old, text string) plant {
	return withClient(func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &liar{c, regexp.MustCompile(old), text}, err
		}
	})
}

type liar struct {
	net.Conn
	old  *regexp.Regexp
	text string
}

func (l *liar) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if at := l.old.FindIndex(p[:n]); at != nil {
		copy(p[at[0]:at[1]], l.text+strings.Repeat(" ", at[1]-at[0]-len(l.text)))
	}
	return n, err
}

// importing gives node 4 a server that imports data. One that can't is asked for a
// setting that is as long, and on, in the place of that.
func importing(s *set) []redlock.Option {
	server := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways})
	s.clients[4] = clientOf(s.T, server, func(o *redis.Options) {
		if server.Client().ConfigSet(s.Context(), "import-mode", "yes").Err() == nil {
			return
		}
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return renamer{&liar{c, regexp.MustCompile("disable-thp"), "import-mode"}}, err
		}
	})
	return nil
}

type renamer struct{ net.Conn }

func (r renamer) Write(p []byte) (int, error) {
	return r.Conn.Write(bytes.ReplaceAll(p, []byte("import-mode"), []byte("disable-thp")))
}

func asUser(user string) plant {
	return instead(redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"lock on >secret &* " + user}},
		func(o *redis.Options) { o.Username, o.Password = "lock", "secret" })
}

func withOptions(opts ...redlock.Option) plant {
	return func(*set) []redlock.Option { return opts }
}

// withClient changes the options of node 4's client.
func withClient(change func(*redis.Options)) plant {
	return func(s *set) []redlock.Option {
		o := *s.clients[4].(*redis.Client).Options()
		change(&o)
		c := redis.NewClient(&o)
		s.Cleanup(func() { _ = c.Close() })
		s.clients[4] = c
		return nil
	}
}

// withRecords makes members of all, the last with other fields.
func withRecords(fields ...string) plant {
	return func(s *set) []redlock.Option {
		plantRecord(s.T, s.clients[:4], 5)
		plantRecord(s.T, s.clients[4:], 5, fields...)
		return nil
	}
}

func at4(s redlock.Severity, code redlock.FindingCode) found { return found{s, code, 4} }
func inAll(s redlock.Severity, code redlock.FindingCode) found {
	return found{s, code, -1}
}

const (
	faultInfo    = redlock.SeverityInfo
	faultUnknown = redlock.SeverityUnknown
	faultWarning = redlock.SeverityWarning
	faultError   = redlock.SeverityError
)

// TestCheckFindsEachFaultAndNoOther plants one fault after another in the same
// good set, and compares all findings from SeverityUnknown up: all from
// SeverityInfo up where an info is what was planted.
func TestCheckFindsEachFaultAndNoOther(t *testing.T) { //nolint:tparallel // its faults share four servers
	besideServers(t)
	good := goodClients(t, 5)
	faults := slices.Concat(serverFaults(), refusalFaults(), silentFaults(), diskFaults(), rightFaults(), timeFaults(), clusterFaults(), clientFaults())
	// The number of nodes has a test of its own, and so have the clocks' rates.
	tested := map[redlock.FindingCode]bool{redlock.FindingEvenNodes: true, redlock.FindingFewNodes: true, redlock.FindingClockRate: true}
	for _, f := range faults {
		for _, w := range f.want {
			tested[w.code] = true
		}
		t.Run(f.name, func(t *testing.T) {
			clients := slices.Clone(good)
			opts := f.plant(&set{t, clients})
			least := faultUnknown
			for _, w := range f.want {
				least = min(least, w.severity)
			}
			r := check(t, clients, opts...)
			if least == faultInfo { // the set is new, which is worth a word
				r.Findings = slices.DeleteFunc(r.Findings, func(g redlock.Finding) bool {
					return g.Code == redlock.FindingBlank && !slices.Contains(f.want, found{g.Severity, g.Code, g.Node})
				})
			}
			wantFound(t, r, least, f.want...)
			if !cures(r, cure[f.name]) {
				t.Errorf("no finding has %q in its remedy or its reason: %v", cure[f.name], r.Findings)
			}
		})
	}
	for name := range cure {
		if !slices.ContainsFunc(faults, func(f planted) bool { return f.name == name }) {
			t.Errorf("no fault is named %q", name)
		}
	}
	for _, code := range findingCodes(t) {
		if !tested[code] {
			t.Errorf("no fault is planted for the code %q", code)
		}
	}
}

// cure is what the remedy, or the reason, of a finding must have: a wrong one sends the
// operator elsewhere.
var cure = map[string]string{
	"a full memory":             "Raise maxmemory",
	"replicas that are missing": "min-replicas-to-write 0",
	"EVALSHA renamed away, and no right to ask for rights": "rename-command",
	"data are imported": "CONFIG SET import-mode no",
	"an append-only file that the default user may not write again": "default off ~* &* +@all",
	"no right to wake":                              "nothing else says that it is missing",
	"no right to wake, nor to ask for rights":       "wakes nobody",
	"a script that does not end":                    "SCRIPT KILL",
	"all connections taken":                         "Raise maxclients",
	"a certificate that has expired":                "Renew the server's certificate",
	"a certificate of nobody known":                 "Name the authority",
	"a certificate of another host":                 "an address that the server's certificate is for",
	"a certificate that the server does not accept": "this client's certificate",
	"TLS to a port without it":                      "tls-port",
	"lists of two clusters mixed":                   "Give all clients the same list",
}

// cures tells whether a finding about node 4 has the words.
func cures(r redlock.Report, words string) bool {
	return words == "" || slices.ContainsFunc(r.Findings, func(f redlock.Finding) bool {
		return f.Node == 4 && strings.Contains(f.Why+f.Remedy, words)
	})
}

// findingCodes are all codes that there are.
func findingCodes(t *testing.T) []redlock.FindingCode {
	t.Helper()
	var out []redlock.FindingCode
	for _, code := range codesIn(t, "check.go") {
		out = append(out, redlock.FindingCode(code.text))
	}
	return out
}

// namedCode is a constant with its text.
type namedCode struct{ name, text string }

// codesIn are the codes that a file declares, in its order.
func codesIn(t *testing.T, file string) []namedCode {
	t.Helper()
	source, err := os.ReadFile(file)
	must(t, err)
	var out []namedCode
	for _, m := range regexp.MustCompile(`(?m)^\s+(\w+) +FindingCode += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		out = append(out, namedCode{m[1], m[2]})
	}
	if declared := strings.Count(string(source), " = \""); len(out) < 12 || len(out) != declared {
		t.Fatalf("%s shows %d codes of %d", file, len(out), declared)
	}
	return out
}

// Check hands the doctor's codes on as they are, so each must be a public one.
func TestThePublicCodesAreTheDoctors(t *testing.T) {
	if got, want := codesIn(t, "check.go"), codesIn(t, "internal/doctor/doctor.go"); !slices.Equal(got, want) {
		t.Errorf("check.go has %v\nthe doctor has %v", got, want)
	}
}

// slewed are clients of five servers, of which those that slewed names have a clock
// of that rate.
func slewed(t *testing.T, rate string, nodes ...int) []redis.UniversalClient {
	t.Helper()
	var out []redis.UniversalClient
	for i, s := range testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true}) {
		if slices.Contains(nodes, i) {
			must(t, s.SetClock("+0 x"+rate))
		}
		out = append(out, clientOf(t, s))
	}
	return out
}

// A time service that slews faster than the drift factor looks like a clock that
// steps, again and again.
func TestCheckTellsClocksThatRunTooFastOrTooSlow(t *testing.T) {
	for _, c := range []struct {
		rate string
		at   []int
		want []found
	}{
		{"1.0", nil, nil},
		{"1.0005", []int{4}, nil}, // ntpd's fastest
		{"1.0833", []int{4}, []found{at4(faultError, redlock.FindingClockRate)}}, // chronyd's
		{"0.9167", []int{4}, []found{at4(faultError, redlock.FindingClockRate)}},
		{"1.0833", []int{0, 1, 2, 3, 4}, []found{inAll(faultError, redlock.FindingClockRate)}},
	} {
		t.Run(c.rate, func(t *testing.T) {
			r := check(t, slewed(t, c.rate, c.at...))
			r.Findings = slices.DeleteFunc(r.Findings, func(f redlock.Finding) bool { return f.Code != redlock.FindingClockRate })
			wantFound(t, r, faultInfo, c.want...)
		})
	}
}

// What doctor warns of is so: a quorum whose clocks run a twelfth too fast grants
// nothing, and within the drift factor it does.
func TestAQuorumThatIsSlewedBeyondTheDriftStopsLocking(t *testing.T) {
	for rate, stops := range map[string]bool{"1.0833": true, "1.002": false} {
		t.Run(rate, func(t *testing.T) {
			l, err := redlock.New(slewed(t, rate, 2, 3, 4), redlock.WithNodeNames(letters(5)...), redlock.WithNodeTimeout(patient))
			must(t, err)
			defer l.Close()
			must(t, l.Cluster().Admit(t.Context()))
			refused := func() error {
				lock, err := l.TryAcquire(t.Context(), "orders/42")
				if err == nil {
					_ = lock.Release(t.Context())
				}
				return err
			}
			if stops {
				eventually(t, patient*5, func() bool { return strings.Contains(errorText(refused()), "stepped") })
				for range 10 {
					wantError(t, "TryAcquire", refused(), redlock.ErrNoQuorum)
				}
				return
			}
			for i := range 300 {
				if err := refused(); err != nil {
					t.Fatalf("refused after %d tries: %v; want a rate within the drift factor to be no step", i, err)
				}
			}
		})
	}
}
