//go:build unix

package main_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// The commands of docs/WHICH.md by which one master grows to three while clients run, on real
// servers, and one of them is taken out again.
func TestOneMasterGrowsToThreeByThePagesCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/WHICH.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "### Grow to three and five")
	section, _, _ = strings.Cut(section, "\n#")
	steps := regexp.MustCompile("`redlock ([^`]+)`").FindAllStringSubmatch(section, -1)
	if len(steps) != 2 || steps[0][1] != "nodes add" || steps[1][1] != "nodes shrink" {
		t.Fatalf("got the commands %q; want nodes add, then nodes shrink", steps)
	}
	servers, nodes := blanks(t, 3, redisserver.Config{})
	one := servers[0].URL()
	two := one + "," + servers[1].URL()
	do := func(list, command, addr string) {
		t.Helper()
		args := append(strings.Fields(command), addr, "--node-timeout", "1s", "--max-ttl", "2s")
		run(t, list, args...).want(t, 0, "generation")
	}
	run(t, one, "nodes", "admit", "--node-timeout", "1s", "--max-ttl", "2s", "--yes").want(t, 0)
	last := uint64(0)
	under := func(lists ...string) {
		t.Helper()
		for _, list := range lists {
			got := tokenUnder(t, list)
			if got <= last {
				t.Errorf("got token %d after %d; want a greater one", got, last)
			}
			last = got
		}
	}
	under(one)
	do(one, steps[0][1], servers[1].Addr())
	under(one, two)
	for _, args := range []string{"nodes", "status orders/42", "doctor --ttl 1500ms", "nodes settle --dry-run", "nodes shrink " + servers[1].Addr() + " --dry-run"} {
		r := run(t, two, append(strings.Fields(args), "--node-timeout", "1s", "--max-ttl", "2s")...)
		if all := strings.Join(strings.Fields(r.out+r.errs), " "); !strings.Contains(all, "list before") || !regexp.MustCompile(`:[0-9]+ (\([0-9]+s ago\)|has the list)`).MatchString(all) {
			t.Errorf("%s: got %s; want the client that has the list before", args, all)
		}
	}
	do(two, steps[0][1], servers[2].Addr())
	under(two, nodes)
	refused := run(t, one, "exec", "--node-timeout", "1s", "orders/42", "--", "true")
	refused.want(t, 78, "generation 2")
	for _, s := range servers {
		refused.want(t, 78, s.Addr())
	}
	must(t, servers[1].Kill())
	do(nodes, steps[1][1], servers[1].Addr())
	under(nodes, one+","+servers[2].URL())
}

// tokenUnder is the token of a lock that is taken now.
func tokenUnder(t *testing.T, nodes string) uint64 {
	t.Helper()
	r := run(t, nodes, "exec", "--node-timeout", "1s", "--ttl", "1500ms", "--max-ttl", "2s", "orders/42", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
	r.want(t, 0)
	token, err := strconv.ParseUint(strings.TrimSpace(r.out), 10, 64)
	must(t, err)
	return token
}
