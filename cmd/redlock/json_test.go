package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/testkit/jsonpage"
)

// pagesShapes are the fields of each of this command's headings of docs/COMMAND.md.
func pagesShapes(t *testing.T) jsonpage.Page {
	t.Helper()
	return jsonpage.Read(t, "../../docs/COMMAND.md", func(heading string) bool { return !strings.HasPrefix(heading, "redlock-lab") })
}

func TestThePageHasTheFieldsOfTheJSON(t *testing.T) {
	t.Parallel()
	pagesShapes(t).WantTypes(t, main.Shapes())
}

func TestTheJSONIsAsThePageSays(t *testing.T) {
	t.Parallel()
	page := pagesShapes(t)
	_, nodes := masters(t, 3)
	for key, opts := range map[string][]redlock.AcquireOption{
		"alone": {redlock.WithRevocation()}, "shared": {redlock.WithShared()}, "slots": {redlock.WithLimit(3), redlock.WithRevocation()},
	} {
		_, err := open(t, nodes, redlock.WithTTL(20*time.Second)).Acquire(t.Context(), key, opts...)
		must(t, err)
	}
	for _, c := range []struct{ args, shape string }{
		{"status alone shared slots never", "status"},
		{"nodes", "nodes, and each nodes command"},
		{"doctor", "doctor"},
		{"revoke never", "revoke"},
		{"release shared --force --yes", "release"},
		{"release slots --force --yes", "release"},
		{"bench --duration 50ms", "bench"},
		{"version", "version"},
		{"nodes acl --for lock,wait", "nodes acl"},
		{"exec --also b a true", "Events of exec, lead and hold"},
		{"exec --limit 2 c true", "Events of exec, lead and hold"},
		{"hold --shared --max-hold 100ms d", "Events of exec, lead and hold"},
		{"lead e true", "Events of exec, lead and hold"},
	} {
		r := run(t, nodes, append([]string{"--json", "--node-timeout", "1s"}, strings.Fields(c.args)...)...)
		if r.out+r.errs == "" {
			t.Errorf("%s: got nothing; want JSON", c.args)
		}
		page.WantLines(t, c.shape, r.out)
		page.WantLines(t, c.shape, r.errs)
	}
	p := start(t, prepare(t, nodes, "--json", "--node-timeout", "1s", "observe", "alone"))
	eventually(t, "the leader", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	page.WantLines(t, "observe", p.stdout())
}

// Every end of exec, lead and hold is told by a last line with event, key and status,
// however early it comes.
func TestEveryEndIsAnEventWithJSON(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes).Acquire(t.Context(), "busy")
	must(t, err)
	for _, c := range []struct {
		args string
		code int
		key  string
	}{
		{"exec k true", 0, "k"},
		{"exec k false", 1, "k"},
		{"exec -n busy true", 75, "busy"},
		{"exec --skip-if-busy busy true", 0, "busy"},
		{"exec k no-such-command-here", 127, "k"},
		{"exec --ttl -1s k true", 64, "k"},
		{"exec", 64, ""},
		{"exec --no-such-flag k true", 64, ""},
		{"exec --max-hold 300ms --kill-after 100ms k sleep 9", 123, "k"},
		{"exec --hold-at-least 100ms k true", 0, "k"},
		{"exec --nodes 127.0.0.1:1 -n k true", 69, "k"},
		{"lead k true", 0, "k"},
		{"lead --wait 1s busy true", 75, "busy"},
		{"hold --max-hold 100ms k", 123, "k"},
		{"hold -n -E 9 busy", 9, "busy"},
		{"hold", 64, ""},
	} {
		r := run(t, nodes, append([]string{"--json", "--node-timeout", "1s"}, strings.Fields(c.args)...)...)
		lines := strings.Split(strings.TrimSpace(r.errs), "\n")
		var last struct {
			Event, Key string
			Status     *int
		}
		decode(t, lines[len(lines)-1], &last)
		if last.Event != "ended" || last.Key != c.key || last.Status == nil || *last.Status != c.code || r.code != c.code {
			t.Errorf("%s: got exit status %d and %s; want ended, %q and %d at the end", c.args, r.code, r.errs, c.key, c.code)
		}
		if n := strings.Count(r.errs, `"event":"ended"`); n != 1 {
			t.Errorf("%s: got %d ends; want one\n%s", c.args, n, r.errs)
		}
	}
	p := start(t, prepare(t, nodes, "hold", "--json", "--node-timeout", "1s", "k"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0, `{"event":"ended","key":"k","token":`, `"status":0`)
}
