//go:build unix

package main_test

import (
	"os"
	"strings"
	"testing"
)

// revoke asks for a key, for at most half a minute.
func revoke(t *testing.T, nodes, key string) result {
	t.Helper()
	return run(t, nodes, "revoke", "--node-timeout", "1s", "--timeout", patience.String(), key)
}

// The group of the command is told once, and decides when it ends: the key is kept so long.
func TestExecsCommandIsToldThatItsKeyIsAskedFor(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	script := `trap "echo told" USR1; trap "exit 5" TERM; echo ready; while :; do sleep 0.02; done`
	p := launch(t, nodes, "--json", "--revocable", "--revoked-signal", "USR1", "k", "sh", "-c", script)
	if s := run(t, nodes, "status", "--node-timeout", "1s", "k"); !strings.Contains(s.out, "(revocable)") || strings.Contains(s.out, "~") {
		t.Errorf("got %s; want it shown as revocable, without the mark", s.out)
	}
	run(t, nodes, "status", "--node-timeout", "1s", "--json", "k").want(t, 0, `"revocable":true`)
	asks := start(t, prepare(t, nodes, "revoke", "--node-timeout", "1s", "k"))
	host, err := os.Hostname()
	must(t, err)
	eventually(t, "the signal", func() bool { return strings.Contains(p.stdout(), "told") })
	run(t, nodes, "revoke", "--node-timeout", "1s", "--timeout", "2s", "k").want(t, 75, "revoke k: still held by "+host+":", " after 2s") // asks again, in vain
	gives := start(t, prepare(t, nodes, "revoke", "--node-timeout", "1s", "k"))
	eventually(t, "what it waits for", func() bool { return gives.stderr() != "" })
	gives.signal(t, os.Interrupt)
	gives.wait(t).want(t, 130, "revoke k: its holders were asked, and may still give it up: interrupted")
	if n := exists(t, servers, "k"); n < 2 || !asks.running() {
		t.Errorf("got the key on %d nodes, the request under way: %v; want it kept", n, asks.running())
	}
	p.signal(t, sigTERM)
	r := p.wait(t)
	r.want(t, 5, `"event":"ended"`)
	if n := strings.Count(r.out, "told"); n != 1 || strings.Count(r.errs, `"event":"revoked"`) != 1 {
		t.Errorf("got %d signals, and %s; want one, and one event", n, r.errs)
	}
	asks.wait(t).want(t, 0, "k: gone", "revoke k: waits until it is given up by "+host+":")
	revoke(t, nodes, "k").want(t, 0, "k: not held")
	run(t, nodes, "revoke", "--node-timeout", "1s", "--json", "k").want(t, 0, `{"key":"k","outcome":"not held"}`)
}

// TERM is what a command gets if nothing else is said; slots are asked each. One holder
// that can't be asked keeps all from being asked.
func TestRevokeAsksAllWhoHaveSlotsOrNone(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	script := `trap "exit 6" TERM; echo ready; while :; do sleep 0.02; done`
	limited := []string{"--limit", "3", "k", "sh", "-c", script}
	first := launch(t, nodes, append([]string{"--revocable"}, limited...)...)
	second := launch(t, nodes, append([]string{"--revocable"}, limited...)...)
	plain := launch(t, nodes, append([]string{"--holder", "cron"}, limited...)...)
	revoke(t, nodes, "k").want(t, 1, "held without --revocable by cron/", "redlock release k --force --yes takes it away")
	if !first.running() || !second.running() {
		t.Error("one was asked in vain: another can't be")
	}
	plain.signal(t, sigTERM)
	plain.wait(t).want(t, 6)
	run(t, nodes, "status", "--node-timeout", "1s", "k").want(t, 0, `"k": held by slots`, "slots: 2 held", "(revocable)")
	revoke(t, nodes, "k").want(t, 0, "k: gone")
	first.wait(t).want(t, 6, "k was asked for")
	second.wait(t).want(t, 6, "k was asked for")
}

// Who reads hold's lines holds, so hold keeps the key until it is told to let go.
func TestHoldTellsThatItsKeysAreAskedFor(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	p := start(t, prepare(t, nodes, "hold", "--node-timeout", "1s", "--revocable", "k", "other"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	asks := start(t, prepare(t, nodes, "revoke", "--node-timeout", "1s", "other"))
	eventually(t, "the second line", func() bool { return strings.Contains(p.stdout(), `{"event":"revoked","key":"k"`) })
	if n := exists(t, servers, "other"); n < 2 || !asks.running() {
		t.Errorf("got the key on %d nodes, the request under way: %v; want it kept", n, asks.running())
	}
	p.signal(t, sigTERM)
	r := p.wait(t)
	r.want(t, 0)
	if n := strings.Count(r.out, "\n"); n != 2 {
		t.Errorf("got %q; want two lines", r.out)
	}
	asks.wait(t).want(t, 0, "other: gone")
}

// A command that ends since its lead was asked for resigns: the next one leads.
func TestALeadCanBeAskedFor(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := lead(t, nodes, "--revocable", "k", "sh", "-c", `trap "exit 7" TERM; echo ready; while :; do sleep 0.02; done`)
	eventually(t, "the command's start", func() bool { return strings.Contains(p.stdout(), "ready") })
	next := lead(t, nodes, "k", "sh", "-c", "exit 8")
	eventually(t, "the next in line", func() bool { return status(t, nodes, "k").Waiting == 1 })
	revoke(t, nodes, "k").want(t, 0, "k: gone")
	p.wait(t).want(t, 7, `"event":"revoked"`, `"status":7`)
	next.wait(t).want(t, 8)
}

// However soon its time is over, the key is busy: the masters are well.
func TestRevokeIsBusyHoweverSoonItsTimeIsOver(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := start(t, prepare(t, nodes, "hold", "--node-timeout", "1s", "--revocable", "k"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	for _, timeout := range []string{"1ms", "5ms", "20ms", "50ms", "80ms", "110ms", "200ms"} {
		run(t, nodes, "revoke", "--node-timeout", "1s", "--timeout", timeout, "k").want(t, 75)
	}
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0)
}
