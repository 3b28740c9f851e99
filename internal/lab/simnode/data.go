package simnode

import (
	"maps"
	"slices"
	"time"
)

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
