package lua_test

import (
	"embed"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

//go:embed testdata/before/*.lua
var before embed.FS

// beforeCases are what the scripts of clients of before names could be shared do where
// others share the name, or wait to: they take it for a stranger's, count on in vain, change
// nothing of the set, and do not see the line of those who wait to share.
var beforeCases = []sharedCase{
	{name: "a shared name is taken", given: bothDo, call: alone(), reply: "taken900", shows: "#41 A@600 B@900 7=42"},
	{name: "in a batch as well", given: bothDo, call: aloneOfTwo(), reply: "[6 taken900]", shows: "#41 A@600 B@900 7=42"},
	{name: "who asks by a place is told that it is a stranger's, and is not put in line", given: bothDo, call: askAlone(60), reply: "[taken900 2]", shows: "#41 A@600 B@900 7=60"},
	{name: "behind another who is", given: bothDo + exclusive, call: askAlone(60), reply: "[-3 0]", shows: "#41 A@600 B@900 7=41 P!30 P!30 S!60 S!60"},
	{name: "without a place it gets a ticket", given: bothDo, call: askAlone(0), reply: "[taken900 43]", shows: "#41 A@600 B@900 7=42"},
	{name: "a look puts it in line", given: bothDo, call: lookFor(60, "<C>"), reply: "[0 left900]", shows: "#41 A@600 B@900 7=41 S!60 S!60"},
	{name: "a free name is not kept for one who waits to share it", given: none + sharers, call: askAlone(60), reply: "[60 0]", shows: "string 7=60 Q&20 R&50"},
	{name: "nor from one without a place", given: none + sharers, call: alone(), reply: "41", shows: "string 7=41 Q&20 R&50"},

	{name: "a release takes nobody's", given: bothDo, call: call{lua.ReleaseScript, []string{"name"}, []any{"<A>"}}, reply: "0", shows: "#41 A@600 B@900 7=41"},
	{name: "nor does a batch", given: bothDo, call: call{lua.ReleaseBatchScript, []string{"name"}, []any{1, "<A>"}}, reply: "0", shows: "#41 A@600 B@900 7=41"},
	{name: "nor a hand", given: bothDo, call: handOne(), reply: "0", shows: "#41 A@600 B@900 7=41"},
	{name: "nor a hand of many", given: bothDo, call: handMany(), reply: "[0 0]", shows: "#41 A@600 B@900 7=41"},
	{
		name: "a hand that comes late takes its entry alone", given: bothDo + sharers + sWaits + "ZADD,redlock:queue:name,30,S,30,S <C>", hears: []string{"Q", "R"},
		call: handOne("S", 77, "", "<C>"), reply: "[0 0]", shows: "#41 A@600 B@900 7=41 Q&20 R&50",
	},
	{
		name: "who leaves calls nobody who waits to share", given: bothDo + sharers + sWaits + "ZADD,redlock:queue:name,30,S", hears: []string{"Q", "R"},
		call: leave(), reply: "0", shows: "#41 A@600 B@900 7=41 Q&20 R&50",
	},
	{
		name: "a release calls nobody who waits to share", given: held40 + sharers, hears: []string{"Q", "R"},
		call: call{lua.ReleaseScript, []string{"name"}, []any{held}}, reply: "1", shows: "free 7=40 Q&20 R&50",
	},
	{
		name: "nor does a hand", given: held40 + sharers, hears: []string{"Q", "R"},
		call: handOne(), reply: "1", shows: "free 7=40 Q&20 R&50",
	},
	{
		name: "a hand grants past one who waits to share", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: handOne(), reply: "[2 0]", shows: "string 7=41 Q&20 R&50 grants P",
	},
	{
		name: "so does a hand of many", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: handMany(), reply: "[2 0]", shows: "string 7=41 Q&20 R&50 grants P",
	},
	{
		name: "a release in a batch calls past one who waits to share", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: call{lua.ReleaseBatchScript, []string{"name"}, []any{1, held}}, reply: "1", shows: "free 7=40 P!30 P!30 Q&20 R&50 calls P",
	},
	{
		name: "its next owner goes on past them", given: held40 + sharers, hears: []string{"Q", "R"},
		call: handOne("S", 77, "<C>", held), reply: "[2 -41]", shows: "string 7=41 Q&20 R&50",
	},
}

func testBefore(t *testing.T, addr string) {
	t.Helper()
	for _, c := range beforeCases {
		t.Run(c.name, func(t *testing.T) {
			body, err := before.ReadFile("testdata/before/" + c.call.script.Name + ".lua")
			if err != nil {
				t.Fatal(err)
			}
			c.call.script = &lua.Script{Name: c.call.script.Name, Body: string(body)}
			c.on(t, addr)
		})
	}
}

func TestScriptsOfBeforeOnASharedServer(t *testing.T) {
	testBefore(t, testserver.NeedOne(t, chaos.ServerConfig{}).Addr())
}

func TestScriptsOfBeforeInProcess(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Now()) // as in TestSharedInProcess
	testBefore(t, m.Addr())
}
