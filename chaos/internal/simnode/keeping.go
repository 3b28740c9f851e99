package simnode

// release.lua and release_batch.lua, and the plain locks' scripts: what they do,
// in their order.

// ours tells whether the key has that string.
func (c *call) ours(key, owner []byte) bool {
	holder, there := c.text(key)
	return there && holder == string(owner)
}

// bury leaves a tombstone, unless there is one that lasts as long. It ends the
// script if the time is none.
func (c *call) bury(tombstone, life []byte) (ok bool) {
	ms, ok := number(life)
	if !ok {
		c.malformed()
		return false
	}
	if c.left(tombstone) >= ms {
		return true
	}
	if ms, ok = c.lease(life); ok {
		c.put(tombstone, "1", c.ms()+ms)
	}
	return ok
}

func (c *call) release() {
	if !c.shaped(1, len(c.keys)) {
		return
	}
	gone := int64(0)
	if c.ours(c.keys[0], c.argv[0]) {
		c.remove(c.keys[0])
		gone = 1
	}
	if len(c.keys) > 1 && !c.bury(c.keys[1], c.argv[1]) {
		return
	}
	c.reply.int(gone)
}

func (c *call) releaseBatch() {
	if !c.shaped(1, 1) {
		return
	}
	count, ok := number(c.argv[0])
	n := int(count)
	if !ok || n < 1 || n > len(c.keys) || len(c.argv) < 1+len(c.keys) {
		c.malformed()
		return
	}
	ours := c.node.keys[:0] // all is read before anything is deleted
	for i, key := range c.keys[:n] {
		if c.ours(key, c.argv[1+i]) {
			ours = append(ours, key)
		}
	}
	c.node.keys = ours
	gone := int64(0)
	for _, key := range ours {
		if c.remove(key) {
			gone++
		}
	}
	for i, tombstone := range c.keys[n:] {
		if !c.bury(tombstone, c.argv[1+n+i]) {
			return
		}
	}
	c.reply.int(gone)
}

// deleteIfOurs is the compare-and-delete of the Redis page on distributed locks.
func (c *call) deleteIfOurs() {
	if !c.shaped(1, 1) {
		return
	}
	switch e := c.find(c.keys[0]); {
	case e != nil && e.kind != text:
		c.abort(wrongType)
	case e == nil || e.text != string(c.argv[0]):
		c.reply.int(0)
	default:
		c.remove(c.keys[0])
		c.reply.int(1)
	}
}

// expireIfOurs is its twin for the expiry.
func (c *call) expireIfOurs() {
	if !c.shaped(1, 2) {
		return
	}
	ms, ok := integer(string(c.argv[1]))
	switch e := c.find(c.keys[0]); {
	case e != nil && e.kind != text:
		c.abort(wrongType)
	case e == nil || e.text != string(c.argv[0]):
		c.reply.int(0)
	case !ok:
		c.abort(notInteger)
	default:
		if e.until = c.ms() + ms; ms <= 0 {
			c.remove(c.keys[0])
		}
		c.reply.int(1)
	}
}
