package simnode

import (
	"maps"
	"slices"
	"strconv"
)

// fields are those of a key's hash: none if there is no key, and not ok if it has
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
