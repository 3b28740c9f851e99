//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	programVar = "REDLOCK_TEST_PROGRAM" // what this binary is, if not the tests
	addrVar    = "REDLOCK_TEST_ADDR"
)

// TestMain is the tests, or the program that a test runs.
func TestMain(m *testing.M) {
	switch os.Getenv(programVar) {
	case "":
		os.Exit(m.Run())
	case "server":
		l, err := net.Listen("tcp4", os.Getenv(addrVar))
		if err != nil {
			panic(err)
		}
		answer(l, os.Getpid(), "secret")
	case "refused":
		fmt.Println("bind: Address already in use")
		os.Exit(1)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf")
	case "parent":
		p, err := Start(Config{Binary: os.Args[0], Env: program("mute"), Log: os.DevNull})
		if err != nil {
			panic(err)
		}
		fmt.Println(p.PID())
	}
	time.Sleep(time.Minute) // it is killed before
}

func program(name string) []string { return append(os.Environ(), programVar+"="+name) }

// answer answers as a server of that process id and password.
func answer(l net.Listener, pid int, password string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		known := password == ""
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch word := lines.Text(); {
			case word == password:
				known = true
				fmt.Fprint(conn, "+OK\r\n")
			case word == "PING" && known:
				fmt.Fprint(conn, "+PONG\r\n")
			case word == "PING":
				fmt.Fprint(conn, "-NOAUTH\r\n")
			case word == "INFO":
				fmt.Fprintf(conn, "$99\r\nredis_mode:standalone\r\nprocess_id:%d\r\n", pid)
			}
		}
	}
}

// begins starts this binary as that program.
func begins(t *testing.T, name string, env ...string) (p *Process, logged func() (string, error)) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Config{Binary: os.Args[0], Env: append(program(name), env...), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p, func() (string, error) {
		text, err := os.ReadFile(log)
		return string(text), err
	}
}

// listens listens on a free port.
func listens(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestAProcessIsReadyWhenItAnswersItself(t *testing.T) {
	l := listens(t)
	_ = l.Close()
	p, logged := begins(t, "server", addrVar+"="+l.Addr().String())
	if err := p.AwaitReady(l.Addr().String(), "secret", logged); err != nil || !p.Running() || p.PID() == 0 {
		t.Fatalf("got %v, running: %v, process %d; want it ready", err, p.Running(), p.PID())
	}
	for range 2 { // the second time, there is nothing to do
		if err := p.Stop(); err != nil || p.Running() || p.PID() != 0 {
			t.Errorf("after Stop: got %v, running: %v, process %d; want it ended", err, p.Running(), p.PID())
		}
	}
	if err := errors.Join(p.Suspend(), p.Proceed()); !errors.Is(err, errNotRunning) {
		t.Errorf("signals to a process that has ended: got %v; want errNotRunning", err)
	}
}

// A process is not ready where a stranger answers at its address, nor where it ends at once; of
// which both may be since the port is taken.
func TestAProcessIsNotReadyWhereAnotherAnswersOrItEnds(t *testing.T) {
	l := listens(t)
	go answer(l, 1, "")
	p, logged := begins(t, "mute")
	if err := p.AwaitReady(l.Addr().String(), "", logged); !errors.Is(err, ErrPortTaken) {
		t.Errorf("a stranger answers: got %v; want ErrPortTaken", err)
	}
	p, logged = begins(t, "refused")
	if err := p.AwaitReady("127.0.0.1:1", "", logged); !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), "bind: ") {
		t.Errorf("the program found its port taken: got %v; want ErrPortTaken and its words", err)
	}
	if p, err := Start(Config{Binary: "/no/such/program", Log: os.DevNull}); err == nil || p.Running() {
		t.Errorf("got %v, running: %v; want an error", err, p.Running())
	}
	if _, err := Find("no-such-program"); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v; want ErrNoServer", err)
	}
}

// A process that is suspended runs, does nothing, and ends in good order when it is stopped.
func TestAProcessThatIsSuspendedHearsThatItIsToEnd(t *testing.T) {
	p, _ := begins(t, "mute")
	if err := p.Suspend(); err != nil || !p.Running() || !stopped(p.PID()) {
		t.Errorf("got %v, running: %v; want it suspended", err, p.Running())
	}
	if err := errors.Join(p.Proceed(), p.Suspend()); err != nil {
		t.Error(err)
	}
	if began, err := time.Now(), p.Stop(); err != nil || p.Running() || time.Since(began) > stopFor {
		t.Errorf("got %v after %v; want it ended by the signal", err, time.Since(began))
	}
	p, logged := begins(t, "deaf")
	for text := ""; !strings.Contains(text, "deaf"); text, _ = logged() {
		time.Sleep(time.Millisecond)
	}
	if err := p.Kill(); err != nil || p.Running() {
		t.Errorf("one that ignores the signal: got %v, running: %v; want it killed", err, p.Running())
	}
}

// The test runs itself as a program that starts a process and is then killed.
func TestServersDieWithAProgramThatIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children with their parent")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = program("parent")
	out, err := parent.StdoutPipe()
	if err := errors.Join(err, parent.Start()); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscan(out, &pid)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		// A zombie whose new parent does not reap it has no command line.
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(line) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}

// The file of the writes since the last rewrite is the one that was written last, no matter its
// number: 9 is greater than 10 by its letters.
func TestTheNewestOfTheAppendOnlyFilesIsFound(t *testing.T) {
	data := t.TempDir()
	if _, _, err := AOF(data); !errors.Is(err, ErrNoAOF) {
		t.Errorf("got %v; want ErrNoAOF", err)
	}
	dir := filepath.Join(data, "appendonlydir")
	err := os.Mkdir(dir, 0o700)
	for i, name := range []string{"a.9.incr.aof", "a.10.incr.aof", "a.11.base.rdb"} {
		file, at := filepath.Join(dir, name), time.Now().Add(time.Duration(i)*time.Minute)
		err = errors.Join(err, os.WriteFile(file, []byte(name), 0o600), os.Chtimes(file, at, at))
	}
	if path, size, last := AOF(data); errors.Join(err, last) != nil || filepath.Base(path) != "a.10.incr.aof" || size != 13 {
		t.Errorf("got %s of %d bytes, %v; want the one that was written last", path, size, errors.Join(err, last))
	}
}
