package simnode

import "strings"

// recordFields is the order in which read.lua returns them.
var recordFields = [...]string{
	"format", "epoch", "cluster", "n", "names", "maxttl", "run", "base",
	"gone", "retired", "replaced", "maxttl_was", "nonce", "nonce_run", "strict",
}

// readRecord is read.lua, what it does in its order. The scripts that change the
// record run in the interpreter: they are seldom called.
func (c *scriptCall) readRecord() {
	if !c.shaped(1, 1) {
		return
	}
	f, ok := c.fields(c.keys[0])
	if !ok {
		c.abort(wrongType)
		return
	}
	largest, ok := numberIn(f, baseField)
	if !ok {
		largest = 0
	}
	if string(c.argv[0]) == "1" {
		for name, v := range f {
			if !digits(name) {
				continue
			}
			if n, ok := number([]byte(v)); ok {
				largest = max(largest, n)
			}
		}
	}
	c.reply.array(3 + len(recordFields))
	c.reply.bulk(c.identity)
	c.reply.bulk("master")
	c.reply.int(largest)
	for _, name := range recordFields {
		v, there := f[name]
		c.reply.bulkIf(v, there)
	}
}

// digits tells whether the text is digits, and nothing else.
func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
