package simnode

import (
	"slices"
	"strconv"
	"strings"
)

// The scripts of lua/ that keep the membership record: what they do, in their
// order.

// recordFields is the order in which read.lua returns them.
var recordFields = [...]string{
	"format", "epoch", "cluster", "n", "names", "maxttl", "run", "base",
	"gone", "retired", "replaced", "maxttl_was", "nonce", "nonce_run", "strict",
}

// record reads the record, and ends the script if it is none.
func (c *call) record() (f map[string]string, ok bool) {
	if f, ok = c.fields(c.keys[0]); !ok {
		c.abort(wrongType)
	}
	return f, ok
}

// recordToSet is record, made if there is none.
func (c *call) recordToSet() map[string]string {
	f, _ := c.fieldsToSet(c.keys[0])
	return f
}

func (c *call) readRecord() {
	if !c.shaped(1, 1) {
		return
	}
	f, ok := c.record()
	if !ok {
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
	c.reply.bulk(c.node.identity())
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

func (c *call) notice() {
	if !c.shaped(1, 1) {
		return
	}
	f, ok := c.record()
	if !ok {
		return
	}
	nonce, there := f["nonce"]
	if !there || f["nonce_run"] != c.node.identity() {
		f, nonce = c.recordToSet(), string(c.argv[0])
		f["nonce"], f["nonce_run"] = nonce, c.node.identity()
	}
	c.reply.array(2)
	c.reply.bulk(nonce)
	c.reply.bulk(c.node.identity())
}

func (c *call) install() {
	if !c.shaped(1, 12) {
		return
	}
	if string(c.argv[1]) != c.node.identity() {
		c.reply.int(-1)
		return
	}
	f, ok := c.record()
	if !ok {
		return
	}
	_, gone := f["gone"]
	format, formatted := f["format"]
	nonce, noticed := f["nonce"]
	run, ran := f["nonce_run"]
	switch {
	case gone || formatted && format != string(c.argv[2]):
		c.reply.int(-2)
		return
	case !noticed || nonce != string(c.argv[0]) || !ran || run != string(c.argv[1]):
		c.reply.int(0)
		return
	}
	base, ok := number(c.argv[8])
	old, too := numberIn(f, baseField)
	if !ok || !too {
		c.malformed()
		return
	}
	for i, name := range map[int]string{
		2: "format", 3: "epoch", 4: "cluster", 5: "n", 6: "names", 7: "maxttl", 1: "run", 9: "retired", 10: "replaced",
	} {
		f[name] = string(c.argv[i])
	}
	f["base"] = strconv.FormatInt(max(base, old), 10)
	c.bind(f, 11)
	for _, name := range []string{"nonce", "nonce_run", "maxttl_was"} {
		delete(f, name)
	}
	c.reply.int(1)
}

// has tells whether the line is in the list; as the script, also when it has more
// than one.
func has(list, line string) bool { return strings.Contains("\n"+list+"\n", "\n"+line+"\n") }

// with is the list with one line more.
func with(list, line string) string {
	if list == "" {
		return line
	}
	return list + "\n" + line
}

// lines are those of a list that are not empty.
func lines(list string) []string {
	return slices.DeleteFunc(strings.Split(list, "\n"), func(line string) bool { return line == "" })
}

func (c *call) amend() {
	if !c.shaped(1, 4) {
		return
	}
	f, ok := c.votes(c.keys[0], c.argv[0], func() { c.reply.int(noMember) })
	if !ok {
		return
	}
	names, retired, replaced := f["names"], f["retired"], f["replaced"]
	for _, name := range lines(string(c.argv[2])) {
		if !has(retired, name) {
			retired = with(retired, name)
		}
	}
	if len(c.argv)%2 == 1 {
		c.malformed()
		return
	}
	for i := 4; i < len(c.argv); i += 2 {
		old, fresh := string(c.argv[i]), string(c.argv[i+1])
		if has(replaced, old+"\t"+fresh) {
			continue
		}
		if !has(retired, old) || !has(names, old) || has(names, fresh) || has(retired, fresh) {
			c.reply.int(0)
			return
		}
		out := ""
		for _, name := range lines(names) {
			if name == old {
				name = fresh
			}
			out = with(out, name)
		}
		names, replaced = out, with(replaced, old+"\t"+fresh)
	}
	longest, ok := numberIn(f, []byte("maxttl"))
	asked, too := number(c.argv[1])
	if !ok || !too {
		c.malformed()
		return
	}
	f["maxttl"] = strconv.FormatInt(max(longest, asked), 10)
	f["names"], f["retired"], f["replaced"] = names, retired, replaced
	c.bind(f, 3)
	c.reply.int(1)
}

func (c *call) lower() {
	if !c.shaped(1, 4) {
		return
	}
	f, ok := c.record()
	if !ok {
		return
	}
	cluster, there := f["cluster"]
	epoch, installed := f["epoch"]
	if !there || cluster != string(c.argv[0]) || epoch != string(c.argv[1]) {
		c.reply.int(noMember)
		return
	}
	if string(c.argv[3]) == "0" {
		delete(f, "maxttl_was")
	} else {
		now, ok := numberIn(f, []byte("maxttl"))
		was, too := numberIn(f, []byte("maxttl_was"))
		to, three := number(c.argv[3])
		if !ok || !too || !three {
			c.malformed()
			return
		}
		f["maxttl"] = strconv.FormatInt(min(now, to), 10)
		f["maxttl_was"] = strconv.FormatInt(max(now, was), 10)
	}
	if installed {
		f["epoch"] = string(c.argv[2])
	}
	c.reply.int(1)
}

// bind writes strict, if the argument says so.
func (c *call) bind(f map[string]string, i int) {
	if string(c.argv[i]) == "1" {
		f["strict"] = "1"
	}
}

func (c *call) retire() {
	if !c.shaped(1, 1) {
		return
	}
	f, ok := c.record()
	if !ok {
		return
	}
	_, gone := f["gone"]
	cluster, there := f["cluster"]
	switch {
	case gone:
		c.reply.int(1)
		return
	case there && cluster != string(c.argv[0]):
		c.reply.int(0)
		return
	}
	f = c.recordToSet()
	f["gone"] = "1"
	for _, name := range []string{"epoch", "run", "nonce", "nonce_run"} {
		delete(f, name)
	}
	c.reply.int(1)
}
