package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Console is where a program reads and writes, and in which form.
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

// Message is what is said on stderr, as --json shows it.
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

// IsTerminal is a guess that is good enough for colours.
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

// JSONLine is a value as one line of JSON.
func JSONLine(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("{\"error\":%q}\n", err)
	}
	return string(text) + "\n"
}
