package contenders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

// startBound bounds the start of a system's servers.
const startBound = 45 * time.Second

// errNotInstalled means that a contender's servers can't be had here.
var errNotInstalled = errors.New("not installed")

// errNoClock is why no clock is stepped: of a program that does not read it by the C
// library, or where there is no C compiler.
var errNoClock = fmt.Errorf("its clock can't be set here: %w", errors.ErrUnsupported)

// node is one server of a system. It survives its process.
type node interface {
	addr() string
	// start runs the process, with what the last one left on its disk.
	start() error
	// kill ends it at once (SIGKILL), and waits for that.
	kill() error
	// hang stops it with all its children (SIGSTOP), and wake continues it.
	hang() error
	wake() error
	// step sets its wall clock by so many seconds off; errors.ErrUnsupported where it
	// can't be.
	step(seconds int) error
	// pids are its process and the children of that.
	pids() []int
}

// replica is a server that takes a node's place.
type replica interface {
	// lag holds back what the node sends from here on.
	lag()
	// promote makes it the node, whose process has been killed.
	promote(ctx context.Context) error
	// leave ends it, if it was not promoted.
	leave()
}

// followed is a node that a replica can follow.
type followed interface {
	node
	// follow starts a replica, and returns when it has all that the node has.
	follow(ctx context.Context) (replica, error)
}

// system is the servers of one contender, in a directory of its own.
type system struct {
	version string
	nodes   []node
	took    time.Duration // to start, up to the first answer
	memory  int64         // bytes of all its processes, after the start
	leader  func(ctx context.Context, addrs []string) (int, error)

	dir   string
	cred  *syscall.Credential // nil: as this program
	ready func(ctx context.Context, addrs []string) error
	ports []int
	undo  func() // on top of killing the nodes
}

func newSystem(name string) (*system, error) {
	dir, err := os.MkdirTemp("", "contenders-"+name+"-")
	if err != nil {
		return nil, err
	}
	return &system{dir: dir}, nil
}

// unprivileged has the servers run as nobody, where this program is root: databases
// refuse to run as root.
func (s *system) unprivileged() error {
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return fmt.Errorf("%w: it does not run as root, and there is no user nobody", errNotInstalled)
	}
	uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
	s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(err1, err2, os.Chown(s.dir, int(uid), int(gid)))
}

// lookFor finds a program in PATH or at the patterns; pkg is Debian's package of it.
func lookFor(name, pkg string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s: %w; Debian's package is %s", name, errNotInstalled, pkg)
}

// freePorts are n ports that are the system's until it is closed.
func (s *system) freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		port, err := loopback.Port()
		if err != nil {
			return nil, err
		}
		loopback.Keep(port)
		ports = append(ports, port)
	}
	s.ports = append(s.ports, ports...)
	return ports, nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (s *system) add(p *proc) {
	p.system = s
	s.nodes = append(s.nodes, p)
}

// runOnce runs a program that prepares the servers' data.
func (s *system) runOnce(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // a database's own program
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}

// begin starts all nodes, and waits until the system answers. After an error the
// system is closed.
func (s *system) begin(ctx context.Context, ready func(ctx context.Context, addrs []string) error) (*system, error) {
	s.ready = ready
	began := time.Now()
	err := s.up(ctx, s.nodes)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, s.logs())
		s.close()
		return nil, err
	}
	s.took, s.memory = time.Since(began), memoryOf(s.nodes)
	return s, nil
}

// up starts these nodes, and waits until the system answers.
func (s *system) up(ctx context.Context, nodes []node) error {
	for _, n := range nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		once, end := context.WithTimeout(ctx, time.Second)
		err := s.ready(once, s.addrs())
		end()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the servers do not answer: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
		if err := again(nodes); err != nil {
			return err
		}
	}
}

// again starts those once more that ended at their start: what the last process left
// may have been in the way, such as its port or its shared memory.
func again(nodes []node) error {
	for _, n := range nodes {
		if p, ok := n.(*proc); ok && p.ended() {
			if err := p.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *system) addrs() []string {
	var addrs []string
	for _, n := range s.nodes {
		addrs = append(addrs, n.addr())
	}
	return addrs
}

// first is the node that leads, or the first where there is no leader.
func (s *system) first(ctx context.Context) (int, error) {
	if s.leader == nil {
		return 0, nil
	}
	return s.leader(ctx, s.addrs())
}

// majority is how many nodes are more than half of all.
func (s *system) majority() int { return len(s.nodes)/2 + 1 }

func (s *system) close() {
	for _, n := range s.nodes {
		_ = n.kill() // it may have ended
	}
	if s.undo != nil {
		s.undo()
	}
	for _, port := range s.ports {
		loopback.Drop(port)
	}
	_ = os.RemoveAll(s.dir) // it is a temporary directory
}

// logs is the end of what the servers have printed.
func (s *system) logs() string {
	var b strings.Builder
	for i, n := range s.nodes {
		p, ok := n.(*proc)
		if !ok {
			continue
		}
		text, _ := os.ReadFile(p.log())
		fmt.Fprintf(&b, "server %d: ...%s\n", i, text[max(0, len(text)-600):])
	}
	return b.String()
}
