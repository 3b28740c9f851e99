package simnode

import (
	"strconv"
)

// The voting scripts of lua/: what they do, in their order.

// The fields of the record that they read.
var (
	epochField = []byte("epoch")
	baseField  = []byte("base")
)

// sharedMark is the member of lua/share.lua's sorted sets.
const sharedMark = "redlock:shared"

const (
	abstained   = 0
	dead        = -1
	full        = -2
	takenNoEnd  = -9
	takenLasts  = -10
	heldByOther = 2
	notMember   = -1
)

// votes returns the record if its epoch is that of the caller, who may vote then.
// Otherwise it has replied: by refuse, or as a script that fails on a record that
// is none.
func (c *scriptCall) votes(record, epoch []byte, refuse func()) (f map[string]string, ok bool) {
	f, ok = c.fields(record)
	if !ok {
		c.abort(wrongType)
		return nil, false
	}
	if have, there := f[string(epochField)]; !there || have != string(epoch) {
		refuse()
		return nil, false
	}
	return f, true
}

// isShared tells whether others share the name: the lowest member of its sorted set is
// the mark.
func (c *scriptCall) isShared(key []byte) bool {
	e := c.find(key)
	if e == nil || e.kind != sortedSet {
		return false
	}
	mark, there := e.scores[sharedMark]
	for member, score := range e.scores {
		if score < mark || score == mark && member < sharedMark {
			return false
		}
	}
	return there
}

// taken is the reply that another's key gives.
func (c *scriptCall) taken(key []byte) int64 {
	if left := c.left(key); left >= 0 {
		return takenLasts - left
	}
	return takenNoEnd
}

// grant is SET NX PX. It tells whether the key was set, and ends the script if
// the lease is none.
func (c *scriptCall) grant(key, owner, lease []byte) (set, ok bool) {
	ms, ok := c.lease(lease)
	if !ok || c.find(key) != nil {
		return false, ok
	}
	c.put(key, string(owner), c.ms()+ms)
	return true, true
}

// lease reads the time of a PX, and ends the script if it is none.
func (c *scriptCall) lease(text []byte) (ms int64, ok bool) {
	ms, ok = number(text)
	switch {
	case !ok:
		c.abort(notInteger)
	case ms <= 0:
		c.abort("ERR invalid expire time in 'set' command")
		return 0, false
	}
	return ms, ok
}

func (c *scriptCall) acquire() {
	if !c.shaped(3, 5) {
		return
	}
	owner, lease, hint, stripe := c.argv[0], c.argv[1], c.argv[2], c.argv[3]
	f, ok := c.votes(c.keys[1], c.argv[4], func() { c.reply.int(abstained) })
	if !ok {
		return
	}
	count, ok := largerIn(f, baseField, stripe)
	if !ok {
		c.malformed()
		return
	}
	if holder, there := c.text(c.keys[0]); there {
		if holder == string(owner) {
			c.reply.int(count)
		} else {
			c.reply.int(c.taken(c.keys[0]))
		}
		return
	}
	if c.isShared(c.keys[0]) {
		c.reply.int(c.taken(c.keys[0]))
		return
	}
	if _, there := c.text(c.keys[2]); there {
		c.reply.int(dead)
		return
	}
	least, ok := number(hint)
	if !ok {
		c.malformed()
		return
	}
	count = max(count+1, least)
	if count >= atTheEnd {
		c.reply.int(full)
		return
	}
	f[string(stripe)] = strconv.FormatInt(count, 10)
	switch set, ok := c.grant(c.keys[0], owner, lease); {
	case !ok:
	case set:
		c.reply.int(count)
	default:
		c.reply.int(c.taken(c.keys[0]))
	}
}

// item is one lock of a batch.
type item struct {
	key, dead, stripe, owner, lease []byte
	number                          int64
	reply                           int64
	granted, taken                  bool
}

// items are those of acquire_batch and reseed: the last number is a hint or a
// token. It ends the script if they are not complete.
func (c *scriptCall) items() (items []item, ok bool) {
	n := (len(c.keys) - 1) / 2
	if !c.shaped(1+2*n, 1+4*n) {
		return nil, false
	}
	items = c.room.items[:0]
	for i := range n {
		it := item{
			key: c.keys[1+i], dead: c.keys[1+n+i],
			stripe: c.argv[1+i], owner: c.argv[1+n+i], lease: c.argv[1+2*n+i],
		}
		if it.number, ok = number(c.argv[1+3*n+i]); !ok {
			c.malformed()
			return nil, false
		}
		items = append(items, it)
	}
	c.room.items = items
	return items, true
}

// all replies n times the same.
func (c *scriptCall) all(n int, with int64) {
	c.reply.array(n)
	for range n {
		c.reply.int(with)
	}
}

func (c *scriptCall) acquireBatch() {
	if !c.shaped(1, 1) {
		return
	}
	f, ok := c.votes(c.keys[0], c.argv[0], func() { c.all((len(c.keys)-1)/2, abstained) })
	if !ok {
		return
	}
	items, ok := c.items()
	if !ok {
		return
	}
	for i := range items {
		if !c.judge(f, items[:i], &items[i]) {
			c.malformed()
			return
		}
	}
	for i := range items {
		if it := &items[i]; it.granted {
			f[string(it.stripe)] = strconv.FormatInt(it.reply, 10)
		}
	}
	for i := range items {
		if it := &items[i]; it.granted {
			set, ok := c.grant(it.key, it.owner, it.lease)
			if !ok {
				return
			}
			it.taken = !set
		}
	}
	c.reply.array(len(items))
	for _, it := range items {
		if it.taken {
			it.reply = c.taken(it.key)
		}
		c.reply.int(it.reply)
	}
}

// judge decides one item of a batch, before anything is written; false: a number
// in the record is none.
func (c *scriptCall) judge(f map[string]string, before []item, it *item) bool {
	count, ok := largerIn(f, baseField, it.stripe)
	if !ok {
		return false
	}
	holder, held := c.text(it.key)
	for _, earlier := range before {
		if !earlier.granted {
			continue
		}
		if string(earlier.stripe) == string(it.stripe) {
			count = earlier.reply
		}
		if string(earlier.key) == string(it.key) {
			holder, held = string(earlier.owner), true
		}
	}
	_, buried := c.text(it.dead)
	switch {
	case held && holder == string(it.owner):
		it.reply = count
	case held, c.isShared(it.key):
		it.taken = true
	case buried:
		it.reply = dead
	case count >= atTheEnd-1 || it.number >= atTheEnd:
		it.reply = full
	default:
		it.reply, it.granted = max(count+1, it.number), true
	}
	return true
}

func (c *scriptCall) raise() {
	if !c.shaped(2, 4) {
		return
	}
	f, ok := c.votes(c.keys[1], c.argv[3], func() { c.reply.int(notMember) })
	if !ok {
		return
	}
	if holder, there := c.text(c.keys[0]); !there || holder != string(c.argv[0]) {
		c.reply.int(0)
		return
	}
	count, ok := largerIn(f, baseField, c.argv[1])
	token, too := number(c.argv[2])
	switch {
	case !ok || !too:
		c.malformed()
	case count > token:
		c.reply.int(count)
	default:
		f[string(c.argv[1])] = string(c.argv[2])
		c.reply.int(1)
	}
}

func (c *scriptCall) extend() {
	n := len(c.keys) - 1
	if !c.shaped(1, 1) {
		return
	}
	_, ok := c.votes(c.keys[0], c.argv[0], func() { c.all(n, notMember) })
	if !ok || !c.shaped(1+n, 1+2*n) {
		return
	}
	for i := range n {
		if _, ok := integer(string(c.argv[1+n+i])); !ok {
			c.abort(notInteger)
			return
		}
	}
	c.reply.array(n)
	for i := range n {
		e, lease := c.find(c.keys[1+i]), c.argv[1+n+i]
		switch {
		case e == nil:
			c.reply.int(0)
		case e.kind != text || e.text != string(c.argv[1+i]):
			c.reply.int(heldByOther)
		default:
			ms, _ := number(lease)
			if until := c.ms() + ms; e.mayExpire(until, "GT") {
				e.until = until
			}
			c.reply.int(1)
		}
	}
}

func (c *scriptCall) reseed() {
	if !c.shaped(1, 1) {
		return
	}
	f, ok := c.votes(c.keys[0], c.argv[0], func() { c.all((len(c.keys)-1)/2, notMember) })
	if !ok {
		return
	}
	items, ok := c.items()
	if !ok {
		return
	}
	for i := range items { // all is read before anything is written
		it := &items[i]
		holder, held := c.text(it.key)
		_, buried := c.text(it.dead)
		switch {
		case held && holder == string(it.owner):
			it.reply = 1
		case !held && !buried:
			it.granted = true
		}
	}
	for i := range items {
		it := &items[i]
		if !it.granted || c.find(it.key) != nil {
			continue
		}
		count, ok := largerIn(f, baseField, it.stripe)
		if !ok {
			c.malformed()
			return
		}
		if count < it.number {
			f[string(it.stripe)] = strconv.FormatInt(it.number, 10)
		}
		ms, ok := c.lease(it.lease)
		if !ok {
			return
		}
		c.put(it.key, string(it.owner), c.ms()+ms)
		it.reply = 1
	}
	c.reply.array(len(items))
	for _, it := range items {
		c.reply.int(it.reply)
	}
}

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
