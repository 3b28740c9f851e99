package doctor_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/doctor"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// good is a server with no fault.
var good = redisserver.Config{AOF: redisserver.FsyncAlways}

// clientOf is a client of a server with no fault.
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

// goodClients are clients of n servers with no fault.
func goodClients(t *testing.T, n int) []redis.UniversalClient {
	t.Helper()
	var out []redis.UniversalClient
	for _, s := range testserver.Need(t, n, good) {
		out = append(out, clientOf(t, s))
	}
	return out
}

func check(t *testing.T, clients []redis.UniversalClient, change ...func(*doctor.Config)) doctor.Report {
	t.Helper()
	return examine(t, letters(len(clients)), clients, change...)
}

func letters(n int) []string { return strings.Split("abcdefghijklmnopqrstuvwxyz"[:n], "") }

// plantRecord makes each node a member, as install.lua leaves it, but for the
// fields given, and takes the record away with the test.
func plantRecord(t *testing.T, clients []redis.UniversalClient, n int, fields ...string) {
	t.Helper()
	for _, c := range clients {
		run := infoField(t, c, "server", "run_id") + "." + infoField(t, c, "replication", "master_replid")
		record := append([]string{
			"format", "4", "epoch", "e", "cluster", "c", "names", strings.Join(letters(n), "\n"),
			"maxttl", fmt.Sprint(redlock.DefaultMaxTTL.Milliseconds()), "run", run, "base", "7",
		}, fields...)
		testkit.Must(t, c.HSet(t.Context(), lua.NodeKey, record).Err())
		t.Cleanup(func() { c.Del(context.Background(), lua.NodeKey) })
	}
}

func infoField(t *testing.T, c redis.UniversalClient, section, field string) string {
	t.Helper()
	info, err := c.Info(t.Context(), section).Result()
	testkit.Must(t, err)
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func TestCheckInventsNothingOnAGoodSet(t *testing.T) {
	clients := goodClients(t, 5)
	doctor.WantFound(t, check(t, clients), doctor.SeverityUnknown, "")
	plantRecord(t, clients, 5)
	doctor.WantFound(t, check(t, clients), doctor.SeverityInfo, "")
}

// A member is proved with a lock; what would keep the lock from being taken is
// found though nothing else tells it.
func TestCheckProvesMembersWithALock(t *testing.T) {
	clients := goodClients(t, 3)
	plantRecord(t, clients, 3)
	doctor.WantFound(t, check(t, clients), doctor.SeverityUnknown, "")
	for _, c := range clients {
		testkit.Eventually(t, "its tombstone is gone", func() bool {
			left, err := c.Keys(t.Context(), "*").Result()
			return err == nil && len(left) == 1 && left[0] == lua.NodeKey
		})
		if counter, err := c.HExists(t.Context(), lua.NodeKey, "probe").Result(); counter || err != nil {
			t.Errorf("the probe's counter is there: %t (%v); want it gone", counter, err)
		}
	}
	// Of another type: the lock can't be counted there.
	testkit.Must(t, clients[1].HSet(t.Context(), lua.NodeKey, "probe", "not a number").Err())
	doctor.WantFound(t, check(t, clients), doctor.SeverityUnknown, "error refuses 1")
	testkit.Must(t, clients[1].HDel(t.Context(), lua.NodeKey, "probe").Err())
}

// TestCheckFindsManyFaultsAtOnce is a set of twelve servers with nineteen
// findings.
func TestCheckFindsManyFaultsAtOnce(t *testing.T) {
	t.Parallel()
	clients := goodClients(t, 12)
	plantRecord(t, clients[8:], 12)
	in := func(i int, p plant) {
		s := &set{T: t, clients: []redis.UniversalClient{nil, clients[0], nil, nil, clients[i]}}
		p(s)
		if clients[i] = s.clients[4]; s.clients[3] != nil {
			clients[i-1] = s.clients[3]
		}
	}
	in(2, followed)
	in(3, instead(redisserver.Config{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}}))
	in(4, asUser("~* +@all -script|load -config"))
	in(5, infoSays(redisVersion, "redis_version:6.2.1"))
	in(6, password(""))
	in(7, server("--cluster-enabled", "yes"))
	plantRecord(t, clients[8:9], 12, "names", "a\nb\nelsewhere")
	plantRecord(t, clients[9:10], 12, "format", "9")
	plantRecord(t, clients[10:11], 12, "gone", "1")
	plantRecord(t, clients[11:], 12, "maxttl", "60000")
	in(11, sameServer) // as node 0
	in(10, withClient(func(o *redis.Options) { o.DialTimeout = time.Minute }))
	in(9, withClient(func(o *redis.Options) { o.PoolSize = 1 }))
	slowly, err := tcpproxy.New(clients[8].(*redis.Client).Options().Addr)
	testkit.Must(t, err)
	t.Cleanup(slowly.Close)
	slowly.Delay(tcpproxy.Requests, patient*4/5)
	in(8, withClient(func(o *redis.Options) { o.Addr = slowly.Addr() }))
	r := check(t, clients)
	doctor.WantFound(t, r, doctor.SeverityUnknown, "error no-quorum; warning even-nodes; warning has-replicas 1; warning repl-backlog 1; error replica 2; error refuses 2; "+
		"error eviction 3; warning persistence 3; error acl 4; unknown persistence 4; error version 5; error credentials 6; "+
		"error mode 7; error refuses 7; unknown record 7; error other-n 8; warning round-trip 8; warning ttl-roundtrip 8; "+
		"error record 9; warning client-pool 9; warning client-dial 10; error same-server 11")
	if !slices.IsSortedFunc(r.Findings, func(a, b doctor.Finding) int { return int(b.Severity) - int(a.Severity) }) {
		t.Error("the report does not begin with the worst")
	}
}

// A second entry of a server is no node that waits to join.
func TestCheckCallsASecondEntryNotBlank(t *testing.T) {
	t.Parallel()
	s := &set{T: t, clients: goodClients(t, 5)}
	sameServer(s)
	doctor.WantFound(t, check(t, s.clients), doctor.SeverityInfo, "error same-server 4; info client 4; info blank 0; info blank 1; info blank 2; info blank 3")
}

// The report names the server of each node as the server does.
func TestCheckNamesTheServerOfEachNode(t *testing.T) {
	server := testserver.NeedOne(t, good)
	told, err := exec.CommandContext(t.Context(), server.Program(), "--version").Output()
	testkit.Must(t, err)
	m := regexp.MustCompile(`^(Redis|Valkey) server v=(\S+)`).FindStringSubmatch(string(told))
	if m == nil {
		t.Fatalf("--version says %q", told)
	}
	down := testserver.NeedOne(t, redisserver.Config{})
	testkit.Must(t, down.Kill())
	clients := []redis.UniversalClient{clientOf(t, server), clientOf(t, down)}
	if got, want := check(t, clients).Servers, []string{m[1] + " " + m[2], ""}; !slices.Equal(got, want) {
		t.Errorf("got the servers %q; want %q", got, want)
	}
}

// A Valkey may call itself a Redis for the sake of old clients; the doctor sees it.
func TestCheckKnowsAValkeyThatCallsItselfRedis(t *testing.T) {
	t.Parallel()
	clients := goodClients(t, 3)
	for _, c := range clients {
		if err := c.ConfigSet(t.Context(), "extended-redis-compatibility", "yes").Err(); err != nil {
			t.Skipf("this server has no other name: %v", err)
		}
	}
	r := check(t, clients)
	doctor.WantFound(t, r, doctor.SeverityUnknown, "")
	for i, name := range r.Servers {
		if !strings.HasPrefix(name, "Valkey ") {
			t.Errorf("node %d: got the server %q", i, name)
		}
	}
}

// planted is one fault in an otherwise good set of five, at node 4 unless want
// says otherwise.
type planted struct {
	name  string
	plant plant
	want  string // of doctor.WantFound
}

// set is what a fault is planted in.
type set struct {
	*testing.T
	clients []redis.UniversalClient
	prefix  string        // of the Locker
	timeout time.Duration // the node timeout; 0 means patient
}

// plant changes a node of the set.
type plant func(s *set)

// server puts a good server with these arguments in node 4's place.
func server(args ...string) plant {
	return instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: args})
}

// password puts a server with a password there, to whose client another is given.
func password(other string) plant {
	return instead(redisserver.Config{AOF: redisserver.FsyncAlways, Password: "secret"}, func(o *redis.Options) { o.Password = other })
}

// instead puts another server in node 4's place.
func instead(config redisserver.Config, change ...func(*redis.Options)) plant {
	return func(s *set) {
		s.clients[4] = clientOf(s.T, testserver.NeedOne(s.T, config), change...)
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
func importing(s *set) {
	own := testserver.NeedOne(s.T, good)
	s.clients[4] = clientOf(s.T, own, func(o *redis.Options) {
		if own.Client().ConfigSet(s.Context(), "import-mode", "yes").Err() == nil {
			return
		}
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return renamer{&liar{c, regexp.MustCompile("disable-thp"), "import-mode"}}, err
		}
	})
}

type renamer struct{ net.Conn }

func (r renamer) Write(p []byte) (int, error) {
	return r.Conn.Write(bytes.ReplaceAll(p, []byte("import-mode"), []byte("disable-thp")))
}

func asUser(user string) plant {
	return instead(redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"lock on >secret &* " + user}},
		func(o *redis.Options) { o.Username, o.Password = "lock", "secret" })
}

// withClient changes the options of node 4's client.
func withClient(change func(*redis.Options)) plant {
	return func(s *set) {
		o := *s.clients[4].(*redis.Client).Options()
		change(&o)
		c := redis.NewClient(&o)
		s.Cleanup(func() { _ = c.Close() })
		s.clients[4] = c
	}
}

// configured puts a good server in node 4's place, and sets something of it when it runs.
func configured(name, value string) plant {
	return func(s *set) {
		server()(s)
		testkit.Must(s.T, s.clients[4].ConfigSet(s.Context(), name, value).Err())
	}
}

// refusalFaults are servers that run, and refuse what a lock needs.
func refusalFaults() []planted {
	return []planted{
		{"a full memory", configured("maxmemory", "1"), "error refuses 4: Raise maxmemory; error memory 4"},
		{
			"a memory that is nearly full", func(s *set) {
				server()(s)
				testkit.Must(s.T, s.clients[4].SetRange(s.Context(), "ballast", 64<<20, "x").Err())
				used, err := strconv.Atoi(infoField(s.T, s.clients[4], "memory", "used_memory"))
				testkit.Must(s.T, err, s.clients[4].ConfigSet(s.Context(), "maxmemory", strconv.Itoa(used/93*100)).Err())
			}, "warning memory 4",
		},
		{"replicas that are missing", configured("min-replicas-to-write", "1"), "error refuses 4: min-replicas-to-write 0; error min-replicas 4"},
		{
			"nearly all connections taken", func(s *set) {
				configured("maxclients", "30")(s)
				c := s.clients[4]
				for range 27 {
					conn, err := net.Dial("tcp", c.(*redis.Client).Options().Addr)
					testkit.Must(s.T, err)
					s.Cleanup(func() { _ = conn.Close() })
				}
				awaitInfo(s.T, c, "connected_clients:28")
			}, "warning max-clients 4",
		},
		{"EVALSHA renamed away", server("--rename-command", "EVALSHA", ""), "error command 4"},
		{"SCRIPT renamed away", server("--rename-command", "SCRIPT", ""), "error command 4"},
		{"a script's command renamed away", server("--rename-command", "PTTL", ""), "error command 4"},
		{
			"EVALSHA renamed away, and no right to ask for rights",
			instead(redisserver.Config{
				AOF: redisserver.FsyncAlways, Users: []string{"lock on >secret &* ~* +@all -acl"}, Args: []string{"--rename-command", "EVALSHA", ""},
			}, func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }),
			"error refuses 4: rename-command; unknown acl 4",
		},
		{
			"no right to the keys of waiting",
			asUser("~redlock:node ~redlock:dead:* ~redlock:queue:* ~redlock:probe:* ~redlock-check +@all"),
			"error acl 4",
		},
		{
			"no right to the keys of waiting, nor to ask for rights",
			asUser("~redlock:node ~redlock:dead:* ~redlock:queue:* ~redlock:probe:* ~redlock-check +@all -acl"),
			"error refuses 4; unknown acl 4",
		},
		{
			"no right to the signs of life, nor to ask for rights",
			asUser("~redlock:waiting ~redlock:node ~redlock:dead:* ~redlock:queue:* ~redlock:probe:* ~redlock-check +@all -acl"),
			"error refuses 4; unknown acl 4",
		},
		{"no right to wake, nor to ask for rights", asUser("~* +@all -publish -acl"), "warning refuses 4: wakes nobody; unknown acl 4"},
	}
}

// redisVersion is the version of a Redis, or what a Valkey says in its place.
const redisVersion = `redis_version:\S+(\s+server_name:valkey\s+valkey_version:\S+)?`

// proxied puts a proxy before node i, which becomes node 4's server.
func proxied(s *set, i int) *tcpproxy.Proxy {
	p, err := tcpproxy.New(s.clients[i].(*redis.Client).Options().Addr)
	testkit.Must(s.T, err)
	s.Cleanup(p.Close)
	withClient(func(o *redis.Options) { o.Addr = p.Addr() })(s)
	return p
}

// sameServer makes node 4 the server of node 1.
func sameServer(s *set) { proxied(s, 1) }

// slowToScripts makes node 4 answer too late from the first script on.
func slowToScripts(s *set) {
	s.timeout = time.Second
	p := proxied(s, 4)
	withClient(func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return laggard{c, func() { p.Delay(tcpproxy.Replies, 2*s.timeout) }}, err
		}
	})(s)
}

type laggard struct {
	net.Conn

	slow func()
}

func (l laggard) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(lua.ReleaseScript.Body)) {
		l.slow()
	}
	return l.Conn.Write(p)
}

// followed makes node 4 a replica of node 3.
func followed(s *set) {
	master := testserver.NeedOne(s.T, good)
	replica := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways, ReplicaOf: master.Addr()})
	s.clients[3], s.clients[4] = clientOf(s.T, master), clientOf(s.T, replica)
	awaitInfo(s.T, s.clients[3], "connected_slaves:1")
	awaitInfo(s.T, s.clients[4], "master_link_status:up") // no longer loading
}

func serverFaults() []planted {
	return []planted{
		{"a password that is missing", password(""), "error credentials 4"},
		{"a password that is wrong", password("wrong"), "error credentials 4"},
		{
			"a password that was changed, and forgotten in a restart", func(s *set) {
				own := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways, Password: "old"})
				testkit.Must(s.T, own.Client().ConfigSet(s.Context(), "requirepass", "new").Err(), own.Restart())
				s.clients[4] = clientOf(s.T, own, func(o *redis.Options) { o.Password = "new" })
			}, "error credentials 4: set the new password there again",
		},
		{"two addresses that are one server", sameServer, "error same-server 4"},
		{"a replica of another node", followed, "error replica 4; error refuses 4; warning has-replicas 3; warning repl-backlog 3"},
		{
			"it had a replica", func(s *set) {
				followed(s)
				s.clients[4], s.clients[3] = s.clients[3], clientOf(s.T, testserver.NeedOne(s.T, good))
				testkit.Must(s.T, s.clients[4].ConfigSet(s.Context(), "repl-backlog-ttl", "0").Err())
			}, "warning has-replicas 4",
		},
		{"DEBUG is enabled", server("--enable-debug-command", "local"), "warning debug-command 4"},
		{"data are imported", importing, "warning import-mode 4"}, // on a Redis, by what its client hears
		{"cluster mode", server("--cluster-enabled", "yes"), "error mode 4; error refuses 4; unknown record 4"},
		{"no run_id", infoSays(`run_id:\S+`, "not_told:"), "error run-id 4"},
		{"a limit, and nothing evicted", server("--maxmemory", "100mb"), ""},
	}
}

// awaitInfo waits until INFO has the text.
func awaitInfo(t *testing.T, c redis.UniversalClient, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		info, err := c.Info(t.Context()).Result()
		if strings.Contains(info, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in INFO (%v)", text, err)
		}
	}
}

func diskFaults() []planted {
	everysec := redisserver.Config{AOF: redisserver.FsyncEverysec}
	noConfig, noSync := everysec, everysec
	noConfig.Args, noSync.Args = []string{"--rename-command", "CONFIG", ""}, []string{"--appendfsync", "no"}
	return []planted{
		{"an append-only file that is never forced to the disk", instead(noSync), "warning persistence 4"},
		{"an append-only file that is not forced while it is rewritten", server("--no-appendfsync-on-rewrite", "yes"), "warning persistence 4"},
		{
			"an append-only file that the default user may not write again",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"lock on >secret &* ~* +@all", "default on nopass resetkeys -@all +ping +info"}},
				func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }),
			"warning aof-default-user 4",
		},
		{"nothing on disk", instead(redisserver.Config{}), "warning persistence 4"},
		{"snapshots only", instead(redisserver.Config{Args: []string{"--save", "3600 1"}}), "warning persistence 4"},
		{"an append-only file that is forced to the disk each second", instead(everysec), "info persistence 4"},
		{"CONFIG refused", instead(noConfig), "unknown persistence 4"},
		{"a snapshot that failed", failedSnapshot("yes"), "error refuses 4; error writes-failed 4"},
		{"a snapshot that failed, of no consequence", failedSnapshot("no"), "warning writes-failed 4"},
		{"an append-only file that can't be written", infoSays(`aof_last_write_status:ok`, "aof_last_write_status:ko"), "error writes-failed 4"},
	}
}

// failedSnapshot is a server whose directory has gone.
func failedSnapshot(stopWrites string) plant {
	return func(s *set) {
		own := testserver.NeedOne(s.T, redisserver.Config{
			AOF: redisserver.FsyncAlways, Args: []string{"--save", "3600 1", "--stop-writes-on-bgsave-error", stopWrites},
		})
		testkit.Must(s.T, os.RemoveAll(filepath.Join(own.Dir(), "data")))
		s.clients[4] = clientOf(s.T, own)
		_ = s.clients[4].BgSave(s.Context()).Err() // that it fails is the point
		awaitInfo(s.T, s.clients[4], "rdb_last_bgsave_status:err")
	}
}

func rightFaults() []planted {
	const needed = "+evalsha +script|load +info +time +hmget +hset +hgetall +hdel +mget +set +pttl +pexpire +exists +del +zadd +zrange +zrem +zscore +pexpireat +publish +subscribe &redlock:wake:* +multi +exec"
	const asks = " +acl|dryrun +acl|whoami +config|get"
	return []planted{
		{"all rights that are needed", asUser("resetchannels ~* " + needed + asks), ""},
		{"no right to load scripts", asUser("~* +@all -script|load"), "error acl 4"},
		{"no right to a script's command", asUser("~* +@all -pexpire"), "error acl 4"},
		{"no right to wait in line", asUser("~* +@all -zrem"), "error acl 4: only where somebody waits"},
		{"no right to wake", asUser("~* +@all -publish"), "warning acl 4: nothing else says that it is missing"},
		{"no right to the channels", asUser("resetchannels ~* +@all"), "warning acl 4: &redlock:wake:* &redlock:leader:*"},
		{"no right to the leaders' channel", asUser("resetchannels &redlock:wake:* ~* +@all"), "info acl 4: lead or observe"},
		{"no right to share", asUser("~* +@all -zscore"), "info acl 4: does not need it"},
		{"no right to inspect", asUser("~* +@all -multi"), "info acl 4: status, lead or observe in the list of --for"},
		{"no right to INFO", asUser("~* +@all -info"), "error acl 4; unknown version 4"},
		{"no right to TIME", asUser("~* +@all -time"), "error acl 4; unknown clock 4"},
		{"no right to the library's keys", asUser("~redlock-check +@all"), "error acl 4; unknown record 4"},
		{"no right to tombstones", asUser("~redlock:node ~redlock-check +@all"), "error acl 4"},
		{"a right to some names", asUser("~redlock:* ~orders/* +@all"), "info acl-names 4"},
		{"a right to the names in use", func(s *set) { asUser("~redlock:* ~orders/* +@all")(s); s.prefix = "orders/" }, ""},
		{"ACL refused", asUser("~* +@all -acl"), "unknown acl 4"},
		{"ACL refused, and scripts too", asUser("~* +@all -acl -evalsha"), "unknown acl 4; error acl 4"},
	}
}

// elseFaults are of time, records and clients.
func elseFaults() []planted {
	return []planted{
		{"a server that is slow to run scripts", slowToScripts, "error round-trip 4: SLOWLOG"},
		{
			"a clock ahead", func(s *set) {
				own := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true})
				testkit.Must(s.T, own.SetClock("+20"))
				s.clients[4] = clientOf(s.T, own)
			}, "warning clock 4",
		},
		{
			"a clock that stepped while the server ran", func(s *set) {
				own := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true})
				s.clients[4] = clientOf(s.T, own)
				testkit.Must(s.T, s.clients[4].Set(s.Context(), "lease", "x", time.Minute).Err(), own.SetClock("-40"))
			}, "warning clock 4: If it jumped while the server ran",
		},
		{
			"two clocks ahead of three", func(s *set) {
				for i, own := range testserver.Need(s.T, 2, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true}) {
					testkit.Must(s.T, own.SetClock("+20"))
					s.clients[3+i] = clientOf(s.T, own)
				}
			}, "warning clock: the number of servers does not tell",
		},
		{
			"another program's key", func(s *set) {
				testkit.Must(s.T, s.clients[4].Set(s.Context(), lua.NodeKey, "mine", 0).Err())
				s.Cleanup(func() { s.clients[4].Del(context.Background(), lua.NodeKey) })
			}, "error record 4",
		},
		{
			"lists of two clusters mixed", func(s *set) {
				plantRecord(s.T, s.clients[:4], 5, "names", "a\nb\nc\nd\nz")
				plantRecord(s.T, s.clients[4:], 5, "cluster", "z", "names", "e\nv\nw\nx\ny")
			}, "error no-quorum; error other-n 0: Give all clients the same list; error other-n 1; error other-n 2; error other-n 3; error other-n 4",
		},
		{"names that differ", func(s *set) {
			plantRecord(s.T, s.clients[:4], 5)
			plantRecord(s.T, s.clients[4:], 5, "names", "a\nb\nc\nd\nelsewhere")
		}, "error other-n 4: by the same names"},
		{"RESP2", withClient(func(o *redis.Options) { o.Protocol = 2 }), ""},
		{"RESP3", withClient(func(o *redis.Options) { o.Protocol = 3 }), ""},
		{
			"maintenance notifications", // which Redis itself refuses to send
			withClient(func(o *redis.Options) {
				o.Protocol, o.MaintNotificationsConfig = 3, &maintnotifications.Config{Mode: maintnotifications.ModeEnabled}
			}), "warning client-maintenance 4; error unreachable 4",
		},
		{
			"a client of another kind",
			func(s *set) { s.clients[4] = struct{ redis.UniversalClient }{s.clients[4]} }, "unknown client 4",
		},
	}
}

// TestCheckFindsEachFaultAndNoOther plants one fault after another in the same
// good set, and compares all findings from SeverityUnknown up: all from
// SeverityInfo up where an info is what was planted.
func TestCheckFindsEachFaultAndNoOther(t *testing.T) { //nolint:tparallel // its faults share four servers
	t.Parallel()
	clients := goodClients(t, 5)
	for _, f := range slices.Concat(serverFaults(), refusalFaults(), silentFaults(), diskFaults(), rightFaults(), elseFaults()) {
		t.Run(f.name, func(t *testing.T) {
			s := &set{T: t, clients: slices.Clone(clients)}
			f.plant(s)
			r, least := check(t, s.clients, func(c *doctor.Config) { c.Prefix, c.NodeTimeout = s.prefix, cmp.Or(s.timeout, patient) }), doctor.SeverityUnknown
			if strings.HasPrefix(f.want, "info") { // the set is new, which is worth a word
				least = doctor.SeverityInfo
				r.Findings = slices.DeleteFunc(r.Findings, func(g doctor.Finding) bool { return g.Code == doctor.FindingBlank })
			}
			doctor.WantFound(t, r, least, f.want)
		})
	}
}

// A time service that slews faster than the drift factor looks like a clock that
// steps, again and again.
func TestCheckTellsClocksThatRunTooFastOrTooSlow(t *testing.T) {
	for _, c := range []struct {
		rate string
		at   []int
		want string
	}{
		{"1.0", nil, ""},
		{"1.0005", []int{4}, ""},                   // ntpd's fastest
		{"1.0833", []int{4}, "error clock-rate 4"}, // chronyd's
		{"0.9167", []int{4}, "error clock-rate 4"},
		{"1.0833", []int{0, 1, 2, 3, 4}, "error clock-rate"},
	} {
		t.Run(c.rate, func(t *testing.T) {
			var clients []redis.UniversalClient
			for i, own := range testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true}) {
				if slices.Contains(c.at, i) {
					testkit.Must(t, own.SetClock("+0 x"+c.rate))
				}
				clients = append(clients, clientOf(t, own))
			}
			r := check(t, clients)
			r.Findings = slices.DeleteFunc(r.Findings, func(f doctor.Finding) bool { return f.Code != doctor.FindingClockRate })
			doctor.WantFound(t, r, doctor.SeverityInfo, c.want)
		})
	}
}
