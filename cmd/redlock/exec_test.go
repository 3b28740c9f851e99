//go:build unix

package main_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// execFlags suit a busy machine: a lease of ten seconds, a second for a node.
var execFlags = []string{"exec", "--node-timeout", "1s"}

func execute(t *testing.T, nodes string, args ...string) result {
	t.Helper()
	return run(t, nodes, append(execFlags[:3:3], args...)...)
}

// launch starts exec, and waits until its command has said "ready".
func launch(t *testing.T, nodes string, args ...string) *process {
	t.Helper()
	p := start(t, prepare(t, nodes, append(execFlags[:3:3], args...)...))
	eventually(t, "the command's start", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %+v", p.wait(t))
		}
		return strings.Contains(p.stdout(), "ready")
	})
	return p
}

func exists(t *testing.T, servers []*redisserver.Server, key string) int {
	t.Helper()
	found := 0
	for _, s := range servers {
		n, err := s.Client().Exists(t.Context(), key).Result()
		must(t, err)
		found += int(n)
	}
	return found
}

func TestExecRunsTheCommandWhileItHolds(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	cmd := prepare(t, nodes, append(execFlags[:3:3], "jobs/1", "--", "sh", "-c",
		`cat; env | grep ^REDLOCK_ | sort; "$0" status --node-timeout 1s --json jobs/1; exit 3`, command)...)
	cmd.Env = append(cmd.Env, "REDLOCK_TOKEN=1", "REDLOCK_KEY=old")
	cmd.Stdin = strings.NewReader("from stdin\n")
	r := finish(t, cmd)
	r.want(t, 3, "from stdin\n", "REDLOCK_KEY=jobs/1\n", `"verdict":"held"`)
	env := map[string]string{}
	var holder string
	for line := range strings.Lines(r.out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[name] = value
		}
		if strings.HasPrefix(line, "{") {
			var s shown
			decode(t, line, &s)
			holder = s.Holder
		}
	}
	token, _ := strconv.ParseUint(env["REDLOCK_TOKEN"], 10, 64)
	validity, _ := strconv.Atoi(env["REDLOCK_VALIDITY_MS"])
	if token <= 1 || validity <= 5000 || validity > 10000 {
		t.Errorf("got token %d and validity %d ms; want those of the lock", token, validity)
	}
	for name, value := range env {
		if strings.Contains(value, holder) && holder != "" {
			t.Errorf("the command sees the owner value, in %s", name)
		}
	}
	if n := exists(t, servers, "jobs/1"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

func TestExecHasTheStatusOfItsCommand(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 1)
	plain := filepath.Join(t.TempDir(), "plain")
	script := filepath.Join(t.TempDir(), "script")
	for file, mode := range map[string]os.FileMode{plain: 0o600, script: 0o700} {
		must(t, os.WriteFile(file, []byte("exit 0\n"), mode))
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"k", "true"}, 0},
		{[]string{"k", "--", "false"}, 1},
		{[]string{"k", "sh", "-c", "exit 77"}, 77},
		{[]string{"k", "sh", "-c", "kill -KILL $$"}, 137},
		{[]string{"k", "sh", "-c", "kill -TERM $$"}, 143},
		{[]string{"k", "no-such-command-here"}, 127},
		{[]string{"k", "/no/such/command"}, 127},
		{[]string{"k", plain}, 126},
		{[]string{"k", script}, 126}, // no implicit shell
		{[]string{"k"}, 64},
		{[]string{}, 64},
		{[]string{"k", "--wait", "1s", "true"}, 64},
		{[]string{"-n", "--wait", "1s", "k", "true"}, 64},
		{[]string{"--ttl", "100s", "k", "true"}, 64},
		{[]string{"--kill-after", "9s", "k", "true"}, 64},
		{[]string{"--hold-at-least", "0s", "k", "true"}, 64},
		{[]string{"--max-hold", "1s", "k", "true"}, 64},
		{[]string{"--signal", "NONE", "k", "true"}, 64},
		{[]string{"redlock:node", "true"}, 64},
	} {
		if r := execute(t, nodes, c.args...); r.code != c.code {
			t.Errorf("%q: got exit status %d; want %d\n%s%s", c.args, r.code, c.code, r.out, r.errs)
		}
	}
}

func TestExecIsBusyWhileAnotherHolds(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	lock, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	execute(t, nodes, "-n", "k", "echo", "started").want(t, 75, "not acquired")
	execute(t, nodes, "--wait", "0", "k", "echo", "started").want(t, 75)
	execute(t, nodes, "--wait", "1s", "k", "echo", "started").want(t, 75, "not acquired")
	execute(t, nodes, "-n", "-E", "9", "k", "echo", "started").want(t, 9)
	for _, flags := range [][]string{{"--skip-if-busy"}, {"--skip-if-busy", "--wait", "1s"}} {
		if r := execute(t, nodes, append(flags, "k", "echo", "started")...); r != (result{}) {
			t.Errorf("%q: got %+v; want nothing, and exit status 0", flags, r)
		}
	}
	waiting := start(t, prepare(t, nodes, append(execFlags[:3:3], "--wait", "20s", "k", "echo", "started")...))
	eventually(t, "the wait", func() bool { return waits(t, waiting) })
	must(t, lock.Release(t.Context()))
	waiting.wait(t).want(t, 0, "started")

	for _, s := range servers[1:] {
		must(t, s.Kill())
	}
	execute(t, nodes, "-n", "k", "echo", "started").want(t, 69, "no quorum")
	execute(t, nodes, "--wait", "2s", "k", "echo", "started").want(t, 69, "no quorum")
}

// short is the program with locks whose first lease is short.
func short(t *testing.T, nodes string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := prepare(t, nodes)
	cmd.Path, cmd.Args = os.Args[0], append([]string{os.Args[0]}, args...)
	cmd.Env = append(cmd.Env, actVar+"=short")
	return cmd
}

// With a first lease of three seconds, the default --kill-after of a TTL of 30 s has come
// before the start, and that of 10 s comes half a second later.
func TestExecPlansByTheWholeTTLThoughTheFirstLeaseIsShort(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	for _, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		key := "k" + ttl.String()
		r := finish(t, short(t, nodes, append(execFlags[:3:3], "--ttl", ttl.String(), key, "sh", "-c", "echo $REDLOCK_VALIDITY_MS; sleep 1")...))
		r.want(t, 0)
		left, err := strconv.Atoi(strings.TrimSpace(r.out))
		if got, least := time.Duration(left)*time.Millisecond, ttl*2/3; err != nil || got < least || got > ttl {
			t.Errorf("a TTL of %v: the command was told of %q ms; want %v at least", ttl, r.out, least)
		}
		if n := exists(t, servers, key); n != 0 {
			t.Errorf("got %d keys afterwards; want none", n)
		}
	}
}

// waits tells whether a program has begun to speak to its nodes, which comes after
// its signal handlers. Where that can't be seen it is believed to have.
func waits(t *testing.T, p *process) bool {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			return true
		}
	}
	return false
}

// consul lock passes on INT and TERM only; the rest kill it, and leave the child.
func TestDefectSignalsAreNotForwarded(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	for name, sig := range map[string]syscall.Signal{
		"HUP": sigHUP, "INT": sigINT, "QUIT": sigQUIT, "TERM": sigTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) {
				t.Skip("the one who began this test has it ignored, and so do all commands that it begins")
			}
			p := launch(t, nodes, "signals/"+name, "sh", "-c", `trap "echo got it; exit 7" `+name+`; echo ready; while :; do sleep 0.01; done`)
			p.signal(t, sig)
			p.wait(t).want(t, 7, "got it")
		})
	}
}

// A signal that comes the moment the command runs is passed on to it. It was lost
// once.
func TestASignalAtTheStartIsPassedOn(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	cmd := prepare(t, nodes)
	cmd.Path, cmd.Args = os.Args[0], []string{os.Args[0], "exec", "--node-timeout", "1s", "k", "sh", "-c", `trap "exit 138" USR1; sleep 3 & wait`}
	cmd.Env = append(cmd.Env, actVar+"=raced")
	finish(t, cmd).want(t, 128+int(syscall.SIGUSR1)) // by its trap, or before it was set
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// consul lock kills the shell that it starts commands with, and what the shell
// had started runs on.
func TestDefectOnlyTheShellIsKilled(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	p := launch(t, nodes, "k", "sh", "-c", "sleep 1000 & echo $!; sleep 1000 & echo $! ready; wait; true")
	var pids [2]int
	for i, word := range strings.Fields(p.stdout())[:2] {
		pids[i], _ = strconv.Atoi(word)
	}
	p.signal(t, sigTERM)
	p.wait(t).want(t, 143)
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d runs on without the lock", pid)
		}
	}
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// consul lock hears no signal while it waits for the lock.
func TestDefectSignalsAreIgnoredWhileWaiting(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	lock, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	for _, sig := range []syscall.Signal{sigHUP, sigINT, sigQUIT, sigTERM} {
		if signal.Ignored(sig) {
			t.Logf("%v is left out: the one who began this test has it ignored, and so do all commands that it begins", sig)
			continue
		}
		p := start(t, prepare(t, nodes, append(execFlags[:3:3], "k", "echo", "started")...))
		eventually(t, "the wait", func() bool { return waits(t, p) })
		p.signal(t, sig)
		r := p.wait(t)
		r.want(t, 128+int(sig), "while waiting")
		if r.out != "" {
			t.Errorf("%v: got %q; want nothing started", sig, r.out)
		}
	}
	if err := lock.Err(); err != nil {
		t.Errorf("the holder: got %v; want it held", err)
	}
}

// There is no command yet that a signal could be for: it ends the wait as it ends flock, which
// does not catch it. It was swallowed.
func TestASignalForTheCommandEndsTheWaitForTheKey(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		p := start(t, prepare(t, nodes, append(execFlags[:3:3], "--wait", "10s", "k", "echo", "started")...))
		eventually(t, "the wait", func() bool { return waits(t, p) })
		p.signal(t, sig)
		r := p.wait(t)
		r.want(t, 128+int(sig), "while waiting for k")
		if r.out != "" {
			t.Errorf("%v: got %q; want nothing started", sig, r.out)
		}
	}
	p := start(t, prepare(t, nodes, append(execFlags[:3:3], "--wait", "1s", "k", "echo", "started")...))
	eventually(t, "the wait", func() bool { return waits(t, p) })
	p.signal(t, syscall.SIGWINCH) // which ends nothing by itself
	p.signal(t, syscall.SIGCONT)
	p.wait(t).want(t, 75, "not acquired")
}

// consul lock may start its child after it was told to end, and forget it. Here
// the signal comes at about the moment of the grant, before and after: no matter what
// was started got the signal as well, and nothing runs on.
func TestDefectAChildIsStartedDuringShutdown(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	locker := open(t, nodes)
	granted := func(by int, before []string) bool {
		n := 0
		for i, owner := range owners(t, servers, "k") {
			if owner != "" && owner != before[i] {
				n++
			}
		}
		return n >= by
	}
	for i := range 15 { // at once, at each of three grants, and when the child speaks: three times each
		lock, err := locker.Acquire(t.Context(), "k")
		must(t, err)
		p := start(t, prepare(t, nodes, append(execFlags[:3:3], "k", "sh", "-c", "echo $$; exec sleep 1000")...))
		eventually(t, "the wait", func() bool { return waits(t, p) })
		before := owners(t, servers, "k")
		must(t, lock.Release(t.Context()))
		come := func() bool { return i%5 == 0 || granted(i%5, before) || p.stdout() != "" }
		if i%5 == 4 {
			come = func() bool { return p.stdout() != "" }
		}
		for deadline := time.Now().Add(patience); !come(); { // without a pause: it is the moment that counts
			if time.Now().After(deadline) {
				t.Fatalf("got neither a grant nor a child: %s", p.stderr())
			}
		}
		p.signal(t, sigTERM)
		r := p.wait(t)
		r.want(t, 143)
		if pid, err := strconv.Atoi(strings.TrimSpace(r.out)); err == nil && alive(pid) {
			t.Errorf("process %d runs on without the lock", pid)
		}
		if n := exists(t, servers, "k"); n != 0 && !strings.Contains(r.errs, "not released") { // a server that got no processor for seconds
			t.Fatalf("got %d keys afterwards, and %q; want none, or that it says so", n, r.errs)
		}
	}
}

// owners are the values of a key, by node; empty where it is not there.
func owners(t *testing.T, servers []*redisserver.Server, key string) []string {
	t.Helper()
	values := make([]string, len(servers))
	for i, s := range servers {
		var err error
		if values[i], err = s.Client().Get(t.Context(), key).Result(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	return values
}

// consul lock signals the number of a child that has ended, and then is not to be woken. Here
// a late signal ends the wait that is left, with the command's status, and not the hold: the
// key stays for the rest of --hold-at-least, as far as one lease may go.
func TestDefectALateSignalIsLostOrHitsAnother(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	for i, c := range []struct {
		signal      syscall.Signal
		rest        string
		least, most time.Duration // that is left of the lease
	}{
		{sigHUP, "9s", 5 * time.Second, 9 * time.Second},
		{sigINT, "25s", 15 * time.Second, 25 * time.Second},
		{sigQUIT, "1000s", 20 * time.Second, 30 * time.Second},
		{sigTERM, "25s", 15 * time.Second, 25 * time.Second},
	} {
		key := "k" + strconv.Itoa(i)
		p := launch(t, nodes, "--json", "--ttl", "4s", "--hold-at-least", c.rest, key, "sh", "-c", "echo $$ ready; exit 5")
		p.outlives(t)
		p.signal(t, c.signal)
		p.wait(t).want(t, 5, `"event":"ended"`, `"status":5`)
		var lefts []time.Duration
		for _, s := range servers {
			left, err := s.Client().PTTL(t.Context(), key).Result()
			must(t, err)
			lefts = append(lefts, left)
		}
		slices.Sort(lefts) // two of three: the end waits for no more
		if lefts[1] < c.least || lefts[2] > c.most {
			t.Errorf("%v: got %v left of the leases; want %v to %v on a quorum", c.signal, lefts, c.least, c.most)
		}
		execute(t, nodes, "-n", key, "true").want(t, 75)
	}
}

// outlives waits until the command, which says its number first, was reaped: a signal does not
// go to what is none any more.
func (p *process) outlives(t *testing.T) {
	t.Helper()
	eventually(t, "the end of the command", func() bool {
		pid, err := strconv.Atoi(strings.Fields(p.stdout())[0])
		return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// Without a quorum the key keeps the lease that it has, and the end waits for no node.
func TestALateSignalLeavesTheLeaseWithoutAQuorum(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	p := launch(t, nodes, "--ttl", "20s", "--hold-at-least", "25s", "k", "sh", "-c", "echo $$ ready; exit 5")
	p.outlives(t)
	for _, s := range servers[1:] {
		must(t, s.Pause())
	}
	p.signal(t, sigTERM)
	began := time.Now()
	p.wait(t).want(t, 5)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("got it ended after %v; want no wait beyond a node timeout of 1s", took)
	}
	for _, s := range servers[1:] {
		must(t, s.Resume())
	}
	if n := exists(t, servers, "k"); n != 3 {
		t.Errorf("got %d keys afterwards; want all", n)
	}
}

func TestExecHoldsAtLeastAndAtMost(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	began := time.Now()
	execute(t, nodes, "--hold-at-least", "700ms", "k", "sh", "-c", "exit 5").want(t, 5)
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("got the lock released after %v; want 700ms", took)
	}
	began = time.Now()
	execute(t, nodes, "--max-hold", "3s", "--kill-after", "1400ms", "--signal", "USR1", "k", "sh", "-c",
		`trap "echo asked; exit 0" USR1; while :; do sleep 0.01; done`).want(t, 123, "asked", "k was held for ", "CMD must be dead after --max-hold 3s")
	if took := time.Since(began); took < 1600*time.Millisecond {
		t.Errorf("got it ended after %v; want 1.6s at least", took)
	}
	execute(t, nodes, "--max-hold", "3s", "--kill-after", "1400ms", "k", "sh", "-c",
		`trap "" TERM; while :; do sleep 0.01; done`).want(t, 123, "ending sh", "killed sh")
}

// What a command leaves in the background must not outlive the lock.
func TestExecEndsWhatTheCommandLeavesRunning(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "beat")
	cmd := prepare(t, nodes, append(execFlags[:3:3], "--kill-after", "300ms", "k", "sh", "-c",
		`"$0" "$1" & until test -s "$1.0" && test -s "$1.1" && test -s "$1.2" && test -s "$1.3"; do sleep 0.01; done; exit 6`, os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=family")
	finish(t, cmd).want(t, 6, "left running", "did not end when asked")
	for i := range family {
		if pid, _ := lastBeat(t, file+"."+strconv.Itoa(i)); pid == 0 || alive(pid) {
			t.Errorf("process %d of the family, %d: it is not dead", i, pid)
		}
	}
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// A script's own background processes become children of what it execs.
func TestExecLeavesAloneWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	cmd := prepare(t, nodes)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `sleep 1000 >&- 2>&- & echo $!; exec "$0" exec --node-timeout 1s k sh -c 'sleep 1000 & exit 4'`, command}
	r := finish(t, cmd)
	r.want(t, 4, "left running")
	pid, err := strconv.Atoi(strings.TrimSpace(r.out))
	if err != nil || !alive(pid) {
		t.Errorf("got %q, %v; want the script's own process alive", r.out, err)
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
}

func TestExecKillsAtOnceWhenTheLockIsTakenAway(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := launch(t, nodes, "--ttl", "3s", "k", "sh", "-c", `trap "" TERM; echo ready; while :; do sleep 0.01; done`)
	run(t, nodes, "release", "--force", "--yes", "--node-timeout", "1s", "k").want(t, 0, "removed")
	p.wait(t).want(t, 124, "killed sh: k was taken away (release --force, DEL, eviction): ", " of 3 nodes no longer have it: 127.0.0.1:")
}

func TestExecSaysWhichNodesItLeavesOut(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	must(t, servers[1].RestartEmpty())
	if r := execute(t, nodes, "k", "true"); r.code != 0 || r.errs != "" {
		t.Errorf("got %+v; want it run, and nothing for cron to mail", r)
	}
	_, blank := blanks(t, 3, redisserver.Config{})
	execute(t, blank, "-n", "k", "true").want(t, 69, "redlock nodes join --wait")
}

// renewals is how often a lease of ten seconds is renewed for it to have outlived
// its first: at a third each time.
const renewals = 4

// The renewals are counted at a node, no matter what time they take; nobody else gets the
// lock meanwhile.
func TestExecIsRenewedForAsLongAsItRuns(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	enough := filepath.Join(t.TempDir(), "enough")
	p := launch(t, nodes, "--holder", "cron", "k", "sh", "-c", `echo ready; until test -e "$0"; do sleep 0.05; done; echo done`, enough)
	other := open(t, nodes)
	seen := 0
	before, err := servers[0].Client().PTTL(t.Context(), "k").Result()
	must(t, err)
	eventually(t, "the renewals", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %+v", p.wait(t))
		}
		if lock, err := other.TryAcquire(t.Context(), "k"); err == nil {
			t.Fatalf("another got the lock with token %d", lock.Token())
		}
		left, err := servers[0].Client().PTTL(t.Context(), "k").Result()
		must(t, err)
		if left > before { // it only falls by itself
			seen++
		}
		before = left
		return seen >= renewals
	})
	must(t, os.WriteFile(enough, nil, 0o600))
	p.wait(t).want(t, 0, "done")
}
