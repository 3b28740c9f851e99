package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// Console is where a program reads and writes, and in which form. Commands take it as a value
// and not from package os, so that a test can give them files and an environment of its own.
type Console struct {
	Name         string // the program's
	In, Out, Err *os.File
	Getenv       func(string) string
	JSON         bool // one value a line
}

// NewConsole is that of this process.
func NewConsole(name string) *Console {
	return &Console{Name: name, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
}

// Message is a message on stderr, as --json shows it.
type Message struct {
	Message string `json:"message"`
}

// Line is a message as it is written to stderr.
func (c *Console) Line(message string) string {
	if c.JSON {
		return JSONLine(Message{message})
	}
	return c.Name + ": " + message + "\n"
}

// NewPage knows whether colours are wanted: on a terminal, unless NO_COLOR is set
// (https://no-color.org) or the terminal is dumb.
func (c *Console) NewPage() *Page {
	return &Page{colored: IsTerminal(c.Out) && c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb"}
}

// IsTerminal is a guess that is good enough for colours: /dev/null is a character device too.
// Nothing is decided by it that a user would miss.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Flush writes the page.
func (c *Console) Flush(p *Page) error {
	_, err := io.WriteString(c.Out, p.String())
	return err
}

// Answer prints a value as JSON.
func (c *Console) Answer(v any) error {
	_, err := io.WriteString(c.Out, JSONLine(v))
	return err
}

// JSONLine is a value as one line of JSON: a reader can take a stream apart at the line ends. A
// value that can't be shown is told as an object as well, so that no line breaks a parser.
func JSONLine(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("{\"error\":%q}\n", err)
	}
	return string(text) + "\n"
}

// Paint is an ANSI colour.
type Paint string

// The colours, and none.
const (
	Plain  Paint = ""
	Red    Paint = "31"
	Green  Paint = "32"
	Yellow Paint = "33"
)

// Page collects what a command prints, to be written by one call (Console.Flush): a command
// that fails in the middle leaves no half of a table.
type Page struct {
	strings.Builder

	colored bool
}

// In returns text in a colour, or as it is.
func (p *Page) In(c Paint, text string) string {
	if !p.colored || c == Plain {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Clear makes room: what follows takes the place of what the terminal shows. Without colours,
// as in a file, it does nothing, and looks follow each other.
func (p *Page) Clear() {
	if p.colored {
		p.WriteString("\x1b[H\x1b[2J")
	}
}

// Printf adds to the page.
func (p *Page) Printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Cell is a field of a table, in a colour.
type Cell struct {
	Text string
	In   Paint
}

// Row makes cells without a colour.
func Row(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, t := range texts {
		cells[i] = Cell{Text: t}
	}
	return cells
}

const (
	gap    = 2  // between columns, and before a text below its row
	narrow = 30 // the least width of a text that is broken into lines in its column
	label  = 16 // a longer cell is a text
)

// Table prints rows in columns, within the page's width. The text of the last column is
// broken into lines where it has too little room, or stands below its row. A cell that is too
// long for another column stands on a line above. Only a word that is wider than a page is not
// broken: it may be there to be copied.
func (p *Page) Table(rows [][]Cell) {
	l := layoutOf(rows)
	for _, r := range rows {
		p.row(r, l)
	}
}

// layout is how wide the columns of a table are, and whether the last is below its row. It is
// the same for all rows: a column must not jump.
type layout struct {
	widths []int
	below  bool
}

func layoutOf(rows [][]Cell) layout {
	var l layout
	word := 0 // the longest of the last column
	for _, r := range rows {
		for i, c := range r {
			if i == len(l.widths) {
				l.widths = append(l.widths, 0)
			}
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(c.Text))
		}
		for _, w := range strings.Fields(r[len(r)-1].Text) {
			word = max(word, utf8.RuneCountInString(w))
		}
	}
	last := len(l.widths) - 1
	room := PageWidth - gap*last
	for _, w := range l.widths[:last] {
		room -= w
	}
	switch text := l.widths[last] > label; {
	case l.widths[last] <= room:
		return l
	// A text may be broken. Names and numbers are not: they are there to be compared.
	case text && room >= max(narrow, word):
		l.widths[last] = room
		return l
	case text:
		l.below, l.widths[last], room = true, PageWidth-gap, room+gap
	default:
		room -= l.widths[last]
	}
	// A page of 80 columns is for terminals and mails. Names of nodes may be longer than that.
	if room < 0 && last > 0 { // the widest column has to give way
		widest := slices.Index(l.widths[:last], slices.Max(l.widths[:last]))
		l.widths[widest] = max(l.widths[widest]+room, 0)
	}
	return l
}

// row prints one row.
func (p *Page) row(r []Cell, l layout) {
	var line strings.Builder
	last := len(r) - 1
	for i, c := range r[:last] {
		n := utf8.RuneCountInString(c.Text)
		if n > l.widths[i] {
			p.WriteString(p.In(c.In, c.Text) + "\n")
			c, n = Cell{}, 0
		}
		line.WriteString(p.In(c.In, c.Text) + strings.Repeat(" ", l.widths[i]-n+gap))
	}
	// Counted in runes, not bytes: a key may be in any script.
	texts, indent := Wrap(r[last].Text, l.widths[last]), strings.Repeat(" ", gap)
	if !l.below {
		indent = ""
		for _, w := range l.widths[:last] {
			indent += strings.Repeat(" ", w+gap)
		}
		line.WriteString(p.In(r[last].In, texts[0]))
		texts = texts[1:]
	}
	p.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	for _, text := range texts {
		if text != "" {
			p.WriteString(indent + p.In(r[last].In, text) + "\n")
		}
	}
}

// The exit statuses that all commands use. Usage is 64 and not package flag's 2: for a
// monitoring plug-in, as redlock doctor is, 2 means "critical".
const (
	ExitOK        = 0
	ExitFailure   = 1
	ExitUsage     = 64  // EX_USAGE of sysexits.h
	ExitCannotRun = 126 // of POSIX shells, env(1) and timeout(1)
	ExitNotFound  = 127 // the same
	ExitSignal    = 128 // plus the signal's number, as shells have it in $?
)

// StatusError is an error that knows its exit status. Without a cause nothing is said: what
// happened was told before, or by somebody else. Only main ends the process, so that
// every deferred call runs: a lock is released, a terminal restored.
type StatusError struct {
	Code  int
	Cause error
}

// Error is the cause in words.
func (e *StatusError) Error() string {
	if e.Cause == nil {
		return ""
	}
	return e.Cause.Error()
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Cause }

// Quietly ends the command with a status, without a word.
func Quietly(code int) error {
	if code == ExitOK {
		return nil
	}
	return &StatusError{Code: code}
}

// Usagef is the error of arguments that are wrong.
func Usagef(format string, args ...any) error {
	return &StatusError{ExitUsage, fmt.Errorf(format, args...)}
}
