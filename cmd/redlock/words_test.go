package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	main "github.com/quorumkit/redlock/cmd/redlock"
)

func TestTheCommandCallsOptionsByItsFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ says, want, advises string }{
		{"raise WithMaxTTL on every client", "raise --max-ttl on every client", "raise --max-ttl (WithMaxTTL) on every client"},
		{"WithTTL 1m0s is above", "--ttl 1m0s is above", "--ttl (WithTTL) 1m0s is above"},
		{"(WithNodeNames, or --node-names)", "(--node-names)", "(--node-names)"},
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
	if len(pages) < 18 {
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
	holder := open(t, nodes, redlock.WithHolder("worker-17.example.net:65535/"))
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
	if s := run(t, nodes, "status", "--node-timeout", "1s", "--json", "never"); strings.Contains(s.out, `"token"`) {
		t.Errorf("a name that was never locked: got %s; want no token", s.out)
	}
	r = run(t, nodes, "bench", "--node-timeout", "1s", "--duration", "50ms", "--stall-node", servers[0].Addr())
	if r.want(t, 0, "P99", "acquire", "release"); r.code == 0 {
		fits(t, "bench", r.out)
	}
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
	_, nodes := blanks(t, 1, chaos.ServerConfig{Password: secret})
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
