//go:build unix

package main_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
)

// environmentOf is what a command that ran `env` has seen of ours.
func environmentOf(out string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case !ok || !strings.HasPrefix(name, "REDLOCK_") || name == "REDLOCK_NODES":
		case strings.HasPrefix(name, "REDLOCK_TEST_"), name == "REDLOCK_REQUIRE_SERVERS", name == "REDLOCK_TEST": // the tests' own
		default:
			env[name] = value
		}
	}
	return env
}

// stays is a command that says "ready", and stays until the file is there.
func stays(file string) []string {
	return []string{"sh", "-c", `env; echo ready; until [ -e "$0" ]; do sleep 0.02; done`, file}
}

// Readers run beside each other; a writer waits for the last of them, and what it runs is
// told a greater token. Nobody reads while it writes.
func TestReadersRunTogetherAndAWriterAlone(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	read := func(name string) *process {
		return launch(t, nodes, append([]string{"--shared", "k"}, stays(filepath.Join(dir, name))...)...)
	}
	end := func(p *process, name string) {
		t.Helper()
		execute(t, nodes, "-n", "files/"+name, "touch", filepath.Join(dir, name)).want(t, 0)
		p.wait(t).want(t, 0)
	}
	first, second := read("first"), read("second")
	execute(t, nodes, "-n", "k", "true").want(t, 75)
	tokens := map[string]bool{}
	for _, p := range []*process{first, second} {
		env := environmentOf(p.stdout())
		if tokens[env["REDLOCK_TOKEN"]] = true; env["REDLOCK_SHARED"] != "1" || env["REDLOCK_KEY"] != "k" {
			t.Errorf("got %q; want a token, and that it is shared", env)
		}
	}
	if len(tokens) != 1 || tokens[""] {
		t.Errorf("got tokens %v; want one for both", tokens)
	}

	writer := start(t, prepare(t, nodes, append(append(execFlags[:3:3], "k"), stays(filepath.Join(dir, "writer"))...)...))
	eventually(t, "the writer in line", func() bool { return status(t, nodes, "k").Waiting == 1 })
	execute(t, nodes, "--shared", "-n", "k", "true").want(t, 75) // behind who waits to be alone
	end(first, "first")
	if s := status(t, nodes, "k"); s.Verdict != "shared" || strings.Contains(writer.stdout(), "ready") {
		t.Errorf("got %+v, the writer's output %q; want it to wait for the second", s, writer.stdout())
	}
	end(second, "second")
	eventually(t, "the writer's start", func() bool { return strings.Contains(writer.stdout(), "ready") })
	execute(t, nodes, "--shared", "-n", "k", "true").want(t, 75)
	env := environmentOf(writer.stdout())
	for token := range tokens {
		before, _ := strconv.ParseUint(token, 10, 64)
		if after, _ := strconv.ParseUint(env["REDLOCK_TOKEN"], 10, 64); after <= before || env["REDLOCK_SHARED"] != "" {
			t.Errorf("the writer: got %q; want a token above %d, not shared", env, before)
		}
	}
	end(writer, "writer")
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// Several keys are held together, and the command is told each with its token; what
// another exec outside of it was told is gone. Where one is busy nothing is held.
func TestExecHoldsSeveralKeysOrNone(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	cmd := prepare(t, nodes, append(execFlags[:3:3], "--also", "c", "--also", "a", "b", "--", "sh", "-c",
		`env; "$0" status --node-timeout 1s --json a b c`, command)...)
	cmd.Env = append(cmd.Env, "REDLOCK_KEY_3=old", "REDLOCK_TOKEN_4=1", "REDLOCK_SHARED=1", "REDLOCK_MINE=kept")
	r := finish(t, cmd)
	r.want(t, 0)
	env := environmentOf(r.out)
	delete(env, "REDLOCK_FAMILY") // by which the watchdog finds it, on Linux
	want := map[string]string{"REDLOCK_KEY": "b", "REDLOCK_KEY_2": "c", "REDLOCK_KEY_3": "a", "REDLOCK_KEYS": "3", "REDLOCK_MINE": "kept"}
	for _, name := range []string{"REDLOCK_TOKEN", "REDLOCK_TOKEN_2", "REDLOCK_TOKEN_3", "REDLOCK_VALIDITY_MS"} {
		if n, _ := strconv.ParseUint(env[name], 10, 64); n < 2 {
			t.Errorf("got %s=%s; want a number", name, env[name])
		}
		want[name] = env[name]
	}
	if fmt.Sprint(env) != fmt.Sprint(want) {
		t.Errorf("got %q; want %q", env, want)
	}
	if n := strings.Count(r.out, `"verdict":"held"`); n != 3 {
		t.Errorf("got %d keys held meanwhile; want 3:\n%s", n, r.out)
	}
	gone := func(when string) {
		t.Helper()
		eventually(t, "no key "+when, func() bool {
			return exists(t, servers, "a")+exists(t, servers, "b")+exists(t, servers, "c") == 0
		})
	}
	gone("afterwards")

	// One of three is busy.
	lock, err := open(t, nodes).Acquire(t.Context(), "b")
	must(t, err)
	execute(t, nodes, "-n", "--also", "c", "--also", "b", "a", "true").want(t, 75)
	execute(t, nodes, "--skip-if-busy", "--also", "c", "--also", "b", "a", "false").want(t, 0)
	execute(t, nodes, "--wait", "1s", "--also", "c", "--also", "b", "a", "false").want(t, 75)
	must(t, lock.Release(t.Context()))
	gone("after three that did not get them")
	execute(t, nodes, "--also", "redlock:node", "a", "true").want(t, 64, "redlock:node")
}

// Sets that overlap, in all orders: nobody waits for ever.
func TestKeysInAnyOrderBringNoDeadlock(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	var all []*process
	for _, keys := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c"}, {"c", "a"}, {"b", "a"}, {"a", "c", "b"}} {
		args := slices.Clone(execFlags)
		for _, key := range keys[1:] {
			args = append(args, "--also", key)
		}
		all = append(all, start(t, prepare(t, nodes, append(args, keys[0], "true")...)))
	}
	for _, p := range all {
		p.wait(t).want(t, 0)
	}
}

// A set ends with the first of its keys that is lost: the command is killed, and the
// others are given back.
func TestOneKeyThatIsTakenAwayEndsTheCommand(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	p := launch(t, nodes, append([]string{"--json", "--ttl", "3s", "--also", "c", "--also", "b", "a"}, stays("/no/such/file")...)...)
	run(t, nodes, "release", "c", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "removed")
	p.wait(t).want(t, 124, `"event":"killed"`, "c was taken away (release --force, DEL, eviction): ", `"keys":[{"key":"a","token":`)
	eventually(t, "the others given back", func() bool { return exists(t, servers, "a")+exists(t, servers, "b") == 0 })
}

func TestHoldTellsOfEachKeyThatItHolds(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := start(t, prepare(t, nodes, "hold", "--node-timeout", "1s", "--shared", "b", "a"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	var line struct {
		Key    string
		Token  uint64
		Shared bool
		Keys   []struct {
			Key   string
			Token uint64
		}
	}
	decode(t, p.stdout(), &line)
	if line.Key != "b" || !line.Shared || len(line.Keys) != 2 || line.Keys[0].Key != "b" || line.Keys[1].Key != "a" || line.Keys[0].Token != line.Token || line.Keys[1].Token == 0 {
		t.Errorf("got %s; want both, in the order in which they were given", p.stdout())
	}
	reader, err := open(t, nodes).AcquireAll(t.Context(), []string{"a", "b"}, redlock.WithShared())
	must(t, err)
	must(t, reader.Release(t.Context()))
	run(t, nodes, "hold", "-n", "--node-timeout", "1s", "a").want(t, 75)
	run(t, nodes, "hold", "--max-hold", "300ms", "--node-timeout", "1s", "a", "b", "--shared").want(t, 123, "a and 1 more", "maximum")
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0)
	run(t, nodes, "status", "--node-timeout", "1s", "a", "b").want(t, 0, `"a": free`, `"b": free`)
}

// At most as many run as --limit says, each on a slot of its own; who waits runs when one
// of them ends. A key without --limit is another one.
func TestAtMostAsManyRunAsTheLimitSays(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	dir := t.TempDir()
	limited := func(name string) []string {
		return append(append(execFlags[:3:3], "--limit", "2", "--json", "k"), stays(filepath.Join(dir, name))...)
	}
	end := func(p *process, name string) {
		t.Helper()
		execute(t, nodes, "-n", "files/"+name, "touch", filepath.Join(dir, name)).want(t, 0)
		p.wait(t).want(t, 0, `"slot":`)
	}
	var both []*process
	slots := map[string]bool{}
	for _, name := range []string{"first", "second"} {
		cmd := prepare(t, nodes, limited(name)...)
		cmd.Env = append(cmd.Env, "REDLOCK_SLOT=47")
		p := start(t, cmd)
		eventually(t, name, func() bool { return strings.Contains(p.stdout(), "ready") })
		slots[environmentOf(p.stdout())["REDLOCK_SLOT"]] = true
		both = append(both, p)
	}
	if len(slots) != 2 || !slots["0"] || !slots["1"] {
		t.Errorf("got slots %v; want 0 and 1", slots)
	}
	execute(t, nodes, "--limit", "2", "-n", "k", "true").want(t, 75)
	run(t, nodes, "hold", "--node-timeout", "1s", "--limit", "2", "-n", "k").want(t, 75)
	if r := execute(t, nodes, "-n", "k", "env"); r.code != 0 || strings.Contains(r.out, "REDLOCK_SLOT") {
		t.Errorf("without a limit: got %+v; want it run, on no slot", r)
	}
	third := start(t, prepare(t, nodes, limited("third")...))
	eventually(t, "the third in line", func() bool {
		return strings.Contains(run(t, nodes, "status", "--node-timeout", "1s", "k").out, "slots: 2 held, 1 in line")
	})
	if third.stdout() != "" {
		t.Errorf("the third: got %q; want it to wait", third.stdout())
	}
	freed := environmentOf(both[0].stdout())["REDLOCK_SLOT"]
	end(both[0], "first")
	eventually(t, "the third", func() bool { return strings.Contains(third.stdout(), "ready") })
	if slot := environmentOf(third.stdout())["REDLOCK_SLOT"]; slot != freed {
		t.Errorf("the third: got slot %q; want the one that was freed, %s", slot, freed)
	}
	end(both[1], "second")
	end(third, "third")
}
