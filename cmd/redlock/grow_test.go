//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// The two commands of docs/WHICH.md by which one master grows to three, on real servers.
// What the waits there are for is in virtual time, at the root.
func TestOneMasterGrowsToThreeByThePagesCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/WHICH.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "### Grow to three and five")
	section, _, _ = strings.Cut(section, "\n#")
	steps := regexp.MustCompile("`(redis-cli|redlock) ([^`]+)`").FindAllStringSubmatch(section, -1)
	if len(steps) != 2 || steps[0][1] != "redis-cli" || steps[1][1] != "redlock" {
		t.Fatalf("got the commands %q; want redis-cli's, then redlock's", steps)
	}
	servers, nodes := blanks(t, 3, redisserver.Config{})
	one := servers[0].URL()
	run(t, one, "nodes", "admit", "--node-timeout", "1s", "--yes").want(t, 0)
	first := tokenUnder(t, one)

	run(t, nodes, "nodes", "admit", "--node-timeout", "1s", "--yes").want(t, 78) // before the flush: another N
	_, port, _ := strings.Cut(servers[0].Addr(), ":")
	flush := strings.Fields(strings.Replace(steps[0][2], "7001", port, 1))
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skipf("needs redis-cli: %v", err)
	}
	finish(t, exec.CommandContext(t.Context(), "redis-cli", flush...)).want(t, 0, "OK")
	start(t, shellLine(t, t.TempDir(), nodes, steps[1][2])).wait(t).want(t, 0, "3 votes")
	if second := tokenUnder(t, nodes); second <= first {
		t.Errorf("got token %d after %d; want a greater one", second, first)
	}
}

// tokenUnder is the token of a lock that is taken now.
func tokenUnder(t *testing.T, nodes string) uint64 {
	t.Helper()
	r := run(t, nodes, "exec", "--node-timeout", "1s", "orders/42", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
	r.want(t, 0)
	token, err := strconv.ParseUint(strings.TrimSpace(r.out), 10, 64)
	must(t, err)
	return token
}
