package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// paint is an ANSI colour.
type paint string

const (
	plain  paint = ""
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
)

// page collects what a command prints.
type page struct {
	strings.Builder

	colored bool
}

// newPage knows whether colours are wanted: on a terminal, unless NO_COLOR is set
// (https://no-color.org) or the terminal is dumb.
func (a *app) newPage() *page {
	return &page{colored: isTerminal(a.stdout) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"}
}

// isTerminal is a guess that is good enough for colours.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// in returns text in a colour, or as it is.
func (p *page) in(c paint, text string) string {
	if !p.colored || c == plain {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// cell is a field of a table, in a colour.
type cell struct {
	text string
	in   paint
}

// row makes cells without a colour.
func row(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, t := range texts {
		cells[i] = cell{text: t}
	}
	return cells
}

const (
	gap    = 2  // between columns, and before what stands below its row
	narrow = 30 // what a text has at least where it is broken into lines in its column
	label  = 16 // what is longer is a text
)

// table prints rows in columns, within the page's width. The text of the last column is
// broken into lines where it has too little room, or stands below its row; what is too long
// for another column stands on a line above. Only a word that is wider than a page is not
// broken: it may be there to be copied.
func (p *page) table(rows [][]cell) {
	l := layoutOf(rows)
	for _, r := range rows {
		p.row(r, l)
	}
}

// layout is how wide the columns of a table are, and whether the last is below its row.
type layout struct {
	widths []int
	below  bool
}

func layoutOf(rows [][]cell) layout {
	var l layout
	word := 0 // the longest of the last column
	for _, r := range rows {
		for i, c := range r {
			if i == len(l.widths) {
				l.widths = append(l.widths, 0)
			}
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(c.text))
		}
		for _, w := range strings.Fields(r[len(r)-1].text) {
			word = max(word, utf8.RuneCountInString(w))
		}
	}
	last := len(l.widths) - 1
	room := pageWidth - gap*last
	for _, w := range l.widths[:last] {
		room -= w
	}
	switch text := l.widths[last] > label; {
	case l.widths[last] <= room:
		return l
	case text && room >= max(narrow, word):
		l.widths[last] = room
		return l
	case text:
		l.below, l.widths[last], room = true, pageWidth-gap, room+gap
	default:
		room -= l.widths[last]
	}
	if room < 0 && last > 0 { // the widest column has to give way
		widest := slices.Index(l.widths[:last], slices.Max(l.widths[:last]))
		l.widths[widest] = max(l.widths[widest]+room, 0)
	}
	return l
}

// row prints one row.
func (p *page) row(r []cell, l layout) {
	var line strings.Builder
	last := len(r) - 1
	for i, c := range r[:last] {
		n := utf8.RuneCountInString(c.text)
		if n > l.widths[i] {
			p.WriteString(p.in(c.in, c.text) + "\n")
			c, n = cell{}, 0
		}
		line.WriteString(p.in(c.in, c.text) + strings.Repeat(" ", l.widths[i]-n+gap))
	}
	texts, indent := wrap(r[last].text, l.widths[last]), strings.Repeat(" ", gap)
	if !l.below {
		indent = ""
		for _, w := range l.widths[:last] {
			indent += strings.Repeat(" ", w+gap)
		}
		line.WriteString(p.in(r[last].in, texts[0]))
		texts = texts[1:]
	}
	p.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	for _, text := range texts {
		if text != "" {
			p.WriteString(indent + p.in(r[last].in, text) + "\n")
		}
	}
}

// flush writes the page.
func (a *app) flush(p *page) error {
	_, err := io.WriteString(a.stdout, p.String())
	return err
}

// answer prints a value as JSON.
func (a *app) answer(v any) error {
	_, err := io.WriteString(a.stdout, jsonLine(v))
	return err
}

// jsonLine is a value as one line of JSON.
func jsonLine(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("{\"error\":%q}\n", err)
	}
	return string(text) + "\n"
}

func milliseconds(d time.Duration) int64 { return d.Milliseconds() }

// short is a duration for people.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 0:
		return "for ever"
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// oneLine is an error without the line breaks of joined ones.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return worded(strings.ReplaceAll(err.Error(), "\n", "; "))
}
