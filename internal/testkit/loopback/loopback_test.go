package loopback_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

func TestPortsCanBeTakenAndComeFromBelowTheEphemeralRange(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		port, err := loopback.Port()
		testkit.Must(t, err)
		if port < 1024 || port >= 32768 {
			t.Errorf("got port %d; want one that outgoing connections do not use", port)
		}
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Errorf("port %d is not free: %v", port, err)
			continue
		}
		defer l.Close()
		if seen[port] {
			t.Errorf("port %d was given twice while in use", port)
		}
		seen[port] = true
	}
}

// A port that is kept is given to nobody, and its own server can come back to it.
func TestAPortThatIsKeptIsNotGivenAway(t *testing.T) {
	l, err := loopback.Listen()
	testkit.Must(t, err)
	own := loopback.PortOf(l)
	testkit.Must(t, l.Close())
	for port := range 1 << 16 {
		loopback.Keep(port)
	}
	if port, err := loopback.Port(); err == nil {
		t.Errorf("got %d, which is kept", port)
	}
	if l, err = loopback.ListenPort(own); err != nil {
		t.Errorf("its own server can't come back: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
	for port := range 1 << 16 {
		loopback.Drop(port)
	}
	if _, err := loopback.Port(); err != nil {
		t.Error(err)
	}
}

// Two processes are given no port in common, nor is one given the same port twice soon.
func TestEachProcessHasPortsOfItsOwn(t *testing.T) {
	const many = 300
	of := map[int]string{}
	take := func(who string, ports []int) {
		for _, port := range ports {
			if before := of[port]; before != "" {
				t.Errorf("port %d is %s's, and was %s's", port, who, before)
			}
			of[port] = who
		}
	}
	if os.Getenv(asChild) != "" {
		for range many {
			port, err := loopback.Port()
			fmt.Println("port", port, err)
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other one has its ports
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), asChild+"=1")
	out, err := child.StdoutPipe()
	testkit.Must(t, err)
	in, err := child.StdinPipe()
	testkit.Must(t, err)
	testkit.Must(t, child.Start())
	theirs, ours := make([]int, many), make([]int, many)
	for i, lines := 0, bufio.NewScanner(out); i < many && lines.Scan(); i++ {
		if n, err := fmt.Sscanf(lines.Text(), "port %d", &theirs[i]); n != 1 {
			t.Fatalf("got %q of the other process: %v", lines.Text(), err)
		}
	}
	for i := range ours {
		if ours[i], err = loopback.Port(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(in.Close(), child.Wait()); err != nil {
		t.Error(err)
	}
	take("the other process", theirs)
	take("this process", ours)
}

// asChild is the variable that has the test play its other process.
const asChild = "REDLOCK_LOOPBACK_CHILD"
