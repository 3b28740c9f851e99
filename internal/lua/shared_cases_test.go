package lua_test

import "github.com/quorumkit/redlock/internal/lua"

type sharedCase struct {
	name  string
	given string
	hears []string
	call  call
	reply string
	shows string
}

var shareCases = []sharedCase{
	{
		name: "the first begins a generation, and counts up", given: none,
		call: share("A", 0), reply: "[41 0]", shows: "#41 A@600 7=41",
	},
	{
		name: "from the base, where the stripe is below", given: none + "HSET,redlock:node,base,70",
		call: share("A", 0), reply: "[71 0]", shows: "#71 A@600 7=71",
	},
	{
		name: "who joins gets its number, and the stripe stays", given: aShares + "HSET,redlock:node,7,60",
		call: share("B", 0), reply: "[41 0]", shows: "#41 A@600 B@600 7=60",
	},
	{
		name: "the key ends with the last", given: aShares,
		call: share("B", 0).with(5, 900000), reply: "[41 0]", shows: "#41 A@600 B@900 7=41",
	},
	{
		name: "who ends sooner does not shorten it", given: aShares,
		call: share("B", 0).with(5, 60000), reply: "[41 0]", shows: "#41 B@60 A@600 7=41",
	},
	{
		name: "ours already", given: bothDo,
		call: share("A", 0).with(5, 700000), reply: "[41 0]", shows: "#41 A@700 B@900 7=41",
	},
	{
		name: "ours already, and longer", given: bothDo,
		call: share("B", 0), reply: "[41 0]", shows: "#41 A@600 B@900 7=41",
	},
	{
		name: "who has ended is removed by the one who joins", given: aEnded,
		call: share("C", 0), reply: "[41 0]", shows: "#41 C@600 B@900 7=44",
	},
	{
		name: "and has to join anew", given: aEnded,
		call: share("A", 0), reply: "[41 0]", shows: "#41 A@600 B@900 7=44",
	},
	{
		name: "with none left it is a new generation", given: allEnded,
		call: share("C", 0), reply: "[45 0]", shows: "#45 C@600 7=45",
	},
	{
		name: "an exclusive holder's", given: held40,
		call: share("A", 0), reply: "[taken600 41]", shows: "string 7=40",
	},
	{
		name: "and who has a place stands in line, and is the first", given: held40,
		call: share("A", 60), reply: "[taken600 1]", shows: "string 7=40 S&60",
	},
	{
		name: "behind others who share it is not", given: held40 + sharers,
		call: share("A", 60), reply: "[taken600 0]", shows: "string 7=40 Q&20 R&50 S&60",
	},
	{
		name: "nor behind an exclusive", given: held40 + exclusive,
		call: share("A", 60), reply: "[taken600 0]", shows: "string 7=40 P!30 P!30 S&60",
	},
	{
		name: "it is before an exclusive that came later", given: held40 + exclusive,
		call: share("A", 29), reply: "[taken600 1]", shows: "string 7=40 P!30 P!30 S&29",
	},
	{
		name: "a foreign client's", given: foreign,
		call: share("A", 60), reply: "[taken600 3]", shows: "string 7=40 S&60",
	},
	{
		name: "another program's data", given: none + "RPUSH,name,x",
		call: share("A", 60), reply: "[-9 3]", shows: "list 7=40 S&60",
	},
	{
		name: "another program's sorted set stays as it is", given: theirs,
		call: share("A", 60), reply: "[-9 3]", shows: "x -50 redlock:shared -41 y 3 7=40 S&60",
	},
	{
		name: "a tombstone", given: none + "SET,redlock:dead:<A>,1,PX,10000",
		call: share("A", 60), reply: "[-1 0]", shows: "free 7=40",
	},
	{
		name: "a tombstone, and others share it", given: bothDo + "SET,redlock:dead:<C>,1,PX,10000",
		call: share("C", 60), reply: "[-1 0]", shows: "#41 A@600 B@900 7=41",
	},
	{
		name: "one that comes late is not put in line", given: held40 + "SET,redlock:dead:<A>,1,PX,10000",
		call: share("A", 60), reply: "[taken600 0]", shows: "string 7=40",
	},
	{
		name: "another epoch", given: none,
		call: share("A", 60).with(0, "e2"), reply: "[0 0]", shows: "free 7=40",
	},
	{
		name: "the counter's end", given: none + "HSET,redlock:node,7,9007199254740990",
		call: share("A", 60), reply: "[-2 0]", shows: "free 7=9007199254740990",
	},
	{
		name: "the last number", given: none + "HSET,redlock:node,7,9007199254740989",
		call: share("A", 60), reply: "[9007199254740990 0]", shows: "#9007199254740990 A@600 7=9007199254740990",
	},
	{
		name: "free, and kept for an exclusive: a ticket above both lines", given: none + exclusive + sharers,
		call: share("A", 0), reply: "[-3 51]", shows: "free 7=40 P!30 P!30 Q&20 R&50",
	},
	{
		name: "above the exclusives", given: none + exclusive + "ZADD,redlock:queue:name,90,T",
		call: share("A", 0), reply: "[-3 91]", shows: "free 7=40 P!30 P!30 T!90",
	},
	{
		name: "above the stripe", given: none + exclusive,
		call: share("A", 0), reply: "[-3 41]", shows: "free 7=40 P!30 P!30",
	},
	{
		name: "free, and kept for an exclusive before its place", given: none + exclusive,
		call: share("A", 31), reply: "[-3 0]", shows: "free 7=40 P!30 P!30 S&31",
	},
	{
		name: "at the same place the exclusive is before", given: none + exclusive,
		call: share("A", 30), reply: "[-3 0]", shows: "free 7=40 P!30 P!30 S&30",
	},
	{
		name: "it is before an exclusive of a later place, and needs no entry for that", given: none + exclusive,
		call: share("A", 29), reply: "[41 0]", shows: "#41 A@600 7=41 P!30 P!30",
	},
	{
		name: "a dead exclusive is dropped", given: none + deadOne,
		call: share("A", 31), reply: "[41 0]", shows: "#41 A@600 7=41",
	},
	{
		name: "others who wait to share are in nobody's way", given: none + sharers,
		call: share("A", 0), reply: "[41 0]", shows: "#41 A@600 7=41 Q&20 R&50",
	},
	{
		name: "shared, and an exclusive waits before: as taken until the last ends", given: bothDo + exclusive,
		call: share("C", 31), reply: "[taken900 0]", shows: "#41 A@600 B@900 7=41 P!30 P!30 S&31",
	},
	{
		name: "shared, and an exclusive waits: without a place nobody joins", given: bothDo + exclusive,
		call: share("C", 0), reply: "[taken900 42]", shows: "#41 A@600 B@900 7=41 P!30 P!30",
	},
	{
		name: "but who looks at no line does", given: bothDo + exclusive,
		call: share("C", -1), reply: "[41 0]", shows: "#41 A@600 C@600 B@900 7=41 P!30 P!30",
	},
	{
		name: "and who stands before", given: bothDo + exclusive,
		call: share("C", 29), reply: "[41 0]", shows: "#41 A@600 C@600 B@900 7=41 P!30 P!30",
	},
	{
		name: "two of one call share it", given: none,
		call: call{
			lua.ShareScript,
			[]string{lua.NodeKey, "name", "name", "name", "other", lua.TombstoneKey + "<A>", lua.TombstoneKey + "<B>", lua.TombstoneKey + "<A>", lua.TombstoneKey + "<C>"},
			[]any{"e1", "S", 77, 7, 7, 7, 7, "<A>", "<B>", "<A>", "<C>", 600000, 600000, 600000, 600000, 0, 0, 0, 0},
		},
		reply: "[41 41 41 42 0 0 0 0]", shows: "#41 A@600 B@600 7=42",
	},
}

var keepCases = []sharedCase{
	{
		name: "a renewal lengthens one lease, and the key", given: aShares + "ZADD,name,@300,<A>\nPEXPIREAT,name,@300",
		call: extendShared("A"), reply: "[1]", shows: "#41 A@600 7=41",
	},
	{
		name: "it keeps nobody else alive", given: bothDo + "ZADD,name,@20,<A>",
		call: extendShared("B").with(2, 1200000), reply: "[1]", shows: "#41 A@20 B@1200 7=41",
	},
	{
		name: "nor the key longer than the last", given: bothDo,
		call: extendShared("A").with(2, 800000), reply: "[1]", shows: "#41 A@800 B@900 7=41",
	},
	{
		name: "it never shortens a lease", given: bothDo,
		call: extendShared("B"), reply: "[1]", shows: "#41 A@600 B@900 7=41",
	},
	{
		name: "who has ended is gone, though still in the set", given: aEnded,
		call: extendShared("A"), reply: "[0]", shows: "#41 A@-5 B@900 7=44",
	},
	{name: "who is not in it is gone", given: bothDo, call: extendShared("C"), reply: "[0]", shows: "#41 A@600 B@900 7=41"},
	{name: "nobody shares the name", given: none, call: extendShared("A"), reply: "[0]", shows: "free 7=40"},
	{name: "an exclusive holder's", given: held40, call: extendShared("A"), reply: "[2]", shows: "string 7=40"},
	{name: "another program's data", given: none + "RPUSH,name,x", call: extendShared("A"), reply: "[2]", shows: "list 7=40"},
	{
		name: "another program's sorted set", given: theirs + "ZADD,name,@900,<A>",
		call: extendShared("A"), reply: "[2]", shows: "x -50 redlock:shared -41 y 3 A@900 7=40",
	},
	{name: "another epoch", given: aShares, call: extendShared("A").with(0, "e2"), reply: "[-1]", shows: "#41 A@600 7=41"},

	{
		name: "a re-seed begins a generation with its own number", given: none,
		call: reseedShared("A", 44), reply: "[1]", shows: "#44 A@600 7=44",
	},
	{
		name: "or above the counter, where that has it already", given: none,
		call: reseedShared("A", 40), reply: "[1]", shows: "#41 A@600 7=41",
	},
	{
		name: "or is above it", given: none,
		call: reseedShared("A", 12), reply: "[1]", shows: "#41 A@600 7=41",
	},
	{
		name: "it joins who shares, with their number", given: bothDo,
		call: reseedShared("C", 77), reply: "[1]", shows: "#41 A@600 C@600 B@900 7=41",
	},
	{
		name: "and has the key last as long", given: aShares,
		call: reseedShared("C", 77).with(3, 900000), reply: "[1]", shows: "#41 A@600 C@900 7=41",
	},
	{
		name: "who is there already stays as it is", given: bothDo,
		call: reseedShared("A", 77).with(3, 900000), reply: "[1]", shows: "#41 A@600 B@900 7=41",
	},
	{
		name: "who has ended is put back", given: aEnded,
		call: reseedShared("A", 41), reply: "[1]", shows: "#41 A@600 B@900 7=44",
	},
	{
		name: "with none left it begins", given: allEnded,
		call: reseedShared("C", 41), reply: "[1]", shows: "#45 C@600 7=45",
	},
	{name: "not over an exclusive's", given: held40, call: reseedShared("A", 44), reply: "[0]", shows: "string 7=40"},
	{name: "not over another program's data", given: none + "RPUSH,name,x", call: reseedShared("A", 44), reply: "[0]", shows: "list 7=40"},
	{
		name: "nor over its sorted set", given: theirs,
		call: reseedShared("A", 44), reply: "[0]", shows: "x -50 redlock:shared -41 y 3 7=40",
	},
	{
		name: "not under a tombstone", given: none + "SET,redlock:dead:<A>,1,PX,10000",
		call: reseedShared("A", 44), reply: "[0]", shows: "free 7=40",
	},
	{
		name: "not under one beside others", given: bothDo + "SET,redlock:dead:<C>,1,PX,10000",
		call: reseedShared("C", 44), reply: "[0]", shows: "#41 A@600 B@900 7=41",
	},
	{
		name: "not at the counter's end", given: none + "HSET,redlock:node,7,9007199254740990",
		call: reseedShared("A", 44), reply: "[0]", shows: "free 7=9007199254740990",
	},
	{name: "not of another epoch", given: none, call: reseedShared("A", 44).with(0, "e2"), reply: "[-1]", shows: "free 7=40"},
	{
		name: "of two in one call the second joins", given: none,
		call: call{
			lua.ReseedSharedScript,
			[]string{lua.NodeKey, "name", "name", lua.TombstoneKey + "<A>", lua.TombstoneKey + "<B>"},
			[]any{"e1", 7, 7, "<A>", "<B>", 600000, 900000, 50, 60},
		},
		reply: "[1 1]", shows: "#50 A@600 B@900 7=50",
	},

	{name: "a raise lifts the generation and the stripe", given: bothDo, call: raiseShared("A", 50), reply: "50", shows: "#50 A@600 B@900 7=50"},
	{name: "once more it changes nothing", given: bothDo, call: raiseShared("A", 41), reply: "41", shows: "#41 A@600 B@900 7=41"},
	{
		name: "to what the stripe has", given: bothDo + "HSET,redlock:node,7,50",
		call: raiseShared("A", 50), reply: "50", shows: "#50 A@600 B@900 7=50",
	},
	{
		name: "below the stripe it is refused, and says the number", given: bothDo + "HSET,redlock:node,7,50",
		call: raiseShared("A", 49), reply: "41", shows: "#41 A@600 B@900 7=50",
	},
	{
		name: "below the base as well", given: bothDo + "HSET,redlock:node,base,50",
		call: raiseShared("A", 49), reply: "41", shows: "#41 A@600 B@900 7=41",
	},
	{name: "who has ended raises nothing", given: aEnded, call: raiseShared("A", 50), reply: "0", shows: "#41 A@-5 B@900 7=44"},
	{name: "nor who is not in it", given: bothDo, call: raiseShared("C", 50), reply: "0", shows: "#41 A@600 B@900 7=41"},
	{name: "nor where nobody shares", given: none, call: raiseShared("A", 50), reply: "0", shows: "free 7=40"},
	{name: "nor of an exclusive's", given: held40, call: raiseShared("A", 50), reply: "0", shows: "string 7=40"},
	{
		name: "nor of another program's sorted set", given: theirs + "ZADD,name,@900,<A>",
		call: raiseShared("A", 50), reply: "0", shows: "x -50 redlock:shared -41 y 3 A@900 7=40",
	},
	{name: "nor of another epoch", given: bothDo, call: raiseShared("A", 50).with(3, "e2"), reply: "-1", shows: "#41 A@600 B@900 7=41"},
}

var endCases = []sharedCase{
	{name: "one of two goes", given: bothDo, call: endShared("A"), reply: "1", shows: "#41 B@900 7=41"},
	{name: "the longest goes, and the key's end falls", given: bothDo, call: endShared("B"), reply: "1", shows: "#41 A@600 7=41"},
	{name: "the last goes, and the key", given: aShares, call: endShared("A"), reply: "1", shows: "free 7=41"},
	{name: "who has ended is none that is left", given: aEnded, call: endShared("B"), reply: "1", shows: "free 7=44"},
	{name: "who has ended itself is not counted", given: aEnded, call: endShared("A"), reply: "0", shows: "#41 B@900 7=44"},
	{name: "late, it takes nobody else", given: bothDo, call: endShared("C"), reply: "0", shows: "#41 A@600 B@900 7=41"},
	{name: "nobody shares the name", given: none, call: endShared("A"), reply: "0", shows: "free 7=40"},
	{name: "an exclusive has it", given: held40, call: endShared("A"), reply: "0", shows: "string 7=40"},
	{
		name: "another program's sorted set stays as it is", given: theirs + "ZADD,name,@900,<A>",
		call: endShared("A"), reply: "0", shows: "x -50 redlock:shared -41 y 3 A@900 7=40",
	},
	{
		name: "with a tombstone", given: bothDo,
		call:  call{lua.ReleaseSharedScript, []string{"name", lua.TombstoneKey + "<A>"}, []any{1, "<A>", 10000}},
		reply: "1", shows: "#41 B@900 7=41",
	},
	{
		name: "several in one call", given: bothDo + "ZADD,name,@700,<C>",
		call:  call{lua.ReleaseSharedScript, []string{"name", "name", "name", lua.TombstoneKey + "<A>"}, []any{3, "<A>", "<B>", "<A>", 10000}},
		reply: "2", shows: "#41 C@700 7=41",
	},
	{
		name: "the exclusive that is first is called", given: aShares + exclusive + "ZADD,redlock:queue:name,35,T\nSET,redlock:live:T,1,PX,3000", hears: []string{"P", "T"},
		call: endShared("A"), reply: "1", shows: "free 7=41 P!30 P!30 T!35 calls P",
	},
	{
		name: "and where it does not hear the next", given: aShares + exclusive + "ZADD,redlock:queue:name,35,T\nSET,redlock:live:T,1,PX,3000", hears: []string{"T"},
		call: endShared("A"), reply: "1", shows: "free 7=41 P!30 P!30 T!35 calls T",
	},
	{
		name: "a dead one is dropped", given: aShares + deadOne + "ZADD,redlock:queue:name,35,T\nSET,redlock:live:T,1,PX,3000", hears: []string{"T"},
		call: endShared("A"), reply: "1", shows: "free 7=41 P!30 T!35 calls T",
	},
	{
		name: "who waits to share is called up to the first exclusive", given: aShares + exclusive + sharers + "ZADD,redlock:sharers:name,25,R", hears: []string{"P", "Q", "R"},
		call: endShared("A"), reply: "1", shows: "free 7=41 P!30 P!30 Q&20 R&25 calls Q calls R",
	},
	{
		name: "not behind it", given: aShares + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: endShared("A"), reply: "1", shows: "free 7=41 P!30 P!30 Q&20 R&50 calls Q",
	},
	{
		name: "where none of them hears the exclusive is", given: aShares + exclusive + sharers, hears: []string{"P", "R"},
		call: endShared("A"), reply: "1", shows: "free 7=41 P!30 P!30 Q&20 R&50 calls P",
	},
	{
		name: "while somebody shares nobody is called", given: bothDo + exclusive + sharers, hears: []string{"P", "Q", "R"},
		call: endShared("A"), reply: "1", shows: "#41 B@900 7=41 P!30 P!30 Q&20 R&50",
	},
	{
		name: "a rollback calls nobody beside it", given: aShares + sharers + exclusive + "ZADD,redlock:sharers:name,10,S", hears: []string{"P", "Q", "R", "S"},
		call: endShared("A", 2, 10), reply: "1", shows: "free 7=41 P!30 P!30 S&10 Q&20 R&50",
	},
	{
		name: "but an exclusive before all of them", given: aShares + sharers + "SET,redlock:live:P,1,PX,3000\nZADD,redlock:queue:name,5,P,10,S\nSET,redlock:live:S,1,PX,3000", hears: []string{"P", "Q", "R", "S"},
		call: endShared("A", 2, 10), reply: "1", shows: "free 7=41 P!5 S!10 Q&20 R&50 calls P",
	},
	{
		name: "dead ones before it are dropped", given: aShares + exclusive + "ZADD,redlock:sharers:name,10,Q", hears: []string{"P"},
		call: endShared("A", 2, 10), reply: "1", shows: "free 7=41 P!30 P!30 calls P",
	},
	{
		name: "a turn's end takes its entry along", given: aShares + exclusive + "SET,redlock:live:S,1,PX,3000\nZADD,redlock:sharers:name,10,S", hears: []string{"P", "S"},
		call: endShared("A", 1, 10), reply: "1", shows: "free 7=41 P!30 P!30 calls P",
	},
	{
		name: "an older one as well", given: bothDo + "SET,redlock:waiting,1\nZADD,redlock:sharers:name,8,S",
		call: endShared("A", 1, 10), reply: "1", shows: "#41 B@900 7=41",
	},
	{
		name: "not that of goroutines which came later", given: bothDo + "SET,redlock:waiting,1\nZADD,redlock:sharers:name,12,S",
		call: endShared("A", 1, 10), reply: "1", shows: "#41 B@900 7=41 S&12",
	},
	{
		name: "who leaves a free name calls the exclusive behind it", given: none + exclusive + "ZADD,redlock:sharers:name,10,S", hears: []string{"P"},
		call: endShared("A", 1, 10), reply: "0", shows: "free 7=40 P!30 P!30 calls P",
	},
	{
		name: "not while others share", given: bothDo + exclusive + "ZADD,redlock:sharers:name,10,S", hears: []string{"P"},
		call: endShared("C", 1, 10), reply: "0", shows: "#41 A@600 B@900 7=41 P!30 P!30",
	},
}
