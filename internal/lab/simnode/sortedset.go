package simnode

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scores are those of a key's sorted set: none if there is no key. It replies
// with an error if the key has another type.
func (c *call) scores() (z map[string]float64, ok bool) {
	e := c.find(c.args[1])
	switch {
	case e == nil:
		return nil, true
	case e.kind != sortedSet:
		c.reply.fail(wrongType)
		return nil, false
	}
	return e.scores, true
}

// zaddOptions reads what stands before the pairs. It replies with an error if they
// make no sense.
func (c *call) zaddOptions() (pairs [][]byte, condition string, incr, ok bool) {
	pairs = c.args[2:]
options:
	for len(pairs) > 0 {
		switch word := strings.ToUpper(string(pairs[0])); word {
		case "NX", "XX":
			if condition != "" && condition != word {
				c.reply.fail("ERR XX and NX options at the same time are not compatible")
				return nil, "", false, false
			}
			condition = word
		case "INCR":
			incr = true
		default:
			break options
		}
		pairs = pairs[1:]
	}
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		c.reply.fail(badSyntax)
		return nil, "", false, false
	case incr && len(pairs) > 2:
		c.reply.fail("ERR INCR option supports a single increment-element pair")
		return nil, "", false, false
	}
	for i := 0; i < len(pairs); i += 2 {
		if _, err := strconv.ParseFloat(string(pairs[i]), 64); err != nil {
			c.reply.fail("ERR value is not a valid float")
			return nil, "", false, false
		}
	}
	return pairs, condition, incr, true
}

// zadd is ZADD with NX, XX and INCR.
func (c *call) zadd() {
	pairs, condition, incr, ok := c.zaddOptions()
	if !ok {
		return
	}
	z, ok := c.scores()
	if !ok {
		return
	}
	before := len(z)
	for i := 0; i < len(pairs); i += 2 {
		member := string(pairs[i+1])
		score, _ := strconv.ParseFloat(string(pairs[i]), 64)
		old, there := z[member]
		if there && condition == "NX" || !there && condition == "XX" {
			if incr {
				c.reply.null()
				return
			}
			continue
		}
		if z == nil {
			z = map[string]float64{}
			c.data.keys[c.arg(1)] = &entry{kind: sortedSet, scores: z, joined: map[string]time.Time{}}
		}
		if incr {
			c.score(member, old+score)
			c.reply.score(scoreText(old+score), c.reply.resp3)
			return
		}
		c.score(member, score)
	}
	c.reply.int(int64(len(z) - before))
}

// score gives a member of the first argument's set a score.
func (c *call) score(member string, score float64) {
	e := c.data.keys[c.arg(1)]
	if old, there := e.scores[member]; !there || old != score {
		e.scores[member], e.joined[member] = score, time.Now()
	}
}

func (c *call) zrem() {
	z, ok := c.scores()
	if !ok {
		return
	}
	if z == nil {
		c.reply.int(0)
		return
	}
	before := len(z)
	for _, member := range c.args[2:] {
		delete(z, string(member))
		delete(c.data.keys[c.arg(1)].joined, string(member))
	}
	if len(z) == 0 {
		c.remove(c.args[1])
	}
	c.reply.int(int64(before - len(z)))
}

func (c *call) zscore() {
	z, ok := c.scores()
	if !ok {
		return
	}
	score, there := z[c.arg(2)]
	c.reply.bulkIf(scoreText(score), there)
}

// zrange is ZRANGE by index.
func (c *call) zrange() {
	first, ok1 := integer(c.arg(2))
	last, ok2 := integer(c.arg(3))
	with := len(c.args) == 5 && strings.EqualFold(c.arg(4), "WITHSCORES")
	switch {
	case len(c.args) > 4 && !with:
		c.reply.fail(badSyntax)
		return
	case !ok1 || !ok2:
		c.reply.fail(notInteger)
		return
	}
	z, ok := c.scores()
	if !ok {
		return
	}
	members := slices.SortedFunc(maps.Keys(z), func(a, b string) int {
		return cmp.Or(cmp.Compare(z[a], z[b]), strings.Compare(a, b))
	})
	n := int64(len(members))
	if first < 0 {
		first = max(first+n, 0)
	}
	if last < 0 {
		last += n
	}
	last = min(last, n-1)
	if first > last {
		c.reply.array(0)
		return
	}
	members = members[first : last+1]
	if !with {
		c.reply.array(len(members))
	} else if c.reply.resp3 {
		c.reply.array(len(members))
	} else {
		c.reply.array(2 * len(members))
	}
	for _, m := range members {
		if with && c.reply.resp3 {
			c.reply.array(2)
		}
		c.reply.bulk(m)
		if with {
			c.reply.score(scoreText(z[m]), c.reply.resp3)
		}
	}
}

// score writes a score: a bulk, or RESP3's double.
func (r *reply) score(score string, double bool) {
	if double {
		r.line(',', score)
	} else {
		r.bulk(score)
	}
}

// scoreText is a score as Redis writes it.
func scoreText(score float64) string {
	if score == math.Trunc(score) && math.Abs(score) < 1<<53 {
		return strconv.FormatInt(int64(score), 10)
	}
	return strconv.FormatFloat(score, 'g', 17, 64)
}
