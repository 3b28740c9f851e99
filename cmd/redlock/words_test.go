package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumkit/redlock"
	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

func TestTheCommandCallsOptionsByItsFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ says, want, advises string }{
		{"raise WithMaxTTL on every client", "raise --max-ttl on every client", "raise --max-ttl (WithMaxTTL) on every client"},
		{"WithTTL 1m0s is above", "--ttl 1m0s is above", "--ttl (WithTTL) 1m0s is above"},
		{"(WithNodeNames, or --node-names)", "(--node-names)", "(--node-names)"},
		{"WithTLS, or the client's TLSConfig", "--cacert", "--cacert (WithTLS)"},
		{"by WithTLS with Certificates, or", "by --cert and --key, or", "by --cert and --key, or"},
		{"EndStragglers (--yes) ends their locks", "--yes ends their locks", "--yes ends their locks"},
		{"Cluster.Join (redlock nodes join --wait) waits", "redlock nodes join --wait waits", "redlock nodes join --wait (Cluster.Join) waits"},
		{"WithBarging is for one name", "WithBarging is for one name", "WithBarging is for one name"},
		{"WithTTLs of NotWithTTL", "WithTTLs of NotWithTTL", "WithTTLs of NotWithTTL"},
		{"redis://u:secret@h:1: WithPrefix", "redis://***@h:1: --prefix", "redis://***@h:1: --prefix (WithPrefix)"},
	} {
		if got := main.Worded(c.says); got != c.want {
			t.Errorf("an error: got %q; want %q", got, c.want)
		}
		if got := main.Advice(c.says); got != c.advises {
			t.Errorf("a remedy: got %q; want %q", got, c.advises)
		}
	}
}

// width is what a line of the command's pages has at most.
const width = 80

// fits checks that no line is wider.
func fits(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if n := utf8.RuneCountInString(line); n > width {
			t.Errorf("%s: a line of %d columns; want %d at most: %q", what, n, width, line)
		}
	}
}

func TestHelpFitsEightyColumns(t *testing.T) {
	t.Parallel()
	pages := main.Pages()
	if len(pages) < 16 {
		t.Fatalf("got %d pages; want one of each command, and the list", len(pages))
	}
	for name, page := range pages {
		fits(t, "help "+name, page)
		if !strings.Contains(page, "Exit status:") {
			t.Errorf("help %s: it does not say the exit statuses", name)
		}
	}
}

// Holders and reasons are below the table, so that it fits with addresses as they are
// used, and a word is no longer torn from its column.
func TestStatusAndBenchFitEightyColumns(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	holder := open(t, nodes, redlock.WithHolder("worker-17.example.net:65535"))
	lock, err := holder.Acquire(t.Context(), "k", redlock.WithRevocation())
	must(t, err)
	eventually(t, "held by three", func() bool { return status(t, nodes, "k").Held == 3 })
	must(t, servers[2].Kill())
	r := run(t, nodes, "status", "--node-timeout", "1s", "k", "never")
	r.want(t, 0, `"k": held 2/3`, "\nA: worker-17.example.net:65535/", "(revocable)\n", "\n"+servers[2].Addr()+": ", "refused", fmt.Sprint(uint64(lock.Token())))
	fits(t, "status", r.out)
	_, never, _ := strings.Cut(r.out, `"never"`)
	for line := range strings.Lines(never) {
		fields := strings.Fields(line)
		if len(fields) == 6 && fields[1] == "member" && (fields[3] != "-" || fields[5] != "-") {
			t.Errorf("a name that was never locked: got %q; want no token and no holder", line)
		}
		if len(fields) == 6 && fields[1] == "unreachable" && fields[5] != "?" {
			t.Errorf("a node that can't be reached: got %q; want no reason for a holder", line)
		}
	}
	if s := run(t, nodes, "status", "--node-timeout", "1s", "--json", "never"); strings.Contains(s.out, `"counter"`) {
		t.Errorf("a name that was never locked: got %s; want no token", s.out)
	}
	r = wantWidth(t, nodes, "bench", "--duration", "50ms", "--stall-node", servers[0].Addr())
	r.want(t, r.code, "P99", "acquire", "release") // a busy machine may fail: that is not what is asked
}

func TestVersionTellsTheBuild(t *testing.T) {
	t.Parallel()
	run(t, "", "version").want(t, 0, "redlock ", runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	run(t, "", "version", "--json").want(t, 0, `"version":"`, `"go":"`+runtime.Version())
	for _, c := range []struct{ version, want string }{
		{"v1.2.3", "redlock v1.2.3\n"},
		{"", "redlock (devel)\n"},
	} {
		got := main.Version(c.version, map[string]string{"vcs.revision": "abc", "vcs.time": "2026-01-02T03:04:05Z", "vcs.modified": "true"})
		if !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, "\ncommit abc 2026-01-02T03:04:05Z modified\n") {
			t.Errorf("got %q; want %q and the commit", got, c.want)
		}
	}
}

// A password that every user may read is warned of; without one, or kept to oneself and a
// group, there is no word of it.
func TestAFileOfNodesThatAllMayReadIsWarnedOf(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	_, nodes := blanks(t, 1, redisserver.Config{Password: secret})
	plain := "redis://127.0.0.1:1"
	for _, c := range []struct {
		text string
		mode os.FileMode
		warn bool
	}{
		{nodes, 0o644, true}, {nodes, 0o604, true}, {nodes, 0o640, false}, {nodes, 0o600, false}, {plain, 0o644, false},
	} {
		file := filepath.Join(t.TempDir(), "nodes")
		must(t, os.WriteFile(file, []byte(c.text), 0o600), os.Chmod(file, c.mode))
		r := run(t, "", "nodes", "--node-timeout", "1s", "--nodes-file", file)
		if got := strings.Contains(r.errs, "warning: --nodes-file "+file); got != c.warn || strings.Contains(r.errs, secret) {
			t.Errorf("mode %o: got %q; want a warning: %v", c.mode, r.errs, c.warn)
		}
	}
}

// wantWidth runs a command, whose page must fit.
func wantWidth(t *testing.T, nodes string, args ...string) result {
	t.Helper()
	r := run(t, nodes, append(args, "--node-timeout", "1s")...)
	if strings.Count(r.out, "\n") == 0 {
		t.Errorf("%v: got no page; stderr: %s", args, r.errs)
	}
	fits(t, strings.Join(args, " "), r.out)
	return r
}

// Names of nodes may be as long as hosts' names are, and reasons and holders longer than a
// line: the pages fit all the same, with all of it on them.
func TestNodesDoctorAndTheOthersFitEightyColumns(t *testing.T) {
	t.Parallel()
	servers, nodes := blanks(t, 3, redisserver.Config{})
	var names []string
	for i := range servers {
		names = append(names, fmt.Sprintf("redis-master-%d.europe-west1-b.internal.example.net:6379", i))
	}
	as := []string{"--node-names", strings.Join(names, ",")}
	one := run(t, nodes, append([]string{"nodes", "admit", "--yes", "--node-timeout", "1s"}, as...)...)
	one.want(t, 0, names...)
	fits(t, "nodes admit", one.out)
	label := "worker-17.europe-west1-b.internal.example.net:65535, of the nightly reports/"
	holder := open(t, nodes, redlock.WithHolder(label), redlock.WithNodeNames(names...))
	for range 2 {
		_, err := holder.Acquire(t.Context(), "shared", redlock.WithShared())
		must(t, err)
		_, err = holder.Acquire(t.Context(), "slots", redlock.WithLimit(2), redlock.WithRevocation())
		must(t, err)
	}
	_, err := holder.Acquire(t.Context(), "k")
	must(t, err)
	must(t, servers[2].Kill())
	for _, args := range [][]string{
		{"nodes"},
		{"nodes", "join"},
		{"doctor"},
		{"status", "k", "shared", "slots"},
		{"release", "k", "--force", "--yes"},
		{"release", "shared", "--force"},
		{"release", "slots", "--force"},
		{"bench", "--duration", "50ms", "--stall-node", servers[1].Addr()},
	} {
		r := wantWidth(t, nodes, append(slices.Clone(args), as...)...)
		if !strings.Contains(r.out, names[1]) && args[0] != "bench" {
			t.Errorf("%v: got\n%s\nwant all of the name %s", args, r.out, names[1])
		}
		if said := strings.Join(strings.Fields(r.out), " "); args[0] == "nodes" && !strings.Contains(said, "connection refused") {
			t.Errorf("%v: got\n%s\nwant the whole reason of the node that is down", args, r.out)
		}
	}
}
