package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
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

// table prints rows in columns; the last column is as wide as it likes, and is
// left out where it is empty.
func (p *page) table(rows [][]cell) {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			line.WriteString(p.in(c.in, c.text))
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		p.WriteString(strings.TrimRight(line.String(), " "))
		p.WriteByte('\n')
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
