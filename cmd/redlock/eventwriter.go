package main

import (
	"io"
	"time"
)

// event is what exec and hold tell. Without --json only the message is shown.
type event struct {
	Event   string `json:"event"`
	Key     string `json:"key"`
	Token   uint64 `json:"token"`
	Left    int64  `json:"validity_ms"`
	Status  *int   `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
}

const (
	// eventQueue is how many messages may wait for a slow reader; more are lost.
	eventQueue = 64
	// eventPatience bounds the wait for a reader at the end.
	eventPatience = time.Second
)

// eventWriter writes messages to stderr from a goroutine of its own: nobody who reads
// slowly, or has stopped to, may keep a command from being killed in time.
type eventWriter struct {
	app   *app
	lines chan string
	done  chan struct{}
}

func (a *app) newEventWriter() *eventWriter {
	h := &eventWriter{app: a, lines: make(chan string, eventQueue), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for line := range h.lines {
			_, _ = io.WriteString(a.stderr, line)
		}
	}()
	return h
}

// tell hands on an event, or drops it.
func (h *eventWriter) tell(e event) {
	line := jsonLine(e)
	if !h.app.connection.json {
		if e.Message == "" {
			return
		}
		line = h.app.line(e.Message)
	}
	h.write(line)
}

// write hands on a line, or drops it.
func (h *eventWriter) write(line string) {
	select {
	case h.lines <- line:
	default:
	}
}

// close waits until all is written, within its patience.
func (h *eventWriter) close() {
	close(h.lines)
	t := newTimer(eventPatience)
	defer t.Stop()
	select {
	case <-h.done:
	case <-t.C:
	}
}
