package chaos_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// noticeJudgements are of what a library tells its client, and how long it takes.
var noticeJudgements = []struct {
	name  string
	judge chaos.Judge
	trace string
	want  []chaos.Rule
}{
	{name: "told as it ends", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		50 lost 1
		50 told 1
		99 noted`},
	{name: "told of a loss before its validity ends", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		20 lost 1
		20 told 1
		99 noted`},
	{name: "told too late", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		55 lost 1
		61 told 1
		99 noted`, want: []chaos.Rule{chaos.LateNotice}},
	{name: "never told", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		55 lost 1
		99 noted`, want: []chaos.Rule{chaos.LateNotice}},
	{name: "never told, and its client does not know it either", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		99 noted`, want: []chaos.Rule{chaos.LateNotice}},
	{name: "the trace ends before it must be told", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		59 noted`},
	{name: "nobody need be told of what he gave up", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		20 released 1
		99 noted`},
	{name: "held for longer than its bound", judge: chaos.Judge{Notice: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50 e=20
		31 lost 1
		31 told 1`, want: []chaos.Rule{chaos.LateNotice}},
	{name: "held up to its bound", judge: chaos.Judge{Notice: 10 * time.Millisecond, Renewed: time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50 e=20
		20 lost 1
		20 told 1`},
	{name: "lost though a quorum was well", judge: chaos.Judge{Renewed: 30 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		50 lost 1`, want: []chaos.Rule{chaos.NeedlessLoss}},
	{name: "lost after a quorum fell sick", judge: chaos.Judge{Renewed: 30 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		2 sick
		21 well
		50 lost 1`},
	{name: "lost long after a quorum was well again", judge: chaos.Judge{Renewed: 30 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		2 sick
		19 well
		50 lost 1`, want: []chaos.Rule{chaos.NeedlessLoss}},
	{name: "lost by one whose lease nobody renews", trace: `
		0 asked 1 ann
		1 held 1 ann u=50
		50 lost 1`},
	{name: "an attempt that takes too long", judge: chaos.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		11 failed 1`, want: []chaos.Rule{chaos.SlowAttempt}},
	{name: "a lock that takes too long to get", judge: chaos.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		11 held 1 ann u=50`, want: []chaos.Rule{chaos.SlowAttempt}},
	{name: "an attempt in time", judge: chaos.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		10 failed 1`},
	{name: "an attempt at a sick quorum", judge: chaos.Judge{Attempt: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		5 sick
		6 well
		30 failed 1`},
	{name: "one that barges overtakes nobody", judge: chaos.Judge{Turns: 1}, trace: `
		0 asked 1 ann
		0 queued ann s=0
		5 asked 2 bob barging
		6 held 2 bob u=50`},
	{name: "one that does not barge", judge: chaos.Judge{Turns: 1}, trace: `
		0 asked 1 ann
		0 queued ann s=0
		5 asked 2 bob
		6 held 2 bob u=50`, want: []chaos.Rule{chaos.Overtaken}},
}

// What is wrong with one client excuses what befalls it, and nobody else.
func TestAClientThatIsCutOffLosesItsLock(t *testing.T) {
	for client, want := range map[string]int{"ann": 0, "bob": 2} {
		records := trace(t, `
			0 asked 1 ann
			1 held 1 ann u=50
			50 lost 1
			51 asked 2 ann
			70 failed 2`)
		suspended := &chaos.Fault{Kind: chaos.Suspend, Client: client, For: 60 * msec}
		records = append(records, chaos.Record{At: 3 * msec, Kind: chaos.Broke, Fault: suspended}, chaos.Record{At: 63 * msec, Kind: chaos.Mended, Fault: suspended})
		v := chaos.Judge{Renewed: 30 * msec, Attempt: 10 * msec}.Judge(records)
		if v.Count(chaos.NeedlessLoss)+v.Count(chaos.SlowAttempt) != want {
			t.Errorf("with %s suspended: got %v; want %d", client, v, want)
		}
	}
}
