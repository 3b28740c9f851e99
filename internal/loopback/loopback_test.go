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
