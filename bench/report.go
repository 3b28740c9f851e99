package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// report is what a run found.
type report struct {
	Machine  string    `json:"machine"`
	Sections []section `json:"sections"`
	Gates    []gate    `json:"gates"`
}

// section is one workload's table.
type section struct {
	Workload string     `json:"workload"`
	Title    string     `json:"title"`
	Header   []string   `json:"header"`
	Rows     [][]string `json:"rows"`
	Load     load       `json:"load"`
	Notes    []string   `json:"notes,omitempty"`
}

// relation is how a measured value must stand to the required one.
type relation string

const (
	atMost  relation = "<="
	atLeast relation = ">="
)

// gate is one demand on the figures.
type gate struct {
	Workload string   `json:"workload"`
	What     string   `json:"what"`
	Measured float64  `json:"measured"`
	Relation relation `json:"relation"`
	Required float64  `json:"required"`
	Unit     string   `json:"unit,omitempty"`
	Pass     bool     `json:"pass"`
	Stated   bool     `json:"stated,omitempty"` // told, and fails no run
}

// demand judges one value.
func demand(workload, what string, measured float64, r relation, required float64, unit string) gate {
	pass := measured <= required
	if r == atLeast {
		pass = measured >= required
	}
	return gate{Workload: workload, What: what, Measured: measured, Relation: r, Required: required, Unit: unit, Pass: pass}
}

// stated is a demand that is told and fails no run.
func stated(g gate) gate {
	g.Stated = true
	return g
}

func (g gate) verdict() string {
	switch {
	case g.Pass:
		return "pass"
	case g.Stated:
		return "no (stated, not required)"
	default:
		return "FAIL"
	}
}

// passed tells whether no gate failed.
func (r *report) passed() bool {
	return !slices.ContainsFunc(r.Gates, func(g gate) bool { return !g.Pass && !g.Stated })
}

func (r *report) writeMarkdown(w io.Writer) {
	fmt.Fprintf(w, "%s\n", r.Machine)
	for _, s := range r.Sections {
		fmt.Fprintf(w, "\n## %s: %s\n\n", s.Workload, s.Title)
		writeTable(w, s.Header, s.Rows)
		fmt.Fprintf(w, "\nMeanwhile, %s.\n", s.Load)
		for _, n := range s.Notes {
			fmt.Fprintf(w, "%s\n", n)
		}
	}
	fmt.Fprint(w, "\n## Gates\n\n")
	var rows [][]string
	for _, g := range r.Gates {
		rows = append(rows, []string{
			g.Workload, g.What, number3(g.Measured) + g.Unit,
			string(g.Relation) + " " + number3(g.Required) + g.Unit, g.verdict(),
		})
	}
	writeTable(w, []string{"workload", "what", "measured", "required", ""}, rows)
}

func writeTable(w io.Writer, header []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	line(slices.Repeat([]string{"---"}, len(header)))
	for _, r := range rows {
		line(r)
	}
}

// number3 prints three digits that count.
func number3(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f >= 100 || f <= -100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10 || f <= -10:
		return fmt.Sprintf("%.1f", f)
	case f >= 0.1 || f <= -0.1:
		return fmt.Sprintf("%.2f", f)
	default:
		return fmt.Sprintf("%.2g", f)
	}
}

// percentile returns the value below which a share p of the samples lie. It
// sorts them.
func percentile[T cmp.Ordered](samples []T, p float64) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	slices.Sort(samples)
	return samples[min(int(p*float64(len(samples))), len(samples)-1)]
}

// median returns the middle of the values; the higher of two.
func median[T cmp.Ordered](values []T) T { return percentile(slices.Clone(values), 0.5) }

// micros is a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// over is a ratio of two latencies. Without a sample there is none, and no gate
// may take that for a good one.
func over(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return math.Inf(1)
	}
	return a / b
}
