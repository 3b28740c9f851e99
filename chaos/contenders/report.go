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
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// write writes a run into a folder: the table, a page of pictures for each scenario, and
// the outcomes with their traces as JSON lines.
func write(dir string, results []*result, scenarios []scenario) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	errs := []error{
		os.WriteFile(filepath.Join(dir, "table.md"), []byte(table(results, scenarios, time.Now())), 0o600),
		create(dir, "traces.jsonl", func(w io.Writer) (err error) {
			lines := json.NewEncoder(w)
			for _, r := range results {
				for _, o := range r.outcomes {
					err = errors.Join(err, lines.Encode(o))
				}
			}
			return err
		}),
	}
	for i, s := range scenarios {
		var runs []chaos.Run
		for _, r := range results {
			if i < len(r.outcomes) && r.outcomes[i].zero != 0 {
				runs = append(runs, r.outcomes[i].shown(s))
			}
		}
		errs = append(errs, create(dir, s.name+".html", func(w io.Writer) error { return page.Write(w, runs...) }))
	}
	return errors.Join(errs...)
}

func create(dir, name string, fill func(w io.Writer) error) error {
	f, err := os.Create(filepath.Join(dir, name)) //nolint:gosec // the user's own folder
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// table is a run as Markdown: what each contender is, and what it showed.
func table(results []*result, scenarios []scenario, day time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "One run of `redlock-compare` on %s, %s, %d cores; the lease is %s.\n\n",
		day.Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), short(lease))
	b.WriteString("| contender | servers | versions | number that can fence | who tells of a loss | memory | start |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		versions, memory, took := r.versions(), fmt.Sprintf("%d MB", r.servers.memory>>20), short(r.servers.took)
		if r.missing != nil {
			versions, memory, took = "not played: "+oneLine(r.missing), "", ""
		}
		row(&b, r.spec.name, r.spec.servers.words, versions, r.fence(), r.spec.notice, memory, took)
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

// versions is the library's and the servers'.
func (r *result) versions() string {
	version := moduleVersion(r.spec.module)
	switch {
	case r.spec.module == "":
		return r.servers.version
	case version == "":
		return "this tree; " + r.servers.version
	default:
		return strings.TrimPrefix(r.spec.module, "github.com/") + " " + version + "; " + r.servers.version
	}
}

// moduleVersion is the version with which this program was built; empty for one that
// was replaced by a folder.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path == path && d.Replace == nil {
			return d.Version
		}
	}
	return ""
}

// fence is the number, and whether it rose in every trace of the run; where nobody is
// locked out, whether every late write was refused.
func (r *result) fence() string {
	good, bad := "; rose in all", "; not rising in "
	if r.spec.optimistic {
		good, bad = "; refused every late write", "; late write not refused in "
	}
	fenced, broken := 0, []string{}
	for _, o := range r.outcomes {
		is, ok := len(o.Fences) > 1 && o.Fences[0] != "", o.Rising
		if r.spec.optimistic {
			is, ok = o.Write != "", o.Write == writeRefused
		}
		if is {
			fenced++
		}
		if is && !ok {
			broken = append(broken, o.Scenario)
		}
	}
	switch {
	case fenced == 0:
		return r.spec.fence
	case len(broken) > 0:
		return r.spec.fence + bad + strings.Join(broken, ", ")
	default:
		return r.spec.fence + good
	}
}

// faultAt is where each picture has the fault, or what else its times count from.
const faultAt = 5 * time.Second

// breaks is what is broken or mended, as pictures have it. A holder that was killed stays
// suspended.
var breaks = map[string]chaos.Break{
	stopped: chaos.Suspend, continued: chaos.Suspend, killed: chaos.Suspend, cut: chaos.Cut, healed: chaos.Cut,
	down: chaos.Crash, up: chaos.Crash, stepped: chaos.Step,
}

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
	switch {
	case o.breach() && o.Optimistic:
		run.Verdict.Violations = []chaos.Violation{{Rule: chaos.StaleWrite, At: faultAt, Text: o.Write}}
	case o.breach():
		run.Verdict.Violations = []chaos.Violation{{Rule: chaos.TwoHolders, At: faultAt, Text: o.String()}}
	}
	d := drawing{run: &run, holds: map[string]int64{}, open: map[string]int{}, shared: o.Optimistic, apart: s.name == "hung-server"}
	for _, r := range inOrder(o.Records) {
		d.take(r, between(o.zero, r.At)+faultAt)
	}
	d.add(chaos.Record{At: d.last, Kind: trace.Noted, Text: o.String()})
	return run
}

// drawing is a run whose records are being written.
type drawing struct {
	run    *chaos.Run
	holds  map[string]int64 // the last attempt of each holder
	open   map[string]int   // the record of its belief, which goes on
	shared bool
	apart  bool // each asks for a name of its own
	last   time.Duration
}

func (d *drawing) add(r chaos.Record) { d.run.Records = append(d.run.Records, r) }

func (d *drawing) take(r record, at time.Duration) {
	rec := chaos.Record{At: at, Client: r.Who, Hold: d.holds[r.Who], Resource: "the name", Shared: d.shared, Text: r.Text}
	if d.apart {
		rec.Resource += " of " + r.Who
	}
	d.last = at
	switch r.What {
	case asking:
		d.run.Verdict.Rounds++
		d.holds[r.Who] = int64(d.run.Verdict.Rounds)
		rec.Kind, rec.Hold = trace.Asked, d.holds[r.Who]
	case acquired:
		d.run.Verdict.Won++
		d.open[r.Who] = len(d.run.Records)
		token, _ := strconv.ParseUint(r.Fence, 10, 64)
		rec.Kind, rec.Until, rec.Token = trace.Held, at, redlock.Token(token)
	case holds:
		if i, is := d.open[r.Who]; is {
			d.run.Records[i].Until = at
			return
		}
		d.open[r.Who] = len(d.run.Records)
		rec.Kind, rec.Until = trace.Extended, at
	case gaveUp:
		rec.Kind = trace.Quit
	case releasing:
		delete(d.open, r.Who)
		rec.Kind = trace.Released
	case told, ended:
		delete(d.open, r.Who)
		rec.Kind, rec.Text = trace.Told, "by "+r.Text
	case stopped, continued, killed, cut, healed, down, up, stepped:
		if r.What == stopped {
			delete(d.open, r.Who)
		}
		rec.Kind, rec.Fault = trace.Broke, &chaos.Fault{Kind: breaks[r.What], Client: r.Who, Node: chaos.Everything}
		if r.Who == servers {
			rec.Client, rec.Node, rec.Fault = "", servers, &chaos.Fault{Kind: breaks[r.What]}
		}
		if r.Who == servers && rec.Fault.Kind == chaos.Suspend {
			rec.Fault.Kind = chaos.Stall
		}
		if r.What == stepped {
			rec.Fault.Delay = anHour * time.Second
		}
		if r.What == continued || r.What == healed || r.What == up {
			rec.Kind = trace.Mended
		}
		rec.Text = r.What
	default:
		rec.Kind, rec.Text = trace.Noted, strings.TrimSpace(r.What+" "+r.Text)
	}
	d.add(rec)
}
