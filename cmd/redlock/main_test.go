package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/quietredis"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

const (
	// nodeTimeout is generous: a busy machine is slower than a data centre.
	nodeTimeout = time.Second
	// patience bounds everything that must happen in the end.
	patience = 30 * time.Second
)

// command is the path of the program, built from these files. That of the lab, which the pages
// name as well, is beside it.
var command string

func TestMain(m *testing.M) {
	if what := os.Getenv(actVar); what != "" {
		act(what, os.Args[1:])
		return
	}
	quietredis.On()
	flag.Parse()
	// Most tests wait most of the time, for leases and renewals.
	_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	os.Exit(func() int {
		if testkit.Quick() {
			return m.Run() // no test of that tier runs it
		}
		dir, err := os.MkdirTemp("", "redlock-cmd-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		command = filepath.Join(dir, "redlock")
		if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", dir, ".", "../redlock-lab").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// result is how one run ended.
type result struct {
	out, errs string
	code      int
}

// prepare makes a command that is not started, with REDLOCK_NODES set to nodes.
func prepare(t *testing.T, nodes string, args ...string) *exec.Cmd {
	t.Helper()
	testkit.Full(t)
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.WaitDelay = patience
	cmd.Env = append(os.Environ(), "REDLOCK_NODES="+nodes)
	return cmd
}

// run runs the program to its end.
func run(t *testing.T, nodes string, args ...string) result {
	t.Helper()
	return finish(t, prepare(t, nodes, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("starting %q: %v", cmd.Args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// want checks the status, that stdout and stderr together have the words, and that
// no message says twice whose it is.
func (r result) want(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("got exit status %d; want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.errs)
	}
	for line := range strings.Lines(r.errs) {
		if strings.Count(line, "redlock: ") > 1 {
			t.Errorf("got %q; want the command's name once", line)
		}
	}
	for _, w := range words {
		if !strings.Contains(r.out+r.errs, w) {
			t.Errorf("got\n%s%s\nwant %q in it", r.out, r.errs, w)
		}
	}
}

// blanks starts n servers that no cluster knows, and returns their list.
func blanks(t *testing.T, n int, config redisserver.Config) ([]*redisserver.Server, string) {
	t.Helper()
	servers := testserver.Need(t, n, config)
	urls := make([]string, n)
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return servers, strings.Join(urls, ",")
}

// masters starts n servers and founds a cluster of them.
func masters(t *testing.T, n int) ([]*redisserver.Server, string) {
	t.Helper()
	servers, nodes := blanks(t, n, redisserver.Config{})
	l := open(t, nodes)
	if err := l.Cluster().Admit(t.Context()); err != nil {
		t.Fatalf("founding the cluster: %v", err)
	}
	return servers, nodes
}

// open makes a Locker beside the program.
func open(t *testing.T, nodes string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	opts = append([]redlock.Option{redlock.WithNodeTimeout(nodeTimeout), redlock.WithTTL(10 * time.Second)}, opts...)
	l, err := redlock.Open(t.Context(), strings.Split(nodes, ","), opts...)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

var must = testkit.Must

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// decode reads one line of JSON.
func decode(t *testing.T, line string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("got %q; want JSON: %v", line, err)
	}
}

func TestHelpExplainsEveryCommand(t *testing.T) {
	t.Parallel()
	list := run(t, "", "help")
	list.want(t, 0, "usage: redlock COMMAND", "REDLOCK_NODES", "124")
	for _, name := range []string{"exec", "lead", "hold", "status", "observe", "nodes", "nodes acl", "nodes join", "nodes admit", "nodes change", "doctor", "revoke", "release", "bench", "version"} {
		list.want(t, 0, "\n  "+name+" ")
		run(t, "", append([]string{"help"}, strings.Fields(name)...)...).want(t, 0, "usage: redlock "+name, "--nodes", "--json")
		run(t, "", append(strings.Fields(name), "-h")...).want(t, 0, "usage: redlock "+name)
	}
}

func TestUsageAndConfigurationAreToldApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 64, "which command"},
		{"sleep", 64, "no command"},
		{"help sleep", 64, "no command"},
		{"status", 64, "KEY"},
		{"status k --no-such-flag", 64, "no-such-flag"},
		{"release k", 64, "--force"},
		{"revoke", 64, "one KEY"},
		{"revoke k other", 64, "one KEY"},
		{"revoke k --timeout -1s", 64, "positive duration"},
		{"revoke k --nodes 127.0.0.1:1", 69, "no quorum"},
		{"exec --revoked-signal USR1 k true", 64, "give --revocable"},
		{"lead --revocable --revoked-signal NONE k true", 64, "--revoked-signal NONE: there is no such signal"},
		{"nodes admit now", 64, "got 1"},
		{"nodes admit --yes --nodes 127.0.0.1:1", 69, "127.0.0.1:1 is unreachable"},
		{"nodes join --wait --timeout 100ms --nodes 127.0.0.1:1", 69, "127.0.0.1:1 is unreachable"},
		{"status --nodes 127.0.0.1:99999 k", 78, "port is out of range"},
		{"status --nodes redis://127.0.0.1:99999 k", 78, "port is out of range"},
		{"nodes change 127.0.0.1:1", 64, "--add ADDR"},
		{"nodes change --max-ttl soon", 64, "for flag --max-ttl: give a duration, as 10s"},
		{"nodes change --max-ttl 30", 64, "give its unit, as 30s"},
		{"exec --wait 10 k true", 64, `"10" for flag --wait: give its unit, as 10s`},
		{"exec --wait soon k true", 64, "for flag --wait: give a duration, as 10s"},
		{"exec -E many k true", 64, `"many" for flag -E: give a whole number`},
		{"exec --no-such-flag k true", 64, "not defined: --no-such-flag"},
		{"exec --timeout 5s k true", 64, "not defined: --timeout (to wait no longer than that: --wait)"},
		{"exec -w 3 k true", 64, "to wait no longer than that: --wait"},
		{"lab gc-pause", 64, "go install github.com/quorumkit/redlock/cmd/redlock-lab@latest"},
		{"exec --ttl -1s k true", 64, "--ttl -1s: give a positive duration"},
		{"lead --ttl 0 k true", 64, "--ttl 0s: give a positive duration"},
		{"hold --ttl -1s k", 64, "--ttl -1s: give a positive duration"},
		{"bench --ttl -1s", 64, "--ttl -1s: give a positive duration"},
		{"doctor --ttl -1s", 64, "--ttl -1s: give a positive duration"},
		{"exec --nodes 127.0.0.1:1 --ttl 1m k true", 64, "--ttl 1m0s is above --max-ttl 30s: take less, or raise it"},
		{"exec --nodes 127.0.0.1:1 --ttl 1ms k true", 64, "--ttl 1ms: give at least 10ms"},
		{"status --nodes 127.0.0.1:1 --max-ttl 1ms k", 64, "--max-ttl 1ms: give 10ms to 24h"},
		{"hold --nodes 127.0.0.1:1 --holder " + strings.Repeat("h", 300) + " k", 64, "--holder: give at most"},
		{"version now", 64, "got 1"},
		{"nodes change --add localhost --nodes 127.0.0.1:1", 78, "host:port"},
		{"nodes change --max-ttl 25h --nodes 127.0.0.1:1", 64, "--max-ttl 25h0m0s: give 10ms to 24h"},
		{"nodes change --max-ttl 30s --nodes 127.0.0.1:1", 69, "no quorum"},
		{"status --nodes a:1 --nodes-file b k", 64, "not both"},
		{"exec --shared --also k k true", 64, `"k" is given twice`},
		{"exec --also k --also k other true", 64, `"k" is given twice`},
		{"exec --also= k true", 64, "KEY is empty"},
		{"exec --also", 64, "also"},
		{"exec --also k", 64, "give KEY and a command"},
		{"exec" + strings.Repeat(" --also k", 64) + " k true", 64, "65 keys: at most 64"},
		{"hold", 64, "at least one KEY"},
		{"hold --limit 0 k", 64, "give 1 to 48"},
		{"hold --limit 49 k", 64, "give 1 to 48"},
		{"exec --limit many k true", 64, "give 1 to 48"},
		{"exec --limit 2 --shared k true", 64, "--limit or --shared"},
		{"exec --limit 2 --also b a true", 64, "--limit is for one KEY"},
		{"hold --limit 2 a b", 64, "--limit is for one KEY"},
		{"lead", 64, "lead: give KEY and a command"},
		{"lead k", 64, "lead: give a command after the key"},
		{"lead k --wait 1s true", 64, "flags stand before it"},
		{"lead --wait 0 k true", 64, "exec -n"},
		{"lead --wait -1s k true", 64, "--wait -1s"},
		{"lead --shared k true", 64, "-shared; see: redlock help lead"},
		{"lead --max-hold 1s k true", 64, "--kill-after"},
		{"exec --max-hold 4s k true", 64, "--kill-after, by default 2.5s, before that: give at least 5s, half of the TTL, or"},
		{"exec --max-hold 2s --kill-after 2s k true", 64, "--kill-after, 2s, before that: give more than that, or"},
		{"exec --kill-after 0s k true", 64, "--kill-after 0s: give a positive duration"},
		{"exec --max-hold 0s k true", 64, "--max-hold 0s: give a positive duration"},
		{"lead --max-hold 0s k true", 64, "--max-hold 0s: give a positive duration"},
		{"hold --max-hold 0s k", 64, "--max-hold 0s: give a positive duration"},
		{"lead --kill-after 9s k true", 64, "half of the TTL"},
		{"lead --signal NONE k true", 64, "no such signal"},
		{"lead k no-such-command-here", 127, "not found"},
		{"lead --nodes 127.0.0.1:1 redlock:x true", 64, "the library's own"},
		{"lead --nodes 127.0.0.1:1 --wait 2s k true", 69, "no quorum"},
		{"lead --nodes 127.0.0.1:1 --value " + strings.Repeat("v", 257) + " k true", 64, "--value: give at most 256 bytes"},
		{"hold --nodes 127.0.0.1:1 --value \x07 k", 64, "printable"},
		{"observe", 64, "one KEY"},
		{"observe k other", 64, "one KEY"},
		{"observe --nodes 127.0.0.1:1 redlock:x", 64, "the library's own"},
		{"hold k other k", 64, `"k" is given twice`},
		{"hold" + strings.Repeat(" k", 65), 64, "65 keys: at most 64"},
		{"status --nodes-file /does/not/exist k", 78, "--nodes-file"},
		{"status k", 78, "no nodes given"},
		{"status --nodes localhost k", 78, "host:port"},
		{"status --nodes redis://u:pass/word@127.0.0.1:1 k", 78, "in a password write %40 for @, %2F for /"},
		{"status --nodes u:pass@127.0.0.1:1 k", 78, "give redis://host:port (with user:password@ before the host), "},
		{"status --nodes 127.0.0.1:1,127.0.0.1:1 k", 78, "may not vote twice"},
		{"status --nodes 127.0.0.1:1 --node-timeout -1s k", 64, "--node-timeout: give a positive duration"},
		{"status --nodes 127.0.0.1:1 k", 69, "unknown"},
		{"nodes --nodes 127.0.0.1:1", 69, "doctor)"},
		{"doctor --nodes 127.0.0.1:1", 69, "no quorum"},
	} {
		r := run(t, "", strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.out+r.errs, c.says) {
			t.Errorf("%q: got exit status %d and %s%s; want %d and %q", c.args, r.code, r.out, r.errs, c.code, c.says)
		}
	}
	run(t, "", "exec", "k", "no-such-command-here now").want(t, 127, "not found", "there is no shell: give each word by itself, or sh -c '...'")
}

// A password must not be seen: by ps, in a message, in any form.
func TestPasswordsAreShownNowhere(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	_, nodes := blanks(t, 3, redisserver.Config{Password: secret})
	wrong := strings.ReplaceAll(nodes, secret, secret+"-wrong")
	file := filepath.Join(t.TempDir(), "nodes")
	must(t, os.WriteFile(file, []byte("# the masters\n"+strings.ReplaceAll(nodes, ",", "\n")+"\n"), 0o600))
	run(t, "", "nodes", "admit", "--yes", "--node-timeout", "1s", "--nodes-file", file).want(t, 0, "3 votes")
	for _, args := range [][]string{
		{"nodes"},
		{"nodes", "--nodes", nodes},
		{"nodes", "--nodes", wrong},
		{"doctor", "--nodes", wrong},
		{"status", "k", "--nodes", wrong, "--json"},
		{"status", "k", "--nodes", "redis://:" + secret + "@127.0.0.1:port"},
		{"nodes", nodes},
		{"nodes", "change", "--remove", nodes},
		{"nodes", "change", "--add", nodes + "00"},
		{nodes},
		{"exec", "-n", "--nodes", wrong, "k", "true"},
		{"exec", "k", "--nodes=" + wrong, "true"},
	} {
		if r := run(t, nodes, args...); strings.Contains(r.out+r.errs, secret) {
			t.Errorf("%q: the password is shown: %s%s", args, r.out, r.errs)
		}
	}
	cmd := prepare(t, "", "status", "--watch", "--nodes", nodes, "k")
	out, err := cmd.StdoutPipe()
	testkit.Must(t, errors.Join(err, cmd.Start()))
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid)); err == nil && strings.Contains(string(line), secret) {
		t.Errorf("ps shows the password: %q", line)
	}
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Errorf("an interrupted watch: got %v; want exit status 0", err)
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	t.Parallel()
	if r := run(t, "", "nodes", "--nodes", "127.0.0.1:1"); strings.Contains(r.out+r.errs, "\x1b") {
		t.Errorf("got colours in a pipe: %q", r.out)
	}
}
