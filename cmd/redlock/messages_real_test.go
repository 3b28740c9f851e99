package main_test

import (
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// The status of refused credentials is that of exec, no matter which command met them, and
// the doctor says of all nodes once what it says of each.
func TestRefusedCredentialsAreAConfigurationEverywhere(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 3, redisserver.Config{Password: "hunter2"})
	var without []string
	for _, s := range servers {
		without = append(without, s.Addr())
	}
	nodes := strings.Join(without, ",")
	for _, args := range []string{"exec -n k true", "nodes join --wait --timeout 1s", "nodes admit --yes"} {
		run(t, nodes, append([]string{"--node-timeout", "1s"}, strings.Fields(args)...)...).want(t, 78, "credentials refused")
	}
	r := run(t, nodes, "doctor", "--node-timeout", "1s")
	r.want(t, r.code, "it refuses the client: credentials refused")
	if n := strings.Count(strings.Join(strings.Fields(r.out), " "), "it refuses the client"); n != 1 {
		t.Errorf("got\n%s\nwant it said once; got %d times", r.out, n)
	}
}

// A wait that is over is told in one line, without a deadline that nobody set.
func TestTheEndOfAWaitIsToldInOneLine(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	for _, args := range []string{"exec --wait 300ms k true", "exec --wait 300ms --also b k true", "hold --wait 300ms k", "lead --wait 300ms k true"} {
		r := run(t, nodes, append([]string{"--node-timeout", "1s"}, strings.Fields(args)...)...)
		r.want(t, 75, "not within 300ms: ", "held by another, ")
		if strings.Count(r.errs, "\n") != 1 || strings.Contains(r.errs, "deadline") {
			t.Errorf("%s: got %q; want one line", args, r.errs)
		}
	}
}
