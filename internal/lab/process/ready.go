package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

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
