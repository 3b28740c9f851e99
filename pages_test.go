package redlock_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/redlocktest"
)

// The pages for users, whose code and commands are run: here, over real servers in
// readme_test.go and of cmd/redlock, and in cheatsheet_test.go.

// runOverServers are the beginnings of the Go blocks that readme_test.go runs over real
// servers.
var runOverServers = map[string]string{
	"README.md":               "package main",
	"docs/WHICH.md":           "locker, err := redlock.Open(",
	"docs/GETTING-STARTED.md": "locker, err := redlock.Open(",
}

// blocks are the fenced blocks of a page in this language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	var found []string
	for _, b := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
		found = append(found, b[1])
	}
	return found
}

// unindented is the text without what its lines begin with.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}

// What is a step to type exists. That it does what the page says is for the tests of
// cmd/redlock and of examples/quickstart.
func TestTheCommandsOfThePagesExist(t *testing.T) {
	var commands []string
	for _, block := range append(blocks(t, "README.md", "sh")[:1], blocks(t, "docs/GETTING-STARTED.md", "sh")...) {
		commands = append(commands, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	if want := []string{"go run ./examples/quickstart", "go test ./..."}; len(commands) < 2 || !slices.Equal(commands[:2], want) {
		t.Fatalf("got commands %q; want them to begin with %q", commands, want)
	}
	for _, page := range pages(t) {
		for _, inline := range regexp.MustCompile("`((?:[A-Z_]+=[^` ]+ )*(?:make|go run|go test|docker compose) [^`]*)`").FindAllStringSubmatch(read(t, page), -1) {
			commands = append(commands, inline[1])
		}
	}
	for _, block := range blocks(t, "CONTRIBUTING.md", "sh") {
		commands = append(commands, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	for _, c := range commands {
		if err := exists(t, c); err != nil {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// exists tells what a command of a page lacks. A command of a new kind must
// be taught to it.
func exists(t *testing.T, command string) error {
	t.Helper()
	command, _, _ = strings.Cut(command, " #")
	words := strings.Fields(command)
	for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
		words = words[1:]
	}
	if words[0] == "redlock" { // installed
		words = append([]string{"go", "run", "./cmd/redlock"}, words[1:]...)
	}
	switch {
	case len(words) == 3 && slices.Equal(words[:2], []string{"go", "run"}):
		if words[2] == "." {
			return nil // of a directory that the sentence names
		}
		_, err := os.Stat(filepath.Join(words[2], "main.go"))
		return err
	case len(words) > 3 && slices.Equal(words[:2], []string{"go", "run"}) && strings.HasPrefix(words[2], "./cmd/"):
		if words[3] == "play" && len(words) > 4 {
			if _, ok := chaos.FindScenario(words[4]); !ok {
				return fmt.Errorf("there is no scenario %s", words[4])
			}
		}
		for _, name := range glob(t, words[2]+"/*.go") {
			if strings.Contains(read(t, name), `Name: "`+words[3]+`"`) {
				return nil
			}
		}
		return fmt.Errorf("%s has no command %s", words[2], words[3])
	case len(words) == 2 && words[0] == "export":
		return nil
	case len(words) > 2 && slices.Equal(words[:2], []string{"go", "test"}):
		return tested(t, words[2:])
	case len(words) > 1 && words[0] == "make":
		for _, target := range words[1:] {
			if !strings.Contains(target, "=") && !regexp.MustCompile(`(?m)^`+target+`:`).MatchString(read(t, "Makefile")) {
				return fmt.Errorf("Makefile has no target %s", target)
			}
		}
		return nil
	case len(words) > 2 && slices.Equal(words[:2], []string{"docker", "compose"}):
		_, err := os.Stat("docker-compose.yml")
		return err
	default:
		return errors.New("this test does not know how to check it")
	}
}

// tested tells what a `go test` of a page lacks: its package, or the test that it names.
func tested(t *testing.T, args []string) error {
	t.Helper()
	dir, of := "*", args[len(args)-1]
	if strings.HasPrefix(of, "./") && of != "./..." && of != "./the/package" {
		dir = of
		if len(glob(t, dir+"/*_test.go")) == 0 {
			return fmt.Errorf("%s has no tests", dir)
		}
	}
	i := slices.Index(args, "-run")
	if i < 0 {
		return nil
	}
	name := strings.Trim(args[i+1], "'^$")
	for _, pattern := range []string{dir, "*/*", "*/*/*"} {
		for _, file := range glob(t, pattern+"/*_test.go") {
			if strings.Contains(read(t, file), "func "+name) {
				return nil
			}
		}
	}
	return fmt.Errorf("there is no test %s", name)
}

// The package comment has every exported type, and nothing that is not there.
func TestThePackageCommentNamesEveryType(t *testing.T) {
	types, names := exportedNames(t)
	text := read(t, "doc.go")
	for _, name := range types {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
			t.Errorf("doc.go does not name %s; want every exported type in it", name)
		}
	}
	for _, m := range regexp.MustCompile(`\[([A-Z]\w*(?:\.[A-Z]\w*)?)\]`).FindAllStringSubmatch(text, -1) {
		if !names[m[1]] {
			t.Errorf("doc.go names %s: got no such name", m[1])
		}
	}
	if len(types) < 20 {
		t.Errorf("got %d types; the search for them is broken", len(types))
	}
}

// exportedNames are the package's exported types, and all its exported names: those of
// methods with their types before them, and by themselves, as a list goes on.
func exportedNames(t *testing.T) (types []string, names map[string]bool) {
	t.Helper()
	names = map[string]bool{}
	for _, f := range sources(t, "*.go") {
		for _, name := range exportedFunctions(f) {
			typ, method, _ := strings.Cut(name, "_")
			names[typ], names[method], names[typ+"."+method] = true, true, true
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						types = append(types, s.Name.Name)
						names[s.Name.Name] = true
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	return types, names
}

// The index of docs/ has every page.
func TestTheIndexNamesEveryPage(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range glob(t, "docs/*.md") {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// The decisions are few and short, and their list says of each number where it stands.
func TestTheDecisionsAreFewAndShort(t *testing.T) {
	index := read(t, "docs/evidence/adr/README.md")
	decisions := glob(t, "docs/evidence/adr/0*.md")
	if n := len(decisions); n < 5 || n > 10 {
		t.Errorf("got %d decisions; want 10 at most, and the search for them to find some", n)
	}
	for _, page := range decisions {
		if n := len(strings.Fields(read(t, page))); n > 400 {
			t.Errorf("%s: got %d words; want 400 at most", page, n)
		}
		if name := filepath.Base(page); !strings.Contains(index, "| ["+name[:4]+"]("+name+") |") {
			t.Errorf("docs/evidence/adr/README.md does not list %s", name)
		}
	}
	numbers := regexp.MustCompile(`(?m)^\| \[?(\d{4})\b`).FindAllStringSubmatch(index, -1)
	slices.SortFunc(numbers, func(x, y []string) int { return strings.Compare(x[1], y[1]) })
	for i, n := range numbers {
		if want := fmt.Sprintf("%04d", i+1); n[1] != want {
			t.Fatalf("docs/evidence/adr/README.md has the number %s; want %s next, each number once", n[1], want)
		}
	}
}

// The sheet's numbers are the package's.
func TestTheCheatSheetsNumbersAreThePackages(t *testing.T) {
	text := read(t, "docs/CHEATSHEET.md")
	for name, number := range map[string]string{
		"WithTTL":          fmt.Sprintf("%.0f s", redlock.DefaultTTL.Seconds()),
		"WithMaxTTL":       fmt.Sprintf("%.0f s", redlock.DefaultMaxTTL.Seconds()),
		"WithNodeTimeout":  fmt.Sprintf("%d ms", redlock.DefaultNodeTimeout.Milliseconds()),
		"names in one set": strconv.Itoa(redlock.MaxSet), "slots of one name": strconv.Itoa(redlock.MaxLimit),
		"what it may be trusted for, from the sending": trustedFor(t),
		"a name's length": fmt.Sprintf("%d,%03d bytes", redlock.MaxResourceLength/1000, redlock.MaxResourceLength%1000),
	} {
		if !regexp.MustCompile(`(?m)^\|.*` + name + `.* \| ` + number + ` \|$`).MatchString(text) {
			t.Errorf("docs/CHEATSHEET.md: got no row of %s with %s", name, number)
		}
	}
}

// trustedFor is the validity of a lock of the defaults at its sending: in a bubble nothing
// takes time.
func trustedFor(t *testing.T) string {
	t.Helper()
	var validity time.Duration
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
		must(t, err)
		lock, err := locker.Acquire(t.Context(), "k")
		must(t, err)
		validity = lock.Remaining()
		must(t, lock.Release(t.Context()))
		must(t, locker.Close())
	})
	return fmt.Sprintf("%.3f s", validity.Seconds())
}

// What an option does without being given stands in its comment, with the number.
func TestTheCommentsOfOptionsSayTheDefaults(t *testing.T) {
	comments := commentsOf(t, "With")
	for name, defaults := range map[string]map[string]any{
		"WithTTL":          {"DefaultTTL": redlock.DefaultTTL},
		"WithMaxTTL":       {"DefaultMaxTTL": redlock.DefaultMaxTTL},
		"WithNodeTimeout":  {"DefaultNodeTimeout": redlock.DefaultNodeTimeout},
		"WithCloseTimeout": {"DefaultCloseTimeout": redlock.DefaultCloseTimeout},
		"WithDriftFactor":  {"DefaultDriftFactor": redlock.DefaultDriftFactor},
		"WithTurns":        {"DefaultTurns": redlock.DefaultTurns},
		"WithRetry":        {"DefaultRetryMin": redlock.DefaultRetryMin, "DefaultRetryMax": redlock.DefaultRetryMax},
	} {
		for constant, value := range defaults {
			if want := fmt.Sprintf("%s, %v", constant, value); !strings.Contains(strings.Join(strings.Fields(comments[name]), " "), want) {
				t.Errorf("%s: got the comment %q; want %q in it", name, comments[name], want)
			}
		}
	}
}

// `go doc` is where options and errors are looked up: each has its comment there.
func TestEachOptionAndErrorIsExplained(t *testing.T) {
	for prefix, begins := range map[string]string{"With": " ", "Err": ": "} {
		comments := commentsOf(t, prefix)
		for name, comment := range comments {
			if !strings.HasPrefix(comment, name+begins) {
				t.Errorf("%s: got the comment %q; want one that begins with the name", name, comment)
			}
		}
		if len(comments) < 15 {
			t.Errorf("got %d names with %s; the search for them is broken", len(comments), prefix)
		}
	}
}

// commentsOf are the comments of the exported functions and variables that begin so.
func commentsOf(t *testing.T, prefix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range sources(t, "*.go") {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && strings.HasPrefix(d.Name.Name, prefix) {
					found[d.Name.Name] = d.Doc.Text()
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, s := range d.Specs {
					for _, n := range s.(*ast.ValueSpec).Names {
						if strings.HasPrefix(n.Name, prefix) {
							found[n.Name] = s.(*ast.ValueSpec).Doc.Text()
						}
					}
				}
			}
		}
	}
	return found
}

// block is a fenced block of a page.
type block struct{ page, language, text string }

// fencedBlocks are those of all pages.
func fencedBlocks(t *testing.T) []block {
	t.Helper()
	var found []block
	for _, page := range pages(t) {
		text := read(t, page)
		for _, b := range regexp.MustCompile("(?ms)^[ \t]*```([^\n]*)\n(.*?)^[ \t]*```$").FindAllStringSubmatch(text, -1) {
			found = append(found, block{page, b[1], b[2]})
		}
		here := 0
		for _, b := range found {
			if b.page == page {
				here++
			}
		}
		if n := strings.Count(text, "```"); n != 2*here {
			t.Errorf("%s: got %d blocks of %d fences; the search for them is broken", page, here, n)
		}
	}
	return found
}

// codeOfPages says in whose tests a page's code in Go is. Of the other pages it is in the
// root's examples. Those files compile, and what they have is run: the linter finds a
// function that no test calls.
var codeOfPages = map[string][]string{
	"docs/CHAOS.md":           {"examples/yourcode/*_test.go", "chaos/example_plan_test.go"},
	"docs/FENCING.md":         {"fencing/*_test.go", "fencing/guardtest/*_test.go"},
	"docs/GETTING-STARTED.md": {"example*_test.go", "adapters/adaptertest/*_test.go"},
	"docs/MIGRATION.md":       {"bench/migration/*_test.go", "adapters/adaptertest/*_test.go"},
	"docs/OBSERVING.md":       {"redlockotel/*_test.go"},
}

// drawn are the beginnings of the blocks that nobody could run, and what they are.
var drawn = map[string]string{
	"docs/ARCHITECTURE.md redlock, the root":      "a picture of the packages",
	"docs/evidence/ARCHITECTURE.md MultiLock.mu ": "the order of the mutexes",
	"README.md 1.78s  worker 1 holds":             "what the quickstart prints: its test compares them",
	"docs/FENCING.md holder 41 ":                  "a picture of two holders",
	"docs/HOW.md locker.Acquire(ctx, ":            "a picture of an acquisition",
	"docs/OPERATIONS.md ACL SETUSER redlock on":   "rights: TestTheRightsThatThePageListsAreEnough gives them to a server",
}

// Each fenced block of each page is run by a test. Go is text of a test's file. Commands
// are run by TestEveryCommandOfThePagesRuns of cmd/redlock, which has a list of its own
// and fails for a block that is not in it. What is neither is drawn.
func TestEveryBlockOfThePagesIsRun(t *testing.T) {
	code := map[string]string{}
	elsewhere, pictures, seen := maps.Clone(runOverServers), maps.Clone(drawn), map[string]int{}
	for _, b := range fencedBlocks(t) {
		seen[b.language]++
		switch b.language {
		case "go":
			if begin := elsewhere[b.page]; begin != "" && strings.HasPrefix(b.text, begin) {
				delete(elsewhere, b.page)
				continue
			}
			if code[b.page] == "" {
				code[b.page] = sourceOf(t, b.page)
			}
			if !isOf(code[b.page], b.text) {
				t.Errorf("%s has code that is not of its tests:\n%s", b.page, b.text)
			}
		case "sh", "ini", "crontab":
		case "sql": // by fencing/guardtest, which has a list of its own too
		case "":
			if !takeDrawn(pictures, b) {
				t.Errorf("%s has a block without a language, which no test runs; say why none does:\n%s", b.page, b.text)
			}
		default:
			t.Errorf("%s has a block of %q, which no test runs:\n%s", b.page, b.language, b.text)
		}
	}
	if len(elsewhere) > 0 || len(pictures) > 0 {
		t.Errorf("no page has %q or %q any more", elsewhere, slices.Sorted(maps.Keys(pictures)))
	}
	if seen["go"] < 25 || seen["sh"] < 15 {
		t.Errorf("got blocks %v; the search for them is broken", seen)
	}
}

// takeDrawn takes a block's entry away, if there is one.
func takeDrawn(pictures map[string]string, b block) bool {
	for begin := range pictures {
		if strings.HasPrefix(b.page+" "+strings.TrimSpace(b.text), begin) {
			delete(pictures, begin)
			return true
		}
	}
	return false
}

// sourceOf is the code that a page's may be of: the examples, as the programs that they
// are, or the files of tests.
func sourceOf(t *testing.T, page string) string {
	t.Helper()
	var all strings.Builder
	patterns, elsewhere := codeOfPages[page]
	if !elsewhere {
		patterns = []string{"example*_test.go"}
	}
	for _, pattern := range patterns {
		for _, name := range glob(t, pattern) {
			text := strings.Replace(read(t, name), "package redlock_test", "package main", 1)
			text = regexp.MustCompile(`func Example\w*\(\)`).ReplaceAllString(text, "func main()")
			all.WriteString("\x00" + regexp.MustCompile(`(?m)^\t// Output:.*\n(\t//.*\n)*`).ReplaceAllString(text, "") + "\x00")
		}
	}
	return all.String()
}

// isOf tells whether code has the block: as a whole file if it is a program, else as its
// lines, but for how they are indented. A page may leave out what is done about an error.
func isOf(code, block string) bool {
	if strings.HasPrefix(block, "package main") {
		return strings.Contains(code, "\x00"+block+"\x00")
	}
	looks := regexp.MustCompile(`(?m)^if err != nil \{\n(return .*|log\.Fatal\(err\))\n\}\n`)
	short := func(text string) string { return looks.ReplaceAllString(unindented(text), "") }
	return strings.Contains(unindented(code), unindented(block)) || strings.Contains(short(code), short(block))
}
