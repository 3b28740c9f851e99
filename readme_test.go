//go:build unix

package redlock_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// The README's first screen, line by line, over servers that its own line starts: from
// nothing to a lock. This tree stands in for what `go get` would fetch, and free ports
// for the page's.
func TestTheReadmesFirstScreenBringsALock(t *testing.T) {
	t.Parallel()
	testserver.NeedOne(t, redisserver.Config{}) // or skips
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skipf("the page's line starts redis-server: %v", err) // REDLOCK_TEST_SERVER may be another
	}
	steps := blocks(t, "README.md", "sh")
	if len(steps) != 2 || strings.TrimSpace(steps[1]) != "go run ." {
		t.Fatalf("got steps %q; want the preparation, and go run", steps)
	}
	lines := strings.Split(strings.TrimSpace(steps[0]), "\n")
	if len(lines) != 3 || lines[2] != "go get github.com/quorumkit/redlock" {
		t.Fatalf("got lines %q; want the servers, the module, and go get", lines)
	}
	wantFirstScreen(t, append(lines, steps[1]))
	ports := freePorts(t, 3)
	dir := t.TempDir()
	shell(t, dir, ports.in(lines[0]))
	shell(t, dir, lines[1])
	dir = filepath.Join(dir, "first-lock")
	requireThisTree(t, dir)
	program(t, dir, ports.in(blocks(t, "README.md", "go")[0]))

	began := time.Now()
	first := tokenOf(t, shell(t, dir, steps[1]))
	t.Logf("the first lock took %v, with the compilation and the wait of new masters", time.Since(began).Round(time.Second))
	second := tokenOf(t, shell(t, dir, steps[1]))
	if second <= first {
		t.Errorf("got token %d after %d; want a greater one", second, first)
	}
	open := blocks(t, "docs/GETTING-STARTED.md", "go")[1]
	program(t, dir, fmt.Sprintf(openProgram, "\t\"log/slog\"\n", ports.in(open)))
	if third := tokenOf(t, shell(t, dir, steps[1])); third <= second {
		t.Errorf("docs/GETTING-STARTED.md: got token %d after %d; want a greater one", third, second)
	}
}

// wantFirstScreen checks that all of it comes before the first promise, that little is to
// be typed and pasted, and that nothing but go asks for a network.
func wantFirstScreen(t *testing.T, lines []string) {
	t.Helper()
	screen, _, _ := strings.Cut(read(t, "README.md"), "## What it guarantees")
	if got := len(blocks(t, "README.md", "sh")) + len(blocks(t, "README.md", "go")); strings.Count(screen, "```") != 2*got {
		t.Errorf("the first screen has not all of the page's %d blocks", got)
	}
	if n := len(strings.Split(blocks(t, "README.md", "go")[0], "\n")); n > 35 {
		t.Errorf("got a program of %d lines; want 35 at most to paste", n)
	}
	for _, line := range lines {
		line = regexp.MustCompile(`^for \w+ in [\d ]+; do (.*); done\s*$`).ReplaceAllString(line, "$1")
		for _, command := range strings.Split(line, "&&") {
			if name := strings.Fields(command)[0]; name != "redis-server" && name != "mkdir" && name != "cd" && name != "go" {
				t.Errorf("the first screen has %q typed; want nothing but the servers, a directory and go", command)
			}
		}
	}
}

// The line of docs/WHICH.md, over one real server.
func TestOneMasterIsOpenedByThePagesLine(t *testing.T) {
	t.Parallel()
	server := testserver.NeedOne(t, redisserver.Config{})
	admitted(t, openServers(t, []*redisserver.Server{server}))
	dir := t.TempDir()
	shell(t, dir, "go mod init first-lock")
	requireThisTree(t, dir)
	_, port, _ := strings.Cut(server.Addr(), ":")
	program(t, dir, fmt.Sprintf(openProgram, "", pagePorts{port}.in(blocks(t, "docs/WHICH.md", "go")[0])))
	tokenOf(t, shell(t, dir, "go run ."))
}

// openProgram is around the line of a page that opens a Locker.
const openProgram = `package main

import (
	"context"
	"fmt"
	"log"
%s
	"github.com/quorumkit/redlock"
)

func main() {
	ctx := context.Background()
	%s
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding orders/42 with token", lock.Token())
}
`

// pagePorts stand in for the ports 7001 and on of a page.
type pagePorts []string

func (p pagePorts) in(text string) string {
	for i, port := range p {
		text = regexp.MustCompile(`\b700`+strconv.Itoa(i+1)+`\b`).ReplaceAllString(text, port)
	}
	return text
}

// freePorts are ports for servers that a page's line starts. Those servers end with the test.
func freePorts(t *testing.T, n int) pagePorts {
	t.Helper()
	var ports pagePorts
	for range n {
		l, err := loopback.Listen()
		must(t, err)
		defer l.Close() // once all are known
		_, port, _ := strings.Cut(l.Addr().String(), ":")
		ports = append(ports, port)
	}
	t.Cleanup(func() {
		for _, port := range ports {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, MaxRetries: -1})
			client.ShutdownNoSave(context.Background()) // where it was started
			_ = client.Close()
		}
	})
	return ports
}

// requireThisTree makes the module in dir use this tree.
func requireThisTree(t *testing.T, dir string) {
	t.Helper()
	root, err := os.Getwd()
	must(t, err)
	shell(t, dir, "go mod edit -require github.com/quorumkit/redlock@v0.0.0 -replace github.com/quorumkit/redlock="+root)
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(read(t, "go.sum")), 0o600))
}

func program(t *testing.T, dir, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600))
}

// shell runs a line of a page in dir, and returns what it says.
func shell(t *testing.T, dir, line string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// tokenOf reads the token from what a program of a page says.
func tokenOf(t *testing.T, said string) uint64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^holding orders/42 with token (\d+)$`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("got %q; want the lock, and its token", said)
	}
	token, err := strconv.ParseUint(m[1], 10, 64)
	must(t, err)
	return token
}
