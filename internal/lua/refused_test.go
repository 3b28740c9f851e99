package lua_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// scriptCase is one call of a script on a node whose record has the epoch e1, the base 10,
// and 20 as the counter of stripe 7.
type scriptCase struct {
	name   string
	before []string // commands
	hears  bool     // process p hears what it is told
	keys   string
	args   string
	want   string            // the reply
	after  map[string]string // what commands say then; the counter is still 20 unless it is among them
}

const counter = "HGET redlock:node 7"

// waits is process p in line for the name, with the attempt of the owner heir.
var waits = []string{"SET redlock:waiting 1 PX 3000", "SET redlock:live:p 77 PX 3000", "ZADD redlock:queue:name 5 p 5 p_heir"}

// heldBy is the name in the hands of an owner, for this long.
func heldBy(owner string, ms int) string { return fmt.Sprintf("SET name %s PX %d", owner, ms) }

// shared is the name in the hands of one who shares it, for this long.
func sharedBy(owner string, ms int) []string {
	return []string{fmt.Sprintf("ZADD name -20 redlock:shared {%d} %s", ms, owner), fmt.Sprintf("PEXPIRE name %d", ms)}
}

const (
	tombstone = "SET redlock:dead:me 1 PX 9000"
	marked    = "SET redlock:tombstones 1 PX 9000"
	forgot    = "DEL redlock:node"
	exchange  = "HSET redlock:node epoch e2"
)

func free() map[string]string { return map[string]string{"EXISTS name": "0"} }

func still(owner string, ms int) map[string]string {
	return map[string]string{"GET name": owner, "PTTL name": strconv.Itoa(ms)}
}

// counting adds the counter, at this number.
func counting(what map[string]string, at int) map[string]string {
	if what = maps.Clone(what); what == nil {
		what = map[string]string{}
	}
	what[counter] = strconv.Itoa(at)
	return what
}

func TestWhatEachScriptRefuses(t *testing.T) {
	const (
		acquire = "me 5000 0 7 e1"
		batch   = "e1 - 7 7 me mb 5000 5000 0 0"
		pass    = "old me 5000 0 7 e1"
	)
	for _, of := range []struct {
		script *lua.Script
		cases  []scriptCase
	}{
		{lua.AcquireScript, withKeys("name redlock:node", []scriptCase{
			{name: "it is free", args: acquire, want: "21", after: counting(still("me", 5000), 21)},
			{name: "a hint above the counter", args: "me 5000 50 7 e1", want: "50", after: counting(still("me", 5000), 50)},
			{name: "a base above the counter", before: []string{"HSET redlock:node base 30"}, args: acquire, want: "31", after: counting(still("me", 5000), 31)},
			{name: "another epoch", before: []string{exchange}, args: acquire, want: "0", after: free()},
			{name: "no record", before: []string{forgot}, args: acquire, want: "0", after: counting(free(), 0)},
			{name: "it was released before", before: []string{tombstone, marked}, args: acquire, want: "-1", after: free()},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: acquire, want: "-710", after: still("other", 700)},
			{name: "we have it", before: []string{heldBy("me", 700)}, args: acquire, want: "20", after: still("me", 700)},
			{name: "others share it", before: sharedBy("other", 700), args: acquire, want: "-710"},
			{name: "somebody waits", before: waits, args: acquire, want: "-3", after: free()},
			{name: "somebody waited who died", before: waits[2:], args: acquire, want: "21", after: counting(still("me", 5000), 21)},
		})},
		{lua.AcquireBatchScript, withKeys("redlock:node name b", []scriptCase{
			{name: "they are free", args: batch, want: "[21 22]", after: map[string]string{"GET name": "me", "GET b": "mb", "PTTL b": "5000", counter: "22"}},
			{name: "another epoch", before: []string{exchange}, args: batch, want: "[0 0]", after: free()},
			{name: "no record", before: []string{forgot}, args: batch, want: "[0 0]", after: counting(free(), 0)},
			{name: "one was released before", before: []string{tombstone, marked}, args: batch, want: "[-1 21]", after: counting(free(), 21)},
			{name: "another has one", before: []string{heldBy("other", 700)}, args: batch, want: "[-710 21]", after: counting(still("other", 700), 21)},
			{name: "others share one", before: sharedBy("other", 700), args: batch, want: "[-710 21]", after: map[string]string{counter: "21", "ZCARD name": "2"}},
			{name: "somebody waits for one", before: waits, args: batch, want: "[-3 21]", after: counting(free(), 21)},
			{name: "somebody waits to share one", before: []string{waits[0], waits[1], "SET redlock:sharing 1 PX 3000", "ZADD redlock:sharers:name 5 p"}, args: batch, want: "[-3 21]", after: counting(free(), 21)},
		})},
		{lua.AskScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is free", args: "e1 q 7 me 5000 0 0", want: "[21 0]", after: counting(still("me", 5000), 21)},
			{name: "another epoch", before: []string{exchange}, args: "e1 q 7 me 5000 0 0", want: "[0 0]", after: free()},
			{name: "it was released before", before: []string{tombstone}, args: "e1 q 7 me 5000 0 3", want: "[-1 0]", after: map[string]string{"EXISTS name redlock:queue:name": "0"}},
			{name: "it was released before, and another has it", before: []string{tombstone, heldBy("other", 700)}, args: "e1 q 7 me 5000 0 3", want: "[-710 2]", after: map[string]string{"EXISTS redlock:queue:name": "0"}},
			{name: "somebody is before", before: waits, args: "e1 q 7 me 5000 0 9", want: "[-3 0]", after: map[string]string{"EXISTS name": "0", "PTTL redlock:live:q": "3000"}},
			{name: "somebody waits", before: waits, args: "e1 q 7 me 5000 0 0", want: "[-3 21]", after: free()},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: "e1 q 7 me 5000 0 9", want: "[-710 3]", after: map[string]string{"GET name": "other", "ZSCORE redlock:queue:name q": "9", "PTTL redlock:live:q": "3000", "PTTL redlock:waiting": "3000"}},
		})},
		{lua.PassScript, withKeys("name redlock:node redlock:dead:me", []scriptCase{
			{name: "it is the old owner's", before: []string{heldBy("old", 700)}, args: pass, want: "21", after: counting(still("me", 5000), 21)},
			{name: "a hint above the counter", before: []string{heldBy("old", 700)}, args: "old me 5000 50 7 e1", want: "50", after: counting(still("me", 5000), 50)},
			{name: "it came before", before: []string{heldBy("me", 700)}, args: pass, want: "20", after: still("me", 700)},
			{name: "another epoch", before: []string{heldBy("old", 700), exchange}, args: pass, want: "0", after: still("old", 700)},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: pass, want: "-710", after: still("other", 700)},
			{name: "nobody has it", args: pass, want: "-4", after: free()},
			{name: "the new one was released before", before: []string{heldBy("old", 700), tombstone}, args: pass, want: "-1", after: still("old", 700)},
		})},
		{lua.ExtendScript, withKeys("redlock:node name", []scriptCase{
			{name: "it is ours", before: []string{heldBy("me", 700)}, args: "e1 me 5000", want: "[1]", after: still("me", 5000)},
			{name: "it has longer", before: []string{heldBy("me", 9000)}, args: "e1 me 5000", want: "[1]", after: still("me", 9000)},
			{name: "another epoch", before: []string{heldBy("me", 700), exchange}, args: "e1 me 5000", want: "[-1]", after: still("me", 700)},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: "e1 me 5000", want: "[2]", after: still("other", 700)},
			{name: "others share it", before: sharedBy("me", 700), args: "e1 me 5000", want: "[2]", after: map[string]string{"PTTL name": "700"}},
			{name: "nobody has it", args: "e1 me 5000", want: "[0]", after: free()},
		})},
		{lua.RaiseScript, withKeys("name redlock:node", []scriptCase{
			{name: "it is ours", before: []string{heldBy("me", 700)}, args: "me 7 30 e1", want: "1", after: counting(still("me", 700), 30)},
			{name: "the counter is above it", before: []string{heldBy("me", 700), "HSET redlock:node 7 40"}, args: "me 7 30 e1", want: "40", after: counting(still("me", 700), 40)},
			{name: "the base is above it", before: []string{heldBy("me", 700), "HSET redlock:node base 40"}, args: "me 7 30 e1", want: "40", after: still("me", 700)},
			{name: "another epoch", before: []string{heldBy("me", 700), exchange}, args: "me 7 30 e1", want: "-1"},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: "me 7 30 e1", want: "0"},
			{name: "nobody has it", args: "me 7 30 e1", want: "0"},
		})},
		{lua.ReseedScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is gone", args: "e1 7 me 5000 30", want: "[1]", after: counting(still("me", 5000), 30)},
			{name: "the counter is above it", before: []string{"HSET redlock:node 7 40"}, args: "e1 7 me 5000 30", want: "[1]", after: counting(still("me", 5000), 40)},
			{name: "it is there", before: []string{heldBy("me", 700)}, args: "e1 7 me 5000 30", want: "[1]", after: still("me", 700)},
			{name: "another epoch", before: []string{exchange}, args: "e1 7 me 5000 30", want: "[-1]", after: free()},
			{name: "it was released before", before: []string{tombstone}, args: "e1 7 me 5000 30", want: "[0]", after: free()},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: "e1 7 me 5000 30", want: "[0]", after: still("other", 700)},
			{name: "others share it", before: sharedBy("other", 700), args: "e1 7 me 5000 30", want: "[0]", after: map[string]string{"ZCARD name": "2"}},
		})},
		{lua.ReleaseScript, withKeys("name redlock:dead:me", []scriptCase{
			{name: "it is ours", before: []string{heldBy("me", 700)}, args: "me 5000", want: "1", after: map[string]string{"EXISTS name": "0", "PTTL redlock:dead:me": "5000", "PTTL redlock:tombstones": "5000"}},
			{name: "it was released before", before: []string{tombstone}, args: "me 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
			{name: "another owner's tombstone lasts longer", before: []string{marked}, args: "me 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "5000", "PTTL redlock:tombstones": "9000"}},
			{name: "another has it", before: []string{heldBy("other", 700)}, args: "me 5000", want: "0", after: still("other", 700)},
		})},
		{lua.ReleaseBatchScript, withKeys("name b redlock:dead:me", []scriptCase{
			{name: "they are ours", before: []string{heldBy("me", 700), "SET b mb PX 700"}, args: "2 me mb 5000", want: "2", after: map[string]string{"EXISTS name b": "0", "PTTL redlock:dead:me": "5000", "PTTL redlock:tombstones": "5000"}},
			{name: "it was released before", before: []string{tombstone}, args: "2 me mb 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
			{name: "another has one", before: []string{heldBy("other", 700), "SET b mb PX 700"}, args: "2 me mb 5000", want: "1", after: still("other", 700)},
		})},
		{lua.HandScript, withKeys("redlock:node name", []scriptCase{
			{name: "nobody waits", before: []string{heldBy("me", 700)}, args: "e1 7 me 0", want: "1", after: free()},
			{name: "nobody waits, and another has it", before: []string{heldBy("other", 700)}, args: "e1 7 me 0", want: "0", after: still("other", 700)},
			{name: "somebody waits", before: append(slices.Clone(waits), heldBy("me", 700)), hears: true, args: "e1 7 me 0", want: "[2 0]", after: counting(still("heir", 3000), 21)},
			{name: "somebody waits, who hears nothing", before: append(slices.Clone(waits), heldBy("me", 700)), args: "e1 7 me 0", want: "[1 0]", after: counting(free(), 21)},
			{name: "somebody waits, and another has it", before: append(slices.Clone(waits), heldBy("other", 700)), hears: true, args: "e1 7 me 0", want: "[0 0]", after: still("other", 700)},
			{name: "somebody waits, and another epoch", before: append(slices.Clone(waits), heldBy("me", 700), exchange), hears: true, args: "e1 7 me 0", want: "[1 0]", after: free()},
			{name: "somebody waits, who is to be called", before: append(slices.Clone(waits), heldBy("me", 700)), hears: true, args: "e1 7 me -1", want: "[1 0]", after: free()},
		})},
		{lua.HandOneScript, withKeys("name redlock:node", []scriptCase{
			{name: "nobody waits", before: []string{heldBy("me", 700)}, args: "me e1 0 7", want: "1", after: free()},
			{name: "nobody waits, and another has it", before: []string{heldBy("other", 700)}, args: "me e1 0 7", want: "0", after: still("other", 700)},
			{name: "somebody waits", before: append(slices.Clone(waits), heldBy("me", 700)), hears: true, args: "me e1 0 7", want: "[2 0]", after: counting(still("heir", 3000), 21)},
			{name: "somebody waits, who hears nothing", before: append(slices.Clone(waits), heldBy("me", 700)), args: "me e1 0 7", want: "[1 0]", after: counting(free(), 21)},
			{name: "somebody waits, and another has it", before: append(slices.Clone(waits), heldBy("other", 700)), hears: true, args: "me e1 0 7", want: "[0 0]", after: still("other", 700)},
			{name: "somebody waits, and another epoch", before: append(slices.Clone(waits), heldBy("me", 700), exchange), hears: true, args: "me e1 0 7", want: "[1 0]", after: free()},
			{name: "somebody waits, who is to be called", before: append(slices.Clone(waits), heldBy("me", 700)), hears: true, args: "me e1 -1 7", want: "[1 0]", after: free()},
		})},
		{lua.LookScript, withKeys("name", []scriptCase{
			{name: "the first sign of life", args: "q e1 9", want: "[0 -2]", after: map[string]string{"PTTL redlock:live:q": "3000", "PTTL redlock:waiting": "3000", "ZSCORE redlock:queue:name q": "9"}},
			{name: "one after another", before: []string{"SET redlock:live:q 1 PX 2600"}, args: "q e1 9", want: "[1 -2]", after: map[string]string{"PTTL redlock:live:q": "3000"}},
			{name: "one after a call", before: []string{"SET redlock:live:q 1 PX 700"}, args: "q e1 9", want: "[0 -2]", after: map[string]string{"PTTL redlock:live:q": "3000"}},
			{name: "it was granted", before: []string{heldBy("me", 700)}, args: "q e1 9 88 me", want: "[0 -3]", after: map[string]string{"EXISTS redlock:queue:name": "0"}},
			{name: "it was released before", before: []string{tombstone}, args: "q e1 9 88 me", want: "[0 -2]", after: map[string]string{"EXISTS redlock:queue:name": "0"}},
			{name: "another epoch", before: []string{exchange, "SET redlock:live:q 1 PX 2600"}, args: "q e1 9", want: "[3 -2]", after: map[string]string{"ZSCORE redlock:queue:name q": "9"}},
		})},
		{lua.ShareScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is free", args: "e1 q 88 7 me 5000 0", want: "[21 0]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "5000", counter: "21"}},
			{name: "others share it", before: sharedBy("other", 700), args: "e1 q 88 7 me 5000 0", want: "[20 0]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "5000"}},
			{name: "another epoch", before: []string{exchange}, args: "e1 q 88 7 me 5000 0", want: "[0 0]", after: free()},
			{name: "it was released before", before: []string{tombstone}, args: "e1 q 88 7 me 5000 0", want: "[-1 0]", after: free()},
			{name: "another has it alone", before: []string{heldBy("other", 700)}, args: "e1 q 88 7 me 5000 0", want: "[-710 21]", after: still("other", 700)},
			{name: "somebody waits to be alone", before: append(sharedBy("other", 700), waits...), args: "e1 q 88 7 me 5000 0", want: "[-710 21]", after: map[string]string{"ZCARD name": "2"}},
		})},
		{lua.ExtendSharedScript, withKeys("redlock:node name", []scriptCase{
			{name: "we share it", before: sharedBy("me", 700), args: "e1 me 5000", want: "[1]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "5000"}},
			{name: "we have longer", before: sharedBy("me", 9000), args: "e1 me 5000", want: "[1]", after: map[string]string{"ZSCORE name me": "{9000}", "PTTL name": "9000"}},
			{name: "another epoch", before: append(sharedBy("me", 700), exchange), args: "e1 me 5000", want: "[-1]", after: map[string]string{"PTTL name": "700"}},
			{name: "others share it", before: sharedBy("other", 700), args: "e1 me 5000", want: "[0]", after: map[string]string{"PTTL name": "700", "ZCARD name": "2"}},
			{name: "our time in it is over", before: append(sharedBy("other", 700), "ZADD name {-1} me"), args: "e1 me 5000", want: "[0]", after: map[string]string{"PTTL name": "700"}},
			{name: "another has it alone", before: []string{heldBy("other", 700)}, args: "e1 me 5000", want: "[2]", after: still("other", 700)},
		})},
		{lua.RaiseSharedScript, withKeys("name redlock:node", []scriptCase{
			{name: "we share it", before: sharedBy("me", 700), args: "me 7 30 e1", want: "30", after: map[string]string{counter: "30", "ZSCORE name redlock:shared": "-30"}},
			{name: "the counter is above it", before: append(sharedBy("me", 700), "HSET redlock:node 7 40"), args: "me 7 30 e1", want: "20", after: map[string]string{counter: "40", "ZSCORE name redlock:shared": "-20"}},
			{name: "another epoch", before: append(sharedBy("me", 700), exchange), args: "me 7 30 e1", want: "-1"},
			{name: "others share it", before: sharedBy("other", 700), args: "me 7 30 e1", want: "0"},
			{name: "our time in it is over", before: append(sharedBy("other", 700), "ZADD name {-1} me"), args: "me 7 30 e1", want: "0"},
		})},
		{lua.ReseedSharedScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is gone", args: "e1 7 me 5000 30", want: "[1]", after: map[string]string{"ZSCORE name me": "{5000}", counter: "30", "PTTL name": "5000"}},
			{name: "others share it", before: sharedBy("other", 9000), args: "e1 7 me 5000 30", want: "[1]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "9000"}},
			{name: "another epoch", before: []string{exchange}, args: "e1 7 me 5000 30", want: "[-1]", after: free()},
			{name: "it was released before", before: []string{tombstone}, args: "e1 7 me 5000 30", want: "[0]", after: free()},
			{name: "another has it alone", before: []string{heldBy("other", 700)}, args: "e1 7 me 5000 30", want: "[0]", after: still("other", 700)},
		})},
		{lua.ReleaseSharedScript, withKeys("name redlock:dead:me", []scriptCase{
			{name: "we share it alone", before: sharedBy("me", 700), args: "1 me 5000", want: "1", after: map[string]string{"EXISTS name": "0", "PTTL redlock:dead:me": "5000"}},
			{name: "others share it", before: sharedBy("other", 700), args: "1 me 5000", want: "0", after: map[string]string{"ZCARD name": "2", "PTTL name": "700"}},
			{name: "others share it for less", before: append(sharedBy("other", 700), "ZADD name {5000} me", "PEXPIRE name 5000"), args: "1 me 5000", want: "1", after: map[string]string{"ZCARD name": "2", "PTTL name": "700"}},
			{name: "it was released before", before: []string{tombstone}, args: "1 me 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
			{name: "another has it alone", before: []string{heldBy("other", 700)}, args: "1 me 5000", want: "0", after: still("other", 700)},
		})},
		{lua.AskSlotScript, withKeys("redlock:node redlock:slot:0:name redlock:dead:me", []scriptCase{
			{name: "it is free", args: "e1 q 88 7 me 5000 0 0 name 2", want: "[21 0 0 0 0]", after: map[string]string{"GET redlock:slot:0:name": "me", "PTTL redlock:slot:0:name": "5000", counter: "21"}},
			{name: "another epoch", before: []string{exchange}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[0 0 0 0 0]", after: map[string]string{"EXISTS redlock:slot:0:name": "0"}},
			{name: "it was released before", before: []string{tombstone}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-1 0 0 0 0]", after: map[string]string{"EXISTS redlock:slot:0:name": "0"}},
			{name: "another has it", before: []string{"SET redlock:slot:0:name other PX 700"}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-710 21 1 2 700]", after: map[string]string{"GET redlock:slot:0:name": "other"}},
			{name: "others have all", before: []string{"SET redlock:slot:0:name other PX 700", "SET redlock:slot:1:name other PX 900"}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-710 21 1 0 700]"},
			{name: "somebody waits", before: []string{waits[0], waits[1], "ZADD redlock:queue:redlock:slots:name 5 p"}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-3 21 0 3 -1]", after: map[string]string{"EXISTS redlock:slot:0:name": "0"}},
		})},
		{lua.ReleaseSlotScript, withKeys("redlock:slot:0:name redlock:dead:me", []scriptCase{
			{name: "it is ours", before: []string{"SET redlock:slot:0:name me PX 700"}, args: "me name 2 0 q 0 5000", want: "1", after: map[string]string{"EXISTS redlock:slot:0:name": "0", "PTTL redlock:dead:me": "5000"}},
			{name: "another has it", before: []string{"SET redlock:slot:0:name other PX 700"}, args: "me name 2 0 q 0 5000", want: "0", after: map[string]string{"GET redlock:slot:0:name": "other"}},
			{name: "it was released before", before: []string{tombstone}, args: "me name 2 0 q 0 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
		})},
	} {
		t.Run(of.script.Name, func(t *testing.T) {
			for _, c := range of.cases {
				t.Run(c.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { c.play(t, of.script) })
				})
			}
		})
	}
}

// withKeys makes the cases call their script with these keys.
func withKeys(keys string, cases []scriptCase) []scriptCase {
	for i := range cases {
		cases[i].keys = keys
	}
	return cases
}

func (c *scriptCase) play(t *testing.T, script *lua.Script) {
	t.Helper()
	node := redlocktest.Start(t, 1, redlocktest.WithoutFounding()).Clients()[0]
	mustSay(t, node, "HSET redlock:node epoch e1 base 10 7 20")
	for _, line := range c.before {
		mustSay(t, node, line)
	}
	if c.hears {
		told := node.Subscribe(t.Context(), "redlock:wake:p")
		defer func() { testkit.Must(t, told.Close()) }()
		_, err := told.Receive(t.Context())
		testkit.Must(t, err)
	}
	keys := strings.Fields(c.keys)
	got := say(t, node, append([]any{"EVAL", script.Body, len(keys)}, words(c.keys+" "+c.args)...)...)
	if got != c.want {
		t.Errorf("got %s; want %s", got, c.want)
	}
	after := maps.Clone(c.after)
	switch after[counter] {
	case "":
		after = counting(after, 20)
	case "0": // there is none
		after[counter] = "<nil>"
	}
	for line, want := range after {
		if got := mustSay(t, node, line); got != fmt.Sprint(words(want)[0]) {
			t.Errorf("then %s: got %s; want %s", line, got, words(want)[0])
		}
	}
}

var inMilliseconds = regexp.MustCompile(`\{(-?\d+)\}`)

// words are those of a line.
func words(line string) (words []any) {
	for word := range strings.FieldsSeq(line) {
		word = inMilliseconds.ReplaceAllStringFunc(word, func(of string) string {
			ms, _ := strconv.ParseInt(of[1:len(of)-1], 10, 64) // it matched
			return strconv.FormatInt(time.Now().UnixMilli()+ms, 10)
		})
		words = append(words, strings.ReplaceAll(word, "_", " "))
	}
	return words
}

func mustSay(t *testing.T, node redis.UniversalClient, line string) string {
	t.Helper()
	return say(t, node, words(line)...)
}

// say is what the node replies.
func say(t *testing.T, node redis.UniversalClient, args ...any) string {
	t.Helper()
	reply, err := node.Do(t.Context(), args...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // as go-redis returns it
		t.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(withoutReading(reply))
}
