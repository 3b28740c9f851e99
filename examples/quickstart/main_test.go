package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// command is the path of the program, built from these files.
var command string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", strconv.Itoa(max(3, runtime.GOMAXPROCS(0)))) // they wait for new masters
	os.Exit(func() int {
		if testkit.Quick() {
			return m.Run() // no test of that tier runs it
		}
		dir, err := os.MkdirTemp("", "quickstart-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		command = filepath.Join(dir, "quickstart")
		if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", command, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// start runs it with REDLOCK_NODES set to nodes.
func start(t *testing.T, nodes string) (stdout, stderr string, code int) {
	t.Helper()
	testkit.Full(t)
	cmd := exec.CommandContext(t.Context(), command)
	cmd.Env = append(os.Environ(), "REDLOCK_NODES="+nodes)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("starting it: %v", err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var tokenIn = regexp.MustCompile(`worker (\d) holds .*token (\d+)`)

// checkStory tells whether the lines say what happened, in its order.
func checkStory(t *testing.T, out string, steps []string) {
	t.Helper()
	rest := out
	for _, step := range steps {
		_, after, found := strings.Cut(rest, step)
		if !found {
			t.Fatalf("got\n%s\nwant %q after the steps before it", out, step)
		}
		rest = after
	}
	if n := strings.Count(out, "\n"); n > 14 {
		t.Errorf("got %d lines; want about a dozen", n)
	}
	held := tokenIn.FindAllStringSubmatch(out, -1)
	if len(held) != 2 || held[0][1] != "1" || held[1][1] != "2" {
		t.Fatalf("got holders %q; want worker 1, then worker 2", held)
	}
	first, _ := strconv.ParseUint(held[0][2], 10, 64)
	second, _ := strconv.ParseUint(held[1][2], 10, 64)
	if second <= first {
		t.Errorf("got token %d after %d; want a greater one", second, first)
	}
}

func TestTheLockOutlivesTwoOfFiveMasters(t *testing.T) {
	t.Parallel()
	out, errs, code := start(t, "")
	if code != 0 || errs != "" {
		t.Fatalf("got exit status %d and %q; want 0 and silence\n%s", code, errs, out)
	}
	checkStory(t, out, []string{
		"5 masters inside this process", "worker 1 holds", "node-0 and node-1 are killed", "refused",
		"worker 2 waits", "worker 1 still holds it", "worker 1 has released", "worker 2 holds", "done",
	})
	readme, err := os.ReadFile("../../README.md")
	testkit.Must(t, err)
	shown := regexp.MustCompile("(?ms)^```\n( *\\d.*?)^```$").FindStringSubmatch(string(readme))
	if shown == nil || strings.Count(shown[1], "\n") < 5 {
		t.Fatalf("got %q of README.md; want some lines that it prints", shown)
	}
	number, rest := regexp.MustCompile(` *\d[\d.]*`), out
	rest = number.ReplaceAllString(rest, "N")
	for line := range strings.Lines(number.ReplaceAllString(shown[1], "N")) {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("got\n%s\nREADME.md shows %q after the lines before it", out, line)
		}
		rest = after
	}
}

func TestGivenMastersAreUsedAndLeftAsTheyWere(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	l, err := redlock.Open(t.Context(), addrs, redlock.WithNodeTimeout(2*time.Second))
	testkit.Must(t, err)
	if err := errors.Join(l.Cluster().Admit(t.Context()), l.Close()); err != nil {
		t.Fatalf("founding the cluster: %v", err)
	}
	out, errs, code := start(t, strings.Join(addrs, ", "))
	if code != 0 || errs != "" {
		t.Fatalf("got exit status %d and %q; want 0 and silence\n%s", code, errs, out)
	}
	checkStory(t, out, []string{
		"3 masters from REDLOCK_NODES", "worker 1 holds", "no master is killed", "refused",
		"worker 2 waits", "worker 1 still holds it", "worker 1 has released", "worker 2 holds", "done",
	})
	for i, s := range servers {
		client := s.Client()
		if n, err := client.Exists(t.Context(), "orders/42").Result(); n != 0 || err != nil {
			t.Errorf("server %d: got %d locks, %v; want none left", i, n, err)
		}
	}
}

// The second quick start of docs/GETTING-STARTED.md: masters that nobody has used yet. Three at the
// same time, because each meets the workers' looks at another moment. It takes the half
// minute that is waited there, which every day's tests leave to REDLOCK_TEST=deep.
func TestNewMastersAreWaitedFor(t *testing.T) {
	t.Parallel()
	testkit.NeedDeep(t)
	for run := range 3 {
		t.Run(strconv.Itoa(run), func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{})
			addrs := make([]string, len(servers))
			for i, s := range servers {
				addrs[i] = s.Addr()
			}
			out, errs, code := start(t, strings.Join(addrs, ","))
			if code != 0 || errs != "" {
				t.Fatalf("got exit status %d and %q; want 0 and silence\n%s", code, errs, out)
			}
			checkStory(t, out, []string{
				"0 of 5 masters vote", "wait 30s", "5 masters from REDLOCK_NODES", "worker 1 holds", "refused",
				"worker 2 waits", "worker 1 has released", "worker 2 holds", "done",
			})
		})
	}
}

func TestItFailsWithoutAQuorum(t *testing.T) {
	t.Parallel()
	out, errs, code := start(t, "redis://me:hunter2@127.0.0.1:1,127.0.0.1:2")
	if code != 1 || !strings.Contains(errs, "no quorum") {
		t.Errorf("got exit status %d and %q; want 1 and the reason\n%s", code, errs, out)
	}
	if strings.Contains(out+errs, "hunter2") {
		t.Errorf("the password is shown: %s%s", out, errs)
	}
}
