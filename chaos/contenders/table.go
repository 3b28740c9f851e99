package contenders

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// table is a run as Markdown: what each contender is, and what it showed.
func table(results []*result, scenarios []scenario, day time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "One run of `redlock-compare` on %s, %s, %d cores; the lease is %s.\n\n",
		day.Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), short(lease))
	b.WriteString("| contender | servers | versions | number that can fence | who tells of a loss | memory | start |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		is := r.row()
		row(&b, is.Name, is.Servers, is.Versions, is.Fence, is.Notice, is.Memory, is.Took)
	}
	b.WriteString("\n")
	heads := []string{"contender"}
	for _, s := range scenarios {
		heads = append(heads, s.name)
	}
	row(&b, heads...)
	b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
	for _, r := range results {
		if r.Missing != "" {
			continue
		}
		cells := []string{r.Spec.name}
		for _, o := range r.Outcomes {
			cells = append(cells, o.String())
		}
		row(&b, cells...)
	}
	b.WriteString("\n")
	for _, s := range scenarios {
		fmt.Fprintf(&b, "- **%s**: %s. Next counts from: %s.\n", s.name, s.what, s.next)
	}
	return b.String()
}

// row is what a contender is, in the words of the table and the page.
func (r *result) row() contenderRow {
	is := contenderRow{Name: r.Spec.name, Servers: r.Spec.servers, Notice: r.Spec.notice}
	if r.Missing != "" {
		is.Versions, is.Fence = "not played: "+r.Missing, r.Spec.fence
		return is
	}
	is.Versions, is.Fence, is.Memory, is.Took = r.versions(), r.fence(), fmt.Sprintf("%d MB", r.Memory>>20), short(r.Took)
	return is
}

func row(b *strings.Builder, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.ReplaceAll(c, "\n", " "), "|", "\\|")
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// versions is the library's and the servers'.
func (r *result) versions() string {
	version := moduleVersion(r.Spec.module)
	switch {
	case r.Spec.module == "":
		return r.Version
	case version == "":
		return "this tree; " + r.Version
	default:
		return strings.TrimPrefix(r.Spec.module, "github.com/") + " " + version + "; " + r.Version
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

// fence is the number, and whether it rose in every trace of the run.
func (r *result) fence() string {
	if r.Spec.optimistic {
		return r.Spec.fence + r.writes()
	}
	numbers, broken := 0, []string{}
	for _, o := range r.Outcomes {
		if len(o.Fences) < 2 || o.Fences[0] == "" {
			continue
		}
		numbers++
		if !o.Rising {
			broken = append(broken, o.Scenario)
		}
	}
	switch {
	case numbers == 0:
		return r.Spec.fence
	case len(broken) > 0:
		return r.Spec.fence + "; not rising in " + strings.Join(broken, ", ")
	default:
		return r.Spec.fence + "; rose in all"
	}
}

// writes is whether every late write of the run was refused, where nobody is locked out.
func (r *result) writes() string {
	refused, broken := 0, []string{}
	for _, o := range r.Outcomes {
		switch o.Write {
		case "":
		case writeRefused:
			refused++
		default:
			broken = append(broken, o.Scenario)
		}
	}
	switch {
	case len(broken) > 0:
		return "; late write not refused in " + strings.Join(broken, ", ")
	case refused > 0:
		return "; refused every late write"
	default:
		return ""
	}
}
