package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// What each script refuses, one case after another: another epoch, another's key, what was
// released before, who waits. In a line of commands _ is a space inside of a word, and
// {1000} the node's time in a second.

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

// held is the name in the hands of an owner, for this long.
func held(owner string, ms int) string { return fmt.Sprintf("SET name %s PX %d", owner, ms) }

// shared is the name in the hands of one who shares it, for this long.
func sharedBy(owner string, ms int) []string {
	return []string{fmt.Sprintf("ZADD name -20 redlock:shared {%d} %s", ms, owner), fmt.Sprintf("PEXPIRE name %d", ms)}
}

const (
	buried   = "SET redlock:dead:me 1 PX 9000"
	forgot   = "DEL redlock:node"
	exchange = "HSET redlock:node epoch e2"
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
		batch   = "e1 7 7 me mb 5000 5000 0 0"
		pass    = "old me 5000 0 7 e1"
	)
	for _, of := range []struct {
		script *lua.Script
		cases  []scriptCase
	}{
		{lua.AcquireScript, withKeys("name redlock:node redlock:dead:me", []scriptCase{
			{name: "it is free", args: acquire, want: "21", after: counting(still("me", 5000), 21)},
			{name: "a hint above the counter", args: "me 5000 50 7 e1", want: "50", after: counting(still("me", 5000), 50)},
			{name: "a base above the counter", before: []string{"HSET redlock:node base 30"}, args: acquire, want: "31", after: counting(still("me", 5000), 31)},
			{name: "another epoch", before: []string{exchange}, args: acquire, want: "0", after: free()},
			{name: "no record", before: []string{forgot}, args: acquire, want: "0", after: counting(free(), 0)},
			{name: "it was released before", before: []string{buried}, args: acquire, want: "-1", after: free()},
			{name: "another has it", before: []string{held("other", 700)}, args: acquire, want: "-710", after: still("other", 700)},
			{name: "we have it", before: []string{held("me", 700)}, args: acquire, want: "20", after: still("me", 700)},
			{name: "others share it", before: sharedBy("other", 700), args: acquire, want: "-710"},
			{name: "somebody waits", before: waits, args: acquire, want: "-3", after: free()},
			{name: "somebody waited who died", before: waits[2:], args: acquire, want: "21", after: counting(still("me", 5000), 21)},
		})},
		{lua.AcquireBatchScript, withKeys("redlock:node name b redlock:dead:me redlock:dead:mb", []scriptCase{
			{name: "they are free", args: batch, want: "[21 22]", after: map[string]string{"GET name": "me", "GET b": "mb", "PTTL b": "5000", counter: "22"}},
			{name: "another epoch", before: []string{exchange}, args: batch, want: "[0 0]", after: free()},
			{name: "no record", before: []string{forgot}, args: batch, want: "[0 0]", after: counting(free(), 0)},
			{name: "one was released before", before: []string{buried}, args: batch, want: "[-1 21]", after: counting(free(), 21)},
			{name: "another has one", before: []string{held("other", 700)}, args: batch, want: "[-710 21]", after: counting(still("other", 700), 21)},
			{name: "others share one", before: sharedBy("other", 700), args: batch, want: "[-710 21]", after: map[string]string{counter: "21", "ZCARD name": "2"}},
			{name: "somebody waits for one", before: waits, args: batch, want: "[-3 21]", after: counting(free(), 21)},
			{name: "somebody waits to share one", before: []string{waits[0], waits[1], "SET redlock:sharing 1 PX 3000", "ZADD redlock:sharers:name 5 p"}, args: batch, want: "[-3 21]", after: counting(free(), 21)},
		})},
		{lua.AskScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is free", args: "e1 q 7 me 5000 0 0", want: "[21 0]", after: counting(still("me", 5000), 21)},
			{name: "another epoch", before: []string{exchange}, args: "e1 q 7 me 5000 0 0", want: "[0 0]", after: free()},
			{name: "it was released before", before: []string{buried}, args: "e1 q 7 me 5000 0 3", want: "[-1 0]", after: map[string]string{"EXISTS name redlock:queue:name": "0"}},
			{name: "it was released before, and another has it", before: []string{buried, held("other", 700)}, args: "e1 q 7 me 5000 0 3", want: "[-710 2]", after: map[string]string{"EXISTS redlock:queue:name": "0"}},
			{name: "somebody is before", before: waits, args: "e1 q 7 me 5000 0 9", want: "[-3 0]", after: map[string]string{"EXISTS name": "0", "PTTL redlock:live:q": "3000"}},
			{name: "somebody waits", before: waits, args: "e1 q 7 me 5000 0 0", want: "[-3 21]", after: free()},
			{name: "another has it", before: []string{held("other", 700)}, args: "e1 q 7 me 5000 0 9", want: "[-710 3]", after: map[string]string{"GET name": "other", "ZSCORE redlock:queue:name q": "9", "PTTL redlock:live:q": "3000", "PTTL redlock:waiting": "3000"}},
		})},
		{lua.PassScript, withKeys("name redlock:node redlock:dead:me", []scriptCase{
			{name: "it is the old owner's", before: []string{held("old", 700)}, args: pass, want: "21", after: counting(still("me", 5000), 21)},
			{name: "a hint above the counter", before: []string{held("old", 700)}, args: "old me 5000 50 7 e1", want: "50", after: counting(still("me", 5000), 50)},
			{name: "it came before", before: []string{held("me", 700)}, args: pass, want: "20", after: still("me", 700)},
			{name: "another epoch", before: []string{held("old", 700), exchange}, args: pass, want: "0", after: still("old", 700)},
			{name: "another has it", before: []string{held("other", 700)}, args: pass, want: "-710", after: still("other", 700)},
			{name: "nobody has it", args: pass, want: "-4", after: free()},
			{name: "the new one was released before", before: []string{held("old", 700), buried}, args: pass, want: "-1", after: still("old", 700)},
		})},
		{lua.ExtendScript, withKeys("redlock:node name", []scriptCase{
			{name: "it is ours", before: []string{held("me", 700)}, args: "e1 me 5000", want: "[1]", after: still("me", 5000)},
			{name: "it has longer", before: []string{held("me", 9000)}, args: "e1 me 5000", want: "[1]", after: still("me", 9000)},
			{name: "another epoch", before: []string{held("me", 700), exchange}, args: "e1 me 5000", want: "[-1]", after: still("me", 700)},
			{name: "another has it", before: []string{held("other", 700)}, args: "e1 me 5000", want: "[2]", after: still("other", 700)},
			{name: "others share it", before: sharedBy("me", 700), args: "e1 me 5000", want: "[2]", after: map[string]string{"PTTL name": "700"}},
			{name: "nobody has it", args: "e1 me 5000", want: "[0]", after: free()},
		})},
		{lua.RaiseScript, withKeys("name redlock:node", []scriptCase{
			{name: "it is ours", before: []string{held("me", 700)}, args: "me 7 30 e1", want: "1", after: counting(still("me", 700), 30)},
			{name: "the counter is above it", before: []string{held("me", 700), "HSET redlock:node 7 40"}, args: "me 7 30 e1", want: "40", after: counting(still("me", 700), 40)},
			{name: "the base is above it", before: []string{held("me", 700), "HSET redlock:node base 40"}, args: "me 7 30 e1", want: "40", after: still("me", 700)},
			{name: "another epoch", before: []string{held("me", 700), exchange}, args: "me 7 30 e1", want: "-1"},
			{name: "another has it", before: []string{held("other", 700)}, args: "me 7 30 e1", want: "0"},
			{name: "nobody has it", args: "me 7 30 e1", want: "0"},
		})},
		{lua.ReseedScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is gone", args: "e1 7 me 5000 30", want: "[1]", after: counting(still("me", 5000), 30)},
			{name: "the counter is above it", before: []string{"HSET redlock:node 7 40"}, args: "e1 7 me 5000 30", want: "[1]", after: counting(still("me", 5000), 40)},
			{name: "it is there", before: []string{held("me", 700)}, args: "e1 7 me 5000 30", want: "[1]", after: still("me", 700)},
			{name: "another epoch", before: []string{exchange}, args: "e1 7 me 5000 30", want: "[-1]", after: free()},
			{name: "it was released before", before: []string{buried}, args: "e1 7 me 5000 30", want: "[0]", after: free()},
			{name: "another has it", before: []string{held("other", 700)}, args: "e1 7 me 5000 30", want: "[0]", after: still("other", 700)},
			{name: "others share it", before: sharedBy("other", 700), args: "e1 7 me 5000 30", want: "[0]", after: map[string]string{"ZCARD name": "2"}},
		})},
		{lua.ReleaseScript, withKeys("name redlock:dead:me", []scriptCase{
			{name: "it is ours", before: []string{held("me", 700)}, args: "me 5000", want: "1", after: map[string]string{"EXISTS name": "0", "PTTL redlock:dead:me": "5000"}},
			{name: "it was released before", before: []string{buried}, args: "me 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
			{name: "another has it", before: []string{held("other", 700)}, args: "me 5000", want: "0", after: still("other", 700)},
		})},
		{lua.ReleaseBatchScript, withKeys("name b redlock:dead:me", []scriptCase{
			{name: "they are ours", before: []string{held("me", 700), "SET b mb PX 700"}, args: "2 me mb 5000", want: "2", after: map[string]string{"EXISTS name b": "0", "PTTL redlock:dead:me": "5000"}},
			{name: "it was released before", before: []string{buried}, args: "2 me mb 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
			{name: "another has one", before: []string{held("other", 700), "SET b mb PX 700"}, args: "2 me mb 5000", want: "1", after: still("other", 700)},
		})},
		{lua.HandScript, withKeys("redlock:node name", []scriptCase{
			{name: "nobody waits", before: []string{held("me", 700)}, args: "e1 7 me 0", want: "[1 0]", after: free()},
			{name: "nobody waits, and another has it", before: []string{held("other", 700)}, args: "e1 7 me 0", want: "[0 0]", after: still("other", 700)},
			{name: "somebody waits", before: append(slices.Clone(waits), held("me", 700)), hears: true, args: "e1 7 me 0", want: "[2 0]", after: counting(still("heir", 3000), 21)},
			{name: "somebody waits, who hears nothing", before: append(slices.Clone(waits), held("me", 700)), args: "e1 7 me 0", want: "[1 0]", after: counting(free(), 21)},
			{name: "somebody waits, and another has it", before: append(slices.Clone(waits), held("other", 700)), hears: true, args: "e1 7 me 0", want: "[0 0]", after: still("other", 700)},
			{name: "somebody waits, and another epoch", before: append(slices.Clone(waits), held("me", 700), exchange), hears: true, args: "e1 7 me 0", want: "[1 0]", after: free()},
			{name: "somebody waits, who is to be called", before: append(slices.Clone(waits), held("me", 700)), hears: true, args: "e1 7 me -1", want: "[1 0]", after: free()},
		})},
		{lua.HandOneScript, withKeys("name redlock:node", []scriptCase{
			{name: "nobody waits", before: []string{held("me", 700)}, args: "me e1 0 7", want: "1", after: free()},
			{name: "nobody waits, and another has it", before: []string{held("other", 700)}, args: "me e1 0 7", want: "0", after: still("other", 700)},
			{name: "somebody waits", before: append(slices.Clone(waits), held("me", 700)), hears: true, args: "me e1 0 7", want: "[2 0]", after: counting(still("heir", 3000), 21)},
			{name: "somebody waits, who hears nothing", before: append(slices.Clone(waits), held("me", 700)), args: "me e1 0 7", want: "[1 0]", after: counting(free(), 21)},
			{name: "somebody waits, and another has it", before: append(slices.Clone(waits), held("other", 700)), hears: true, args: "me e1 0 7", want: "[0 0]", after: still("other", 700)},
			{name: "somebody waits, and another epoch", before: append(slices.Clone(waits), held("me", 700), exchange), hears: true, args: "me e1 0 7", want: "[1 0]", after: free()},
			{name: "somebody waits, who is to be called", before: append(slices.Clone(waits), held("me", 700)), hears: true, args: "me e1 -1 7", want: "[1 0]", after: free()},
		})},
		{lua.LookScript, withKeys("name", []scriptCase{
			{name: "the first sign of life", args: "q 9", want: "[0 -2]", after: map[string]string{"PTTL redlock:live:q": "3000", "PTTL redlock:waiting": "3000", "ZSCORE redlock:queue:name q": "9"}},
			{name: "one after another", before: []string{"SET redlock:live:q 1 PX 2600"}, args: "q 9", want: "[1 -2]", after: map[string]string{"PTTL redlock:live:q": "3000"}},
			{name: "one after a call", before: []string{"SET redlock:live:q 1 PX 700"}, args: "q 9", want: "[0 -2]", after: map[string]string{"PTTL redlock:live:q": "3000"}},
			{name: "it was granted", before: []string{held("me", 700)}, args: "q 9 88 me", want: "[0 -3]", after: map[string]string{"EXISTS redlock:queue:name": "0"}},
			{name: "it was released before", before: []string{buried}, args: "q 9 88 me", want: "[0 -2]", after: map[string]string{"EXISTS redlock:queue:name": "0"}},
		})},
		{lua.ShareScript, withKeys("redlock:node name redlock:dead:me", []scriptCase{
			{name: "it is free", args: "e1 q 88 7 me 5000 0", want: "[21 0]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "5000", counter: "21"}},
			{name: "others share it", before: sharedBy("other", 700), args: "e1 q 88 7 me 5000 0", want: "[20 0]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "5000"}},
			{name: "another epoch", before: []string{exchange}, args: "e1 q 88 7 me 5000 0", want: "[0 0]", after: free()},
			{name: "it was released before", before: []string{buried}, args: "e1 q 88 7 me 5000 0", want: "[-1 0]", after: free()},
			{name: "another has it alone", before: []string{held("other", 700)}, args: "e1 q 88 7 me 5000 0", want: "[-710 21]", after: still("other", 700)},
			{name: "somebody waits to be alone", before: append(sharedBy("other", 700), waits...), args: "e1 q 88 7 me 5000 0", want: "[-710 21]", after: map[string]string{"ZCARD name": "2"}},
		})},
		{lua.ExtendSharedScript, withKeys("redlock:node name", []scriptCase{
			{name: "we share it", before: sharedBy("me", 700), args: "e1 me 5000", want: "[1]", after: map[string]string{"ZSCORE name me": "{5000}", "PTTL name": "5000"}},
			{name: "we have longer", before: sharedBy("me", 9000), args: "e1 me 5000", want: "[1]", after: map[string]string{"ZSCORE name me": "{9000}", "PTTL name": "9000"}},
			{name: "another epoch", before: append(sharedBy("me", 700), exchange), args: "e1 me 5000", want: "[-1]", after: map[string]string{"PTTL name": "700"}},
			{name: "others share it", before: sharedBy("other", 700), args: "e1 me 5000", want: "[0]", after: map[string]string{"PTTL name": "700", "ZCARD name": "2"}},
			{name: "our time in it is over", before: append(sharedBy("other", 700), "ZADD name {-1} me"), args: "e1 me 5000", want: "[0]", after: map[string]string{"PTTL name": "700"}},
			{name: "another has it alone", before: []string{held("other", 700)}, args: "e1 me 5000", want: "[2]", after: still("other", 700)},
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
			{name: "it was released before", before: []string{buried}, args: "e1 7 me 5000 30", want: "[0]", after: free()},
			{name: "another has it alone", before: []string{held("other", 700)}, args: "e1 7 me 5000 30", want: "[0]", after: still("other", 700)},
		})},
		{lua.ReleaseSharedScript, withKeys("name redlock:dead:me", []scriptCase{
			{name: "we share it alone", before: sharedBy("me", 700), args: "1 me 5000", want: "1", after: map[string]string{"EXISTS name": "0", "PTTL redlock:dead:me": "5000"}},
			{name: "others share it", before: sharedBy("other", 700), args: "1 me 5000", want: "0", after: map[string]string{"ZCARD name": "2", "PTTL name": "700"}},
			{name: "others share it for less", before: append(sharedBy("other", 700), "ZADD name {5000} me", "PEXPIRE name 5000"), args: "1 me 5000", want: "1", after: map[string]string{"ZCARD name": "2", "PTTL name": "700"}},
			{name: "it was released before", before: []string{buried}, args: "1 me 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
			{name: "another has it alone", before: []string{held("other", 700)}, args: "1 me 5000", want: "0", after: still("other", 700)},
		})},
		{lua.AskSlotScript, withKeys("redlock:node redlock:slot:0:name redlock:dead:me", []scriptCase{
			{name: "it is free", args: "e1 q 88 7 me 5000 0 0 name 2", want: "[21 0 0 0 0]", after: map[string]string{"GET redlock:slot:0:name": "me", "PTTL redlock:slot:0:name": "5000", counter: "21"}},
			{name: "another epoch", before: []string{exchange}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[0 0 0 0 0]", after: map[string]string{"EXISTS redlock:slot:0:name": "0"}},
			{name: "it was released before", before: []string{buried}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-1 0 0 0 0]", after: map[string]string{"EXISTS redlock:slot:0:name": "0"}},
			{name: "another has it", before: []string{"SET redlock:slot:0:name other PX 700"}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-710 21 1 2 700]", after: map[string]string{"GET redlock:slot:0:name": "other"}},
			{name: "others have all", before: []string{"SET redlock:slot:0:name other PX 700", "SET redlock:slot:1:name other PX 900"}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-710 21 1 0 700]"},
			{name: "somebody waits", before: []string{waits[0], waits[1], "ZADD redlock:queue:redlock:slots:name 5 p"}, args: "e1 q 88 7 me 5000 0 0 name 2", want: "[-3 21 0 3 -1]", after: map[string]string{"EXISTS redlock:slot:0:name": "0"}},
		})},
		{lua.ReleaseSlotScript, withKeys("redlock:slot:0:name redlock:dead:me", []scriptCase{
			{name: "it is ours", before: []string{"SET redlock:slot:0:name me PX 700"}, args: "me name 2 0 q 0 5000", want: "1", after: map[string]string{"EXISTS redlock:slot:0:name": "0", "PTTL redlock:dead:me": "5000"}},
			{name: "another has it", before: []string{"SET redlock:slot:0:name other PX 700"}, args: "me name 2 0 q 0 5000", want: "0", after: map[string]string{"GET redlock:slot:0:name": "other"}},
			{name: "it was released before", before: []string{buried}, args: "me name 2 0 q 0 5000", want: "0", after: map[string]string{"PTTL redlock:dead:me": "9000"}},
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
	node := redlocktest.Start(t, 1, redlocktest.WithoutFounding()).Client(0)
	mustSay(t, node, "HSET redlock:node epoch e1 base 10 7 20")
	for _, line := range c.before {
		mustSay(t, node, line)
	}
	if c.hears {
		told := node.Subscribe(t.Context(), "redlock:wake:p")
		defer func() { must(t, told.Close()) }()
		_, err := told.Receive(t.Context())
		must(t, err)
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
	return fmt.Sprint(reply)
}

// The k-th command of some nodes fails, for every k: afterwards the error must be
// of the right class, nobody else holds the lock, tokens increase, and no key is
// left behind.

var sweptFates = map[string]redlocktest.Verdict{
	"break before": redlocktest.BreakBefore(), "break after": redlocktest.BreakAfter(),
	"lose request": redlocktest.LoseRequest(), "lose reply": redlocktest.LoseReply(),
}

// sweptSet are nodes that fail together, of so many.
type sweptSet struct {
	nodes  int
	faulty []int
}

var sweptSets = []sweptSet{
	{3, []int{0}},
	{3, []int{1}},
	{3, []int{2}},
	{3, []int{0, 1}},
	{3, []int{1, 2}},
	{3, []int{0, 1, 2}},
	{5, []int{4}},
	{5, []int{1, 3}},
	{5, []int{0, 2, 4}},
}

// swept is one run: two Lockers, of which the first meets the fault.
type swept struct {
	*testing.T
	nodes    *redlocktest.Cluster
	l, other *redlock.Locker
	minority bool
	mu       sync.Mutex // guards the fields below
	calls    map[int]int
	fired    bool
}

// sweep runs the scenario with the k-th command of the faulty nodes failing, for
// k from 1 until no faulty node is sent that many. Below the deep tier it is each third
// command, from another one for each set; of the quick tier each 24th, for some of the sets.
func sweep(t *testing.T, sets []sweptSet, scenario func(s *swept, arm func())) {
	t.Helper()
	step := testkit.Every(24, 3, 1)
	for i, set := range sets {
		if testkit.Quick() && i%8 != 0 {
			continue
		}
		for fate, verdict := range sweptFates {
			for k := 1 + 7*i%step; ; k += step {
				if k > 60 {
					t.Fatalf("%v %s: still failing commands at the 60th; want an end", set, fate)
				}
				fired := false
				name := fmt.Sprintf("%d nodes, %v %s at command %d", set.nodes, set.faulty, fate, k)
				synctest.Test(t, func(t *testing.T) {
					s := &swept{T: t, calls: map[int]int{}, minority: len(set.faulty) <= (set.nodes-1)/2}
					// Without membership, which has proofs of its own: a founding for each
					// of some thousand runs takes minutes.
					s.nodes = redlocktest.Start(t, set.nodes, redlocktest.WithoutFounding())
					s.l = separateLocker(t, s.nodes, redlock.WithoutMembership())
					s.other = separateLocker(t, s.nodes, redlock.WithoutMembership())
					warm(t, s.other)
					scenario(s, func() { s.arm(set.faulty, k, verdict) })
					fired = s.fired
					if t.Failed() {
						t.Logf("this was: %s", name)
					}
				})
				if !fired || t.Failed() {
					break
				}
			}
		}
	}
}

func (s *swept) arm(faulty []int, k int, verdict redlocktest.Verdict) {
	synctest.Wait()
	for _, i := range faulty {
		s.nodes.Node(i).Intercept(func([]string) redlocktest.Verdict {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.calls[i]++; s.calls[i] != k {
				return redlocktest.Pass()
			}
			s.fired = true
			return verdict
		})
	}
}

// disarm ends the fault once nothing is under way.
func (s *swept) disarm() {
	synctest.Wait()
	for _, n := range s.nodes.Nodes() {
		n.Intercept(nil)
	}
}

// acquire takes the lock through the fault, in less time than anybody's lease.
func (s *swept) acquire(resource string) *redlock.Lock {
	s.Helper()
	began := time.Now()
	lock := mustAcquire(s.T, s.l, resource)
	if took := time.Since(began); took > 3*time.Second {
		s.Errorf("Acquire(%q) took %v; want no wait for our own litter", resource, took)
	}
	return lock
}

// excluded checks that nobody else can take the name.
func (s *swept) excluded(resource string) {
	s.Helper()
	if second, err := s.other.TryAcquire(s.Context(), resource); err == nil {
		s.Errorf("a second holder, token %v, while the first one holds %q", second.Token(), resource)
	}
}

// finish releases the lock, and checks what comes after.
func (s *swept) finish(lock *redlock.Lock) {
	s.Helper()
	mustRelease(s.T, lock)
	s.succeeded(lock.Token())
}

// succeeded checks that the others go on with greater tokens and that no key is
// left.
func (s *swept) succeeded(token redlock.Token) {
	s.Helper()
	time.Sleep(time.Second)
	wantNoLocks(s.T, s.nodes, "a second after the release")
	next := mustAcquire(s.T, s.other, "orders/42")
	if next.Token() <= token {
		s.Errorf("got token %v after %v; want a greater one", next.Token(), token)
	}
	mustRelease(s.T, next)
	last := mustAcquire(s.T, s.l, "orders/42")
	if last.Token() <= next.Token() {
		s.Errorf("got token %v after %v; want a greater one", last.Token(), next.Token())
	}
	mustRelease(s.T, last)
	time.Sleep(2 * redlock.DefaultTTL) // the longest lease here
	wantOnlyRecords(s.T, s.nodes, "a lease after the release")
}

// A fresh Locker also loads scripts and verifies: many commands, so fewer sets.
func TestSweepAcquireOfAFreshLocker(t *testing.T) {
	besideServers(t)
	sweep(t, []sweptSet{{3, []int{0}}, {3, []int{1, 2}}, {5, []int{0, 2, 4}}}, func(s *swept, arm func()) {
		arm()
		lock := s.acquire("orders/42")
		s.disarm()
		s.excluded("orders/42")
		s.finish(lock)
	})
}

func TestSweepTryAcquire(t *testing.T) {
	besideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		warm(s.T, s.l)
		arm()
		lock, err := s.l.TryAcquire(s.Context(), "orders/42")
		s.disarm()
		if err == nil {
			s.excluded("orders/42")
			s.finish(lock)
			return
		}
		if s.minority {
			s.Errorf("TryAcquire with a minority failing: %v", err)
		}
		wantError(s.T, "TryAcquire", err, redlock.ErrNoQuorum)
		if errors.Is(err, redlock.ErrNotAcquired) {
			s.Errorf("TryAcquire: got %v; want no word of contention", err)
		}
		s.succeeded(0)
	})
}

func TestSweepRaise(t *testing.T) {
	besideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		warm(s.T, s.l)
		synctest.Wait()
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		for i, n := range s.nodes.Nodes() {
			n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(2e15+i*1000))
		}
		arm()
		lock := s.acquire("orders/42")
		s.disarm()
		if lock.Token() < 2e15 {
			s.Errorf("got token %v; want one above the stripes", lock.Token())
		}
		s.excluded("orders/42")
		s.finish(lock)
	})
}

func TestSweepExtend(t *testing.T) {
	besideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		warm(s.T, s.l)
		lock := mustAcquire(s.T, s.l, "orders/42", redlock.WithFixedLease())
		arm()
		before := lock.Remaining()
		err := lock.Extend(s.Context(), 2*redlock.DefaultTTL)
		s.disarm()
		switch {
		case err == nil:
			if left := lock.Remaining(); left < redlock.DefaultTTL {
				s.Errorf("after Extend: got %v remaining; want more than a TTL", left)
			}
		case s.minority:
			s.Errorf("Extend with a minority failing: %v", err)
		default:
			wantError(s.T, "Extend", err, redlock.ErrNoQuorum)
			if left := lock.Remaining(); left <= 0 || left > before {
				s.Errorf("after a failed Extend: got %v remaining; want the old validity of %v", left, before)
			}
		}
		s.excluded("orders/42")
		must(s.T, lock.Extend(s.Context(), 2*redlock.DefaultTTL))
		s.finish(lock)
	})
}

func TestSweepRelease(t *testing.T) {
	besideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		warm(s.T, s.l)
		lock := mustAcquire(s.T, s.l, "orders/42")
		arm()
		err := lock.Release(s.Context())
		s.disarm()
		if err != nil {
			wantError(s.T, "Release", err, redlock.ErrNoQuorum)
			if s.minority {
				s.Errorf("Release with a minority failing: %v", err)
			}
		}
		wantError(s.T, "Err after Release", lock.Err(), redlock.ErrReleased)
		s.succeeded(lock.Token())
	})
}

// Several names at once go in batches, which have scripts of their own.
func TestSweepBatches(t *testing.T) {
	besideServers(t)
	sweep(t, []sweptSet{{3, []int{2}}, {3, []int{0, 1}}}, func(s *swept, arm func()) {
		warm(s.T, s.l)
		arm()
		var wg sync.WaitGroup
		locks := make([]*redlock.Lock, 4)
		for i := range locks {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(s.Context(), 3*time.Second)
				defer cancel()
				var err error
				if locks[i], err = s.l.Acquire(ctx, fmt.Sprintf("orders/%d", 40+i)); err != nil {
					s.Errorf("Acquire of name %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if s.Failed() {
			return
		}
		for _, lock := range locks {
			s.excluded(lock.Resource())
		}
		for _, lock := range locks {
			wg.Go(func() {
				if err := lock.Release(s.Context()); err != nil && (s.minority || !errors.Is(err, redlock.ErrNoQuorum)) {
					s.Errorf("Release of %q: %v", lock.Resource(), err)
				}
			})
		}
		wg.Wait()
		s.disarm()
		s.succeeded(locks[2].Token())
	})
}
