package simnode

// release.lua and release_batch.lua, hand.lua and hand_one.lua where nobody waits, and
// the plain locks' scripts: what they do, in their order.

// ours tells whether the key has that string.
func (c *scriptCall) ours(key, owner []byte) bool {
	holder, there := c.text(key)
	return there && holder == string(owner)
}

// bury leaves a tombstone, unless there is one that lasts as long. It ends the
// script if the time is none.
func (c *scriptCall) bury(tombstone, life []byte) (ok bool) {
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

func (c *scriptCall) release() {
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

func (c *scriptCall) releaseBatch() {
	if !c.shaped(1, 1) {
		return
	}
	count, ok := number(c.argv[0])
	n := int(count)
	if !ok || n < 1 || n > len(c.keys) || len(c.argv) < 1+len(c.keys) {
		c.malformed()
		return
	}
	ours := c.room.keys[:0] // all is read before anything is deleted
	for i, key := range c.keys[:n] {
		if c.ours(key, c.argv[1+i]) {
			ours = append(ours, key)
		}
	}
	c.room.keys = ours
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

// hand replies how many were deleted, by name, and that nobody goes on.
func (c *scriptCall) hand() {
	n := len(c.keys) - 1
	if !c.shaped(1, 1+2*n) {
		return
	}
	replies := c.room.deleted[:0] // all is read before anything is deleted
	for i, key := range c.keys[1:] {
		reply := int64(0)
		if c.ours(key, c.argv[1+n+i]) {
			reply = 1
		}
		replies = append(replies, reply)
	}
	c.room.deleted = replies
	c.reply.array(2 * n)
	for i, reply := range replies {
		if reply == 1 {
			c.remove(c.keys[1+i])
		}
		c.reply.int(reply)
	}
	for range n {
		c.reply.int(0)
	}
}

func (c *scriptCall) handOne() {
	if !c.shaped(1, 1) {
		return
	}
	if c.ours(c.keys[0], c.argv[0]) {
		c.remove(c.keys[0])
		c.reply.int(1)
	} else {
		c.reply.int(0)
	}
}

// deleteIfOurs is the compare-and-delete of the Redis page on distributed locks.
func (c *scriptCall) deleteIfOurs() {
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
func (c *scriptCall) expireIfOurs() {
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
