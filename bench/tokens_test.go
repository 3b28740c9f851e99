package main

import (
	"net"
	"strings"
	"testing"
)

// A word is counted once, also where the client's buffer splits it.
func TestScriptsAreCountedAcrossWrites(t *testing.T) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	go func() {
		for buf := make([]byte, 64); ; {
			if _, err := theirs.Read(buf); err != nil {
				return
			}
		}
	}()
	sha := strings.Repeat("a1", 20)
	text := "EVALSHA " + sha + " EVALSHA " + strings.Repeat("b2", 20) + " EVALSHA " + sha + "\r\n"
	for size := 1; size <= len(text); size++ {
		count := &raiseCount{sha: []byte(sha)}
		conn := &countedConn{Conn: ours, count: count}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := conn.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if s, r := count.scripts.Load(), count.raises.Load(); s != 3 || r != 2 {
			t.Fatalf("writes of %d bytes: got %d scripts, %d raises; want 3, 2", size, s, r)
		}
	}
}
