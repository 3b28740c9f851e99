package lua_test

import "github.com/quorumkit/redlock/internal/lua"

// What the scripts of those who hold alone do where others share the name, or wait to.

// alone is an acquire for C.
func alone() call {
	return call{lua.AcquireScript, []string{"name", lua.NodeKey}, []any{"<C>", 600000, 0, 7, "e1"}}
}

// aloneOfTwo is one in a batch, behind that of another name.
func aloneOfTwo() call {
	return call{
		lua.AcquireBatchScript,
		[]string{lua.NodeKey, "other", "name"},
		[]any{"e1", "1", 8, 7, "<B>", "<C>", 600000, 600000, 0, 0},
	}
}

// askAlone is S's ask by a place, with an owner that takes a grant by push.
func askAlone(place int) call {
	return call{lua.AskScript, []string{lua.NodeKey, "name", lua.TombstoneKey + "<C>"}, []any{"e1", "S", 7, "<C>", 600000, 0, place, 77, 1}}
}

func lookFor(place int, owner string) call {
	return call{lua.LookScript, []string{"name"}, []any{"S", "", place, 77, owner}}
}

var besideCases = []sharedCase{
	{name: "a shared name is taken, and nothing is counted", given: bothDo, call: alone(), reply: "taken900", shows: "#41 A@600 B@900 7=41"},
	{name: "no matter who waits", given: bothDo + exclusive, call: alone(), reply: "taken900", shows: "#41 A@600 B@900 7=41 P!30 P!30"},
	{name: "another program's sorted set is, as ever", given: theirs, call: alone(), reply: "-9", shows: "x -50 redlock:shared -41 y 3 7=41"},
	{name: "a name for which one waits to share is kept", given: none + sharers, call: alone(), reply: "-3", shows: "free 7=40 Q&20 R&50"},
	{
		name: "not where that one is dead", given: none + anybodyWaits + "SET,redlock:sharing,1\nZADD,redlock:sharers:name,20,Q",
		call: alone(), reply: "41", shows: "string 7=41",
	},
	{name: "in a batch as well", given: bothDo, call: aloneOfTwo(), reply: "[6 taken900]", shows: "#41 A@600 B@900 7=41"},
	{
		name: "of names that are shared twice", given: bothDo,
		call:  call{lua.AcquireBatchScript, []string{lua.NodeKey, "name", "name"}, []any{"e1", "", 7, 7, "<B>", "<C>", 600000, 600000, 0, 0}},
		reply: "[taken900 taken900]", shows: "#41 A@600 B@900 7=41",
	},
	{name: "in a batch another program's is, as ever", given: theirs, call: aloneOfTwo(), reply: "[6 -9]", shows: "x -50 redlock:shared -41 y 3 7=41"},
	{name: "in a batch it is kept", given: none + sharers, call: aloneOfTwo(), reply: "[6 -3]", shows: "free 7=40 Q&20 R&50"},

	{name: "who asks for a shared name is told its end, and that it is not foreign", given: bothDo, call: askAlone(60), reply: "[taken900 1]", shows: "#41 A@600 B@900 7=41 S!60 S!60"},
	{name: "and is not the first behind one who waits to share", given: bothDo + sharers, call: askAlone(60), reply: "[taken900 0]", shows: "#41 A@600 B@900 7=41 S!60 S!60 Q&20 R&50"},
	{name: "at the same place it is", given: bothDo + sharers, call: askAlone(20), reply: "[taken900 1]", shows: "#41 A@600 B@900 7=41 S!20 S!20 Q&20 R&50"},
	{name: "its ticket is above both lines", given: bothDo + sharers, call: askAlone(0), reply: "[taken900 51]", shows: "#41 A@600 B@900 7=41 Q&20 R&50"},
	{name: "late, it is not put in line", given: bothDo + "SET,redlock:dead:<C>,1,PX,10000", call: askAlone(60), reply: "[taken900 0]", shows: "#41 A@600 B@900 7=41"},
	{name: "a free name is kept for one who waits to share it before", given: none + sharers, call: askAlone(21), reply: "[-3 0]", shows: "free 7=40 S!21 S!21 Q&20 R&50"},
	{name: "not for one behind", given: none + sharers, call: askAlone(20), reply: "[41 0]", shows: "string 7=41 Q&20 R&50"},
	{name: "without a place for any", given: none + sharers, call: askAlone(0), reply: "[-3 51]", shows: "free 7=40 Q&20 R&50"},
	{name: "who looks at no queue has it", given: none + sharers, call: askAlone(-1), reply: "[41 0]", shows: "string 7=41 Q&20 R&50"},
	{
		name: "the dead are dropped", given: none + anybodyWaits + "SET,redlock:sharing,1\nZADD,redlock:sharers:name,20,Q",
		call: askAlone(60), reply: "[60 0]", shows: "string 7=60",
	},

	{name: "a look of one who waits to share stores the entry", given: held40, call: lookFor(-60, ""), reply: "[0 left600]", shows: "string 7=40 S&60"},
	{name: "of a shared name it says that one may go", given: bothDo, call: lookFor(-60, "<C>"), reply: "[0 -3]", shows: "#41 A@600 B@900 7=41 S&60"},
	{name: "not behind a living exclusive", given: bothDo + exclusive, call: lookFor(-60, ""), reply: "[0 left900]", shows: "#41 A@600 B@900 7=41 P!30 P!30 S&60"},
	{name: "nor at its place", given: bothDo + exclusive, call: lookFor(-30, ""), reply: "[0 left900]", shows: "#41 A@600 B@900 7=41 P!30 P!30 S&30"},
	{name: "before it one may", given: bothDo + exclusive, call: lookFor(-29, ""), reply: "[0 -3]", shows: "#41 A@600 B@900 7=41 P!30 P!30 S&29"},
	{name: "behind a dead one as well", given: bothDo + deadOne, call: lookFor(-60, ""), reply: "[0 -3]", shows: "#41 A@600 B@900 7=41 S&60"},
	{name: "a dead owner gets no entry", given: bothDo + "SET,redlock:dead:<C>,1,PX,10000", call: lookFor(-60, "<C>"), reply: "[0 left900]", shows: "#41 A@600 B@900 7=41"},
	{name: "a free name is free", given: none, call: lookFor(-60, ""), reply: "[0 -2]", shows: "free 7=40 S&60"},
	{name: "who waits to be alone is told a shared name's end", given: bothDo, call: lookFor(60, "<C>"), reply: "[0 left900]", shows: "#41 A@600 B@900 7=41 S!60 S!60"},
	{name: "a pass finds the old owner's key gone", given: bothDo, call: call{lua.PassScript, []string{"name", lua.NodeKey, lua.TombstoneKey + "<C>"}, []any{"<A>", "<C>", 600000, 0, 7, "e1"}}, reply: "-4", shows: "#41 A@600 B@900 7=41"},
	{name: "a renewal another's", given: bothDo, call: call{lua.ExtendScript, []string{lua.NodeKey, "name"}, []any{"e1", "<A>", 600000}}, reply: "[2]", shows: "#41 A@600 B@900 7=41"},
	{name: "a re-seed is refused", given: bothDo, call: call{lua.ReseedScript, []string{lua.NodeKey, "name", lua.TombstoneKey + "<C>"}, []any{"e1", 7, "<C>", 600000, 99}}, reply: "[0]", shows: "#41 A@600 B@900 7=41"},
	{name: "and a raise", given: bothDo, call: call{lua.RaiseScript, []string{"name", lua.NodeKey}, []any{"<A>", 7, 99, "e1"}}, reply: "0", shows: "#41 A@600 B@900 7=41"},
	{name: "a release takes nobody's", given: bothDo, call: call{lua.ReleaseScript, []string{"name"}, []any{"<A>"}}, reply: "0", shows: "#41 A@600 B@900 7=41"},
}

// leave is S's release of an attempt for which it stood in line with its id alone.
func leave() call {
	return call{lua.ReleaseBatchScript, []string{"name"}, []any{1, "<C>", "S", 1}}
}

func handOne(goes ...any) call {
	return call{lua.HandOneScript, []string{"name", lua.NodeKey}, append([]any{held, "e1", 0, 7}, goes...)}
}

func handMany(goes ...any) call {
	return call{lua.HandScript, []string{lua.NodeKey, "name"}, append([]any{"e1", 7, held, 0}, goes...)}
}

const (
	sWaits = "SET,redlock:live:S,1,PX,3000\n"
	// early: P waits at 10, before those who wait to share it.
	early = "SET,redlock:live:P,1,PX,3000\nZADD,redlock:queue:name,10,P,10,P owner\n"
)

var wakeCases = []sharedCase{
	{
		name: "those who wait to share go together", given: held40 + sharers, hears: []string{"Q", "R"},
		call: call{lua.ReleaseScript, []string{"name"}, []any{held}}, reply: "1", shows: "free 7=40 Q&20 R&50 calls Q calls R",
	},
	{
		name: "up to an exclusive", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: call{lua.ReleaseScript, []string{"name"}, []any{held}}, reply: "1", shows: "free 7=40 P!30 P!30 Q&20 R&50 calls Q",
	},
	{
		name: "an exclusive before them goes alone", given: held40 + sharers + early, hears: []string{"P", "Q", "R"},
		call: call{lua.ReleaseScript, []string{"name"}, []any{held}}, reply: "1", shows: "free 7=40 P!10 P!10 Q&20 R&50 calls P",
	},
	{
		name: "where it does not hear they are called", given: held40 + sharers + early, hears: []string{"Q", "R"},
		call: call{lua.ReleaseScript, []string{"name"}, []any{held}}, reply: "1", shows: "free 7=40 P!10 P!10 Q&20 R&50 calls Q calls R",
	},
	{
		name: "a dead exclusive between them is dropped", given: held40 + sharers + "ZADD,redlock:queue:name,30,P", hears: []string{"Q", "R"},
		call: call{lua.ReleaseScript, []string{"name"}, []any{held}}, reply: "1", shows: "free 7=40 Q&20 R&50 calls Q calls R",
	},
	{
		name: "a batch wakes as well", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: call{lua.ReleaseBatchScript, []string{"name"}, []any{1, held}}, reply: "1", shows: "free 7=40 P!30 P!30 Q&20 R&50 calls Q",
	},
	{
		name: "who goes on waiting is not woken, nor who is behind", given: held40 + sharers + sWaits + "ZADD,redlock:queue:name,30,S", hears: []string{"Q", "R", "S"},
		call: call{lua.ReleaseBatchScript, []string{"name"}, []any{1, held, "S", 2}}, reply: "1", shows: "free 7=40 S!30 Q&20 R&50 calls Q",
	},
	{
		name: "who leaves a free name calls those behind", given: none + sharers + sWaits + "ZADD,redlock:queue:name,10,S", hears: []string{"Q", "R"},
		call: leave(), reply: "0", shows: "free 7=40 Q&20 R&50 calls Q calls R",
	},
	{
		name: "who leaves a shared name calls those who wait to share it behind", given: bothDo + sharers + sWaits + "ZADD,redlock:queue:name,30,S", hears: []string{"Q", "R"},
		call: leave(), reply: "0", shows: "#41 A@600 B@900 7=41 Q&20 R&50 calls R",
	},
	{
		name: "up to another exclusive", given: bothDo + exclusive + sharers + sWaits + "ZADD,redlock:queue:name,15,S", hears: []string{"P", "Q", "R"},
		call: leave(), reply: "0", shows: "#41 A@600 B@900 7=41 P!30 P!30 Q&20 R&50 calls Q",
	},
	{
		name: "with the owner of the attempt too", given: bothDo + sharers + sWaits + "ZADD,redlock:queue:name,30,S,30,S <C>", hears: []string{"Q", "R"},
		call: call{lua.ReleaseBatchScript, []string{"name"}, []any{1, "<C>", "S", 1, 77, 30, ""}}, reply: "0", shows: "#41 A@600 B@900 7=41 Q&20 R&50 calls R",
	},
	{
		name: "a hand that comes late does so as well", given: bothDo + sharers + sWaits + "ZADD,redlock:queue:name,30,S,30,S <C>", hears: []string{"Q", "R"},
		call: handOne("S", 77, "", "<C>"), reply: "[0 0]", shows: "#41 A@600 B@900 7=41 Q&20 R&50 calls R",
	},
	{
		name: "a hand of many does so as well", given: bothDo + sharers + sWaits + "ZADD,redlock:queue:name,30,S,30,S <C>", hears: []string{"Q", "R"},
		call: handMany("S", 77, "", "<C>"), reply: "[0 0]", shows: "#41 A@600 B@900 7=41 Q&20 R&50 calls R",
	},
	{
		name: "a hand grants to an exclusive before them", given: held40 + sharers + early, hears: []string{"P", "Q", "R"},
		call: handOne(), reply: "[2 0]", shows: "string 7=41 Q&20 R&50 grants P",
	},
	{
		name: "and calls where they are first", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: handOne(), reply: "[1 0]", shows: "free 7=40 P!30 P!30 Q&20 R&50 calls Q",
	},
	{
		name: "also where no exclusive waits", given: held40 + sharers, hears: []string{"Q", "R"},
		call: handOne(), reply: "[1 0]", shows: "free 7=40 Q&20 R&50 calls Q calls R",
	},
	{
		name: "its next owner stands behind them", given: held40 + sharers, hears: []string{"Q", "R"},
		call: handOne("S", 77, "<C>", held), reply: "[1 51]", shows: "free 7=40 S!51 S!51 Q&20 R&50 calls Q calls R",
	},
	{
		name: "of many it grants to an exclusive before them", given: held40 + sharers + early, hears: []string{"P", "Q", "R"},
		call: handMany(), reply: "[2 0]", shows: "string 7=41 Q&20 R&50 grants P",
	},
	{
		name: "of many it calls where they are first", given: held40 + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: handMany(), reply: "[1 0]", shows: "free 7=40 P!30 P!30 Q&20 R&50 calls Q",
	},
	{
		name: "of many its next owner stands behind them", given: held40 + sharers, hears: []string{"Q", "R"},
		call: handMany("S", 77, "<C>", held), reply: "[1 51]", shows: "free 7=40 S!51 S!51 Q&20 R&50 calls Q calls R",
	},
	{
		name: "the dead are in no grant's way", given: held40 + exclusive + "SET,redlock:sharing,1\nZADD,redlock:sharers:name,20,Q", hears: []string{"P"},
		call: handOne(), reply: "[2 0]", shows: "string 7=41 grants P",
	},
}
