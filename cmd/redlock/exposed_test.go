//go:build unix

package main_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// A cluster of one master that became two, and then the other, on real servers. What was taken out
// is emptied and started again: nobody claims it, and to a client with the first list it looks like a
// new cluster. nodes, doctor and nodes change name it with the pin by which that client founds nothing.
func TestANodeThatWasTakenOutAndStartedEmptyIsNamed(t *testing.T) {
	t.Parallel()
	servers, both := blanks(t, 2, redisserver.Config{})
	one, other := servers[0], servers[1]
	args := func(words string) []string {
		return append(strings.Fields(words), "--node-timeout", "1s", "--max-ttl", "2s")
	}
	const takenOut = "it is empty: if it was taken out"
	run(t, one.URL(), args("nodes admit --yes")...).want(t, 0)
	run(t, one.URL(), args("nodes change --yes --add "+other.Addr())...).want(t, 0)
	removed := run(t, both, args("nodes change --yes --remove "+one.Addr())...)
	removed.want(t, 0, "generation 3")
	for _, r := range []result{removed, run(t, both, args("nodes")...), run(t, both, args("doctor --ttl 1500ms")...)} {
		if all := r.out + r.errs; strings.Contains(all, "taken out") || strings.Contains(all, "exposed") {
			t.Errorf("got\n%s\nof a node with its record; want it not named", all)
		}
	}
	must(t, one.RestartEmpty())
	named := run(t, both, args("nodes")...)
	named.want(t, 0)
	flat := func(r result) result { // as one line
		return result{out: strings.Join(strings.Fields(r.out+r.errs), " "), code: r.code}
	}
	id := regexp.MustCompile(regexp.QuoteMeta(one.Addr()) + ` unlisted .*` + takenOut + `.*: add it if it is new, else stop it, pin all clients \(--cluster, REDLOCK_CLUSTER=([0-9a-f-]+)\)`).FindStringSubmatch(flat(named).out)
	if id == nil {
		t.Fatalf("nodes: got\n%s\nwant %s named, and the pin", named.out, one.Addr())
	}
	run(t, one.URL(), args("nodes join --wait --timeout 5s --cluster "+id[1])...).want(t, 78, "is not here")
	flat(run(t, both, args("doctor --ttl 1500ms")...)).want(t, 1, "info exposed "+one.Addr(), "Add it if it is new, else stop it, pin all clients (--cluster (WithCluster), REDLOCK_CLUSTER="+id[1])
	run(t, one.URL(), args("nodes join --wait --timeout 30s")...).want(t, 0, "1 vote of 1 node") // the control: it founds

	must(t, one.Stop()) // the other remedy
	if r := run(t, both, args("nodes")...); strings.Contains(r.out, "taken out") || r.code != 0 {
		t.Errorf("once it is stopped: got exit status %d and\n%s\nwant it not named", r.code, r.out)
	}
}
