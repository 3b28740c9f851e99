package contenders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

type outcome struct {
	Contender, Scenario string
	Skipped             string // why it was not played; empty: it was
	Failed              string // why it has no result; empty: it has one

	Two    time.Duration   // two believed at once, for so long; 0: never
	Told   string          // who told the holder first; empty: nobody
	After  time.Duration   // of the fault, or of going on
	Late   bool            // the next one held before the holder knew
	Kept   bool            // the holder had the lock to the end
	Answer string          // what a question at the end brought
	Next   time.Duration   // until the next one held; 0: it did not. Of hand-over it is the median
	Fences []redlock.Token // the numbers of the holds, as they came
	Rising bool            // each was greater than the one before

	Optimistic bool   // nobody was locked out: Next is until a write, and two at work are no breach
	Write      string // what became of the late write, where nobody is locked out; empty: there was none

	Trip  *trip // of hung-server
	Plain *trip // the same with library and client as they come; nil: it was not measured

	Records []record
	zero    time.Duration // the fault, by which pictures are aligned
}

type span struct {
	who    string
	fence  redlock.Token
	begin  time.Duration   // when its acquire returned
	claims []time.Duration // the moments at which it believed
}

// spans are the holds of a trace, in the order in which they began.
func spans(records []record) []span {
	var all []span
	open := map[string]int{} // the last of each holder
	for _, r := range inOrder(records) {
		i, isOpen := open[r.Client]
		switch {
		case r.Kind == trace.Held:
			open[r.Client] = len(all)
			all = append(all, span{who: r.Client, fence: r.Token, begin: r.At})
		case r.Kind == trace.Extended && isOpen:
			all[i].claims = append(all[i].claims, r.At)
		case r.Kind == trace.Released:
			delete(open, r.Client)
		}
	}
	return all
}

func inOrder(records []record) []record {
	return slices.SortedStableFunc(slices.Values(records), trace.ByTime)
}

// twoHolders is for how long two holders of the trace believed at once. A belief is
// known at the moments of the looks, and nothing is claimed of a process that stands
// still: of each two holds it is the shorter of what one's looks show within the
// other's.
func twoHolders(all []span) time.Duration {
	var longest time.Duration
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.who != b.who {
				longest = max(longest, min(within(a, b), within(b, a)))
			}
		}
	}
	return longest
}

func within(a, b span) time.Duration {
	if len(b.claims) == 0 {
		return 0
	}
	inside := slices.DeleteFunc(slices.Clone(a.claims), func(at time.Duration) bool {
		return at < b.claims[0] || at > b.claims[len(b.claims)-1]
	})
	if len(inside) == 0 {
		return 0
	}
	return inside[len(inside)-1] - inside[0] + lookEvery
}

// learned is who first told the holder of its loss, not before from, and when.
func learned(records []record, who string, from time.Duration) (by string, at time.Duration) {
	for _, r := range inOrder(records) {
		if r.Client == who && r.At >= from && r.Kind == trace.Told {
			return r.Text, r.At
		}
	}
	return "", 0
}

// rising tells whether each number is greater than the one before; 0 is none.
func rising(fences []redlock.Token) bool {
	var last redlock.Token
	for _, n := range fences {
		if n <= last {
			return false
		}
		last = n
	}
	return last != 0
}

// judge fills in what follows from the trace. The holder is who had the lock at the
// fault; told is the moment from which it can learn of a loss.
func (o *outcome) judge(records []record, holder string, told time.Duration) {
	all := spans(records)
	o.Two = twoHolders(all)
	for _, s := range all {
		o.Fences = append(o.Fences, s.fence)
	}
	o.Rising = rising(o.Fences)
	if holder == "" {
		return
	}
	by, at := learned(records, holder, told)
	if at != 0 {
		o.Told, o.After = by, at-told
	}
	o.Late = slices.ContainsFunc(all, func(s span) bool {
		return s.who != holder && s.begin > o.zero && (at == 0 || s.begin < at)
	})
}

// breach is whether two had what one must have: where nobody is locked out, a late write
// that was not refused.
func (o *outcome) breach() bool {
	if o.Optimistic {
		return o.Write != "" && o.Write != writeRefused
	}
	return o.Two > 0
}

// String is the outcome in the words of the table.
func (o *outcome) String() string {
	var two, late string
	switch {
	case o.Skipped != "":
		return "not played: " + o.Skipped
	case o.Failed != "":
		return "no result: " + o.Failed
	case o.Optimistic && o.Two > 0:
		two = "two at work"
	case o.Optimistic:
	case o.Scenario == "hand-over":
		return short(o.Next)
	case o.Plain != nil:
		return o.Trip.String() + "; as it comes: " + o.Plain.String()
	case o.Trip != nil:
		return o.Trip.String()
	case o.Two > lookEvery:
		two = "**two holders for " + short(o.Two) + "**"
	case o.Two > 0:
		two = "**two holders** at one look"
	}
	switch {
	case o.Write == writeRefused:
		late = "late write refused"
	case o.Write != "":
		late = "**late write: " + o.Write + "**"
	}
	words := slices.DeleteFunc([]string{two, o.nextWords(), o.toldWords(), late}, func(s string) bool { return s == "" })
	return strings.Join(words, "; ")
}

// trip is how long it took to get a lock, and to give it back; 0 if that did not come about
// within hungBound.
type trip struct{ Taken, Back time.Duration }

func (t trip) String() string {
	if t.Taken == 0 {
		return "nobody held within " + short(hungBound)
	}
	return fmt.Sprintf("held after %s, given back in %s", short(t.Taken), short(t.Back))
}

// nextWords is how long the next one waited: to hold, or for its write to count.
func (o *outcome) nextWords() string {
	nobody, next := "nobody held", "next"
	if o.Optimistic {
		nobody, next = "no write of the next one", "next one's write"
	}
	switch {
	case o.Next == 0:
		return nobody + " within " + short(patience)
	case o.Kept:
		return "kept, then handed on in " + short(o.Next)
	case o.Scenario == "hand-over": // of those whom nobody locks out
		next = "nobody waits: at work again"
	case o.Scenario == "given-up" && o.Optimistic:
		next = "at work"
	case o.Scenario == "given-up":
		next = "free"
	}
	return next + " after " + short(o.Next)
}

func (o *outcome) toldWords() string {
	switch {
	case o.Optimistic || o.Kept && o.Told == "" || o.Scenario == "holder-killed" || o.Scenario == "given-up":
		return ""
	case o.Kept:
		return fmt.Sprintf("in doubt after %s, by %s", short(o.After), o.Told)
	case o.Told == "":
		return "holder not told; asked: " + o.Answer
	case o.Late:
		return fmt.Sprintf("told after %s by %s, when the next one held", short(o.After), o.Told)
	default:
		return fmt.Sprintf("told after %s by %s", short(o.After), o.Told)
	}
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "under 1 ms"
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(10*time.Millisecond).Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// write writes a run into a folder: the table, a page for each scenario, and the outcomes.
func write(dir string, results []*result, scenarios []scenario) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var errs []error
	for i, s := range scenarios {
		var runs []chaos.Run
		for _, r := range results {
			if i < len(r.outcomes) && r.outcomes[i].zero != 0 {
				runs = append(runs, r.outcomes[i].shown(s))
			}
		}
		errs = append(errs, create(dir, s.name+".html", func(w io.Writer) error { return page.Write(w, runs...) }))
	}
	return errors.Join(append(errs,
		os.WriteFile(filepath.Join(dir, "table.md"), []byte(table(results, scenarios, time.Now())), 0o600),
		create(dir, "traces.jsonl", func(w io.Writer) (err error) {
			for _, r := range results {
				err = errors.Join(err, json.NewEncoder(w).Encode(r.outcomes))
			}
			return err
		}))...)
}

func create(dir, name string, fill func(w io.Writer) error) error {
	f, err := os.Create(filepath.Join(dir, name)) //nolint:gosec // the user's own folder
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

func table(results []*result, scenarios []scenario, day time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "One run of `redlock-compare` on %s, %s, %d cores; the lease is %s.\n\n",
		day.Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), short(lease))
	b.WriteString("| contender | servers | versions | number that can fence | who tells of a loss | memory |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		versions, memory := r.versions(), fmt.Sprintf("%d MB", r.servers.memory>>20)
		if r.missing != nil {
			versions, memory = "not played: "+oneLine(r.missing), ""
		}
		row(&b, r.spec.name, r.spec.servers.words, versions, r.fence(), r.spec.notice, memory)
	}
	b.WriteString("\n")
	heads := []string{"contender"}
	for _, s := range scenarios {
		heads = append(heads, s.name)
	}
	row(&b, heads...)
	b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
	for _, r := range results {
		cells := []string{r.spec.name}
		for _, o := range r.outcomes {
			cells = append(cells, o.String())
		}
		if r.missing == nil {
			row(&b, cells...)
		}
	}
	b.WriteString("\n")
	for _, s := range scenarios {
		fmt.Fprintf(&b, "- **%s**: %s. Next counts from: %s.\n", s.name, s.what, s.next)
	}
	return b.String()
}

func row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.NewReplacer("\n", " ", "\x00", " | ", "|", "\\|").Replace(strings.Join(cells, "\x00")))
}

// versions is that of the library with which this program was built, and the servers'.
func (r *result) versions() string {
	if r.spec.module == "" {
		return r.servers.version
	}
	library := "this tree"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == r.spec.module && d.Replace == nil {
				library = strings.TrimPrefix(d.Path, "github.com/") + " " + d.Version
			}
		}
	}
	return library + "; " + r.servers.version
}

// fence is the number, and whether it rose in every trace of the run; where nobody is
// locked out, whether every late write was refused.
func (r *result) fence() string {
	good, bad := "; rose in all", "; not rising in "
	if r.spec.optimistic {
		good, bad = "; refused every late write", "; late write not refused in "
	}
	fenced, broken := false, []string(nil)
	for _, o := range r.outcomes {
		is, ok := len(o.Fences) > 1 && o.Fences[0] != 0, o.Rising
		if r.spec.optimistic {
			is, ok = o.Write != "", o.Write == writeRefused
		}
		fenced = fenced || is
		if is && !ok {
			broken = append(broken, o.Scenario)
		}
	}
	switch {
	case len(broken) > 0:
		return r.spec.fence + bad + strings.Join(broken, ", ")
	case fenced:
		return r.spec.fence + good
	}
	return r.spec.fence
}

// faultAt is where each picture has the fault, or what else its times count from.
const faultAt = 5 * time.Second

// shown is an outcome as chaos draws runs. A belief lasts from look to look of its holder:
// a gap without a break is a busy machine's. The judgement is this package's own, and
// where nobody is locked out two at work share the name.
func (o *outcome) shown(s scenario) chaos.Run {
	run := chaos.Run{About: trace.About{
		Scenario: s.name, Claim: fmt.Sprintf("%s, at %v", s.what, faultAt), Contender: o.Contender, Guarded: true, Backend: string(chaos.Real), Nodes: []string{servers},
	}}
	if !o.Optimistic {
		run.Verdict.Overlap = o.Two
	}
	run.Verdict.LongestWait = o.Next
	if o.breach() {
		v := chaos.Violation{Rule: chaos.TwoHolders, At: faultAt, Text: o.String()}
		if o.Optimistic {
			v.Rule, v.Text = chaos.StaleWrite, o.Write
		}
		run.Verdict.Violations = []chaos.Violation{v}
	}
	d := drawing{run: &run, open: map[string]int{}, hold: map[string]int64{}}
	for _, r := range inOrder(o.Records) {
		r.At += faultAt - o.zero
		r.Shared, r.Resource = o.Optimistic, "the name"
		if s.name == "hung-server" { // each asks for a name of its own
			r.Resource += " of " + r.Client
		}
		d.take(r)
	}
	run.Records = append(run.Records, chaos.Record{At: run.Records[len(run.Records)-1].At, Kind: trace.Noted, Text: o.String()})
	return run
}

type drawing struct {
	run  *chaos.Run
	open map[string]int   // the record of each holder's belief, which goes on
	hold map[string]int64 // its last attempt
}

func (d *drawing) take(r record) {
	v, i := &d.run.Verdict, len(d.run.Records)
	switch {
	case r.Kind == trace.Asked:
		v.Rounds++
		d.hold[r.Client] = int64(v.Rounds)
	case r.Kind == trace.Held || r.Kind == trace.Extended:
		if at, is := d.open[r.Client]; is && r.Kind == trace.Extended {
			d.run.Records[at].Until = r.At
			return
		}
		d.open[r.Client], r.Until = i, r.At
		if r.Kind == trace.Held {
			v.Won++
		}
	case r.Kind == trace.Told:
		r.Text = "by " + r.Text
		delete(d.open, r.Client)
	case r.Kind == trace.Released || r.Kind == trace.Broke && r.Fault.Kind == trace.Suspend:
		delete(d.open, r.Client)
	case r.Kind == ready || r.Kind == answered || r.Kind == returned:
		r.Kind, r.Text = trace.Noted, strings.TrimSpace(string(r.Kind)+" "+r.Text)
	}
	r.Hold = d.hold[r.Client]
	d.run.Records = append(d.run.Records, r)
}
