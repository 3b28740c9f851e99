package lua_test

import (
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// asks is A's ask for the name by a place, with an owner.
func asks(owner string, place int64) call {
	return call{lua.AskScript, []string{lua.NodeKey, "name", lua.TombstoneKey + owner}, []any{"e1", idA, 7, owner, 600000, 0, place, 77, 1}}
}

// looks is A's look at the name.
func looks(owner string, place int64) call {
	return call{lua.LookScript, []string{"name"}, []any{idA, "", place, 77, owner}}
}

// releases is A's release of an owner, in a mode, and with whom it goes on.
func releases(owner string, mode int, place int64, next string) call {
	return call{lua.ReleaseBatchScript, []string{"name"}, []any{1, owner, idA, mode, 77, place, next}}
}

type call struct {
	script *lua.Script
	keys   []string
	args   []any
}

// entry is how one is shown.
func entry(id, owner string, place int64) string {
	return fmt.Sprintf(" %s@%d %s %s@%d", id, place, id, owner, place)
}

var queueCases = []struct {
	name  string
	given string
	hears []string
	call  call
	reply string
	shows string
}{
	{
		name: "a key that a release granted gets its whole lease, and its counter no less than the place", given: aHolds + "\nSET,name," + ownerA + ",PX,3000",
		call: asks(ownerA, 50), reply: "[50 0]", shows: "key=" + ownerA + " 7=50",
	},
	{
		name: "a grant is no less than the place", given: aHolds + "\nDEL,name",
		call: asks(ownerA, 50), reply: "[50 0]", shows: "key=" + ownerA + " 7=50",
	},
	{
		name: "what is granted is out of the line", given: aHolds + "\nDEL,name\nZADD,redlock:queue:name,50," + idA + ",50," + idA + " " + ownerA,
		call: asks(ownerA, 50), reply: "[50 0]", shows: "key=" + ownerA + " 7=50",
	},
	{
		name:  "an entry of an older attempt is not the place of this one", // searched: B was before
		given: aHolds + bWaits + "\nDEL,name\nZADD,redlock:queue:name,10," + idA + ",10," + idA + " " + held,
		call:  asks(ownerA, 50), reply: "[-3 0]", shows: "key= 7=40" + entry(idB, ownerB, 30) + entry(idA, ownerA, 50),
	},
	{
		name:  "one that comes late drops no newer one", // searched: A was overtaken
		given: aHolds + "\nSET,name,other\nSET,redlock:dead:" + held + ",1,PX,10000\nSET,redlock:live:" + idA + ",1,PX,3000\nZADD,redlock:queue:name,50," + idA + ",50," + idA + " " + ownerA,
		call:  asks(held, 50), reply: "[-9 2]", shows: "key=other 7=40" + entry(idA, ownerA, 50),
	},
	{
		name: "a look puts an owner in line", given: aHolds + "\nPERSIST,name", call: looks(ownerA, 50),
		reply: "[0 -1]", shows: "key=" + held + " 7=40" + entry(idA, ownerA, 50),
	},
	{
		name: "but not one that has been granted the name", given: aHolds, call: looks(held, 50),
		reply: "[0 -3]", shows: "key=" + held + " 7=40",
	},
	{
		name: "nor one that is dead", given: aHolds + "\nSET,redlock:dead:" + ownerA + ",1,PX,10000\nPERSIST,name", call: looks(ownerA, 50),
		reply: "[0 -1]", shows: "key=" + held + " 7=40",
	},
	{
		name: "what is given back leaves the next owner at its place", given: aHolds + "\nZADD,redlock:queue:name,10," + idA + ",10," + idA + " " + held,
		call: releases(held, 2, 10, ownerA), reply: "1", shows: "key= 7=40" + entry(idA, ownerA, 10),
	},
	{
		name: "once more, and it has been granted since", given: aHolds + "\nSET,name," + ownerA + ",PX,3000",
		call: releases(held, 2, 10, ownerA), reply: "0", shows: "key=" + ownerA + " short 7=40",
	},
	{
		name: "once more, and it is dead since", given: aHolds + "\nSET,redlock:dead:" + ownerA + ",1,PX,10000",
		call: releases(held, 2, 10, ownerA), reply: "1", shows: "key= 7=40",
	},
	{
		name: "a turn's end takes away its own entry", given: aHolds + bWaits + "\nDEL,name\nZADD,redlock:queue:name,10," + idA + ",10," + idA + " " + held, hears: []string{idB},
		call: releases(held, 1, 0, ""), reply: "0", shows: "key= 7=40" + entry(idB, ownerB, 30) + ` B hears "name"`,
	},
	{
		name: "one that comes late takes away no newer one", given: aHolds + "\nZADD,redlock:queue:name,50," + idA + ",50," + idA + " " + ownerA,
		call: releases(held, 1, 0, ""), reply: "1", shows: "key= 7=40" + entry(idA, ownerA, 50),
	},
	{
		name:  "nor does a hand that comes late", // searched: C lost its place
		given: aHolds + "\nSET,name,other,PX,600000\nSET,redlock:dead:next,1,PX,10000\nZADD,redlock:queue:name,50," + idA + ",50," + idA + " " + ownerA,
		call:  call{lua.HandOneScript, []string{"name", lua.NodeKey}, []any{held, "e1", 0, 7, idA, 77, "next", held}}, reply: "[0 0]",
		shows: "key=other 7=40" + entry(idA, ownerA, 50),
	},
	{
		name: "a raise says what the stripe has", given: aHolds,
		call: call{lua.RaiseScript, []string{"name", lua.NodeKey}, []any{held, 7, 39, "e1"}}, reply: "40", shows: "key=" + held + " 7=40",
	},
}

func testQueue(t *testing.T, addr string) {
	t.Helper()
	for _, c := range queueCases {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, addr)
			n.do("FLUSHALL")
			n.hear(c.hears...)
			n.do(c.given)
			if got := n.run(c.call.script, c.call.keys, c.call.args...); got != c.reply {
				t.Errorf("got %s; want %s", got, c.reply)
			}
			if got := n.shows(); got != c.shows {
				t.Errorf("the node shows\n%s; want\n%s", got, c.shows)
			}
		})
	}
}

func TestQueueOnAServer(t *testing.T) {
	testQueue(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
}

func TestQueueInProcess(t *testing.T) { testQueue(t, miniredis.RunT(t).Addr()) }
