package simnode

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// find is the entry of a key, nil if there is none any more.
func (c *call) find(key []byte) *entry {
	e := c.data.keys[string(key)]
	if e != nil && e.expired(c.ms()) {
		delete(c.data.keys, string(key))
		return nil
	}
	return e
}

// ms is the node's time as expiries have it.
func (c *call) ms() int64 { return c.now.UnixMilli() }

// remove deletes a key, and tells whether it was there.
func (c *call) remove(key []byte) bool {
	if c.find(key) == nil {
		return false
	}
	delete(c.data.keys, string(key))
	return true
}

// left is PTTL.
func (c *call) left(key []byte) int64 {
	if e := c.find(key); e != nil {
		return e.left(c.ms())
	}
	return -2
}

func (c *call) dbSize() {
	c.data.expire(c.ms())
	c.reply.int(int64(len(c.data.keys)))
}

// listKeys is KEYS, with patterns as far as path.Match has them.
func (c *call) listKeys(pattern string) {
	c.data.expire(c.ms())
	var found []string
	for _, key := range c.data.sorted() {
		// A slash is nothing special to Redis.
		match, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(key, "/", "\x00"))
		if err == nil && match {
			found = append(found, key)
		}
	}
	c.reply.array(len(found))
	for _, key := range found {
		c.reply.bulk(key)
	}
}

// scan is SCAN, which gives all keys at once.
func (c *call) scan() {
	pattern := "*"
	for i := 2; i < len(c.args); i += 2 {
		switch word := strings.ToUpper(c.arg(i)); {
		case i+1 == len(c.args) || word != "MATCH" && word != "COUNT":
			c.reply.fail(badSyntax)
			return
		case word == "MATCH":
			pattern = c.arg(i + 1)
		}
	}
	c.reply.array(2)
	c.reply.bulk("0")
	c.listKeys(pattern)
}

func (c *call) flushAll() {
	clear(c.data.keys)
	c.ok()
}

func (c *call) del() {
	gone := int64(0)
	for _, key := range c.args[1:] {
		if c.remove(key) {
			gone++
		}
	}
	c.reply.int(gone)
}

func (c *call) exists() {
	there := int64(0)
	for _, key := range c.args[1:] {
		if c.find(key) != nil {
			there++
		}
	}
	c.reply.int(there)
}

func (c *call) typeOf() {
	if e := c.find(c.args[1]); e != nil {
		c.reply.status(e.kind.String())
	} else {
		c.reply.status("none")
	}
}

func (c *call) pttl() { c.reply.int(c.left(c.args[1])) }

func (c *call) ttl() {
	left := c.left(c.args[1])
	if left >= 0 {
		left = (left + 500) / 1000
	}
	c.reply.int(left)
}

// expireIn is PEXPIRE and EXPIRE, with GT, LT, NX or XX.
func (c *call) expireIn(unit time.Duration) {
	n, ok := integer(c.arg(2))
	if !ok {
		c.reply.fail(notInteger)
		return
	}
	var condition string
	for i := 3; i < len(c.args); i++ {
		word := strings.ToUpper(c.arg(i))
		if condition != "" || word != "GT" && word != "LT" && word != "NX" && word != "XX" {
			c.reply.fail(fmt.Sprintf("ERR Unsupported option %s", c.arg(i)))
			return
		}
		condition = word
	}
	e, until := c.find(c.args[1]), c.ms()+n*int64(unit/time.Millisecond)
	if e == nil || !e.mayExpire(until, condition) {
		c.reply.int(0)
		return
	}
	if e.until = until; until <= c.ms() {
		delete(c.data.keys, c.arg(1))
	}
	c.reply.int(1)
}

// expireAt is PEXPIREAT, without its conditions.
func (c *call) expireAt() {
	until, ok := integer(c.arg(2))
	if !ok {
		c.reply.fail(notInteger)
		return
	}
	e := c.find(c.args[1])
	if e == nil {
		c.reply.int(0)
		return
	}
	if e.until = until; until <= c.ms() {
		delete(c.data.keys, c.arg(1))
	}
	c.reply.int(1)
}

// expireTime is PEXPIRETIME.
func (c *call) expireTime() {
	switch e := c.find(c.args[1]); {
	case e == nil:
		c.reply.int(-2)
	case e.until == 0:
		c.reply.int(-1)
	default:
		c.reply.int(e.until)
	}
}

// mayExpire tells whether a new end meets the condition. No end is later than
// any.
func (e *entry) mayExpire(until int64, condition string) bool {
	switch condition {
	case "GT":
		return e.until != 0 && until > e.until
	case "LT":
		return e.until == 0 || until < e.until
	case "NX":
		return e.until == 0
	case "XX":
		return e.until != 0
	}
	return true
}

func (c *call) persist() {
	e := c.find(c.args[1])
	if e == nil || e.until == 0 {
		c.reply.int(0)
		return
	}
	e.until = 0
	c.reply.int(1)
}

// Data are a node's keys at one moment, as a file on its disk has them.
type Data struct{ keys map[string]*entry }

// kind is the type of a key.
type kind uint8

const (
	text kind = iota
	hash
	sortedSet
)

func (k kind) String() string {
	switch k {
	case hash:
		return "hash"
	case sortedSet:
		return "zset"
	case text:
	}
	return "string"
}

// entry is what is stored under a key.
type entry struct {
	kind   kind
	text   string
	hash   map[string]string
	scores map[string]float64
	until  int64 // by the node's wall clock, in ms; 0: for good
	// What no command tells, and a Line does: since when the key is there, and since
	// when each member of a sorted set has had its score.
	since  time.Time
	joined map[string]time.Time
}

// expired tells whether the entry's time is over. Redis keeps a key through the
// millisecond that it expires at.
func (e *entry) expired(now int64) bool { return e.until != 0 && now > e.until }

// left is what PTTL says of the entry.
func (e *entry) left(now int64) int64 {
	if e.until == 0 {
		return -1
	}
	return max(e.until-now, 0)
}

// copied is a copy that shares nothing with d.
func (d Data) copied() Data {
	c := Data{make(map[string]*entry, len(d.keys))}
	for key, e := range d.keys {
		other := *e
		other.hash, other.scores, other.joined = maps.Clone(e.hash), maps.Clone(e.scores), maps.Clone(e.joined)
		c.keys[key] = &other
	}
	return c
}

// expire removes what has expired.
func (d Data) expire(now int64) {
	maps.DeleteFunc(d.keys, func(_ string, e *entry) bool { return e.expired(now) })
}

// sorted are the names of all keys.
func (d Data) sorted() []string { return slices.Sorted(maps.Keys(d.keys)) }

// clock is a node's wall clock: the process's, which is a testing/synctest
// bubble's inside of one, and what went wrong with it.
type clock struct {
	ahead  time.Duration // by steps
	drifts []drift
}

// drift is a rate that is wrong since some time.
type drift struct {
	gain  time.Duration // a second
	since time.Time
}

// at is what the clock shows at a time.
func (c *clock) at(now time.Time) time.Time {
	now, really := now.Add(c.ahead), now
	for _, d := range c.drifts {
		seconds := really.Sub(d.since).Seconds()
		now = now.Add(time.Duration(seconds * float64(d.gain)))
	}
	return now
}

// right ends the drift that gains so much.
func (c *clock) right(gain time.Duration) {
	i := slices.IndexFunc(c.drifts, func(d drift) bool { return d.gain == gain })
	if i >= 0 {
		c.drifts = slices.Delete(c.drifts, i, i+1)
	}
}
