//go:build unix

package main_test

import (
	"context"
	"maps"
	"net/url"
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

	"github.com/quorumkit/redlock"
	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// remedied is a fault of three servers whose remedy is lines for a shell.
type remedied struct {
	about    string // the diagnosis
	name     string
	severity string
	code     redlock.FindingCode
	on       []int // the nodes that have the finding; nil: the cluster
	config   redisserver.Config
	user     string                       // of the clients; its password is "secret"
	fresh    bool                         // the servers are of no cluster
	alone    bool                         // no program runs beside that holds a lock
	flag     bool                         // the nodes are named by a flag
	args     string                       // of doctor, besides
	plant    func(t *testing.T, c *stand) // makes the fault; nil: the servers start with it
	lines    []string                     // the ends of the lines
	after    func(t *testing.T, c *stand) // looks closer
}

// stand is the servers of a fault, and their clients.
type stand struct {
	servers []*redisserver.Server
	clients []*redis.Client
	nodes   string
	user    string
}

// sets plants a setting of node 2.
func sets(name, value string) func(*testing.T, *stand) {
	return func(t *testing.T, c *stand) {
		t.Helper()
		if err := c.clients[2].ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Skipf("this server has no %s: %v", name, err)
		}
	}
}

// forgets empties nodes.
func forgets(nodes ...int) func(*testing.T, *stand) {
	return func(t *testing.T, c *stand) {
		t.Helper()
		for _, i := range nodes {
			must(t, c.servers[i].Flush(t.Context()))
		}
	}
}

var kept = redisserver.Config{AOF: redisserver.FsyncEverysec, File: true}

// with adds settings.
func with(args ...string) redisserver.Config {
	c := kept
	c.Args = args
	return c
}

var remedies = []remedied{
	{
		about: "aboutCrash", name: "a node keeps nothing", severity: "warning", code: redlock.FindingPersistence, on: []int{0, 1, 2},
		config: redisserver.Config{File: true}, lines: []string{"CONFIG SET appendonly yes", "CONFIG REWRITE"},
		after: func(t *testing.T, c *stand) {
			t.Helper()
			had, err := c.clients[2].HGetAll(t.Context(), lua.NodeKey).Result()
			must(t, err)
			must(t, c.servers[2].Stop())
			must(t, c.servers[2].Restart())
			has, err := c.clients[2].HGetAll(t.Context(), lua.NodeKey).Result()
			if delete(has, "nonce"); err != nil || has["epoch"] != had["epoch"] || has["base"] != had["base"] || len(had) == 0 {
				t.Errorf("restarted, the node has the record %q (%v); want %q", has, err, had)
			}
		},
	},
	{
		about: "aboutNoFsync", name: "a node leaves it to the system when to write", severity: "warning", code: redlock.FindingPersistence, on: []int{0, 1, 2},
		config: with("--appendfsync", "no"), lines: []string{"CONFIG SET appendfsync everysec", "CONFIG REWRITE"},
	},
	{
		about: "aboutNoRewriteFsync", name: "a node does not write while it rewrites", severity: "warning", code: redlock.FindingPersistence, on: []int{2},
		plant: sets("no-appendfsync-on-rewrite", "yes"), lines: []string{"CONFIG SET no-appendfsync-on-rewrite no", "CONFIG REWRITE"},
	},
	{
		about: "aboutReplay", name: "the default user may not read the file again", severity: "warning", code: redlock.FindingReplay, on: []int{0, 1, 2},
		config: redisserver.Config{AOF: redisserver.FsyncEverysec, File: true, Users: []string{"lock on >secret &* ~* +@all", "default on nopass resetkeys -@all +ping +info"}},
		user:   "lock", lines: []string{"ACL SETUSER default off '~*' '&*' +@all", "CONFIG REWRITE"},
	},
	{
		about: "aboutEviction", name: "a node evicts", severity: "warning", code: redlock.FindingEviction, on: []int{2},
		plant: sets("maxmemory-policy", "allkeys-lru"), lines: []string{"CONFIG SET maxmemory-policy noeviction", "CONFIG REWRITE"},
	},
	{
		about: "aboutMinReplicas", name: "a node writes only with replicas", severity: "error", code: redlock.FindingMinReplicas, on: []int{2},
		plant: sets("min-replicas-to-write", "1"), lines: []string{"CONFIG SET min-replicas-to-write 0", "CONFIG REWRITE"},
	},
	{
		about: "aboutImportMode", name: "a node imports", severity: "warning", code: redlock.FindingImportMode, on: []int{2},
		plant: sets("import-mode", "yes"), lines: []string{"CONFIG SET import-mode no", "CONFIG REWRITE"},
	},
	{
		about: "aboutBacklog", name: "a node had a replica", severity: "warning", code: redlock.FindingBacklog, on: []int{2},
		plant: func(t *testing.T, c *stand) {
			t.Helper()
			replica := testserver.NeedOne(t, redisserver.Config{ReplicaOf: c.servers[2].Addr()})
			eventually(t, "the replica follows", func() bool {
				info, _ := replica.Client().Info(t.Context(), "replication").Result()
				return strings.Contains(info, "master_link_status:up")
			})
			must(t, replica.Kill())
		},
		lines: []string{"CONFIG SET repl-backlog-ttl 0", "CONFIG REWRITE"},
	},
	{
		about: "aboutBlank", name: "a new cluster", severity: "info", code: redlock.FindingBlank, on: []int{0, 1, 2},
		fresh: true, alone: true, lines: []string{"nodes join --wait"},
	},
	{
		about: "aboutForgot", name: "a node forgot", severity: "warning", code: redlock.FindingBlank, on: []int{2},
		alone: true, flag: true, plant: forgets(2), lines: []string{"nodes join --wait"},
	},
	{
		about: "aboutForgot", name: "a majority forgot", severity: "warning", code: redlock.FindingBlank, on: []int{1, 2},
		alone: true, plant: forgets(1, 2), lines: []string{"nodes join --wait"},
	},
	{
		about: "aboutLax", name: "a client wants strict recovery", severity: "error", code: redlock.FindingStrict, on: []int{0, 1, 2},
		args: "--strict-recovery", lines: []string{"nodes change --strict on"},
	},
	{
		about: "aboutOtherMaxTTL", name: "a client wants longer leases", severity: "error", code: redlock.FindingMaxTTL,
		args: "--ttl 6s --max-ttl 6s", lines: []string{"nodes change --max-ttl 6s"},
	},
	{
		about: "aboutChange", name: "an operator left a change half done", severity: "warning", code: redlock.FindingListChange,
		plant: func(t *testing.T, c *stand) {
			t.Helper()
			for _, client := range c.clients[:2] {
				names, err := client.HGet(t.Context(), lua.NodeKey, "names").Result()
				must(t, err)
				must(t, client.HSet(t.Context(), lua.NodeKey, "settled", "1", "ballot", "1", "proposed", "1\n6000\n\n"+names).Err())
			}
		},
		lines: []string{"nodes change --max-ttl 6s"},
	},
}

// maxTTLOfRemedies keeps waits short.
const maxTTLOfRemedies = 4 * time.Second

// Each remedy that can be run is run by a shell as it is printed, against its fault on real servers.
// Then the doctor is content, a lock is given, and nothing that was kept is lost: the
// cluster, the counters, and the lock that a program holds.
func TestEachRemedyThatCanBeRunDoesWhatItSays(t *testing.T) {
	t.Parallel()
	for _, f := range remedies {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.play(t)
		})
	}
}

func (f remedied) play(t *testing.T) {
	t.Helper()
	if !f.config.File {
		f.config = kept
	}
	c := f.start(t)
	flags := []string{"--node-timeout", "1s"}
	if f.args != "" {
		flags = append(flags, strings.Fields(f.args)...)
	} else {
		flags = append(flags, "--max-ttl", maxTTLOfRemedies.String())
	}
	var first int
	if !f.fresh {
		run(t, c.nodes, "nodes", "admit", "--yes", "--node-timeout", "1s", "--max-ttl", maxTTLOfRemedies.String()).want(t, 0)
		first = c.token(t)
	}
	lost := make(chan error, 1)
	if !f.alone {
		c.hold(t, lost)
	}
	if f.plant != nil {
		f.plant(t, c)
	}

	had := f.found(t, c, flags)
	if len(had) == 0 {
		t.Fatal("the doctor does not find it")
	}
	var lines []string
	for _, r := range had {
		for i, line := range r.Run {
			if len(r.Run) != len(f.lines) || !strings.HasSuffix(line, f.lines[i]) {
				t.Fatalf("got the lines %q; want some that end with %q", r.Run, f.lines)
			}
		}
		if len(r.Run) == 0 {
			t.Fatal("it has no line for a shell")
		}
		for _, line := range r.Run {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	for _, line := range lines {
		f.shell(t, c, line)
	}

	eventually(t, "the doctor is content", func() bool { return len(f.found(t, c, flags)) == 0 })
	if second := c.token(t); second <= first {
		t.Errorf("got the token %d after %d; want a greater one", second, first)
	}
	select {
	case err := <-lost:
		t.Errorf("the lock that was held is lost: %v", err)
	default:
	}
	if f.after != nil {
		f.after(t, c)
	}
}

// start starts the servers.
func (f remedied) start(t *testing.T) *stand {
	t.Helper()
	c := &stand{servers: testserver.Need(t, 3, f.config), user: f.user}
	var urls []string
	for _, s := range c.servers {
		u, o := url.URL{Scheme: "redis", Host: s.Addr()}, s.Options()
		if f.user != "" {
			u.User = url.UserPassword(f.user, "secret")
			o.Username, o.Password = f.user, "secret"
		}
		client := redis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
		urls, c.clients = append(urls, u.String()), append(c.clients, client)
	}
	c.nodes = strings.Join(urls, ",")
	return c
}

// hold holds a lock until the test ends; a loss is sent.
func (c *stand) hold(t *testing.T, lost chan<- error) {
	t.Helper()
	l := open(t, c.nodes, redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(maxTTLOfRemedies))
	held, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(ended)
		if err := l.Do(ctx, "kept", func(ctx context.Context, _ *redlock.Lock) error {
			close(held)
			<-ctx.Done()
			return context.Cause(ctx)
		}); ctx.Err() == nil {
			lost <- err
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("no lock")
	}
}

// token is that of a lock that is given now.
func (c *stand) token(t *testing.T) int {
	t.Helper()
	r := run(t, c.nodes, "exec", "--node-timeout", "1s", "--ttl", "3s", "--max-ttl", "4s", "--wait", "20s", "job", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
	r.want(t, 0)
	n, err := strconv.Atoi(strings.TrimSpace(r.out))
	must(t, err)
	return n
}

// remedyShown reads a finding of doctor --json.
type remedyShown struct {
	Severity, Code, Node string
	Run                  []string
}

// found are the findings of the fault. They are of the nodes that it is of.
func (f remedied) found(t *testing.T, c *stand, flags []string) (out []remedyShown) {
	t.Helper()
	args, nodes := append([]string{"doctor", "--json"}, flags...), c.nodes
	if !strings.Contains(f.args, "--ttl") {
		args = append(args, "--ttl", "3s")
	}
	if f.flag {
		args, nodes = append(args, "--nodes", nodes), ""
	}
	var report struct{ Findings []remedyShown }
	r := run(t, nodes, args...)
	if r.out == "" {
		t.Fatalf("%q: got exit status %d, and %s", args, r.code, r.errs)
	}
	decode(t, r.out, &report)
	for _, seen := range report.Findings {
		if redlock.FindingCode(seen.Code) == f.code && seen.Severity == f.severity {
			out = append(out, seen)
		}
	}
	want := map[string]bool{"": true}
	if f.on != nil {
		clear(want)
		for _, i := range f.on {
			want[c.servers[i].Addr()] = true
		}
	}
	for _, r := range out {
		if !want[r.Node] {
			t.Errorf("got %s of %q; want it of %q", f.code, r.Node, slices.Sorted(maps.Keys(want)))
		}
	}
	return out
}

// shell runs a line as it stands.
func (f remedied) shell(t *testing.T, c *stand, line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(command)+":"+os.Getenv("PATH"), "REDISCLI_AUTH=")
	if c.user != "" {
		cmd.Env = append(cmd.Env, "REDISCLI_AUTH=secret")
	}
	if !f.flag {
		cmd.Env = append(cmd.Env, "REDLOCK_NODES="+c.nodes)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || regexp.MustCompile(`(?m)^\(?(error|ERR|NOPERM|NOAUTH)`).Match(out) {
		t.Errorf("%s: got %v, and\n%s", line, err, out)
	}
}

// Each remedy with a line is played by a row, and each row is of a remedy.
func TestEachRemedyWithALineIsRun(t *testing.T) {
	source, err := os.ReadFile("../../internal/doctor/run.go")
	must(t, err)
	has, played := map[string]bool{}, map[string]bool{}
	for _, name := range regexp.MustCompile(`\babout[A-Z]\w+`).FindAllString(string(source), -1) {
		has[name] = true
	}
	for _, f := range remedies {
		played[f.about] = true
	}
	if !maps.Equal(has, played) || len(has) < 12 {
		t.Errorf("run.go has the remedies %q; rows are of %q", slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(played)))
	}
}

// A line has the flags of the connection that it needs, and no password.
func TestALineForAShellHasTheFlagsThatWereGiven(t *testing.T) {
	for _, c := range []struct{ flags, line, want string }{
		{"", "redlock nodes join --wait", "redlock nodes join --wait"},
		{"--nodes a:1,b:1 --user u --password-file it's", "redlock nodes join --wait", `redlock --nodes 'a:1,b:1' --user 'u' --password-file 'it'\''s' nodes join --wait`},
		{"--nodes redis://u:secret@a:1 --node-names a", "redlock nodes join --wait", "redlock --node-names 'a' nodes join --wait"},
		{"--nodes-file f --cacert c", "redlock nodes join --wait", "redlock --nodes-file 'f' --cacert 'c' nodes join --wait"},
		{"--user u", "redis-cli -h a -p 1 CONFIG REWRITE", "redis-cli --user 'u' -h a -p 1 CONFIG REWRITE"},
		{"--user u", "redis-cli -h a -p 1 --user admin CONFIG REWRITE", "redis-cli -h a -p 1 --user admin CONFIG REWRITE"},
		{"--cacert c --cert d --key e", "redis-cli -h a -p 1 --tls CONFIG REWRITE", "redis-cli -h a -p 1 --tls --cacert 'c' --cert 'd' --key 'e' CONFIG REWRITE"},
		{"--user u", "# it has no file", "# it has no file"},
	} {
		if got := main.Shell(strings.Fields(c.flags), c.line); got != c.want {
			t.Errorf("%s: got %s; want %s", c.flags, got, c.want)
		}
	}
}
