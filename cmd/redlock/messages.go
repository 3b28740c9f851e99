package main

// All that the command says beside its answers: messages for people, events for programs. Both
// go to stderr. Three rules hold for each of them:
//
//   - No password: addresses and errors may have one, and logs are read by others.
//   - The command's own words: its flags, not the library's options.
//   - No waiting for the reader: a full pipe must not keep a command from being killed.

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unsafe"

	"github.com/quorumkit/redlock/internal/cli"
)

// event is what exec, lead and hold tell. Without --json only the message is shown. Fields
// are promised (docs/COMMAND.md); a test compares that page with what is printed.
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

// heldKey is a key that is held, as --json shows it.
type heldKey struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
}

const (
	// eventQueue is how many messages may wait for a slow reader; more are lost. A command
	// under one lock has a handful of events.
	eventQueue = 64
	// eventPatience bounds the wait for a reader at the end. The lock of exec or lead is
	// released by then, so only the program's own end is late.
	eventPatience = time.Second
)

// names takes out the library's name where it stands inside a message, and Go's word for a signal.
var names = strings.NewReplacer(": redlock: ", ": ", "\nredlock: ", "\n", "context canceled: interrupt", "interrupted", "context canceled: ", "")

// eventWriter writes messages to stderr from a goroutine of its own: a reader that is slow,
// or has stopped reading, must not keep a command from being killed in time.
type eventWriter struct {
	console *cli.Console
	lines   chan string
	done    chan struct{}
}

// newEventWriter starts its goroutine; close ends it. One that is blocked in a write when close
// gives up ends with the program.
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

// write hands on a line, or drops it.
func (w *eventWriter) write(line string) {
	select {
	case w.lines <- line:
	default:
	}
}

// line is a message as it is written to stderr. The library's errors in it begin with
// its name, which is the command's too; that is said once.
func (w *eventWriter) line(message string) string { return w.console.Line(unnamed(message)) }

// unnamed is a message without the library's name.
func unnamed(message string) string {
	return names.Replace(strings.TrimPrefix(message, "redlock: "))
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

// ending is the last event of a command that takes a lock: with --json, every end of exec,
// lead and hold prints a line on stderr with its event, key and status. It gets more fields
// while the command goes on.
type ending struct{ event }

func newEnding() *ending { return &ending{event{Event: "ended"}} }

// of gives the end its key before any lock is held: a reader of many jobs' events finds
// the job, even if the arguments were refused.
func (e *ending) of(keys []string) {
	if e != nil && len(keys) > 0 {
		e.Key = keys[0]
	}
}

// after gives the end the fields of the hold's last event: its token, and the validity that
// was left.
func (e *ending) after(last event) {
	if e != nil {
		e.event = last
	}
}

// password finds the user information of a URL: all up to the last @ before the
// next comma or blank. A password may hold an @, and, against the rules, a slash.
var password = regexp.MustCompile(`(://)[^,\s]*@`)

// redact takes user names and passwords out of a message. It does not parse URLs: the message
// may quote one that does not parse, and that is when it is wanted most.
func redact(s string) string { return password.ReplaceAllString(s, "${1}***@") }

// takeArguments returns a copy of the arguments, and blots out in the original
// any text that may be a password. On Unix the original is the memory that ps shows; a
// password given there is seen for the milliseconds before this runs, and stays in
// the shell's history: hence the advice to use --nodes-file.
func takeArguments(args []string) []string {
	taken := make([]string, len(args))
	for i, s := range args {
		taken[i] = strings.Clone(s)
		// All between the first and the last, so that no odd password is left over.
		if from, to := strings.Index(s, "://"), strings.LastIndex(s, "@"); from >= 0 && to > from {
			blot(args[i], from+len("://"), to)
		}
	}
	return taken
}

// blot overwrites a part of an argument in place. Go has no call for it: os.Args share the
// memory that the kernel gave the process, and strings are otherwise never written.
func blot(s string, from, to int) {
	memory := unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // G103: argv is writable memory of this process, and nobody else has read it yet
	for i := from; i < to; i++ {
		memory[i] = '*'
	}
}

// flagsOf are the flags for the options that the library's messages name. An option that is
// not here has no flag, and keeps its name.
var flagsOf = map[string]string{ //nolint:gosec // G101: names of flags, no password
	"WithCluster":        "--cluster",
	"WithCredentials":    "--user and --password-file",
	"WithHolder":         "--holder",
	"WithLimit":          "--limit",
	"WithMaxHold":        "--max-hold",
	"WithMaxTTL":         "--max-ttl",
	"WithNodeNames":      "--node-names",
	"WithNodeTimeout":    "--node-timeout",
	"WithPrefix":         "--prefix",
	"WithRevocation":     "--revocable",
	"WithShared":         "--shared",
	"WithStrictRecovery": "--strict-recovery",
	"WithTLS":            "--cacert",
	"WithTTL":            "--ttl",
	"WithValue":          "--value",
	"WithWait":           "--wait",
}

var (
	option = regexp.MustCompile(`\bWith[A-Z][A-Za-z]*\b`)
	// method has its command behind it.
	method = regexp.MustCompile(`\b(Cluster\.[A-Z][A-Za-z]*) \((redlock [^)]+)\)`)
	// both are messages that name the flag as well: a plain replacement would say it twice.
	both = strings.NewReplacer(
		"WithNodeNames, or --node-names", "--node-names",
		"WithTLS, or the client's TLSConfig", "WithTLS",
		"WithTLS with Certificates", "--cert and --key",
		"EndStragglers (--yes)", "--yes",
	)
)

// worded is a message of the library as the command says it: with the command's flags in
// the place of options, since a user of the command can set no option, and without passwords.
func worded(message string) string {
	return inFlags(message, func(flag, _ string) string { return flag })
}

// advice is worded for the doctor, whose reader may configure programs as well: it names
// the flag and the option.
func advice(message string) string {
	return inFlags(message, func(flag, option string) string { return flag + " (" + option + ")" })
}

// inFlags puts flags in the place of options, and commands in that of methods. One without
// keeps its name: a reader can still look it up.
func inFlags(message string, named func(flag, option string) string) string {
	message = method.ReplaceAllStringFunc(message, func(of string) string {
		m := method.FindStringSubmatch(of)
		return named(m[2], m[1])
	})
	return redact(option.ReplaceAllStringFunc(both.Replace(message), func(name string) string {
		if f := flagsOf[name]; f != "" {
			return named(f, name)
		}
		return name
	}))
}

// oneLine is an error without the line breaks of joined ones: for a table, or a JSON field
// that a log shows in one line.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return worded(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
