package scriptmodel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// granting is a real node whose name 0 is waited for by processes that take grants by
// push, and the model that must do the same. The last waiter hears nothing.
type granting struct {
	*server
	calls *redis.PubSub
	node  scriptmodel.Sharing

	shares bool  // the name may be shared
	begin  int64 // the model's time, by the node's clock, in ms
}

// granted is the lease of what a release grants (hand.lua): less than a tick.
const granted = 3 * time.Second

// processOf is the waiter whose owner value it is.
func processOf(o scriptmodel.Owner) scriptmodel.Waiter {
	return scriptmodel.Waiter(o-1) % scriptmodel.Waiters
}

// ownerOf is an owner value of the waiter's.
func ownerOf(rnd *rand.Rand, w scriptmodel.Waiter) scriptmodel.Owner {
	return scriptmodel.Owner(1 + int(w) + scriptmodel.Waiters*rnd.IntN(scriptmodel.Owners/scriptmodel.Waiters))
}

func newGranting(t *testing.T, addr string) *granting {
	t.Helper()
	g := &granting{server: newServer(t, addr, 0)}
	g.load("ask", "pass", "look", "hand", "hand_one")
	channels := []string{"mark"}
	for w := range scriptmodel.Waiter(scriptmodel.Waiters - 1) {
		channels = append(channels, "redlock:wake:"+waiterID(w))
	}
	g.calls = g.c.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { _ = g.calls.Close() })
	for range channels {
		if _, err := g.calls.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// told is who was called since the last time, and who was told of a grant.
func (g *granting) told() (woken []scriptmodel.Waiter, push scriptmodel.Push) {
	g.t.Helper()
	g.do(g.c.Publish(g.t.Context(), "mark", "").Err())
	push = scriptmodel.Push{To: scriptmodel.NoWaiter}
	for {
		m, err := g.calls.ReceiveMessage(g.t.Context())
		g.do(err)
		if m.Channel == "mark" {
			slices.Sort(woken)
			return woken, push
		}
		var who scriptmodel.Waiter
		_, err = fmt.Sscanf(m.Channel, "redlock:wake:waiter-%d", &who)
		g.do(err)
		part := strings.SplitN(m.Payload, "\n", 6)
		switch {
		case m.Payload == waited:
			woken = append(woken, who)
		case push.To == scriptmodel.NoWaiter && len(part) == 6 && part[0] == "redlock:push" && part[5] == waited:
			push = scriptmodel.Push{
				To: who, Epoch: scriptmodel.Epoch(integer(part[1])), Token: scriptmodel.Number(integer(part[2])),
				Reading: scriptmodel.Tick(integer(part[3])),
			}
			_, err = fmt.Sscanf(part[4], ownerFormat(part[4]), &push.Owner)
			g.do(err)
		default:
			g.t.Fatalf("a message: %v\nafter %q", m, g.log)
		}
	}
}

// keep lets no sign of life and no grant end by itself.
func (g *granting) keep() {
	ctx := g.t.Context()
	g.do(g.c.PExpire(ctx, "redlock:waiting", time.Hour).Err())
	for w := range scriptmodel.Waiter(scriptmodel.Waiters) {
		life := time.Hour
		if g.node.Called&(1<<w) != 0 {
			life = shortened
		}
		if g.node.Lives(w) {
			g.do(g.c.Set(ctx, "redlock:live:"+waiterID(w), int(g.node.Readings[w]), life).Err())
		}
	}
	if k := g.node.Keys[0]; k.Owner != scriptmodel.Nobody && k.Until == g.now {
		g.do(g.c.PExpire(ctx, waited, granted).Err())
	}
}

// read is what the node keeps.
func (g *granting) read() (n scriptmodel.Sharing) {
	ctx := g.t.Context()
	n.Node = g.stored()
	n.Deaf = g.node.Deaf
	for i := range n.Dead {
		n.Dead[i] = g.until(g.c.PTTL(ctx, longTombstone(scriptmodel.Owner(i+1))).Val())
	}
	line, err := g.c.ZRangeWithScores(ctx, "redlock:queue:"+waited, 0, -1).Result()
	g.do(err)
	for _, z := range line {
		id, owner, owned := strings.Cut(z.Member.(string), " ")
		w, err := strconv.Atoi(strings.TrimPrefix(id, "waiter-"))
		g.do(err)
		if !owned {
			n.Places[w] = scriptmodel.Number(z.Score)
			continue
		}
		var o scriptmodel.Owner
		_, err = fmt.Sscanf(owner, ownerFormat(owner), &o)
		g.do(err)
		n.Entries[o-1] = scriptmodel.Entry{Place: scriptmodel.Number(z.Score), Waiter: scriptmodel.Waiter(w)}
	}
	for w := range scriptmodel.Waiter(scriptmodel.Waiters) {
		live := "redlock:live:" + waiterID(w)
		if left := g.c.PTTL(ctx, live).Val(); left > 0 {
			n.Live |= 1 << w
			n.Readings[w] = scriptmodel.Tick(integer(g.c.Get(ctx, live).Val()))
			if left <= shortened {
				n.Called |= 1 << w
			}
		}
	}
	n.Waited = g.c.Exists(ctx, "redlock:waiting").Val() == 1
	if g.shares {
		g.readBeside(&n)
	}
	return n
}

// step does one thing to both; got and want are replies, and who was told what.
func (g *granting) step(rnd *rand.Rand) (what string, got, want []any) {
	o := anyOwner(rnd)
	w := processOf(o)
	a := scriptmodel.Acquire{Owner: o, Life: anyLife(rnd), Epoch: anyEpoch(rnd), Hint: scriptmodel.Number(rnd.IntN(40))}
	reading := scriptmodel.Tick(1 + rnd.IntN(200))
	switch rnd.IntN(14) {
	default:
		return g.ask(rnd, scriptmodel.AskIn{Ask: scriptmodel.Ask{Acquire: a, Waiter: w}, Reading: reading})
	case 4:
		r := g.run("acquire", []string{waited, "redlock:node"}, longValue(o), millis(a.Life), int64(a.Hint), 0, int(a.Epoch))
		return fmt.Sprintf("acquire %+v", a), []any{g.reply(r[0])}, []any{g.node.AcquireKept(g.now, a, 0)}
	case 5, 6:
		return g.release(rnd, reading)
	case 7:
		p := scriptmodel.Pass{Acquire: a, Old: g.likelyHolder(rnd)}
		r := g.run("pass", []string{waited, "redlock:node", longTombstone(o)}, longValue(p.Old), longValue(o), millis(a.Life), int64(a.Hint), 0, int(a.Epoch))
		return fmt.Sprintf("pass %+v", p), []any{g.reply(r[0])}, []any{g.node.Pass(g.now, p)}
	case 8:
		return g.look(rnd, w, reading)
	case 9:
		g.do(g.c.Del(g.t.Context(), "redlock:live:"+waiterID(w)).Err())
		g.node.Silence(w)
		return fmt.Sprintf("%d's sign of life ends", w), nil, nil
	case 10, 11, 12, 13:
		return g.hand(rnd, reading)
	}
}

// likelyHolder is mostly the one that has the key.
func (g *granting) likelyHolder(rnd *rand.Rand) scriptmodel.Owner {
	if o := g.node.Keys[0].Owner; o != scriptmodel.Nobody && o <= scriptmodel.Owners && rnd.IntN(4) > 0 {
		return o
	}
	return anyOwner(rnd)
}

func (g *granting) ask(rnd *rand.Rand, a scriptmodel.AskIn) (what string, got, want []any) {
	a.Place, a.Push = scriptmodel.Number(rnd.IntN(40)), rnd.IntN(4) > 0
	place := int(a.Place)
	if a.Barging = rnd.IntN(8) == 0; a.Barging {
		place = -1
	} else if rnd.IntN(3) == 0 {
		a.Place, place = 0, 0
	}
	push := 0
	if a.Push {
		push = 1
	}
	r := g.run("ask", []string{"redlock:node", waited, longTombstone(a.Owner)}, int(a.Epoch), waiterID(a.Waiter), 0, longValue(a.Owner), millis(a.Life), int64(a.Hint), place, int(a.Reading), push)
	reply, more := g.node.AskIn(g.now, a)
	return fmt.Sprintf("ask %+v", a), []any{g.reply(r[0]), int(r[1])}, []any{reply, more}
}

func (g *granting) look(rnd *rand.Rand, w scriptmodel.Waiter, reading scriptmodel.Tick) (what string, got, want []any) {
	place, o, text := scriptmodel.Number(1+rnd.IntN(40)), scriptmodel.Nobody, ""
	if rnd.IntN(4) > 0 {
		o = ownerOf(rnd, w)
		text = longValue(o)
	}
	r := g.run("look", []string{waited}, waiterID(w), "", int(place), int(reading), text)
	known, yours := g.node.LookIn(w, place, o, reading)
	return fmt.Sprintf("look %d %d %d", w, place, o), []any{int(r[0]), r[1] == scriptmodel.Yours}, []any{known, yours}
}

// release is release.lua or release_batch.lua, with and without an entry.
func (g *granting) release(rnd *rand.Rand, reading scriptmodel.Tick) (what string, got, want []any) {
	r := scriptmodel.LineRelease{Release: scriptmodel.Release{Owner: g.likelyHolder(rnd)}, Entry: uint8(rnd.IntN(4))}
	r.Waiter = processOf(r.Owner)
	keys := []string{waited}
	if rnd.IntN(4) == 0 {
		r.Tombstone = anyLife(rnd)
		keys = append(keys, longTombstone(r.Owner))
	}
	script, args := "release_batch", []any{1, longValue(r.Owner)}
	if r.Entry == 3 {
		script, args, r.Entry, r.Waiter = "release", args[1:], scriptmodel.EntryUnknown, scriptmodel.NoWaiter
	}
	if r.Tombstone != 0 {
		args = append(args, millis(r.Tombstone))
	}
	if script == "release_batch" {
		args = append(args, waiterID(r.Waiter), int(r.Entry))
		if r.Push = rnd.IntN(3) > 0; r.Push {
			r.Reading, r.Place = reading, scriptmodel.Number(1+rnd.IntN(40))
			text := ""
			if rnd.IntN(4) > 0 {
				r.Next = ownerOf(rnd, r.Waiter)
				text = longValue(r.Next)
			}
			args = append(args, int(reading), int(r.Place), text)
		}
	}
	reply := g.run(script, keys, args...)
	gone, woken := g.node.ReleaseBoth(g.now, r)
	was, _ := g.told()
	return fmt.Sprintf("%s %+v", script, r), []any{int(reply[0]), was}, []any{gone, called(woken)}
}

// hand is hand.lua or hand_one.lua.
func (g *granting) hand(rnd *rand.Rand, reading scriptmodel.Tick) (what string, got, want []any) {
	h := scriptmodel.Hand{Owner: g.likelyHolder(rnd), Hint: scriptmodel.Number(rnd.IntN(40)), Epoch: anyEpoch(rnd), Reading: reading}
	h.Waiter, h.Goes, h.Calls = processOf(h.Owner), rnd.IntN(4) > 0, rnd.IntN(5) == 0
	hint := int(h.Hint)
	if h.Calls {
		hint = -1
	}
	names := []any(nil)
	if h.Goes {
		text := ""
		if rnd.IntN(3) > 0 {
			h.Next = ownerOf(rnd, h.Waiter)
			text = longValue(h.Next)
		}
		stood := ""
		if h.Stood = h.Owner; rnd.IntN(3) == 0 { // it was passed to the owner, or stood with its id alone
			h.Stood = []scriptmodel.Owner{scriptmodel.Nobody, ownerOf(rnd, h.Waiter)}[rnd.IntN(2)]
		}
		if h.Stood != scriptmodel.Nobody {
			stood = longValue(h.Stood)
		}
		names = []any{waiterID(h.Waiter), int(reading), text, stood}
	}
	script := []string{"hand", "hand_one"}[rnd.IntN(2)]
	keys, args := []string{waited, "redlock:node"}, []any{longValue(h.Owner), int(h.Epoch), hint, 0}
	if script == "hand" {
		keys, args = []string{"redlock:node", waited}, []any{int(h.Epoch), 0, longValue(h.Owner), hint}
	}
	reply, err := g.scripts[script].Run(g.t.Context(), g.c, keys, append(args, names...)...).Result()
	g.do(err)
	out := g.node.Hand(g.now, h)
	woken, push := g.told()
	want = []any{out.Reply, out.More, called(scriptmodel.Woken{Alone: out.Woken, Beside: out.Beside}), out.Push}
	return fmt.Sprintf("%s %+v", script, h), append(handReply(reply), woken, push), want
}

// called is who was called, by their numbers; a process has one number in both lines.
func called(w scriptmodel.Woken) (who []scriptmodel.Waiter) {
	for i := range scriptmodel.Waiter(scriptmodel.Waiters) {
		if i == w.Alone || w.Beside&(1<<i) != 0 {
			who = append(who, i)
		}
	}
	return who
}

// handReply is a reply of one name in the model's terms.
func handReply(reply any) []any {
	list, ok := reply.([]any)
	if !ok {
		return []any{int(reply.(int64)), 0}
	}
	return []any{int(list[0].(int64)), int(list[1].(int64))}
}

// counts are what random calls have brought about.
type counts struct{ pushed, unheard, own, together, beside int }

// difference is how the node and the model differ after random calls: in replies, messages,
// or what is stored; nothing: they do not.
func (g *granting) difference(from uint64, sequences int, step func(*granting, *rand.Rand) (string, []any, []any)) (found string, n counts) {
	for seed := from; seed < from+uint64(sequences); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 0))
		g.install(ours, 0)
		g.node = scriptmodel.Sharing{Granting: scriptmodel.Granting{Waiting: scriptmodel.Waiting{Node: g.model, Deaf: 1 << (scriptmodel.Waiters - 1)}}}
		for range 60 {
			kept := time.Now()
			g.keep()
			before := g.node
			what, got, want := step(g, rnd)
			g.log = append(g.log, what)
			on := g.read()
			if time.Since(kept) > shortened/2 { // on a busy machine signs of life end by themselves
				g.t.Logf("seed %d ends after %d steps: this one took %v", seed, len(g.log), time.Since(kept))
				break
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("seed %d: the node says %v; want %v\nbefore\n%+v\nafter %q", seed, got, want, before, g.log), n
			}
			if on != g.node {
				return fmt.Sprintf("seed %d: the node has\n%+v; want\n%+v\nbefore\n%+v\nafter %q", seed, on, g.node, before, g.log), n
			}
			if len(want) == 4 {
				n.pushed += btoi(want[3].(scriptmodel.Push).To != scriptmodel.NoWaiter)
				n.unheard += btoi(want[0] == scriptmodel.Done && g.node.Number(0) > before.Number(0))
				n.own += btoi(want[1].(int) < 0)
			}
			for _, w := range want {
				if who, ok := w.([]scriptmodel.Waiter); ok {
					n.together += btoi(len(who) > 1)
				}
			}
			n.beside += btoi(g.node.Keys[0].Owner == scriptmodel.Shared)
		}
	}
	return "", n
}

// compareGranting compares them where nobody shares.
func compareGranting(t *testing.T, addr string, sequences int) {
	t.Helper()
	found, n := newGranting(t, addr).difference(0, sequences, (*granting).step)
	if found != "" {
		t.Fatal(found)
	}
	t.Logf("%d grants by push, %d that nobody heard, %d to the next owner", n.pushed, n.unheard, n.own)
	if n.pushed < sequences || n.unheard < sequences/4 || n.own < sequences/4 {
		t.Error("so few show little")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestModelOfGrantsIsTheScriptsOnAServer(t *testing.T) {
	compareGranting(t, testserver.NeedOne(t, redisserver.Config{}).Addr(), 30)
}

func TestModelOfGrantsIsTheScriptsInProcess(t *testing.T) {
	testkit.Full(t)
	compareGranting(t, miniredis.RunT(t).Addr(), 15)
}
