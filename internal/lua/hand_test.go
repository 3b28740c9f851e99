package lua_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What the cases are made of. A and B wait for grants by push, Old is a process of a
// client that knows of none.
const (
	idA, idB, idOld = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB", "OOOOOOOOOOOOOOOOOOOOOO"
	held            = "00000000-0000-4000-8000-000000000001" // by A
	ownerA          = "00000000-0000-4000-8000-00000000000a"
	ownerB          = "label with spaces 00000000-0000-4000-8000-00000000000b"
)

// node is a server that the cases run on, and what is heard there.
type node struct {
	t     *testing.T
	c     *redis.Client
	calls *redis.PubSub
}

func newNode(t *testing.T, addr string) *node {
	t.Helper()
	n := &node{t: t, c: redis.NewClient(&redis.Options{Addr: addr})}
	t.Cleanup(func() { _ = n.c.Close() })
	n.calls = n.c.Subscribe(t.Context(), "mark")
	t.Cleanup(func() { _ = n.calls.Close() })
	if _, err := n.calls.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// do sends commands, one a line, words apart by commas.
func (n *node) do(lines string) {
	n.t.Helper()
	for line := range strings.Lines(lines) {
		var args []any
		for word := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			args = append(args, word)
		}
		if len(args) == 1 && args[0] == "" {
			continue
		}
		if err := n.c.Do(n.t.Context(), args...).Err(); err != nil {
			n.t.Fatalf("%s: %v", line, err)
		}
	}
}

// hear has these processes' connections open, and no others: those of the test before may
// be closing still.
func (n *node) hear(ids ...string) {
	n.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if open := n.c.PubSubChannels(n.t.Context(), lua.WakeChannel+"*").Val(); len(open) == 0 {
			break
		} else if time.Now().After(deadline) {
			n.t.Fatalf("%q are open still", open)
		}
	}
	for _, id := range ids {
		if err := n.calls.Subscribe(n.t.Context(), lua.WakeChannel+id); err != nil {
			n.t.Fatal(err)
		}
		if _, err := n.calls.Receive(n.t.Context()); err != nil {
			n.t.Fatal(err)
		}
	}
}

// run runs a script, and returns its reply.
func (n *node) run(s *lua.Script, keys []string, args ...any) string {
	n.t.Helper()
	reply, err := n.c.Eval(n.t.Context(), s.Body, keys, args...).Result()
	if err != nil {
		n.t.Fatalf("%s: %v", s.Name, err)
	}
	return fmt.Sprint(withoutReading(reply))
}

// withoutReading is a reply without the reading of the clock that some scripts add to it.
func withoutReading(reply any) any {
	list, ok := reply.([]any)
	if n := len(list); !ok || n < 3 {
		return reply
	} else if _, reads := list[n-1].(string); !reads {
		return reply
	} else if list = list[:n-2]; len(list) == 1 {
		return list[0]
	}
	return list
}

// shows is what is stored and was heard.
func (n *node) shows() string {
	n.t.Helper()
	ctx := n.t.Context()
	out := []string{"key=" + n.c.Get(ctx, "name").Val()}
	if left := n.c.PTTL(ctx, "name").Val().Milliseconds(); left > 0 && left <= 3000 {
		out = append(out, "short")
	}
	out = append(out, "7="+n.c.HGet(ctx, lua.NodeKey, "7").Val())
	for _, z := range n.c.ZRangeWithScores(ctx, lua.QueueKey+"name", 0, -1).Val() {
		out = append(out, fmt.Sprintf("%v@%.0f", z.Member, z.Score))
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
		out = append(out, fmt.Sprintf("%s hears %q", strings.TrimPrefix(m.Channel, lua.WakeChannel)[:1], m.Payload))
	}
}

// The state that cases begin with: A holds the name at 40, and the node votes.
const aHolds = `
	HSET,redlock:node,epoch,e1,base,5,7,40
	SET,name,` + held + `,PX,600000`

const bWaits = `
	SET,redlock:waiting,1,PX,3000
	SET,redlock:live:` + idB + `,123456,PX,3000
	ZADD,redlock:queue:name,30,` + idB + `,30,` + idB + ` ` + ownerB

const oldWaits = `
	SET,redlock:waiting,1,PX,3000
	SET,redlock:live:` + idOld + `,1,PX,3000
	ZADD,redlock:queue:name,20,` + idOld

var handCases = []struct {
	name  string
	given string
	hears []string
	epoch string // e1 if empty
	hint  string // 0 if empty
	goes  []any  // id, reading and next owner; and the one with which it stood, if not held
	reply string // of hand_one
	shows string
}{
	{
		name: "nobody waits", given: aHolds,
		reply: "1", shows: "key= 7=40",
	},
	{
		name: "nobody waits, and it goes on", given: aHolds, goes: []any{idA, 77, ownerA},
		reply: "[2 -41]", shows: "key=" + ownerA + " short 7=41",
	},
	{
		name: "twice in a row: the second time it is the next owner's already", given: aHolds + "\nSET,name," + ownerA + ",PX,3000",
		goes: []any{idA, 77, ownerA}, reply: "[0 -40]", shows: "key=" + ownerA + " short 7=40",
	},
	{
		name: "the head is granted the lock, and told", given: aHolds + bWaits, hears: []string{idB},
		reply: "[2 0]", shows: "key=" + ownerB + ` short 7=41 B hears "redlock:push\ne1\n41\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "and the next owner stands behind it", given: aHolds + bWaits, hears: []string{idB}, goes: []any{idA, 77, ownerA},
		reply: "[2 42]", shows: "key=" + ownerB + " short 7=41 " + idA + "@42 " + idA + " " + ownerA + `@42 B hears "redlock:push\ne1\n41\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "the hint counts", given: aHolds + bWaits, hears: []string{idB}, hint: "9007199254740000",
		reply: "[2 0]", shows: "key=" + ownerB + ` short 7=9007199254740000 B hears "redlock:push\ne1\n9007199254740000\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "no grant is below its place", given: aHolds + bWaits + "\nZADD,redlock:queue:name,1700000000000000," + idB + ",1700000000000000," + idB + " " + ownerB, hears: []string{idB},
		reply: "[2 0]", shows: "key=" + ownerB + ` short 7=1700000000000000 B hears "redlock:push\ne1\n1700000000000000\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "a repeated hand finds the place", given: aHolds + bWaits + "\nSET,name," + ownerB + ",PX,3000\nZADD,redlock:queue:name,42," + idA + ",42," + idA + " " + ownerA,
		goes: []any{idA, 78, ownerA}, reply: "[0 42]",
		shows: "key=" + ownerB + " short 7=40 " + idB + "@30 " + idB + " " + ownerB + "@30 " + idA + "@42 " + idA + " " + ownerA + "@42",
	},
	{
		name: "one that comes late enters nobody who is dead", given: aHolds + "\nSET,name," + ownerB + ",PX,3000\nSET,redlock:dead:" + ownerA + ",1,PX,10000",
		goes: []any{idA, 78, ownerA}, reply: "[0 0]", shows: "key=" + ownerB + " short 7=40",
	},
	{
		name: "nor grants to one", given: aHolds + "\nSET,redlock:dead:" + ownerA + ",1,PX,10000",
		goes: []any{idA, 78, ownerA}, reply: "[1 0]", shows: "key= 7=40",
	},
	{
		name: "not ours: the next owner stands in line, and the entry of the released one goes", given: aHolds + bWaits + "\nSET,name,other\nZADD,redlock:queue:name,10," + idA + ",10," + idA + " " + held,
		goes: []any{idA, 77, ownerA}, reply: "[0 41]",
		shows: "key=other 7=40 " + idB + "@30 " + idB + " " + ownerB + "@30 " + idA + "@41 " + idA + " " + ownerA + "@41",
	},
	{
		name: "not ours, and free: the one who stood behind that entry is called", given: aHolds + bWaits + "\nDEL,name\nZADD,redlock:queue:name,10," + idA + ",10," + idA + " " + held,
		hears: []string{idB}, goes: []any{idA, 77, ""}, reply: "[0 0]",
		shows: "key= 7=40 " + idB + "@30 " + idB + " " + ownerB + `@30 B hears "name"`,
	},
	{
		name: "not ours, of a lock that was passed on: the entry with which it stood goes", given: aHolds + bWaits + "\nSET,name,other\nZADD,redlock:queue:name,10," + idA + ",10," + idA + " " + ownerA,
		goes: []any{idA, 77, "", ownerA}, reply: "[0 0]", shows: "key=other 7=40 " + idB + "@30 " + idB + " " + ownerB + "@30",
	},
	{
		name: "another epoch: as a release", given: aHolds + bWaits, hears: []string{idB}, epoch: "e2", goes: []any{idA, 77, ownerA},
		reply: "[1 0]", shows: "key= 7=40 " + idB + "@30 " + idB + " " + ownerB + `@30 B hears "name"`,
	},
	{
		name: "a dead head is passed over", given: aHolds + bWaits + "\nZADD,redlock:queue:name,10,dead,10,dead " + ownerA, hears: []string{idB},
		reply: "[2 0]", shows: "key=" + ownerB + ` short 7=41 B hears "redlock:push\ne1\n41\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "a head that does not hear keeps its place, and the line is called", given: aHolds + bWaits + "\nSET,redlock:live:" + idOld + ",1,PX,3000\nZADD,redlock:queue:name,35," + idOld,
		hears: []string{idOld}, reply: "[1 0]",
		shows: "key= 7=41 " + idB + "@30 " + idB + " " + ownerB + "@30 " + idOld + `@35 O hears "name"`,
	},
	{
		name: "a head that takes no push is called", given: aHolds + bWaits + oldWaits, hears: []string{idB, idOld},
		reply: "[1 0]", shows: "key= 7=40 " + idOld + "@20 " + idB + "@30 " + idB + " " + ownerB + `@30 O hears "name"`,
	},
	{
		name: "what an older client left of an entry is dropped", given: aHolds + bWaits + "\nZADD,redlock:queue:name,3," + idOld + " " + ownerA, hears: []string{idB},
		reply: "[2 0]", shows: "key=" + ownerB + ` short 7=41 B hears "redlock:push\ne1\n41\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "an attempt of its own that has ended is dropped", given: aHolds + bWaits + "\nZADD,redlock:queue:name,3," + idA + ",3," + idA + " ended", hears: []string{idB}, goes: []any{idA, 77, ownerA},
		reply: "[2 42]", shows: "key=" + ownerB + " short 7=41 " + idA + "@42 " + idA + " " + ownerA + `@42 B hears "redlock:push\ne1\n41\n123456\n` + ownerB + `\nname"`,
	},
	{
		name: "its own next owner at the head has the token in the reply", given: aHolds + bWaits + "\nZADD,redlock:queue:name,3," + idA + ",3," + idA + " " + ownerA, hears: []string{idA, idB}, goes: []any{idA, 77, ownerA},
		reply: "[2 -41]", shows: "key=" + ownerA + " short 7=41 " + idB + "@30 " + idB + " " + ownerB + "@30",
	},
	{
		name: "the hint that calls: who waits is called, and the next owner stands in line", given: aHolds + bWaits, hears: []string{idB}, hint: "-1", goes: []any{idA, 77, ownerA},
		reply: "[1 41]", shows: "key= 7=40 " + idB + "@30 " + idB + " " + ownerB + "@30 " + idA + "@41 " + idA + " " + ownerA + `@41 B hears "name"`,
	},
	{
		name: "the hint that calls, and nobody else waits: the name is free for all", given: aHolds, hint: "-1", goes: []any{idA, 77, ownerA},
		reply: "[1 0]", shows: "key= 7=40",
	},
	{
		name: "the counter's end", given: aHolds + bWaits, hears: []string{idB}, hint: "9007199254740991", goes: []any{idA, 77, ownerA},
		reply: "[1 41]", shows: "key= 7=40 " + idB + "@30 " + idB + " " + ownerB + "@30 " + idA + "@41 " + idA + " " + ownerA + `@41 B hears "name"`,
	},
	{
		name: "data of another type is left", given: "HSET,redlock:node,epoch,e1\nRPUSH,name,x" + bWaits, hears: []string{idB},
		reply: "[0 0]", shows: "key= 7= " + idB + "@30 " + idB + " " + ownerB + "@30",
	},
}

// whole is hand_one's reply as hand has it.
func whole(reply string) string {
	if strings.HasPrefix(reply, "[") {
		return reply
	}
	return "[" + reply + " 0]"
}

func testHand(t *testing.T, addr string) {
	t.Helper()
	for _, c := range handCases {
		for _, one := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, one=%t", c.name, one), func(t *testing.T) {
				n := newNode(t, addr)
				n.do("FLUSHALL")
				n.hear(c.hears...)
				n.do(c.given)
				epoch, hint := cmp.Or(c.epoch, "e1"), cmp.Or(c.hint, "0")
				var got string
				want := c.reply
				if len(c.goes) == 3 {
					c.goes = append(c.goes, held)
				}
				if one {
					got = n.run(lua.HandOneScript, []string{"name", lua.NodeKey}, append([]any{held, epoch, hint, 7}, c.goes...)...)
				} else {
					if len(c.goes) > 0 || n.c.Exists(t.Context(), lua.WaitingKey).Val() == 1 {
						want = whole(want)
					}
					got = n.run(lua.HandScript, []string{lua.NodeKey, "name"}, append([]any{epoch, 7, held, hint}, c.goes...)...)
				}
				if got != want {
					t.Errorf("got %s; want %s", got, want)
				}
				if got := n.shows(); got != c.shows {
					t.Errorf("the node shows\n%s; want\n%s", got, c.shows)
				}
			})
		}
	}
}

func TestHandOnAServer(t *testing.T) {
	testHand(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
}

func TestHandInProcess(t *testing.T) { testHand(t, miniredis.RunT(t).Addr()) }

// Without the right to publish, a release that grants is one that calls: also in vain.
func TestHandWithoutTheRightToPublishDeletes(t *testing.T) {
	addr := testserver.NeedOne(t, redisserver.Config{Users: []string{"mute on >SECRET resetchannels ~* +@all"}}).Addr()
	n := newNode(t, addr)
	n.do(aHolds)
	n.do(bWaits)
	n.hear(idB)
	mute := redis.NewClient(&redis.Options{Addr: addr, Username: "mute", Password: "SECRET"})
	defer mute.Close()
	reply, err := mute.Eval(t.Context(), lua.HandOneScript.Body, []string{"name", lua.NodeKey}, held, "e1", 0, 7).Result()
	if got, want := fmt.Sprint(reply, err), "[1 0] <nil>"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	if got, want := n.shows(), "key= 7=41 "+idB+"@30 "+idB+" "+ownerB+"@30"; got != want {
		t.Errorf("the node shows %s; want %s", got, want)
	}
}

// A batch is its names one after another: also the same name twice, and two names of
// one counter.
func TestHandOfManyIsOneAfterAnother(t *testing.T) {
	n := newNode(t, miniredis.RunT(t).Addr())
	n.do(aHolds)
	n.do(bWaits)
	n.do("SET,other," + held + ",PX,600000\nZADD,redlock:queue:other,50," + idB + ",50," + idB + " third")
	n.hear(idB)
	got := n.run(lua.HandScript, []string{lua.NodeKey, "name", "other", "name"}, "e1", 7, 7, 7, held, held, held, 60, 0, 0, idA, 77, ownerA, "", ownerA, held, held, held)
	if want := "[2 2 0 61 0 61]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	want := "key=" + ownerB + " short 7=61 " + idA + "@61 " + idA + " " + ownerA + `@61 ` +
		`B hears "redlock:push\ne1\n60\n123456\n` + ownerB + `\nname" B hears "redlock:push\ne1\n61\n123456\nthird\nother"`
	if got := n.shows(); got != want {
		t.Errorf("the node shows\n%s; want\n%s", got, want)
	}
}
