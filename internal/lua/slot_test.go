package lua_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

const slotsLine = lua.QueueKey + "redlock:slots:name"

// askSlot is A's ask for slot 1 of three, with an owner.
func askSlot(owner string, place int64) call {
	return call{
		lua.AskSlotScript,
		[]string{lua.NodeKey, lua.SlotKey("name", 1), lua.TombstoneKey + owner},
		[]any{"e1", idA, 77, 7, owner, 600000, 0, place, "name", 3},
	}
}

// but is the call with another argument.
func (c call) but(i int, value any) call {
	c.args = append([]any{}, c.args...)
	c.args[i] = value
	return c
}

// releaseSlot is A's release of slot 1 of three.
func releaseSlot(owner string, mode int) call {
	return call{lua.ReleaseSlotScript, []string{lua.SlotKey("name", 1)}, []any{owner, "name", 3, mode, idA, 20}}
}

// leaveSlots is A's leave of the line, which it waited in at place 20.
func leaveSlots() call {
	return call{lua.ReleaseSlotScript, []string{lua.SlotsKey("name")}, []any{held, "name", 3, 1, idA, 20}}
}

// buried is the release with a tombstone.
func buried(c call) call {
	c.keys = append(c.keys[:1:1], lua.TombstoneKey+c.args[0].(string))
	c.args = append(append([]any{}, c.args...), 60000)
	return c
}

const (
	freeSlots = `
	HSET,redlock:node,epoch,e1,base,5,7,40`
	oneHeld = freeSlots + `
	SET,redlock:slot:1:name,` + held + `,PX,600000`
	allHeld = oneHeld + `
	SET,redlock:slot:0:name,a,PX,500000
	SET,redlock:slot:2:name,c,PX,400000`
	bInLine = `
	SET,redlock:waiting,1,PX,3000
	SET,redlock:live:` + idB + `,123456,PX,3000
	ZADD,` + slotsLine + `,30,` + idB
	aInLine = `
	SET,redlock:waiting,1,PX,3000
	SET,redlock:live:` + idA + `,77,PX,3000
	ZADD,` + slotsLine + `,20,` + idA
	deadInLine = `
	SET,redlock:waiting,1,PX,3000
	ZADD,` + slotsLine + `,10,` + idOld
)

var slotCases = []struct {
	name  string
	given string
	hears []string
	call  call
	reply string
	shows string
}{
	{
		name: "a free slot is granted where nobody waits", given: freeSlots, call: askSlot(ownerA, 0),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41",
	},
	{
		name: "from the base, where the stripe is below", given: freeSlots + "\nHSET,redlock:node,base,70", call: askSlot(ownerA, 0),
		reply: "[71 0 0 0 0]", shows: "1=" + ownerA + "@600 7=71",
	},
	{
		name: "the hint counts", given: freeSlots, call: askSlot(ownerA, 0).but(6, 90),
		reply: "[90 0 0 0 0]", shows: "1=" + ownerA + "@600 7=90",
	},
	{
		name: "a large hint is stored digit by digit", given: freeSlots, call: askSlot(ownerA, 0).but(6, 9007199254740001),
		reply: "[9007199254740001 0 0 0 0]", shows: "1=" + ownerA + "@600 7=9007199254740001",
	},
	{
		name: "other slots' holders are in nobody's way", given: freeSlots + "\nSET,redlock:slot:0:name,a,PX,500000\nSET,redlock:slot:2:name,c,PX,500000", call: askSlot(ownerA, 0),
		reply: "[41 0 0 0 0]", shows: "0=a@500 1=" + ownerA + "@600 2=c@500 7=41",
	},
	{
		name: "nor is a plain lock of the name", given: freeSlots + "\nSET,name,x,PX,500000", call: askSlot(ownerA, 0),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41",
	},
	{
		name: "ours already", given: oneHeld + bInLine, call: askSlot(held, 50),
		reply: "[40 0 0 0 0]", shows: "1=" + held + "@600 7=40 B@30",
	},
	{
		name: "taken: a ticket, and which are free", given: oneHeld, call: askSlot(ownerA, 0),
		reply: "[taken600 41 1 5 600]", shows: "1=" + held + "@600 7=40",
	},
	{
		name: "all are taken: when the first ends", given: allHeld, call: askSlot(ownerA, 0),
		reply: "[taken600 41 1 0 400]", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40",
	},
	{
		name: "none of them has an end", given: oneHeld + "\nPERSIST,redlock:slot:1:name\nSET,redlock:slot:0:name,a\nSET,redlock:slot:2:name,c", call: askSlot(ownerA, 0),
		reply: "[-9 41 1 0 -1]", shows: "0=a@-1 1=" + held + "@-1 2=c@-1 7=40",
	},
	{
		name: "a ticket is behind all who wait", given: allHeld + bInLine + "\nZADD," + slotsLine + ",90," + idOld, call: askSlot(ownerA, 0),
		reply: "[taken600 91 0 0 400]", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 B@30 O@90",
	},
	{
		name: "a smaller limit looks at fewer slots", given: allHeld, call: askSlot(ownerA, 0).but(9, 2),
		reply: "[taken600 41 1 0 500]", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40",
	},
	{
		name: "48 slots fit", given: oneHeld, call: askSlot(ownerA, 0).but(9, lua.MaxSlots),
		reply: fmt.Sprintf("[taken600 41 1 %d 600]", uint64(1)<<48-1-2), shows: "1=" + held + "@600 7=40",
	},
	{
		name: "with a place it is put in line, and is first", given: allHeld, call: askSlot(ownerA, 50),
		reply: "[taken600 0 1 0 400]", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 A@50 A lives 77",
	},
	{
		name: "behind another it is not", given: allHeld + bInLine, call: askSlot(ownerA, 50),
		reply: "[taken600 0 0 0 400]", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 B@30 A@50 A lives 77",
	},
	{
		name: "a free slot is not granted past another", given: freeSlots + bInLine, call: askSlot(ownerA, 50),
		reply: "[-3 0 0 7 -1]", shows: "7=40 B@30 A@50 A lives 77",
	},
	{
		name: "nor to who has no place", given: freeSlots + bInLine, call: askSlot(ownerA, 0),
		reply: "[-3 41 0 7 -1]", shows: "7=40 B@30",
	},
	{
		name: "nor past the own process's entry", given: freeSlots + aInLine, call: askSlot(ownerA, 0),
		reply: "[-3 41 0 7 -1]", shows: "7=40 A@20 A lives 77",
	},
	{
		name: "but who barges gets it", given: freeSlots + bInLine, call: askSlot(ownerA, -1),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41 B@30",
	},
	{
		name: "and where it is taken, is not put in line", given: oneHeld + bInLine, call: askSlot(ownerA, -1),
		reply: "[taken600 41 1 5 600]", shows: "1=" + held + "@600 7=40 B@30",
	},
	{
		name: "a lower place is first, recorded before or not", given: freeSlots + bInLine, call: askSlot(ownerA, 20),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41 A@20 B@30 A lives 77",
	},
	{
		name: "an old entry is not the place of a new ask", given: freeSlots + bInLine + aInLine, call: askSlot(ownerA, 50),
		reply: "[-3 0 0 7 -1]", shows: "7=40 B@30 A@50 A lives 77",
	},
	{
		name: "the entry stays when the slot is granted", given: freeSlots + aInLine, call: askSlot(ownerA, 20),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41 A@20 A lives 77",
	},
	{
		name: "a dead head is dropped", given: freeSlots + deadInLine, call: askSlot(ownerA, 50),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41 A@50 A lives 77",
	},
	{
		name: "also by who has no place", given: freeSlots + deadInLine, call: askSlot(ownerA, 0),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41",
	},
	{
		name: "also where it is an entry of the own process", given: freeSlots + "\nSET,redlock:waiting,1,PX,3000\nZADD," + slotsLine + ",20," + idA, call: askSlot(ownerA, 0),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41",
	},
	{
		name: "a tombstone", given: freeSlots + "\nSET,redlock:dead:" + ownerA + ",1,PX,10000", call: askSlot(ownerA, 50),
		reply: "[-1 0 0 0 0]", shows: "7=40",
	},
	{
		name: "one that comes late is not put in line", given: allHeld + "\nSET,redlock:dead:" + ownerA + ",1,PX,10000", call: askSlot(ownerA, 50),
		reply: "[taken600 0 1 0 400]", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40",
	},
	{
		name: "another epoch", given: freeSlots, call: askSlot(ownerA, 50).but(0, "e2"),
		reply: "[0 0 0 0 0]", shows: "7=40",
	},
	{
		name: "no record", given: "", call: askSlot(ownerA, 50),
		reply: "[0 0 0 0 0]", shows: "7=",
	},
	{
		name: "the counter's end", given: freeSlots + "\nHSET,redlock:node,7,9007199254740990", call: askSlot(ownerA, 0),
		reply: "[-2 0 0 0 0]", shows: "7=9007199254740990",
	},
	{
		name: "the last number", given: freeSlots + "\nHSET,redlock:node,7,9007199254740989", call: askSlot(ownerA, 0),
		reply: "[9007199254740990 0 0 0 0]", shows: "1=" + ownerA + "@600 7=9007199254740990",
	},
	{
		name: "another program's list under the slot's key stays, and is taken", given: freeSlots + "\nRPUSH,redlock:slot:1:name,x", call: askSlot(ownerA, 0),
		reply: "[-9 41 1 5 -1]", shows: "1=list@-1 7=40",
	},
	{
		name: "under another slot's key it is not free", given: freeSlots + "\nRPUSH,redlock:slot:0:name,x\nSET,redlock:slot:1:name,y,PX,600000", call: askSlot(ownerA, 0),
		reply: "[taken600 41 1 4 600]", shows: "0=list@-1 1=y@600 7=40",
	},
	{
		name: "a slot that has expired is free", given: freeSlots + "\nSET,redlock:slot:1:name,x,PXAT,1", call: askSlot(ownerA, 0),
		reply: "[41 0 0 0 0]", shows: "1=" + ownerA + "@600 7=41",
	},

	{
		name: "a release deletes the slot, and wakes the first with its key", given: allHeld + bInLine, hears: []string{idB}, call: releaseSlot(held, 0),
		reply: "1", shows: `0=a@500 2=c@400 7=40 B@30 B hears "redlock:slot:1:name"`,
	},
	{
		name: "the second time it does nothing", given: freeSlots + bInLine, hears: []string{idB}, call: releaseSlot(held, 0),
		reply: "0", shows: "7=40 B@30",
	},
	{
		name: "another's stays", given: oneHeld + bInLine, hears: []string{idB}, call: releaseSlot(ownerA, 0),
		reply: "0", shows: "1=" + held + "@600 7=40 B@30",
	},
	{
		name: "the own process is woken as any other", given: oneHeld + aInLine, hears: []string{idA}, call: releaseSlot(held, 0),
		reply: "1", shows: `7=40 A@20 A lives 77 A hears "redlock:slot:1:name"`,
	},
	{
		name: "who does not hear is not the last that is called", given: oneHeld + aInLine + bInLine, hears: []string{idB}, call: releaseSlot(held, 0),
		reply: "1", shows: `7=40 A@20 B@30 A lives 77 B hears "redlock:slot:1:name"`,
	},
	{
		name: "a dead head is dropped, and the next is woken", given: oneHeld + deadInLine + bInLine, hears: []string{idB}, call: releaseSlot(held, 0),
		reply: "1", shows: `7=40 B@30 B hears "redlock:slot:1:name"`,
	},
	{
		name: "a rollback wakes nobody behind its own entry", given: oneHeld + aInLine + bInLine, hears: []string{idA, idB}, call: releaseSlot(held, 2),
		reply: "1", shows: "7=40 A@20 B@30 A lives 77",
	},
	{
		name: "but who is before", given: oneHeld + bInLine + "\nSET,redlock:live:" + idA + ",77,PX,3000\nZADD," + slotsLine + ",50," + idA, hears: []string{idA, idB}, call: releaseSlot(held, 2),
		reply: "1", shows: `7=40 B@30 A@50 A lives 77 B hears "redlock:slot:1:name"`,
	},
	{
		name: "a tombstone is left, with or without the slot", given: freeSlots, call: buried(releaseSlot(held, 0)),
		reply: "0", shows: "7=40 dead " + held,
	},
	{
		name: "a leave wakes the next where a slot is free", given: oneHeld + aInLine + bInLine, hears: []string{idA, idB}, call: leaveSlots(),
		reply: "0", shows: "1=" + held + `@600 7=40 B@30 A lives 77 B hears "redlock:slot:0:name"`,
	},
	{
		name: "and nobody where none is", given: allHeld + aInLine + bInLine, hears: []string{idA, idB}, call: leaveSlots(),
		reply: "0", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 B@30 A lives 77",
	},
	{
		name: "a leave that comes again wakes nobody", given: oneHeld + bInLine, hears: []string{idA, idB}, call: leaveSlots(),
		reply: "0", shows: "1=" + held + "@600 7=40 B@30",
	},
	{
		name: "a leave takes an entry of a place before", given: allHeld + aInLine, call: leaveSlots().but(5, 21),
		reply: "0", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 A lives 77",
	},
	{
		name: "but not one of a later place", given: allHeld + aInLine + bInLine, hears: []string{idA, idB}, call: leaveSlots().but(5, 19),
		reply: "0", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 A@20 B@30 A lives 77",
	},
	{
		name: "and where that stays, the first is woken if a slot is free", given: oneHeld + bInLine + "\nSET,redlock:live:" + idA + ",77,PX,3000\nZADD," + slotsLine + ",50," + idA, hears: []string{idA, idB}, call: leaveSlots(),
		reply: "0", shows: "1=" + held + `@600 7=40 B@30 A@50 A lives 77 B hears "redlock:slot:0:name"`,
	},
	{
		name: "a leave whose place is large", given: allHeld + "\nSET,redlock:waiting,1,PX,3000\nZADD," + slotsLine + ",9007199254740990," + idA, call: leaveSlots().but(5, int64(9007199254740989)),
		reply: "0", shows: "0=a@500 1=" + held + "@600 2=c@400 7=40 A@9007199254740990",
	},
	{
		name: "a leave with a tombstone", given: oneHeld + aInLine + bInLine, hears: []string{idB}, call: buried(leaveSlots()),
		reply: "0", shows: "1=" + held + `@600 7=40 B@30 A lives 77 dead ` + held + ` B hears "redlock:slot:0:name"`,
	},
	{
		name: "a cancelled wait of an older client leaves by a plain release, which wakes the next", given: oneHeld + aInLine + bInLine, hears: []string{idA, idB},
		call:  call{lua.ReleaseBatchScript, []string{lua.SlotsKey("name")}, []any{1, ownerA, idA, 1}},
		reply: "0", shows: "1=" + held + `@600 7=40 B@30 A lives 77 B hears "redlock:slots:name"`,
	},
	{
		name: "a plain look puts a process in the slots' line", given: oneHeld,
		call:  call{lua.LookScript, []string{lua.SlotsKey("name")}, []any{idA, "", 50, 77, ""}},
		reply: "[0 -2]", shows: "1=" + held + "@600 7=40 A@50 A lives 77",
	},
	{
		name: "a plain lock's release wakes nobody in the slots' line", given: freeSlots + bInLine + "\nSET,name," + held + ",PX,600000", hears: []string{idB},
		call:  call{lua.ReleaseScript, []string{"name"}, []any{held}},
		reply: "1", shows: "7=40 B@30",
	},
}

// showsSlots is what is stored of the name's slots and their line, and was heard.
func (n *node) showsSlots() string {
	n.t.Helper()
	ctx := n.t.Context()
	var out []string
	for i := range lua.MaxSlots {
		key := lua.SlotKey("name", i)
		is := n.c.Type(ctx, key).Val()
		switch is {
		case "none":
			continue
		case "string":
			is = n.c.Get(ctx, key).Val()
		}
		seconds := int64(-1)
		if left := n.c.PTTL(ctx, key).Val(); left > 0 {
			seconds = int64(math.Round(left.Seconds() / 10))
			seconds *= 10
		}
		out = append(out, fmt.Sprintf("%d=%s@%d", i, is, seconds))
	}
	out = append(out, "7="+n.c.HGet(ctx, lua.NodeKey, "7").Val())
	for _, z := range n.c.ZRangeWithScores(ctx, slotsLine, 0, -1).Val() {
		out = append(out, fmt.Sprintf("%.1s@%.0f", z.Member, z.Score))
	}
	if sign := n.c.Get(ctx, lua.LiveKey+idA).Val(); sign != "" {
		out = append(out, "A lives "+sign)
	}
	if n.c.PTTL(ctx, lua.TombstoneKey+held).Val() > 0 {
		out = append(out, "dead "+held)
	}
	n.do("PUBLISH,mark,")
	for {
		m, err := n.calls.ReceiveMessage(ctx)
		if err != nil {
			n.t.Fatal(err)
		}
		if m.Channel == "mark" {
			return strings.Join(out, " ")
		}
		out = append(out, fmt.Sprintf("%.1s hears %q", strings.TrimPrefix(m.Channel, lua.WakeChannel), m.Payload))
	}
}

// slotReply shows a reply of ask_slot with leases in tens of seconds.
func slotReply(reply string) string {
	words := strings.Fields(strings.Trim(reply, "[]"))
	if len(words) != 5 {
		return reply
	}
	round := func(ms int64) string { return strconv.FormatInt((ms+5000)/10000*10, 10) }
	if left, _ := strconv.ParseInt(words[0], 10, 64); left <= -10 {
		words[0] = "taken" + round(-10-left)
	}
	if ends, _ := strconv.ParseInt(words[4], 10, 64); ends > 0 {
		words[4] = round(ends)
	}
	return "[" + strings.Join(words, " ") + "]"
}

func testSlots(t *testing.T, addr string) {
	t.Helper()
	for _, c := range slotCases {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, addr)
			n.do("FLUSHALL")
			n.hear(c.hears...)
			n.do(c.given)
			if got := slotReply(n.run(c.call.script, c.call.keys, c.call.args...)); got != c.reply {
				t.Errorf("got %s; want %s", got, c.reply)
			}
			if got := n.showsSlots(); got != c.shows {
				t.Errorf("the node shows\n%s; want\n%s", got, c.shows)
			}
		})
	}
}

func TestSlotsOnAServer(t *testing.T) {
	testSlots(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
}

func TestSlotsInProcess(t *testing.T) { testSlots(t, miniredis.RunT(t).Addr()) }

// An ask that comes twice finds what the first did: a grant stays as it is, and a refusal
// stands once in line.
func TestASlotsAskComesTwice(t *testing.T) {
	n := newNode(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
	for _, given := range []string{freeSlots, oneHeld, allHeld + bInLine} {
		n.do("FLUSHALL")
		n.do(given)
		c := askSlot(ownerA, 50)
		first := slotReply(n.run(c.script, c.keys, c.args...))
		shows := n.showsSlots()
		if again := slotReply(n.run(c.script, c.keys, c.args...)); again != first {
			t.Errorf("got %s; want %s as before", again, first)
		}
		if again := n.showsSlots(); again != shows {
			t.Errorf("the node shows\n%s; want\n%s", again, shows)
		}
	}
}

func TestASlotsKeySaysItsNameAndNumber(t *testing.T) {
	for _, name := range []string{"name", "a:b", "47:x", ":", "redlock:slot:1:x"} {
		for _, slot := range []int{0, 9, 47} {
			key := lua.SlotKey(name, slot)
			if got, i, ok := lua.SlotOf(key); got != name || i != slot || !ok {
				t.Errorf("got %q, %d, %v; want %q, %d", got, i, ok, name, slot)
			}
			if got := lua.NameOf(key); got != name {
				t.Errorf("got %q; want %q", got, name)
			}
			if len(key) > len(name)+lua.LongestSlot {
				t.Errorf("%q is %d bytes longer than its name; want at most %d", key, len(key)-len(name), lua.LongestSlot)
			}
		}
		if got := lua.NameOf(lua.SlotsKey(name)); got != name {
			t.Errorf("got %q; want %q", got, name)
		}
	}
	for _, key := range []string{"name", "redlock:slot:", "redlock:slot:1", "redlock:slot:48:x", "redlock:slot:-1:x", "redlock:slot:x:1"} {
		if _, _, ok := lua.SlotOf(key); ok {
			t.Errorf("%q is taken for a slot's key", key)
		}
	}
}
