package simnode

import (
	"strconv"
	"strings"
	"time"
)

// The errors that Redis replies with, word by word.
const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	notInteger = "ERR value is not an integer or out of range"
	badSyntax  = "ERR syntax error"
	noScript   = "NOSCRIPT No matching script. Please use EVAL."
)

// call is a command while it is executed: its arguments, and the data that they
// speak of.
type call struct {
	data  Data
	args  [][]byte  // the name first
	now   time.Time // by the node's clock; it stands still during a script
	reply *reply
}

func (c *call) arg(i int) string { return string(c.args[i]) }

// is tells whether the first argument is that word, in any case.
func (c *call) is(word string) bool { return strings.EqualFold(c.arg(1), word) }

func (c *call) ok() { c.reply.status("OK") }

// integer reads a number as Redis does: no sign but "-", no zero in front.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
