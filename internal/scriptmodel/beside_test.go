package scriptmodel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// newBeside is a node whose name 0 is waited for in both lines.
func newBeside(t *testing.T, addr string) *granting {
	t.Helper()
	g := newGranting(t, addr)
	g.load("share", "extend_shared", "reseed_shared", "raise_shared", "release_shared")
	g.now, g.shares = noon, true
	g.begin = g.c.Time(t.Context()).Val().UnixMilli()
	return g
}

// readBeside is what the node keeps of who shares the name, and of who waits to.
func (g *granting) readBeside(n *scriptmodel.Sharing) {
	ctx := g.t.Context()
	line, err := g.c.ZRangeWithScores(ctx, lua.SharersKey+waited, 0, -1).Result()
	g.do(err)
	for _, z := range line {
		w, err := strconv.Atoi(strings.TrimPrefix(z.Member.(string), "waiter-"))
		g.do(err)
		n.Beside[w] = scriptmodel.Number(z.Score)
	}
	n.Sharing = g.c.Exists(ctx, lua.SharingKey).Val() == 1
	if n.Keys[0].Owner != scriptmodel.Shared {
		return
	}
	members, err := g.c.ZRangeWithScores(ctx, waited, 0, -1).Result()
	g.do(err)
	n.Set.Number = scriptmodel.Number(-members[0].Score)
	for _, m := range members[1:] {
		var o scriptmodel.Owner
		text := m.Member.(string)
		_, err := fmt.Sscanf(text, ownerFormat(text), &o)
		g.do(err)
		n.Set.Ends[o-1] = noon + scriptmodel.Tick(math.Round((m.Score-float64(g.begin))/float64(tick.Milliseconds())))
	}
}

// likelySharer is mostly one that shares the name.
func (g *granting) likelySharer(rnd *rand.Rand) scriptmodel.Owner {
	o := anyOwner(rnd)
	for tries := 0; g.node.Set.Ends[o-1] == 0 && tries < 2*scriptmodel.Owners && rnd.IntN(30) > 0; tries++ {
		o = anyOwner(rnd)
	}
	return o
}

// stepBeside does one thing to both; half of it is of those who share.
func (g *granting) stepBeside(rnd *rand.Rand) (what string, got, want []any) {
	o := anyOwner(rnd)
	w, ctx := processOf(o), g.t.Context()
	switch rnd.IntN(28) {
	default:
		return g.step(rnd)
	case 0, 1:
		return g.share(rnd, o)
	case 2, 3, 4, 5:
		return g.endShared(rnd)
	case 6, 7, 8, 9:
		return g.lookBeside(rnd, w)
	case 10:
		if rnd.IntN(3) > 0 {
			return g.lookBeside(rnd, w)
		}
		g.do(g.c.Del(ctx, lua.SharingKey).Err())
		g.node.Sharing = false
		return "nobody has waited to share for long", nil, nil
	case 11:
		if o = g.likelySharer(rnd); g.node.Set.Ends[o-1] != 0 {
			g.node.Set.Ends[o-1] = noon - 1
			g.do(g.c.ZAdd(ctx, waited, redis.Z{Score: float64(g.begin - millis(1)), Member: longValue(o)}).Err())
		}
		return fmt.Sprintf("%d has ended", o), nil, nil
	case 12:
		if g.node.Keys[0].Owner != scriptmodel.Shared && rnd.IntN(3) > 0 {
			return "nothing", nil, nil
		}
		g.do(g.c.Del(ctx, waited).Err())
		g.node.DropSharers(&g.node.Set, 0)
		if rnd.IntN(3) == 0 {
			g.do(g.c.RPush(ctx, waited, "data").Err())
			g.node.Keys[0] = scriptmodel.Key{Owner: scriptmodel.Alien, Until: scriptmodel.Forever}
		}
		return "the key goes, or is another program's", nil, nil
	}
}

func (g *granting) share(rnd *rand.Rand, o scriptmodel.Owner) (what string, got, want []any) {
	a := scriptmodel.ShareIn{
		Acquire: scriptmodel.Acquire{Owner: o, Life: anyLife(rnd), Epoch: anyEpoch(rnd)}, Waiter: processOf(o),
		Place: scriptmodel.Number(rnd.IntN(40)), Reading: scriptmodel.Tick(1 + rnd.IntN(200)),
	}
	place := int(a.Place)
	switch rnd.IntN(8) {
	case 0:
		a.Barging, place = true, -1
	case 1, 2:
		a.Place, place = 0, 0
	}
	r := g.run("share", []string{"redlock:node", waited, longTombstone(o)}, int(a.Epoch), waiterID(a.Waiter), int(a.Reading), 0, longValue(o), millis(a.Life), place)
	reply, more := g.node.ShareIn(g.now, a)
	return fmt.Sprintf("share %+v", a), []any{g.reply(r[0]), int(r[1])}, []any{reply, more}
}

func (g *granting) endShared(rnd *rand.Rand) (what string, got, want []any) {
	r := scriptmodel.EndBeside{Release: scriptmodel.Release{Owner: g.likelySharer(rnd)}, Entry: uint8(rnd.IntN(3)), Named: rnd.IntN(4) > 0}
	r.Waiter, r.Place = processOf(r.Owner), scriptmodel.Number(1+rnd.IntN(40))
	keys, args := []string{waited}, []any{1, longValue(r.Owner)}
	if rnd.IntN(4) == 0 {
		r.Tombstone = anyLife(rnd)
		keys, args = append(keys, longTombstone(r.Owner)), append(args, millis(r.Tombstone))
	}
	if r.Named {
		args = append(args, waiterID(r.Waiter), int(r.Entry), int(r.Place))
	}
	reply := g.run("release_shared", keys, args...)
	gone, woken := g.node.EndIn(g.now, r)
	was, _ := g.told()
	return fmt.Sprintf("release_shared %+v", r), []any{int(reply[0]), was}, []any{gone, called(woken)}
}

func (g *granting) lookBeside(rnd *rand.Rand, w scriptmodel.Waiter) (what string, got, want []any) {
	place, o, text := scriptmodel.Number(1+rnd.IntN(40)), scriptmodel.Nobody, ""
	if rnd.IntN(4) > 0 {
		o = ownerOf(rnd, w)
		text = longValue(o)
	}
	reading := scriptmodel.Tick(1 + rnd.IntN(200))
	r := g.run("look", []string{waited}, waiterID(w), "", -int(place), int(reading), text)
	known, ask := g.node.LookBeside(w, place, o, reading, 0)
	return fmt.Sprintf("look %d -%d %d", w, place, o), []any{int(r[0]), r[1] == scriptmodel.Yours}, []any{known, ask}
}

// compareBeside compares them where some share and some do not.
func compareBeside(t *testing.T, addr string, sequences int) {
	t.Helper()
	found, n := newBeside(t, addr).difference(0, sequences, (*granting).stepBeside)
	if found != "" {
		t.Fatal(found)
	}
	t.Logf("shared after %d calls, %d grants by push, %d calls of more than one", n.beside, n.pushed, n.together)
	if n.beside < 4*sequences || n.pushed < sequences/20 || n.together < sequences/10 {
		t.Error("so few show little")
	}
}

func TestModelOfBothLinesIsTheScriptsOnAServer(t *testing.T) {
	compareBeside(t, testserver.NeedOne(t, redisserver.Config{}).Addr(), testkit.Of(40, 100))
}

func TestModelOfBothLinesIsTheScriptsInProcess(t *testing.T) {
	testkit.Full(t)
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	compareBeside(t, m.Addr(), 20)
}

// besideEdits each break a script of those who wait, so that it is another than the model.
var besideEdits = []struct {
	name, script, old, new string
	seed                   uint64 // the first that tells it
}{
	{"a share that looks for no exclusive", "share", "    ahead = queueHead(key)\n    if ahead and (position", "    ahead = nil\n    if ahead and (position", 0},
	{"a ticket that looks at one line", "share", "detail = math.max(top, ", "detail = math.max(", 2},
	{"an ask that looks for nobody who waits to share", "ask", "if not reply and sharerBefore(key, position) then", "if false then", 1},
	{"an ask that calls itself the first", "ask", " and not sharerBefore(key, position) then detail", " then detail", 0},
	{"an ask that knows no shared name", "ask", "elseif pcall('ZRANGE', key, '0', '0')[1] == 'redlock:shared' then", "elseif false then", 0},
	{"a hand past those who wait to share", "hand", "if sharedPlace and not (place and place <= sharedPlace) then", "if false then", 2},
	{"a hand of one past them", "hand_one", "if sharedPlace and not (place and place <= sharedPlace) then", "if false then", 2},
	{"an acquire past them", "acquire", "or call('EXISTS', 'redlock:sharing') > 0 and", "or false and", 11},
	{"a leave that wakes nobody behind it", "release_batch", "      minPlace = not freed and place", "      minPlace = not freed and false", 33},
	{"a leave that wakes those before it", "release_batch", "place < minPlace then", "false then", 33},
	{"a release that wakes one sharer", "release_shared", "if heard then woken = woken + 1 end", "if heard then return end", 10},
	{"a release of an exclusive that wakes one", "release", "      elseif queue == sharers then\n        sharerIndex, woken = sharerIndex + 1, woken + 1\n", "", 33},
	{"a rollback that wakes sharers", "release_shared", " or queue == sharers and rollback then", " then", 20},
	{"a leave that takes a later entry", "release_shared", "tonumber(place) <= tonumber(ARGV[modes + n + i])", "true", 0},
	{"a look that never says: ask", "look", "if enterShared(KEYS[i], string.sub(ARGV[2 + i], 2), owner) then", "if not enterShared(KEYS[i], string.sub(ARGV[2 + i], 2), owner) and false then", 0},
}

func TestModelOfBothLinesTellsWrongScripts(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	for _, e := range besideEdits {
		t.Run(e.name, func(t *testing.T) {
			g := newBeside(t, m.Addr())
			g.edit(e.script, e.old, e.new)
			if found, _ := g.difference(testkit.Of(e.seed, 0), 400, (*granting).stepBeside); found == "" {
				t.Error("it is taken for the model's")
			}
		})
	}
}
