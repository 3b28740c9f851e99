package simnode

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// text is the string of a key; there is none if it has another type.
func (c *call) text(key []byte) (value string, there bool) {
	e := c.find(key)
	if e == nil || e.kind != text {
		return "", false
	}
	return e.text, true
}

// put stores a string that ends at a time; 0: never.
func (c *call) put(key []byte, value string, until int64) {
	if e := c.find(key); e != nil {
		*e = entry{kind: text, text: value, until: until, since: e.since}
	} else {
		c.data.keys[string(key)] = &entry{kind: text, text: value, until: until, since: time.Now()}
	}
}

func (c *call) get() {
	e := c.find(c.args[1])
	switch {
	case e == nil:
		c.reply.null()
	case e.kind != text:
		c.reply.fail(wrongType)
	default:
		c.reply.bulk(e.text)
	}
}

func (c *call) mget() {
	c.reply.array(len(c.args) - 1)
	for _, key := range c.args[1:] {
		c.reply.bulkIf(c.text(key))
	}
}

// strlen is how many bytes a string has.
func (c *call) strlen() {
	value, there := c.text(c.args[1])
	if !there && c.find(c.args[1]) != nil {
		c.reply.fail(wrongType)
		return
	}
	c.reply.int(int64(len(value)))
}

// getRange is a part of a string: both ends count, negative ones from its end.
func (c *call) getRange() {
	from, ok := integer(c.arg(2))
	to, also := integer(c.arg(3))
	if !ok || !also {
		c.reply.fail(notInteger)
		return
	}
	value, there := c.text(c.args[1])
	if !there && c.find(c.args[1]) != nil {
		c.reply.fail(wrongType)
		return
	}
	n := int64(len(value))
	if from < 0 && to < 0 && from > to {
		c.reply.bulk("")
		return
	}
	if from < 0 {
		from = max(from+n, 0)
	}
	if to < 0 {
		to = max(to+n, 0)
	}
	if to = min(to, n-1); from > to {
		c.reply.bulk("")
		return
	}
	c.reply.bulk(value[from : to+1])
}

// set is SET with NX, XX, KEEPTTL, EX and PX.
func (c *call) set() {
	var until int64
	condition, keep, bounded := "", false, false
	for i := 3; i < len(c.args); i++ {
		switch word := strings.ToUpper(c.arg(i)); {
		case (word == "NX" || word == "XX") && condition == "":
			condition = word
		case word == "KEEPTTL" && !bounded:
			keep = true
		case (word == "EX" || word == "PX") && !keep && !bounded && i+1 < len(c.args):
			unit := time.Millisecond
			if word == "EX" {
				unit = time.Second
			}
			i++
			n, ok := integer(c.arg(i))
			switch {
			case !ok:
				c.reply.fail(notInteger)
				return
			case n <= 0:
				c.reply.fail("ERR invalid expire time in 'set' command")
				return
			}
			until, bounded = c.ms()+n*int64(unit/time.Millisecond), true
		default:
			c.reply.fail(badSyntax)
			return
		}
	}
	e := c.find(c.args[1])
	if condition == "NX" && e != nil || condition == "XX" && e == nil {
		c.reply.null()
		return
	}
	if keep && e != nil {
		until = e.until
	}
	c.put(c.args[1], c.arg(2), until)
	c.ok()
}

func (c *call) setNX() {
	if c.find(c.args[1]) != nil {
		c.reply.int(0)
		return
	}
	c.put(c.args[1], c.arg(2), 0)
	c.reply.int(1)
}

// addArg hands a number to add or hadd.
func (c *call) addArg(i int, add func(int64)) {
	by, ok := integer(c.arg(i))
	if !ok {
		c.reply.fail(notInteger)
		return
	}
	add(by)
}

// add is INCRBY.
func (c *call) add(by int64) {
	e := c.find(c.args[1])
	if e == nil {
		c.put(c.args[1], "0", 0)
		e = c.find(c.args[1])
	}
	if e.kind != text {
		c.reply.fail(wrongType)
		return
	}
	n, ok := integer(e.text)
	if !ok {
		c.reply.fail(notInteger)
		return
	}
	if (by > 0) != (n+by > n) && by != 0 {
		c.reply.fail("ERR increment or decrement would overflow")
		return
	}
	e.text = strconv.FormatInt(n+by, 10)
	c.reply.int(n + by)
}

// fields are those of a key's hash; there are none if there is no key, and not ok if it has
// another type.
func (c *call) fields(key []byte) (f map[string]string, ok bool) {
	e := c.find(key)
	switch {
	case e == nil:
		return nil, true
	case e.kind != hash:
		return nil, false
	}
	return e.hash, true
}

// fieldsToSet are those of a key's hash, which is made if there is no key.
func (c *call) fieldsToSet(key []byte) (f map[string]string, ok bool) {
	if f, ok = c.fields(key); f == nil && ok {
		f = map[string]string{}
		c.data.keys[string(key)] = &entry{kind: hash, hash: f}
	}
	return f, ok
}

// read looks at the hash of the first argument; it replies with an error if that
// is none.
func (c *call) read(look func(f map[string]string)) {
	f, ok := c.fields(c.args[1])
	if !ok {
		c.reply.fail(wrongType)
		return
	}
	look(f)
}

// write is read for a hash that may be made.
func (c *call) write(change func(f map[string]string)) {
	f, ok := c.fieldsToSet(c.args[1])
	if !ok {
		c.reply.fail(wrongType)
		return
	}
	change(f)
}

func (c *call) hget() {
	c.read(func(f map[string]string) {
		v, there := f[c.arg(2)]
		c.reply.bulkIf(v, there)
	})
}

func (c *call) hmget() {
	c.read(func(f map[string]string) {
		c.reply.array(len(c.args) - 2)
		for _, name := range c.args[2:] {
			v, there := f[string(name)]
			c.reply.bulkIf(v, there)
		}
	})
}

func (c *call) hgetAll() {
	c.read(func(f map[string]string) {
		c.reply.pairs(len(f))
		for _, name := range slices.Sorted(maps.Keys(f)) {
			c.reply.bulk(name)
			c.reply.bulk(f[name])
		}
	})
}

func (c *call) hexists() {
	c.read(func(f map[string]string) {
		n := int64(0)
		if _, there := f[c.arg(2)]; there {
			n = 1
		}
		c.reply.int(n)
	})
}

func (c *call) hlen() {
	c.read(func(f map[string]string) { c.reply.int(int64(len(f))) })
}

func (c *call) hdel() {
	c.read(func(f map[string]string) {
		gone := int64(0)
		for _, name := range c.args[2:] {
			if _, there := f[string(name)]; there {
				delete(f, string(name))
				gone++
			}
		}
		if gone > 0 && len(f) == 0 {
			c.remove(c.args[1])
		}
		c.reply.int(gone)
	})
}

func (c *call) hset() {
	if len(c.args)%2 != 0 {
		c.reply.fail("ERR wrong number of arguments for 'hset' command")
		return
	}
	c.write(func(f map[string]string) {
		before := len(f)
		for i := 2; i < len(c.args); i += 2 {
			f[c.arg(i)] = c.arg(i + 1)
		}
		c.reply.int(int64(len(f) - before))
	})
}

func (c *call) hsetNX() {
	c.write(func(f map[string]string) {
		if _, there := f[c.arg(2)]; there {
			c.reply.int(0)
			return
		}
		f[c.arg(2)] = c.arg(3)
		c.reply.int(1)
	})
}

// hadd is HINCRBY.
func (c *call) hadd(by int64) {
	c.write(func(f map[string]string) {
		n := int64(0)
		if old, there := f[c.arg(2)]; there {
			var ok bool
			if n, ok = integer(old); !ok {
				c.reply.fail("ERR hash value is not an integer")
				return
			}
		}
		if (by > 0) != (n+by > n) && by != 0 {
			c.reply.fail("ERR increment or decrement would overflow")
			return
		}
		f[c.arg(2)] = strconv.FormatInt(n+by, 10)
		c.reply.int(n + by)
	})
}
