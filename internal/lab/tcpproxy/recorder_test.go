package tcpproxy

import (
	"slices"
	"strings"
	"testing"
)

// What comes off the wire, however it is cut, and what the tap tells of it.
func TestATapTellsWhatWasAnsweredWithoutAnError(t *testing.T) {
	const (
		get   = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
		set   = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n" // a value that looks like an end of line
		hello = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
	)
	for _, c := range []struct{ name, sent, came, want string }{
		{"one after the other", get + set, "$1\r\nx\r\n+OK\r\n", "GET k,SET k \r\n"},
		{"no value", get + get, "$-1\r\n_\r\n", "GET k,GET k"},
		{"an error is none", get + set + get, "-ERR no\r\n+OK\r\n!3\r\nbad\r\n", "SET k \r\n"},
		{"arrays within arrays", get + set, "*2\r\n*1\r\n:1\r\n$2\r\nab\r\n+OK\r\n", "GET k,SET k \r\n"},
		{"version 3", hello + get, "%1\r\n+a\r\n*0\r\n#t\r\n", "HELLO 3,GET k"},
		{"what the server says by itself is no reply", get + set, ">2\r\n+x\r\n:1\r\n$1\r\nx\r\n|1\r\n+a\r\n+b\r\n+OK\r\n", "GET k,SET k \r\n"},
		{"not yet whole", get + set, "$1\r\nx\r\n+O", "GET k"},
		{"a subscription ends it", get + "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n" + get, "$1\r\nx\r\n*3\r\n+a\r\n+b\r\n:1\r\n", ""},
	} {
		for _, piece := range []int{1, 2, 7, 1000} {
			var got []string
			listening := &recorder{answered: func(args [][]byte) {
				var words []string
				for _, a := range args {
					words = append(words, string(a))
				}
				got = append(got, strings.Join(words, " "))
			}}
			for part := range slices.Chunk([]byte(c.sent), piece) {
				listening.sent(part)
			}
			for part := range slices.Chunk([]byte(c.came), piece) {
				listening.came(part)
			}
			if strings.Join(got, ",") != c.want {
				t.Errorf("%s, in pieces of %d: got %q; want %q", c.name, piece, got, c.want)
			}
		}
	}
}
