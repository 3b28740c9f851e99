package simnet

import (
	"testing"
	"testing/synctest"
)

// A word more in a script would be another run of every seed.
func TestTheTextOfAScriptDrawsNoLatency(t *testing.T) {
	const load, get = "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n", "*2\r\n$3\r\nGET\r\n"
	synctest.Test(t, func(t *testing.T) {
		c := &conn{link: New(0, 1, nil, Condition{})}
		due := func(data string) int64 { return c.due(State{}, requesting, []byte(data)).UnixNano() }
		if a, b := due(load+"$8\r\nreturn 1\r\n"), due(load+"$13\r\nreturn 'word'\r\n"); a != b {
			t.Errorf("two texts: got %d and %d; want one latency", a, b)
		}
		if a, b := due("return 1\r\n"), due("turn 'word'\r\n"); a != b {
			t.Errorf("the rests of two texts: got %d and %d; want one latency", a, b)
		}
		if a, b := due(get+"$1\r\nk\r\n"), due(get+"$4\r\nword\r\n"); a == b {
			t.Error("two commands: got one latency; want two, or this test shows nothing")
		}
	})
}
