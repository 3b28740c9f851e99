//go:build unix

package main_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
)

// The commands of docs/WHICH.md by which one master grows to three while clients run, on real
// servers, and one of them is taken out again. MaxTTL stays the cluster's, below the operator's own.
func TestOneMasterGrowsToThreeByThePagesCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/WHICH.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "### Grow to three and five")
	section, _, _ = strings.Cut(section, "\n#")
	steps := regexp.MustCompile("`redlock ([^`]+)`").FindAllStringSubmatch(section, -1)
	if len(steps) != 2 || steps[0][1] != "nodes change --add" || steps[1][1] != "nodes change --remove" {
		t.Fatalf("got the commands %q; want nodes change --add, then nodes change --remove", steps)
	}
	servers, nodes := blanks(t, 3, redisserver.Config{})
	one := servers[0].URL()
	two := one + "," + servers[1].URL()
	do := func(list, command, addr string, more ...string) {
		t.Helper()
		args := append(append(strings.Fields(command), addr, "--node-timeout", "1s", "--yes"), more...)
		done := run(t, list, args...)
		done.want(t, 0, "generation", ", MaxTTL 2s: ", "needed")
		if told := strings.Contains(done.errs, "before the next change give all clients this list"); told != strings.HasSuffix(command, "--add") {
			t.Errorf("%s: got %s; want clients named that lack a node, if there may be any", command, done.errs)
		}
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
	do(one, steps[0][1], servers[1].Addr(), "--max-ttl", "2s") // or the second server waits for its own, since one of two is no quorum
	under(one, two)
	for _, args := range []string{
		"nodes", "status orders/42", "doctor --ttl 1500ms", "nodes change --close --dry-run",
		"nodes change --remove " + servers[1].Addr() + " --dry-run", "nodes change --add " + servers[2].Addr() + " --dry-run",
	} {
		r := run(t, two, append(strings.Fields(args), "--node-timeout", "1s", "--max-ttl", "2s")...)
		if all := strings.Join(strings.Fields(r.out+r.errs), " "); !strings.Contains(all, "list before") || !regexp.MustCompile(`:[0-9]+ (\(|has the list before the latest; it used it )within the last minute`).MatchString(all) || strings.Contains(all, "none yet") {
			t.Errorf("%s: got %s; want the client that has the list before", args, all)
		}
		if strings.Contains(args, "--dry-run") {
			r.want(t, 75)
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

// An operator who goes on at once with the next change is told whose locks it would end, and
// nothing is changed before --yes.
func TestTheNextChangeNamesAHolderBeforeItLosesItsLock(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 3, redisserver.Config{})
	one := servers[0].URL()
	two := one + "," + servers[1].URL()
	usual := []string{"--node-timeout", "1s", "--max-ttl", "4s"}
	add := func(list string, which int, more ...string) result {
		return run(t, list, append(append([]string{"nodes", "change", "--add", servers[which].Addr()}, more...), usual...)...)
	}
	run(t, one, append([]string{"nodes", "admit", "--yes"}, usual...)...).want(t, 0)
	early := run(t, two, append([]string{"nodes"}, usual...)...)
	if early.want(t, 0, "unlisted", "redlock nodes change --add"); strings.Contains(early.out, "redlock nodes join") || strings.Contains(early.out, "admit --yes") {
		t.Errorf("with a list that the cluster does not have yet: got %s; want no advice to take its new node in", early.out)
	}
	holder := open(t, one, redlock.WithHolder("the-holder"), redlock.WithTTL(4*time.Second), redlock.WithMaxTTL(4*time.Second))
	lock, err := holder.Acquire(t.Context(), "held")
	must(t, err)
	add(one, 1).want(t, 0, "generation 1")
	add(two, 2).want(t, 75, "not yet known which clients have the list before: ", "s more", "the-holder (within the last minute)", "--yes")
	add(two, 2, "--dry-run").want(t, 75, "may have the list before")
	run(t, two, append([]string{"nodes"}, usual...)...).want(t, 0, "generation 1", "the-holder")
	must(t, lock.Err())
	add(two, 2, "--wait", "5s", "--yes").want(t, 64, "--wait 5s")
	add(two, 2, "--wait", "1s").want(t, 75, "the-holder (within the last minute)", "--yes")
	must(t, lock.Err())
	add(two, 2, "--yes").want(t, 0, "generation 2", "the-holder")
	if err := lock.Err(); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("its lock, after --yes: got %v; want ErrLost", err)
	}
}

// With --wait the next change goes on once the holder has ended, and tells each stage once: it
// failed at once, and told a line a second.
func TestTheNextChangeWaitsForAHolder(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 3, redisserver.Config{})
	one := servers[0].URL()
	two := one + "," + servers[1].URL()
	usual := []string{"--node-timeout", "1s", "--max-ttl", "4s"}
	run(t, one, append([]string{"nodes", "admit", "--yes"}, usual...)...).want(t, 0)
	holder := open(t, one, redlock.WithHolder("the-holder"), redlock.WithTTL(4*time.Second), redlock.WithMaxTTL(4*time.Second))
	lock, err := holder.Acquire(t.Context(), "held")
	must(t, err)
	run(t, one, append([]string{"nodes", "change", "--add", servers[1].Addr()}, usual...)...).want(t, 0, "generation 1")
	p := start(t, prepare(t, two, append([]string{"nodes", "change", "--add", servers[2].Addr(), "--wait", "5m"}, usual...)...))
	waits := "waiting for clients that have the list before: the-holder (within the last minute): "
	began := time.Now()
	eventually(t, "some seconds of its wait", func() bool { // it told a line each
		if !strings.Contains(p.stderr(), waits) {
			began = time.Now()
		}
		return time.Since(began) > 3*time.Second
	})
	must(t, lock.Err())
	must(t, lock.Release(t.Context()))
	must(t, holder.Close())
	for _, s := range servers[:2] { // as if its last sign were older than a minute
		must(t, s.Client().Del(t.Context(), lua.StragglersKey).Err())
	}
	r := p.wait(t)
	r.want(t, 0, waits, "--yes ends their locks at once", "generation 2")
	told := map[string]int{}
	for line := range strings.Lines(r.errs) {
		stage, _, _ := strings.Cut(strings.TrimSpace(line), " left")
		told[regexp.MustCompile(`[0-9.]+m?s`).ReplaceAllString(stage, "")]++
	}
	for line, times := range told {
		if times > 1 {
			t.Errorf("got %q %d times; want it told once", line, times)
		}
	}
}

// One command adds a node, removes another, and raises MaxTTL with the first step. A dry run
// foretells that, and once it is done the same command changes nothing. With --yes a client of
// the first list has its lock until the second step begins.
func TestOneCommandGoesThroughAllSteps(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 3, redisserver.Config{})
	kept, removed, added := servers[0], servers[1].Addr(), servers[2].Addr()
	list, after := kept.URL()+","+servers[1].URL(), []string{kept.Addr(), added}
	slices.Sort(after)
	args := func(more ...string) []string {
		return append([]string{"nodes", "change", "--add", added, "--remove", removed, "--max-ttl", "4s", "--node-timeout", "1s"}, more...)
	}
	steps := []string{"nodes change: 1 of 3, add " + added + ", MaxTTL 4s: ", "nodes change: 2 of 3, remove " + removed + ": ", "nodes change: 3 of 3, close: "}
	done := "nodes change: done: cluster "
	same := func(when string, before []map[string]string) {
		t.Helper()
		if now := records(t, servers); !reflect.DeepEqual(now, before) {
			t.Errorf("%s: got %v; want what was there: %v", when, now, before)
		}
	}
	run(t, list, "nodes", "admit", "--yes", "--max-ttl", "3s", "--node-timeout", "1s").want(t, 0)
	before := records(t, servers)
	run(t, list, args("--dry-run")...).want(t, 0, steps[0]+"it waits 3s", steps[1]+"it waits 4s", steps[2]+"it waits 4s", "nothing was changed")
	same("a dry run", before)
	holder := open(t, list, redlock.WithHolder("the-holder"), redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(3*time.Second))
	lock, err := holder.Acquire(t.Context(), "held")
	must(t, err)
	p := start(t, prepare(t, list, args("--yes")...))
	eventually(t, "the new node's wait", func() bool { return strings.Contains(p.stderr(), steps[0]+"waiting for the new node") })
	must(t, lock.Err())
	ended := p.wait(t)
	ended.want(t, 0, steps[0], steps[1], steps[2], "the-holder", done, ", generation 3, MaxTTL 4s: "+strings.Join(after, ", "))
	if strings.Contains(ended.errs, "before the next change") {
		t.Errorf("behind a close: got %s; want nobody told to give the list before the next change", ended.errs)
	}
	if err := lock.Err(); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("the lock of a client two lists back: got %v; want ErrLost", err)
	}
	before = records(t, servers)
	again := run(t, list, args()...)
	again.want(t, 0, done, ", generation 3, MaxTTL 4s: "+strings.Join(after, ", "))
	same("the command again", before)
	_, pin, _ := strings.Cut(again.errs, "give clients REDLOCK_CLUSTER=")
	pin, _, _ = strings.Cut(pin, ":")
	next := kept.URL() + "," + servers[2].URL()
	run(t, next, "exec", "--cluster", pin, "--ttl", "3s", "--node-timeout", "1s", "k", "--", "true").want(t, 0)
	run(t, next, "exec", "--cluster", "another", "--ttl", "3s", "--node-timeout", "1s", "k", "--", "true").want(t, 78, "pinned to another")
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

// atCommand kills a process at its k-th command that changes a node, or only stops it.
type atCommand struct {
	k       int
	stops   bool
	arrives bool // the command, all the same
	count   atomic.Int64
	kill    atomic.Pointer[process]
}

// before puts a proxy in front of each server, and returns their URLs.
func (a *atCommand) before(t *testing.T, servers []*redisserver.Server) string {
	t.Helper()
	var urls []string
	for _, s := range servers {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		urls = append(urls, "redis://"+l.Addr().String())
		go func() {
			for {
				from, err := l.Accept()
				if err != nil {
					return
				}
				go a.forward(from, s.Addr())
			}
		}()
	}
	return strings.Join(urls, ",")
}

// forward passes on what a connection says, and the replies.
func (a *atCommand) forward(from net.Conn, addr string) {
	defer from.Close()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(from, to) }()
	for buf := make([]byte, 1<<16); ; {
		n, err := from.Read(buf)
		for _, s := range []*lua.Script{lua.SettleScript, lua.AcceptScript, lua.ForceScript, lua.InstallScript, lua.NoticeScript} {
			if err == nil && bytes.Contains(buf[:n], []byte(s.Hash)) && bytes.Contains(bytes.ToLower(buf[:n]), []byte("evalsha")) && a.count.Add(1) == int64(a.k) {
				sent := syscall.SIGKILL
				if a.stops {
					sent = syscall.SIGSTOP
				}
				_ = a.kill.Load().cmd.Process.Signal(sent)
				if !a.arrives {
					return
				}
			}
		}
		if err != nil {
			return
		}
		if _, err = to.Write(buf[:n]); err != nil {
			return
		}
	}
}
