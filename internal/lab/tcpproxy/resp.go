package tcpproxy

import (
	"bytes"
	"strconv"
)

// respValue is one value of the Redis protocol, either version.
type respValue struct {
	kind  byte
	text  []byte // of a line or a string
	items []respValue
}

// isError tells whether it is an error reply.
func (v respValue) isError() bool { return v.kind == '-' || v.kind == '!' }

// parseRESP takes one value off b; ok is false while it is not complete. What b
// holds is not copied.
func parseRESP(b []byte) (v respValue, rest []byte, ok bool) {
	line, rest, ended := bytes.Cut(b, []byte("\r\n"))
	if !ended || len(line) == 0 {
		return respValue{}, b, false
	}
	v = respValue{kind: line[0], text: line[1:]}
	n, err := strconv.Atoi(string(v.text))
	if err != nil {
		n = 0 // of a line, or of what streams: that is not used here
	}
	switch v.kind {
	case '$', '!', '=':
		if n < 0 {
			return v, rest, true
		}
		if len(rest) < n+2 {
			return respValue{}, b, false
		}
		v.text = rest[:n]
		return v, rest[n+2:], true
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return v, rest, true
	}
	for range n {
		var item respValue
		if item, rest, ok = parseRESP(rest); !ok {
			return respValue{}, b, false
		}
		v.items = append(v.items, item)
	}
	return v, rest, true
}
