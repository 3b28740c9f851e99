//go:build unix

package redlock_test

import (
	"cmp"
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
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// nextTag is a version that no go.mod of the tree asks for before `.ci/release`, or the one
// that it has just tagged here.
var nextTag = cmp.Or(os.Getenv("REDLOCK_RELEASE"), "v0.999.0")

// A consumer fetches each module of the tree as the pages say, and builds a program of all
// that it can import: from a proxy, once `make release` has tagged; before the first tag, from
// a clone.
func TestEveryModuleCanBeFetched(t *testing.T) {
	testkit.Unraced(t) // and not beside others: it compiles
	c := newClone(t)
	t.Run("before a tag, from a clone", func(t *testing.T) {
		dir := c.consumer(t)
		c.run(t, dir, blocks(t, "docs/FAQ.md", "sh")[1])
		c.run(t, dir, "go list -deps .")
	})
	for _, module := range c.publish(t) {
		t.Run(module, func(t *testing.T) {
			dir := c.consumer(t) // anew: another module's requirements would help
			c.run(t, dir, "go get "+module+"/...@"+nextTag)
			c.run(t, dir, "go list -deps "+module+"/...")
			const importable = `{{if and .GoFiles (ne .Name "main")}}import _ "{{.ImportPath}}"{{end}}`
			imports := c.run(t, dir, "go list -f '"+importable+"' "+module+"/... | grep -v /internal/ || true")
			t.Logf("go build of\n%s", imports)
			program(t, dir, "package main\n\n"+imports+"\nfunc main() {}\n")
			c.run(t, dir, "go build -o program . && ./program")
		})
	}
	t.Run("the commands", func(t *testing.T) {
		bin := t.TempDir()
		for command, line := range map[string]string{"redlock": "version", "redlock-lab": "list"} {
			c.run(t, bin, "GOBIN=$PWD go install github.com/quorumkit/redlock/cmd/"+command+"@"+nextTag)
			said := c.run(t, bin, "./"+command+" "+line)
			if command == "redlock" && !strings.HasPrefix(said, "redlock "+nextTag+"\n") {
				t.Errorf("got %q; want the version %s", said, nextTag)
			}
		}
	})
	t.Run("the README's first screen", func(t *testing.T) {
		dir, steps := t.TempDir(), blocks(t, "README.md", "sh")[1:]
		c.run(t, dir, "go mod init first-lock\n"+strings.Split(steps[0], "\n")[2])
		program(t, dir, blocks(t, "README.md", "go")[0])
		c.run(t, dir, "go build .")
		word, _, _ := strings.Cut(steps[1], " nodes admit ")
		if said := c.run(t, dir, word+" version"); !strings.HasPrefix(said, "redlock "+nextTag+"\n") {
			t.Errorf("got %q; want the version %s", said, nextTag)
		}
	})
	t.Run("redlockotel by its page", func(t *testing.T) {
		dir := c.consumer(t)
		c.run(t, dir, blocks(t, "docs/OBSERVING.md", "sh")[0])
		c.run(t, dir, "go build .")
	})
	t.Run("a copy of examples/yourcode by its page", func(t *testing.T) {
		c.run(t, c.dir, blocks(t, "docs/CHAOS.md", "sh")[1])
	})
	t.Run("bad input", c.badInput)
}

// badInput: a release that can't be made, or is not whole, says what to do.
func (c *clone) badInput(t *testing.T) {
	for _, bad := range []struct{ before, version, does, says string }{
		{"", "", "", "which version? make release VERSION=v0.1.0"},
		{"", "0.1.0", "dry-run", "write it as v0.1.0"},
		{"", "v0.1", "dry-run", "write it as v0.1.0"},
		{"", "v1.x", "dry-run", "write it as v0.1.0"},
		{"", "v2.0.0", "dry-run", "their paths would end with /v2"},
		{"", nextTag, "tag", nextTag + " is tagged already"},
		{"", "v0.0.1", "tag", "take a later one"},
		{"git switch -qc other; ", "v1.0.0", "tag", "this is other, and a release is made of main: git switch main"},
		{"git switch -q --detach; ", "v1.0.0", "tag", "this is no branch"},
		{"git switch -q main; touch new.go; ", "v1.0.0", "tag", "commit or stash"},
		{"rm new.go; go mod edit -go=1.999.0; git commit -qam new; export GOTOOLCHAIN=local; ", "v1.0.0", "tag", "go.mod asks for Go 1.999.0, and this is go1."},
		{"git reset -q --hard HEAD^; ", nextTag, "check", ""},
		{"git tag -d redlockotel/" + nextTag + "; ", nextTag, "check", "git tag redlockotel/" + nextTag + " " + nextTag + " && git push origin redlockotel/" + nextTag},
		{"git tag redlockotel/" + nextTag + " HEAD^; ", nextTag, "check", "tag with make release"},
		{"git tag v1.0.0-rc.1; ", "v1.0.0", "tag", ""},
		{"", "v1.0.0-rc.2", "tag", "v1.0.0 is tagged already"},
	} {
		said := c.run(t, c.tagged, bad.before+".ci/release '"+bad.version+"' "+bad.does+" 2>&1 || echo it failed")
		t.Logf("%s%s %s: %s", bad.before, bad.version, bad.does, said)
		if strings.Contains(said, "it failed") != (bad.says != "") || !strings.Contains(said, bad.says) {
			t.Errorf("got %q; want %q", said, bad.says)
		}
	}
}

// clone is a copy of the tree, and what the go command of its consumers goes by.
type clone struct {
	dir    string
	tagged string // another copy, with tags
	env    []string
}

// newClone copies the tree. Modules of others come from the local module cache. What it
// lacks is fetched here first, and checked against the tree's go.sum.
func newClone(t *testing.T) *clone {
	t.Helper()
	top := t.TempDir()
	c := &clone{dir: filepath.Join(top, "redlock"), tagged: filepath.Join(top, "tagged")}
	must(t, os.Mkdir(c.dir, 0o700))
	shell(t, ".", "tar -c --exclude=./.git --exclude=./.cache . | tar -x -C "+c.dir)
	for _, dir := range c.modules(t) {
		shell(t, dir, "go mod graph >/dev/null && go list -deps -test ./... >/dev/null",
			"GOPROXY="+os.Getenv("GOPROXY"), "GOFLAGS="+os.Getenv("GOFLAGS"))
	}
	cache := strings.TrimSpace(shell(t, ".", "go env GOMODCACHE"))
	c.env = []string{
		"GOPROXY=file://" + top + "/proxy/cache/download,file://" + cache + "/cache/download,off", "GOSUMDB=off",
		"GOMODCACHE=" + filepath.Join(top, "cache"),
		"GOFLAGS=-modcacherw -trimpath", // removable; and built once, wherever the cache is
		"REDLOCK_TEST=quick",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + c.tagged + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/quorumkit/redlock",
	}
	return c
}

// modules are the directories of the tree's modules.
func (c *clone) modules(t *testing.T) []string {
	t.Helper()
	return strings.Fields(shell(t, c.dir, "find $PWD -name go.mod -exec dirname {} +"))
}

func (c *clone) run(t *testing.T, dir, lines string) string {
	t.Helper()
	return shell(t, dir, "set -e\n"+lines, c.env...)
}

// consumer makes a module beside the clone, in the place of the last one. Its program uses
// redlockotel as its page says.
func (c *clone) consumer(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(c.dir), "consumer")
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	c.run(t, dir, "go mod init example.com/consumer")
	for _, use := range blocks(t, "docs/OBSERVING.md", "go") {
		if strings.Contains(use, "redlockotel.New()") {
			program(t, dir, fmt.Sprintf(otelProgram, use))
			return dir
		}
	}
	t.Fatal("docs/OBSERVING.md has no block that uses redlockotel")
	return ""
}

const otelProgram = `package main

import (
	"context"
	"log"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlockotel"
)

func main() {
	ctx, urls := context.Background(), []string{"127.0.0.1:7001"}
	%s
	if err != nil {
		log.Fatal(err)
	}
	stop()
}
`

// publish tags another copy, has the go command fetch each module by its tag, as a proxy
// does, and serves what it made of them.
func (c *clone) publish(t *testing.T) []string {
	t.Helper()
	if os.Getenv("REDLOCK_RELEASE") != "" {
		c.run(t, ".", "git clone -q . "+c.tagged)
	} else {
		c.run(t, c.dir, "cp -R . "+c.tagged+" && cd "+c.tagged+" && git init -qb main && git add -A && git commit -qm before && .ci/release "+nextTag+" tag")
	}
	var modules []string
	for tag := range strings.FieldsSeq(c.run(t, c.tagged, "git tag --list '*"+nextTag+"'")) {
		modules = append(modules, strings.TrimSuffix("github.com/quorumkit/redlock/"+tag, "/"+nextTag))
	}
	if want := len(c.modules(t)) - 2; len(modules) != want { // examples/yourcode is to be copied, examples/interop has tests alone
		t.Fatalf("got tags of %d modules; want %d: %q", len(modules), want, modules)
	}
	for _, module := range modules {
		c.run(t, filepath.Dir(c.dir), "GONOPROXY=github.com/quorumkit GOPROXY=off GOMODCACHE=$PWD/proxy go mod download "+module+"@"+nextTag)
	}
	return modules
}

// The README's first screen, line by line, over servers that its own line starts: from
// nothing to a lock. This tree stands in for what the go command would fetch, and free ports
// for the page's. Who leaves the word out that nothing is locked waits, and is told so.
func TestTheReadmesFirstScreenBringsALock(t *testing.T) {
	t.Parallel()
	testserver.NeedOne(t, redisserver.Config{}) // or skips
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skipf("the page's line starts redis-server: %v", err) // REDLOCK_TEST_SERVER may be another
	}
	steps := blocks(t, "README.md", "sh")
	if len(steps) != 3 {
		t.Fatalf("got steps %q; want those of a clone, the preparation, and the first lock", steps)
	}
	steps = steps[1:] // the clone's are TestTheCommandsOfThePagesExist's and the quickstart's
	prepare, run := strings.Split(strings.TrimSpace(steps[0]), "\n"), strings.Split(strings.TrimSpace(steps[1]), "\n")
	if len(prepare) != 3 || prepare[2] != "go get github.com/quorumkit/redlock" || len(run) != 2 || run[1] != "go run ." {
		t.Fatalf("got lines %q; want the servers, the module, and go get; then the word, and go run", append(prepare, run...))
	}
	wantFirstScreen(t, append(prepare, run...))
	const isNew = "it holds no record: it is new"
	begin := func(t *testing.T) (string, pagePorts) {
		t.Helper()
		ports, dir := freePorts(t, 3), t.TempDir()
		shell(t, dir, ports.in(prepare[0]))
		shell(t, dir, prepare[1])
		dir = filepath.Join(dir, "first-lock")
		requireThisTree(t, dir)
		program(t, dir, ports.in(blocks(t, "README.md", "go")[0]))
		return dir, ports
	}
	t.Run("on one's word", func(t *testing.T) {
		t.Parallel()
		dir, ports := begin(t)
		root, err := os.Getwd()
		must(t, err)
		word, isOwn := strings.CutPrefix(run[0], "go run github.com/quorumkit/redlock/cmd/redlock@latest ")
		if !isOwn {
			t.Fatalf("got the line %q; want the command run", run[0])
		}
		shell(t, root, "go run ./cmd/redlock --node-timeout 1s "+ports.in(word), "GOFLAGS=")
		said := shell(t, dir, run[1])
		first := tokenOf(t, said)
		if strings.Contains(said, isNew) {
			t.Errorf("got %q; want no wait", said)
		}
		second := tokenOf(t, shell(t, dir, run[1]))
		if second <= first {
			t.Errorf("got token %d after %d; want a greater one", second, first)
		}
		open := blocks(t, "docs/GETTING-STARTED.md", "go")[1]
		program(t, dir, fmt.Sprintf(openProgram, "\t\"log/slog\"\n", ports.in(open)))
		if third := tokenOf(t, shell(t, dir, run[1])); third <= second {
			t.Errorf("docs/GETTING-STARTED.md: got token %d after %d; want a greater one", third, second)
		}
	})
	t.Run("after the wait", func(t *testing.T) {
		t.Parallel()
		dir, _ := begin(t)
		said := shell(t, dir, run[1])
		tokenOf(t, said)
		if !strings.Contains(said, isNew) {
			t.Errorf("got %q; want it to say that the masters are new", said)
		}
	})
}

// wantFirstScreen checks that all of it comes before the first promise, that little is to
// be typed and pasted, and that nothing but go asks for a network. The page has few ways on.
func wantFirstScreen(t *testing.T, lines []string) {
	t.Helper()
	screen, _, _ := strings.Cut(read(t, "README.md"), "## What it promises")
	if got := len(blocks(t, "README.md", "sh")) + len(blocks(t, "README.md", "go")); strings.Count(screen, "```") != 2*(got+1) { // and what the quickstart prints
		t.Errorf("the first screen has not all of the page's %d blocks, and what one prints", got)
	}
	if n := len(strings.Split(blocks(t, "README.md", "go")[0], "\n")); n > 35 {
		t.Errorf("got a program of %d lines; want 35 at most to paste", n)
	}
	if n := len(regexp.MustCompile(`(?:^|[^!])\[[^\]]*\]\(`).FindAllString(read(t, "README.md"), -1)); n > 9 {
		t.Errorf("got %d links; want 9 at most", n)
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
