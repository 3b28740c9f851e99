package trace_test

import (
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// judgement is a trace, and the rules that it breaks.
type judgement = struct {
	name  string
	judge trace.Judge
	trace string
	want  []trace.Rule
}

var sharedJudgements = []judgement{
	{name: "two share", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared t=5 u=50
		2 asked 2 bob shared
		3 held 2 bob shared t=5 u=90
		4 wrote 1 t=5
		5 wrote 2 t=5
		50 lost 1
		60 released 2
		61 asked 3 cid
		62 held 3 cid t=6 u=90
		63 wrote 3 t=6`},
	{name: "one shares, and one is alone", trace: `
		0 asked 1 ann shared
		0 asked 2 bob
		1 held 1 ann shared t=5 u=50
		49 held 2 bob t=6 u=90`, want: []trace.Rule{trace.TwoHolders}},
	{name: "one is alone, and one shares", trace: `
		0 asked 1 ann
		0 asked 2 bob shared
		1 held 1 ann t=5 u=50
		49 held 2 bob shared t=6 u=90`, want: []trace.Rule{trace.TwoHolders}},
	{name: "the longest of three that share is met by one that is alone", trace: `
		0 asked 1 ann shared
		0 asked 2 bob shared
		0 asked 3 cid shared
		0 asked 4 dan
		1 held 1 ann shared u=100
		2 held 2 bob shared u=3
		4 held 3 cid shared u=5
		50 held 4 dan u=60`, want: []trace.Rule{trace.TwoHolders}},
	{name: "one that is alone is met by the second that shares", trace: `
		0 asked 1 ann
		0 asked 2 bob shared
		0 asked 3 cid shared
		1 held 1 ann u=20
		20 held 2 bob shared u=30
		20 extended 1 u=40
		25 held 3 cid shared u=90`, want: []trace.Rule{trace.TwoHolders}},
	{name: "one asks to share, and is given it alone", trace: `
		0 asked 1 ann shared
		0 asked 2 bob shared
		1 held 1 ann u=20
		2 held 2 bob shared u=20`, want: []trace.Rule{trace.TwoHolders}},
	{name: "one shares with the token of one before who was alone", trace: `
		0 asked 1 ann
		1 held 1 ann t=5
		2 released 1
		3 asked 2 bob shared
		4 held 2 bob shared t=5`, want: []trace.Rule{trace.TokenRepeated}},
	{name: "one is alone with the token of those who shared", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared t=5
		2 released 1
		3 asked 2 bob
		4 held 2 bob t=5`, want: []trace.Rule{trace.TokenRepeated}},
	{name: "the tokens of those who share fall", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared t=5
		2 asked 2 bob shared
		3 held 2 bob shared t=4`, want: []trace.Rule{trace.TokenOrder}},
	{name: "one shares with a token below that of one before who was alone", trace: `
		0 asked 1 ann
		1 held 1 ann t=5
		2 released 1
		3 asked 2 bob shared
		4 held 2 bob shared t=4`, want: []trace.Rule{trace.TokenOrder}},
	{name: "a sharer with the smaller number writes after one with the larger", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared t=5 u=90
		2 asked 2 bob shared
		3 held 2 bob shared t=6 u=90
		4 wrote 2 t=6
		5 wrote 1 t=5`},
	{name: "a sharer writes after the next who is alone", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared t=5 u=20
		20 asked 2 bob
		21 held 2 bob t=6
		22 wrote 2 t=6
		23 wrote 1 t=5`, want: []trace.Rule{trace.StaleWrite}},
	{name: "one who was alone writes after the next who share", trace: `
		0 asked 1 ann
		1 held 1 ann t=5 u=20
		20 asked 2 bob shared
		21 held 2 bob shared t=6
		22 wrote 2 t=6
		23 wrote 1 t=5`, want: []trace.Rule{trace.StaleWrite}},
	{name: "a sharer writes with the number of one who was alone", trace: `
		0 asked 1 ann
		1 held 1 ann t=5 u=20
		2 wrote 1 t=5
		20 asked 2 bob shared
		21 held 2 bob shared t=5
		22 wrote 2 t=5`, want: []trace.Rule{trace.StaleWrite, trace.TokenRepeated}},
	{name: "one who is alone writes with the number of a sharer", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared t=5 u=20
		2 wrote 1 t=5
		20 asked 2 bob
		21 held 2 bob t=5
		22 wrote 2 t=5`, want: []trace.Rule{trace.StaleWrite, trace.TokenRepeated}},
	{name: "sharers without tokens write in any order", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=90
		2 asked 2 bob shared
		3 held 2 bob shared u=90
		4 wrote 2
		5 wrote 1`},
	{name: "a sharer without a token writes after the next who is alone", trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=20
		20 asked 2 bob
		21 held 2 bob
		22 wrote 2
		23 wrote 1`, want: []trace.Rule{trace.StaleWrite}},
	{name: "one who was alone, without a token, writes after the next who share", trace: `
		0 asked 1 ann
		1 held 1 ann u=20
		20 asked 2 bob shared
		21 held 2 bob shared
		22 wrote 2
		23 wrote 1`, want: []trace.Rule{trace.StaleWrite}},

	{name: "a shared key ends with the last who shares it", judge: trace.Judge{Lease: 50 * time.Millisecond}, trace: `
		1 shown n=a o=x shared u=9 e=20
		1 shown n=a o=y shared u=20 e=20
		1 shown n=b o=x shared u=9 e=9
		2 shown n=b o=x shared u=12 e=12`},
	{name: "a shared key ends before the last who shares it", trace: `
		1 shown n=a o=x shared u=9 e=9
		1 shown n=a o=y shared u=20 e=9`, want: []trace.Rule{trace.KeyEnd}},
	{name: "a shared key ends after the last who shares it", trace: `
		1 shown n=a o=x shared u=9 e=20
		1 shown n=b o=x shared u=20 e=20`, want: []trace.Rule{trace.KeyEnd}},
	{name: "a shared key ends too late at the second look", trace: `
		1 shown n=a o=x shared u=20 e=20
		2 shown n=a o=x shared u=9 e=15`, want: []trace.Rule{trace.KeyEnd}},
	{name: "a shared key never ends", trace: `
		1 shown n=a o=x shared u=9`, want: []trace.Rule{trace.KeyEnd}},
	{name: "one of those who share is shown after its release", trace: `
		1 cleaned n=a o=x
		2 shown n=a o=x shared u=9 e=20
		2 shown n=a o=y shared u=20 e=20`, want: []trace.Rule{trace.Litter}},
	{name: "one of those who share stays for longer than a lease", judge: trace.Judge{Lease: 10 * time.Millisecond}, trace: `
		1 shown n=a o=x shared u=12 e=12`, want: []trace.Rule{trace.Litter}},

	{name: "nobody may share, though one who shares holds", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=90
		2 asked 2 bob shared
		3 failed 2
		13 asked 3 bob shared`, want: []trace.Rule{trace.NoProgress}},
	{name: "nobody may share while one waits to be alone", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=90
		2 asked 2 bob
		3 asked 3 cid shared
		20 asked 4 dan shared
		40 quit bob
		45 held 3 cid shared u=90
		50 held 4 dan shared u=90`},
	{name: "nobody may share while one still waits to be alone", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=90
		2 asked 2 bob
		3 asked 3 cid shared
		30 sick`},
	{name: "one after another may share", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		0 asked 2 bob shared
		8 held 1 ann shared u=90
		16 held 2 bob shared u=90`},
	{name: "one may share once the one who was alone has released", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		2 asked 2 bob shared
		30 released 1
		38 held 2 bob shared u=90`},
	{name: "nobody may share, though the one who waited to be alone has quit", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=90
		2 asked 2 bob
		3 asked 3 cid shared
		40 quit bob
		55 held 3 cid shared u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "nobody may share before one asks to be alone", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=90
		2 asked 2 bob shared
		20 asked 3 cid
		21 quit bob`, want: []trace.Rule{trace.NoProgress}},
	{name: "one that is alone keeps those out who want to share", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		2 asked 2 bob shared
		55 held 2 bob shared u=90`},
	{name: "those who share keep one out who wants to be alone", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=50
		2 asked 2 bob
		55 held 2 bob u=90`},
	{name: "the last who shared is gone, and nobody may be alone", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann shared
		1 held 1 ann shared u=50
		2 asked 2 bob
		65 held 2 bob u=90`, want: []trace.Rule{trace.NoProgress}},

	{name: "one who shares comes before one who waits to be alone", trace: `
		0 asked 1 ann
		1 queued ann s=1
		5 asked 2 bob shared
		6 held 2 bob shared u=90`, want: []trace.Rule{trace.Overtaken}},
	{name: "one who is alone comes before one who waits to share", trace: `
		0 asked 1 ann shared
		1 queued ann shared s=1
		5 asked 2 bob
		6 held 2 bob u=90`, want: []trace.Rule{trace.Overtaken}},
	{name: "one who shares comes before another who waits to share", trace: `
		0 asked 1 ann shared
		1 queued ann shared s=1
		5 asked 2 bob shared
		6 held 2 bob shared u=90`},
	{name: "one who shares was there before the one who waits to be alone", trace: `
		0 asked 2 bob shared
		1 asked 1 ann
		2 queued ann s=2
		6 held 2 bob shared u=90`},
	{name: "a process is before itself", trace: `
		0 asked 1 ann#0
		1 queued ann s=1
		5 asked 2 ann#1 shared
		6 held 2 ann#1 shared u=90`},
	{name: "one who waits to share has left the other line", trace: `
		0 asked 1 ann
		1 queued ann s=1
		2 unqueued ann
		3 queued ann shared s=3
		5 asked 2 bob shared
		6 held 2 bob shared u=90`},
	{name: "those of one process share often while another waits", judge: trace.Judge{Turns: 1}, trace: `
		0 asked 1 bob#0 shared
		0 asked 2 bob#1 shared
		1 asked 3 ann
		2 queued ann s=2
		6 held 1 bob#0 shared u=90
		7 held 2 bob#1 shared u=90`},
	{name: "those of one process are alone often while another waits to share", judge: trace.Judge{Turns: 1}, trace: `
		0 asked 1 bob#0
		0 asked 2 bob#1
		1 asked 3 ann shared
		2 queued ann shared s=2
		6 held 1 bob#0 u=90
		7 released 1
		8 held 2 bob#1 u=90`, want: []trace.Rule{trace.Overtaken}},
}

var setJudgements = []judgement{
	{name: "a set is held, and ends, as a whole", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1 u=50
		1 held 2 ann r=b set=1 u=50
		2 wrote 1 r=a
		2 wrote 2 r=b
		3 extended 1 r=a u=60
		3 extended 2 r=b u=60
		4 released 1
		4 released 2`},
	{name: "a set fails as a whole", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 failed 1
		1 failed 2
		2 asked 3 ann r=a set=2
		2 asked 4 ann r=b set=2
		3 quit ann r=a
		3 quit ann r=b`},
	{name: "half a set is held", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1
		1 failed 2`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "half a set was not held, and half of it is", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 failed 1
		2 held 2 ann r=b set=1`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "of half a set nothing is known", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 2 ann r=b set=1 u=3`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "half of a set is over when the rest is held", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1 u=5
		5 held 2 ann r=b set=1 u=9`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "half of a set is lost before the rest is held", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1 u=50
		2 lost 1
		3 held 2 ann r=b set=1 u=50`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "half a set is lost, and the rest is lengthened", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1 u=50
		1 held 2 ann r=b set=1 u=50
		3 lost 1
		4 extended 2 u=60`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "half a set is lost, and the rest is used", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1 u=50
		1 held 2 ann r=b set=1 u=50
		3 lost 1
		4 wrote 2 r=b`, want: []trace.Rule{trace.AllOrNothing}},
	{name: "a set is lost, and its holder writes once more", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a set=1 u=50
		1 held 2 ann r=b set=1 u=50
		3 lost 1
		3 lost 2
		4 wrote 2 r=b`},
	{name: "a set is asked for, and its half is held as if there were none", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		1 held 1 ann r=a
		1 held 2 ann r=b set=1`, want: []trace.Rule{trace.Malformed}},
	{name: "two clients want one set", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 bob r=b set=1`, want: []trace.Rule{trace.Malformed}},
	{name: "half of a set is another's", trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		0 asked 3 bob r=b
		1 held 1 ann r=a set=1 u=50
		1 held 2 ann r=b set=1 u=50
		2 held 3 bob r=b u=50`, want: []trace.Rule{trace.TwoHolders}},

	{name: "two sets keep each other out", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=a set=1
		0 asked 2 ann r=b set=1
		0 asked 3 bob r=b set=2
		0 asked 4 bob r=a set=2
		11 sick`, want: []trace.Rule{trace.NoProgress}},
	{name: "a set that waits for its last may have the ones before", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=c
		1 held 1 ann r=c u=50
		2 asked 2 bob r=b set=1
		2 asked 3 bob r=c set=1
		2 asked 4 cid r=a set=2
		2 asked 5 cid r=b set=2
		3 asked 6 dan r=a
		55 held 2 bob r=b set=1 u=58
		55 held 3 bob r=c set=1 u=58
		60 held 4 cid r=a set=2 u=66
		60 held 5 cid r=b set=2 u=66
		70 held 6 dan r=a`},
	{name: "what a set does not get to is idle", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=a
		1 held 1 ann r=a u=50
		2 asked 2 bob r=a set=1
		2 asked 3 bob r=b set=1
		55 held 2 bob r=a set=1 u=58
		55 held 3 bob r=b set=1 u=58`},
	{name: "what a set does not get to is not free for others in time", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=a
		1 held 1 ann r=a u=50
		2 asked 2 bob r=a set=1
		2 asked 3 bob r=b set=1
		30 asked 4 cid r=b
		39 held 4 cid r=b u=40
		41 asked 5 dan r=b
		52 held 5 dan r=b u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "a set is free, and a set that was there before is not", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=c
		1 held 1 ann r=c u=90
		2 asked 2 bob r=a set=1
		2 asked 3 bob r=c set=1
		2 asked 4 bob#1 r=b set=2
		2 asked 5 bob#1 r=c set=2
		30 quit bob#1 r=b
		30 quit bob#1 r=c
		31 quit bob r=a
		31 quit bob r=c
		32 asked 6 cid r=a set=3
		32 asked 7 cid r=b set=3
		40 held 6 cid r=a set=3 u=90
		40 held 7 cid r=b set=3 u=90`},
	{name: "a set that is to be shared is free beside those who share", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=a shared
		1 held 1 ann r=a shared u=90
		2 asked 2 bob r=a shared set=1
		2 asked 3 bob r=b shared set=1
		20 held 2 bob r=a shared set=1 u=90
		20 held 3 bob r=b shared set=1 u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "of a set that is to be shared another one is held alone", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=b
		1 held 1 ann r=b u=18
		2 asked 2 bob r=a shared set=1
		2 asked 3 bob r=b shared set=1
		20 held 2 bob r=a shared set=1 u=90
		20 held 3 bob r=b shared set=1 u=90`},
	{name: "a set that waits for its first has none of the others", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=a
		1 held 1 ann r=a u=50
		2 asked 2 bob r=a set=1
		2 asked 3 bob r=b set=1
		3 asked 4 cid r=b
		20 held 4 cid r=b u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "what a set had that gave up is free from then on", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=b
		1 held 1 ann r=b u=90
		2 asked 2 bob r=a set=1
		2 asked 3 bob r=b set=1
		3 asked 4 cid r=a
		20 failed 2
		20 failed 3
		20 quit bob r=a
		20 quit bob r=b
		29 held 4 cid r=a u=90`},
	{name: "what a set had that gave up is not free in time", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann r=b
		1 held 1 ann r=b u=90
		2 asked 2 bob r=a set=1
		2 asked 3 bob r=b set=1
		3 asked 4 cid r=a
		20 failed 2
		20 failed 3
		20 quit bob r=a
		20 quit bob r=b
		31 held 4 cid r=a u=90`, want: []trace.Rule{trace.NoProgress}},
}
