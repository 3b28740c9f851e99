package trace_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// noticeJudgements are of what a library tells its client, and how long it takes.
var noticeJudgements = []struct {
	name  string
	judge trace.Judge
	trace string
	want  []trace.Rule
}{
	{name: "told as it ends", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		50 lost 1
		50 told 1
		99 noted`},
	{name: "told of a loss before its validity ends", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		20 lost 1
		20 told 1
		99 noted`},
	{name: "told too late", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		55 lost 1
		61 told 1
		99 noted`, want: []trace.Rule{trace.LateNotice}},
	{name: "never told", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		55 lost 1
		99 noted`, want: []trace.Rule{trace.LateNotice}},
	{name: "never told, and its client does not know it either", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		99 noted`, want: []trace.Rule{trace.LateNotice}},
	{name: "never told, by a library that tells nobody", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50 untold
		65 lost 1
		99 noted`},
	{name: "the trace ends before it must be told", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		59 noted`},
	{name: "nobody need be told of what he gave up", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		20 released 1
		99 noted`},
	{name: "held for longer than its bound", judge: trace.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50 e=20
		31 lost 1
		31 told 1`, want: []trace.Rule{trace.LateNotice}},
	{name: "held up to its bound", judge: trace.Judge{Notice: 10 * time.Millisecond, Renewed: time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50 e=20
		20 lost 1
		20 told 1`},
	{name: "lost though a quorum was well", judge: trace.Judge{Renewed: 30 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		50 lost 1`, want: []trace.Rule{trace.NeedlessLoss}},
	{name: "lost after a quorum fell sick", judge: trace.Judge{Renewed: 30 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		2 sick
		21 well
		50 lost 1`},
	{name: "lost long after a quorum was well again", judge: trace.Judge{Renewed: 30 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		2 sick
		19 well
		50 lost 1`, want: []trace.Rule{trace.NeedlessLoss}},
	{name: "lost by one whose lease nobody renews", trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		50 lost 1`},
	{name: "an attempt that takes too long", judge: trace.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		11 failed 1`, want: []trace.Rule{trace.SlowAttempt}},
	{name: "a lock that takes too long to get", judge: trace.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		11 held 1 ann u=50`, want: []trace.Rule{trace.SlowAttempt}},
	{name: "an attempt in time", judge: trace.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		10 failed 1`},
	{name: "an attempt at a sick quorum", judge: trace.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		5 sick
		6 well
		30 failed 1`},
	{name: "one that barges overtakes nobody", judge: trace.Judge{Turns: 1}, trace: `
		0 asked 1 ann
		0 queued ann s=0
		5 asked 2 bob barging
		6 held 2 bob u=50`},
	{name: "one that does not barge", judge: trace.Judge{Turns: 1}, trace: `
		0 asked 1 ann
		0 queued ann s=0
		5 asked 2 bob
		6 held 2 bob u=50`, want: []trace.Rule{trace.Overtaken}},
}

// What is wrong with one client excuses what befalls it, and nobody else.
func TestAClientThatIsCutOffLosesItsLock(t *testing.T) {
	for client, want := range map[string]int{"ann": 0, "bob": 2} {
		records := parsed(t, `
			0 asked 1 ann
			1 held 1 ann u=50
			50 lost 1
			51 asked 2 ann
			70 failed 2`)
		suspended := &trace.Fault{Kind: trace.Suspend, Client: client, For: 60 * msec}
		records = append(records, trace.Record{At: 3 * msec, Kind: trace.Broke, Fault: suspended}, trace.Record{At: 63 * msec, Kind: trace.Mended, Fault: suspended})
		v := trace.Judge{Renewed: 30 * msec, Attempt: 10 * msec}.Judge(records)
		if v.Count(trace.NeedlessLoss)+v.Count(trace.SlowAttempt) != want {
			t.Errorf("with %s suspended: got %v; want %d", client, v, want)
		}
	}
}
