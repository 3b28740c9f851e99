package loopback_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/quorumkit/redlock/internal/loopback"
)

func TestPortsCanBeTakenAndComeFromBelowTheEphemeralRange(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		port, err := loopback.Port()
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	own := loopback.PortOf(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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
