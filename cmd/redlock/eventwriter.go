package main

import (
	"io"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/cli"
)

// event is what exec, lead and hold tell. Without --json only the message is shown.
type event struct {
	Event   string    `json:"event"`
	Key     string    `json:"key"`
	Token   uint64    `json:"token,omitempty"` // none: nothing is held
	Keys    []heldKey `json:"keys,omitempty"`  // of several
	Shared  bool      `json:"shared,omitempty"`
	Slot    *int      `json:"slot,omitempty"` // of --limit
	Left    int64     `json:"validity_ms"`
	Status  *int      `json:"status,omitempty"`
	Message string    `json:"message,omitempty"`
}

const (
	// eventQueue is how many messages may wait for a slow reader; more are lost.
	eventQueue = 64
	// eventPatience bounds the wait for a reader at the end.
	eventPatience = time.Second
)

// names takes out the library's name where it stands inside a message.
var names = strings.NewReplacer(": redlock: ", ": ", "\nredlock: ", "\n")

// eventWriter writes messages to stderr from a goroutine of its own: nobody who reads
// slowly, or has stopped to, may keep a command from being killed in time.
type eventWriter struct {
	console *cli.Console
	lines   chan string
	done    chan struct{}
}

func newEventWriter(c *cli.Console) *eventWriter {
	w := &eventWriter{console: c, lines: make(chan string, eventQueue), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for line := range w.lines {
			_, _ = io.WriteString(c.Err, line)
		}
	}()
	return w
}

// tell hands on an event, or drops it.
func (w *eventWriter) tell(e event) {
	line := cli.JSONLine(e)
	if !w.console.JSON {
		if e.Message == "" {
			return
		}
		line = w.line(e.Message)
	}
	w.write(line)
}

// line is a message as it is written to stderr. The library's errors in it begin with
// its name, which is the command's too; that is said once.
func (w *eventWriter) line(message string) string { return w.console.Line(unnamed(message)) }

// unnamed is a message without the library's name.
func unnamed(message string) string {
	return names.Replace(strings.TrimPrefix(message, "redlock: "))
}

// write hands on a line, or drops it.
func (w *eventWriter) write(line string) {
	select {
	case w.lines <- line:
	default:
	}
}

// close waits until all is written, within its patience.
func (w *eventWriter) close() {
	close(w.lines)
	t := newTimer(eventPatience)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
	}
}
