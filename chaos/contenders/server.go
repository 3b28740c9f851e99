package contenders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/internal/lab/process"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

const startBound = 45 * time.Second

var errNotInstalled = errors.New("not installed")

// errNoClock: the program reads no clock of the C library, or there is no compiler.
var errNoClock = fmt.Errorf("its clock can't be set here: %w", errors.ErrUnsupported)

type kind struct {
	words string // in the table
	label string // before the version that the program tells; empty: prepare sets the version
	nodes int
	ports int  // of each node; the first is the clients'
	clock bool // the program reads its wall clock by the C library, so it can be set
	root  bool // it may run as root
	redis bool // it can have a replica here

	find    func() (string, error)                               // the servers' program
	prepare func(ctx context.Context, s *system) error           // their data; nil: they need none
	args    func(s *system, i int) []string                      // of node i
	ready   func(ctx context.Context, s *system) error           // no error: they answer
	leads   func(ctx context.Context, addr string) (bool, error) // nil if none of them leads
}

// system is the servers of one contender, in a directory of its own.
type system struct {
	kind    kind
	program string
	version string
	nodes   []*node
	spare   []*node // replicas
	memory  int64   // bytes of all its processes, after the start

	dir   string
	cred  *syscall.Credential // nil: as this program
	ports []int
}

func (k kind) start(ctx context.Context) (*system, error) {
	program, err := k.find()
	if err != nil {
		return nil, errors.Join(err, errNotInstalled)
	}
	dir, err := os.MkdirTemp("", "contenders-")
	if err != nil {
		return nil, err
	}
	s := &system{kind: k, program: program, dir: dir}
	if err := s.begin(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *system) begin(ctx context.Context) error {
	err := s.takePorts(s.kind.nodes * s.kind.ports)
	if err == nil && !s.kind.root {
		err = s.unprivileged()
	}
	if err == nil && s.kind.prepare != nil {
		err = s.kind.prepare(ctx, s)
	}
	if err != nil {
		return err
	}
	for i := range s.kind.nodes {
		s.nodes = append(s.nodes, s.node(i))
	}
	if err := s.up(ctx, s.nodes); err != nil {
		return fmt.Errorf("%w\n%s", err, s.logs())
	}
	s.memory = memoryOf(s.nodes)
	if s.kind.label != "" {
		s.version = s.kind.label + " " + versionOf(ctx, s.program)
	}
	return nil
}

func (s *system) node(i int) *node {
	return &node{system: s, addr: s.local(i, 0), args: s.kind.args(s, i), clock: s.kind.clock}
}

// unprivileged runs the servers as nobody where this program is root: databases refuse root.
func (s *system) unprivileged() error {
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return fmt.Errorf("%w: it does not run as root, and there is no user nobody", errNotInstalled)
	}
	s.cred = &syscall.Credential{}
	_, err = fmt.Sscan(nobody.Uid+" "+nobody.Gid, &s.cred.Uid, &s.cred.Gid)
	return errors.Join(err, os.Chown(s.dir, int(s.cred.Uid), int(s.cred.Gid)))
}

// installed finds a program in PATH or at the pattern; pkg is Debian's package of it.
func installed(name, pkg, pattern string) func() (string, error) {
	return func() (string, error) {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1], nil
		}
		return "", fmt.Errorf("%s: %w; Debian's package is %s", name, errNotInstalled, pkg)
	}
}

var number = regexp.MustCompile(`\d+(\.\d+)+`)

// versionOf is the first number in what the program says of itself.
func versionOf(ctx context.Context, program string) string {
	said, _ := exec.CommandContext(ctx, program, "--version").Output()
	return string(number.Find(said))
}

func (s *system) takePorts(n int) error {
	for range n {
		port, err := loopback.Port()
		if err != nil {
			return err
		}
		loopback.Keep(port)
		s.ports = append(s.ports, port)
	}
	return nil
}

func (s *system) port(i, which int) int     { return s.ports[i*s.kind.ports+which] }
func (s *system) local(i, which int) string { return fmt.Sprint("127.0.0.1:", s.port(i, which)) }

func (s *system) file(name ...any) string { return filepath.Join(s.dir, fmt.Sprint(name...)) }

func (s *system) env() []string { return append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir) }

func (s *system) runOnce(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // a database's own program
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env(), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}

// up starts these nodes, and waits until the system answers. A node that ended at its
// start is started again: what the last process left may have been in the way, such as its
// port or its shared memory.
func (s *system) up(ctx context.Context, nodes []*node) error {
	return eventually(ctx, "the servers do not answer", func(ctx context.Context) error {
		for _, n := range nodes {
			if n.process.Running() {
				continue
			}
			if err := n.start(); err != nil {
				return err
			}
		}
		return s.kind.ready(ctx, s)
	})
}

// eventually tries until there is no error, for startBound.
func eventually(ctx context.Context, what string, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		once, end := context.WithTimeout(ctx, time.Second)
		err := try(once)
		end()
		if err == nil {
			return nil
		}
		if wait(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// says is what a server answers to a text, until it closes the connection.
func says(ctx context.Context, addr, text string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline() // without one it is zero, and bounds nothing
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	_, err = io.WriteString(conn, text)
	said, errRead := io.ReadAll(conn)
	return string(said), errors.Join(err, errRead)
}

func expect(ctx context.Context, addr, text, want string) error {
	said, err := says(ctx, addr, text)
	if err == nil && !strings.Contains(said, want) {
		err = fmt.Errorf("%s: got %q; want %q in it", addr, said, want)
	}
	return err
}

func (s *system) addrs() []string {
	var addrs []string
	for _, n := range s.nodes {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// most is more than half of the nodes, the leader first.
func (s *system) most(ctx context.Context) ([]*node, error) {
	lead, err := s.leader(ctx)
	others := slices.Delete(slices.Clone(s.nodes), lead, lead+1)
	return append([]*node{s.nodes[lead]}, others[:s.majority()-1]...), err
}

// leader is the number of the node that leads; where none does by design, the first.
func (s *system) leader(ctx context.Context) (int, error) {
	if s.kind.leads == nil {
		return 0, nil
	}
	for i, n := range s.nodes {
		if is, err := s.kind.leads(ctx, n.addr); is || err != nil {
			return i, err
		}
	}
	return 0, errors.New("no server leads")
}

func (s *system) majority() int { return len(s.nodes)/2 + 1 }

func (s *system) close() {
	for _, n := range slices.Concat(s.nodes, s.spare) {
		_ = n.kill() // it may have ended
	}
	for _, port := range s.ports {
		loopback.Drop(port)
	}
	_ = os.RemoveAll(s.dir) // it is a temporary directory
}

func (s *system) logs() string {
	var b strings.Builder
	for i, n := range s.nodes {
		text, _ := os.ReadFile(n.file("log"))
		fmt.Fprintf(&b, "server %d: ...%s\n", i, text[max(0, len(text)-600):])
	}
	return b.String()
}

// node is one server of a system. It survives its process.
type node struct {
	system  *system
	addr    string
	args    []string
	clock   bool // its wall clock can be set
	process *process.Process
}

func (n *node) file(name string) string {
	return n.system.file(name, "-", strings.ReplaceAll(n.addr, ":", "-"))
}

func (n *node) start() (err error) {
	clock, err := n.clockEnv()
	if err != nil {
		return err
	}
	n.process, err = process.Start(process.Config{
		Binary: n.system.program, Args: n.args, Env: append(n.system.env(), clock...), Dir: n.system.dir, Log: n.file("log"),
		Attr: &syscall.SysProcAttr{Credential: n.system.cred, Setpgid: true},
	})
	return err
}

func (n *node) kill() error {
	if !n.process.Running() {
		return nil
	}
	_ = syscall.Kill(n.process.PID(), syscall.SIGSTOP) // so that it has no more children while they are counted
	err := n.signal(syscall.SIGKILL)                   // a database's children leave its group
	return errors.Join(err, n.process.Kill())
}

// hang stops it with all its children (SIGSTOP), and wake continues it.
func (n *node) hang() error { return n.signal(syscall.SIGSTOP) }
func (n *node) wake() error { return n.signal(syscall.SIGCONT) }

func (n *node) signal(sig syscall.Signal) error {
	var errs []error
	for _, pid := range n.pids() {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (n *node) pids() []int {
	if pid := n.process.PID(); pid != 0 {
		return family(pid)
	}
	return nil
}

// clockEnv makes a process read its wall clock from a file. The preloaded library and the
// file must be in a directory that the server's user can read.
func (n *node) clockEnv() ([]string, error) {
	library, err := process.FakeClock()
	if !n.clock || errors.Is(err, process.ErrNoFakeClock) {
		n.clock = false
		return nil, nil
	}
	code, errRead := os.ReadFile(library)                         //nolint:gosec // what was built for this
	errWrite := os.WriteFile(n.file("fakeclock.so"), code, 0o644) //nolint:gosec // for the server's user
	return []string{"LD_PRELOAD=" + n.file("fakeclock.so"), "REDLOCK_FAKE_CLOCK=" + n.file("clock")}, errors.Join(err, errRead, errWrite, n.step(0))
}

// step sets its wall clock so many seconds off, if it can be set.
func (n *node) step(seconds int) error {
	if !n.clock {
		return errNoClock
	}
	return process.SetClock(n.file("clock"), fmt.Sprintf("%+d", seconds))
}

// family is a process and, where there is a /proc, all its descendants.
func family(pid int) []int {
	children := map[int][]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range names {
		status, _ := os.ReadFile(name) //nolint:gosec // of /proc; of one that is gone it is empty
		_, ids, _ := strings.Cut(string(status), "\nPid:")
		var own, parent int
		if n, _ := fmt.Sscanf(ids, "%d\nPPid: %d", &own, &parent); n == 2 {
			children[parent] = append(children[parent], own)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// memoryOf is the nodes' proportional set size, in bytes: what they share counts once.
func memoryOf(nodes []*node) int64 {
	var total int64
	for _, n := range nodes {
		for _, pid := range n.pids() {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
			_, rest, _ := strings.Cut(string(text), "\nPss:")
			var kilobytes int64
			_, _ = fmt.Sscan(rest, &kilobytes) // it stays 0 where the system does not tell
			total += kilobytes << 10
		}
	}
	return total
}
