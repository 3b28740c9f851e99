// Package process runs the server processes of the lab: it starts one and waits until it
// answers, signals and ends it, and changes what it has on its disk meanwhile.
package process

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopFor bounds the wait for a process to end after SIGTERM; what then still runs is
// killed.
const stopFor = 5 * time.Second

// testServer names the server that is started where a program does not say which.
const testServer = "REDLOCK_TEST_SERVER"

// ErrNoServer means that there is no server program to start.
var ErrNoServer = errors.New("chaos: no server program")

// Find returns the path of the program that is named, or of the first server in PATH.
func Find(name string) (string, error) {
	if name = cmp.Or(name, os.Getenv(testServer)); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoServer, err)
		}
		return filepath.Abs(path) // a server has a directory of its own
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no redis-server and no valkey-server in PATH", ErrNoServer)
}

// Process is one run of the program. A nil one has ended.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
	err   error         // how it ended; read after ended
}

// Config is how a program is run.
type Config struct {
	Binary string // its path
	Args   []string
	Env    []string // the whole environment
	Dir    string   // where it runs
	Log    string   // the file that gets what it prints
	// Attr is how the system starts it, such as its user; nil: as this program.
	Attr *syscall.SysProcAttr
}

// Start runs the program. It dies with this one, where the system can do that.
func Start(c Config) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("chaos: start server: %w", err)
	}
	defer log.Close()
	// The process outlives every call, so no context bounds it.
	cmd := exec.CommandContext(context.Background(), c.Binary, c.Args...) //nolint:gosec // the caller's own program is the point
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, log, log
	cmd.SysProcAttr = c.Attr
	DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("chaos: start %s: %w", c.Binary, err)
	}
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Running reports whether the process runs; one that is suspended does.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID returns the process id, or 0 if it has ended.
func (p *Process) PID() int {
	if !p.Running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Stop ends the process in good order, and waits for it. One that does not end in
// time is killed: that is no error, and neither is a process that has ended already.
func (p *Process) Stop() error {
	if !p.Running() {
		return nil
	}
	if err := terminate(p.cmd.Process); err != nil {
		return errors.Join(err, p.Kill())
	}
	timer := time.NewTimer(stopFor)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// Kill ends the process at once, and waits until it is gone.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// errNotRunning is what signals to a process that has ended give.
var errNotRunning = errors.New("the server is not running")

// Suspend returns when the process has stopped (SIGSTOP).
func (p *Process) Suspend() error {
	if !p.Running() {
		return errNotRunning
	}
	return suspend(p.cmd.Process)
}

// Proceed continues a process that is suspended (SIGCONT).
func (p *Process) Proceed() error {
	if !p.Running() {
		return errNotRunning
	}
	return proceed(p.cmd.Process)
}

// ignoreDone is for signals to a process that ended at the same moment.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// Wipe empties a data directory.
func Wipe(data string) error {
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	return os.Mkdir(data, 0o700)
}

// Restore puts the data of a snapshot in the place of those that are there.
func Restore(data, snapshot string) error {
	if err := Wipe(data); err != nil {
		return err
	}
	return os.CopyFS(data, os.DirFS(snapshot))
}

// Snapshot copies a data directory to a new one in dir.
func Snapshot(data, dir string) (string, error) {
	to, err := os.MkdirTemp(dir, "snapshot-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		return "", errors.Join(err, os.RemoveAll(to))
	}
	return to, nil
}

// ErrNoAOF means that a data directory has no append-only file.
var ErrNoAOF = errors.New("no append-only file")

// AOF returns the newest of the files that hold the writes since the last rewrite
// (Redis 7: appendonly.aof.N.incr.aof), and its length in bytes.
func AOF(data string) (path string, size int64, err error) {
	found, err := filepath.Glob(filepath.Join(data, "appendonlydir", "*.incr.aof"))
	if err != nil {
		return "", 0, err
	}
	if len(found) == 0 {
		return "", 0, ErrNoAOF
	}
	path = slices.MaxFunc(found, byModTime)
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
}

// byModTime puts the file that was written last last; N in the names has no
// fixed width.
func byModTime(a, b string) int {
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return 0
	}
	return fa.ModTime().Compare(fb.ModTime())
}

// ErrPortTaken means that another process answers at, or listens on, the port.
var ErrPortTaken = errors.New("the port is taken")

// readyFor bounds the wait for a new process to answer: a busy machine that loads a
// large file takes seconds.
const readyFor = 20 * time.Second

// probeFor bounds one question to a server that may be a stranger's; it is
// asked again until readyFor is over.
const probeFor = 200 * time.Millisecond

// logTail is how much of a log goes into an error message, in bytes.
const logTail = 1500

// AwaitReady returns when the process answers commands at its address. It asks over a
// socket of its own: go-redis writes each refused connection to standard error. What
// the process has logged is for the error.
func (p *Process) AwaitReady(addr, password string, logged func() (string, error)) error {
	var last error
	for deadline := time.Now().Add(readyFor); time.Now().Before(deadline); {
		select {
		case <-p.ended:
			err, text := p.err, Tail(logged)
			if strings.Contains(text, "Address already in use") {
				err = ErrPortTaken
			}
			return fmt.Errorf("chaos: %s on %s ended at its start: %w\n%s", p.cmd.Path, addr, err, text)
		case <-time.After(5 * time.Millisecond):
		}
		pid, err := probe(addr, password)
		switch {
		case err != nil:
			last = err
		case pid != p.cmd.Process.Pid:
			return fmt.Errorf("chaos: %s answers as process %d, not %d: %w", addr, pid, p.cmd.Process.Pid, ErrPortTaken)
		default:
			return nil
		}
	}
	return fmt.Errorf("chaos: %s on %s does not answer after %v: %w\n%s", p.cmd.Path, addr, readyFor, last, Tail(logged))
}

// probe returns the process id of the server that answers PING with PONG.
func probe(addr, password string) (pid int, err error) {
	dialer := net.Dialer{Timeout: probeFor}
	conn, err := dialer.DialContext(context.Background(), "tcp4", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probeFor)); err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	if password != "" {
		if err := ask(conn, r, "+OK", "AUTH", password); err != nil {
			return 0, err
		}
	}
	if err := ask(conn, r, "+PONG", "PING"); err != nil {
		return 0, err // LOADING, for one
	}
	if err := ask(conn, r, "$", "INFO", "server"); err != nil {
		return 0, err
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("no process_id in INFO: %w", err)
		}
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			return strconv.Atoi(id)
		}
	}
}

// ask sends a command and reads the first line of its reply.
func ask(w io.Writer, r *bufio.Reader, want string, command ...string) error {
	if _, err := io.WriteString(w, encode(command)); err != nil {
		return err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if line = strings.TrimSpace(line); !strings.HasPrefix(line, want) {
		return fmt.Errorf("%s: %s", command[0], line)
	}
	return nil
}

// encode writes a command as the protocol has it.
func encode(command []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, arg := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// Tail is the end of the log, for error messages.
func Tail(logged func() (string, error)) string {
	text, err := logged()
	if err != nil {
		return err.Error()
	}
	if len(text) > logTail {
		text = "..." + text[len(text)-logTail:]
	}
	return text
}
