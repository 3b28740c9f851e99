package broken_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumkit/redlock/chaos"
)

// way is one way to break the protocol.
type way struct {
	name  string
	takes string // what it takes away, in a few words
	finds []chaos.Rule
	seed  uint64 // of the first plan in which it shows, for the quick form
	far   bool   // the whole form begins there, too: from the first plan on it takes more than a minute
	// kinds are those of the faults that it takes, where plans that draw from all
	// would take too long to find it. The sound protocol is explored with them too.
	kinds []chaos.Break
	load  load
	// pauses makes the library stand still between its steps, see pauses_test.go. A plan then
	// shows it in some plays.
	pauses bool
	// scenario shows it, where plans are drawn for longer than a minute without.
	scenario string
	// by is the test that convicts it, where plans need not: its package and its name.
	by    string
	edits []edit
}

// edit puts other text in the place of some that a file has exactly once: a Go
// file, by its path from the module's root, or a script.
type edit struct{ file, old, new string }

// scripts is where the scripts are.
const scripts = "internal/lua/"

// script is an edit of the script of this name.
func script(name, from, to string) edit { return edit{scripts + name + ".lua", from, to} }

func (e edit) ofScript() (name string, ok bool) {
	name, ok = strings.CutSuffix(strings.TrimPrefix(e.file, scripts), ".lua")
	return name, ok
}

// broken is the condition under which an edit of Go code is in force.
func (w *way) broken() string { return fmt.Sprintf("brokenBy(%q)", w.name) }

// condition is what the overlay adds to each package that it edits.
func condition(pkg string) string {
	return "package " + pkg + `

import "os"

func brokenBy(way string) bool { return os.Getenv("` + variable + `") == way }
`
}

// scriptEdits is what the overlay adds to the scripts' package. Scripts are changed
// when they are made, so that their hashes are those of what they say.
func scriptEdits(ways []way) string {
	var b strings.Builder
	b.WriteString(`package lua

import "strings"

type luaEdit struct{ way, script, old, new string }

func brokenScript(script, body string) string {
	for _, e := range luaEdits {
		if e.script == script && brokenBy(e.way) {
			body = strings.Replace(body, e.old, e.new, 1)
		}
	}
	return body
}

var luaEdits = []luaEdit{
`)
	for _, w := range ways {
		for _, e := range w.edits {
			if name, ok := e.ofScript(); ok {
				fmt.Fprintf(&b, "\t{%q, %q, %s, %s},\n", w.name, name, strconv.Quote(e.old), strconv.Quote(e.new))
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// apply makes the edits of Go files, all ways at once: their conditions keep them
// apart.
func apply(ways []way, files map[string]string) error {
	for _, w := range ways {
		for _, e := range w.edits {
			text, ok := files[e.file]
			if !ok || strings.Count(text, e.old) != 1 {
				return fmt.Errorf("%s: %s has %d times %q; want 1: mend the edit", w.name, e.file, strings.Count(text, e.old), e.old)
			}
			if _, ok := e.ofScript(); !ok {
				files[e.file] = strings.Replace(text, e.old, strings.ReplaceAll(e.new, "BROKEN", w.broken()), 1)
			}
		}
	}
	return nil
}

// touched are the files that the ways edit.
func touched(ways []way) []string {
	var files []string
	for _, w := range ways {
		for _, e := range w.edits {
			files = append(files, e.file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

func wayNamed(name string) (way, bool) {
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
	if i < 0 {
		return way{}, false
	}
	return ways[i], true
}
