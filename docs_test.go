package redlock_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
)

func TestEveryExportedFunctionHasAnExampleWithOutput(t *testing.T) {
	shown := map[string]bool{}
	for _, e := range doc.Examples(sources(t, "*_test.go")...) {
		if e.Output == "" {
			t.Errorf("Example%s: got no output; want one, so that it runs", e.Name)
		}
		shown[e.Name] = true
	}
	seen := 0
	for _, f := range sources(t, "*.go") {
		for _, name := range exportedFunctions(f) {
			seen++
			if !hasExample(shown, name) {
				t.Errorf("got no Example%s; want one for every exported function and method", name)
			}
		}
	}
	if seen < 30 {
		t.Errorf("got %d exported functions; the search for them is broken", seen)
	}
}

// sources parses files: the tests, or all the rest.
func sources(t *testing.T, pattern string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != strings.HasSuffix(pattern, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		must(t, err)
		files = append(files, f)
	}
	return files
}

// exportedFunctions are the names that their examples have, after "Example".
func exportedFunctions(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			typ, ok := of.(*ast.Ident)
			if !ok || !typ.IsExported() {
				continue
			}
			name = typ.Name + "_" + name
		}
		names = append(names, name)
	}
	return names
}

// hasExample knows the suffixes: ExampleNew_invalid is one of New.
func hasExample(shown map[string]bool, name string) bool {
	for s := range shown {
		rest, ok := strings.CutPrefix(s, name)
		if ok && (rest == "" || regexp.MustCompile(`^_[a-z]`).MatchString(rest)) {
			return true
		}
	}
	return false
}

// unshown are the exported functions and types that no Example has to show, and why.
var unshown = map[string]string{
	"chaos.NewReal":     "starts server processes, which a machine may lack; OpenStage is shown",
	"chaos.NewVirtual":  "for a bubble, which an Example is not in; OpenStage is shown",
	"chaos.Violation":   "an element of Verdict.Violations, whose package is internal",
	"chaos.Waiter":      "a Contender with one more method",
	"redlocktest.Start": "takes a testing.TB; the package comment shows it",
}

// A function is shown by an Example with its name, or that calls it; a type also by what is
// shown that has it in its signature or among its fields.
func TestExamplesShowEveryExportedFunctionAndType(t *testing.T) {
	for dir, others := range map[string][]string{".": nil, "fencing": {"fencing/guardtest"}, "adapters": {"adapters/adaptertest"}, "redlocktest": nil, "redlockotel": nil, "chaos": {"examples/yourcode"}} {
		shown, wanted, reaches := map[string]bool{}, map[string]bool{}, map[string][]ast.Node{}
		for _, from := range append(others, dir) {
			for _, e := range doc.Examples(sources(t, from+"/*_test.go")...) {
				for name := range strings.SplitSeq(e.Name, "_") {
					shown[name] = true
				}
				ast.Inspect(e.Code, used(shown))
			}
		}
		for _, f := range sources(t, dir+"/*.go") {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					wanted[d.Name.Name] = wanted[d.Name.Name] || d.Recv == nil && d.Name.IsExported()
					reaches[d.Name.Name] = append(reaches[d.Name.Name], d.Type)
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if s, ok := s.(*ast.TypeSpec); ok {
							wanted[s.Name.Name] = s.Name.IsExported()
							reaches[s.Name.Name] = append(reaches[s.Name.Name], s.Type)
						}
					}
				}
			}
		}
		for grown := -1; grown < len(shown); {
			grown = len(shown)
			for name, nodes := range reaches {
				for _, n := range nodes {
					if shown[name] {
						ast.Inspect(n, used(shown))
					}
				}
			}
		}
		for name, want := range wanted {
			if key := filepath.Base(dir) + "." + name; want && !shown[name] && unshown[key] == "" {
				t.Errorf("no Example shows %s", key)
			}
		}
	}
}

// used notes every name that a node has.
func used(names map[string]bool) func(ast.Node) bool {
	return func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	}
}

func TestLinksPointToWhatThereIs(t *testing.T) {
	testkit.Unraced(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	checked := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			checked++
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, path)), anchor) {
				t.Errorf("%s links to %s: got headings %q", page, m[1], anchors(read(t, path)))
			}
		}
	}
	if checked < 10 {
		t.Errorf("got %d links within the project; the search for them is broken", checked)
	}
}

// What a merge could not settle does not belong on a page.
func TestNoPageHasAMergeLeftOpen(t *testing.T) {
	mark := regexp.MustCompile(`(?m)^(<{7} .*|={7}|>{7} .*)$`)
	for _, page := range pages(t) {
		if left := mark.FindString(read(t, page)); left != "" {
			t.Errorf("%s has the line %q", page, left)
		}
	}
}

// anchors are the headings of a page, as a forge makes them into links.
func anchors(text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		a := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		found = append(found, regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(a, ""))
	}
	return found
}

// pages are the project's documents.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.Concat(glob(t, "*.md"), glob(t, "docs/*.md"), glob(t, "docs/evidence/*.md"), glob(t, "docs/evidence/adr/*.md"))
}

// Who looks for something finds the file in CONTRIBUTING.md, families by pattern.
func TestTheMapNamesEveryFileOfThePackage(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "CONTRIBUTING.md"), "## Where does X live")
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, pattern := range regexp.MustCompile(`[\w*/]+\.go\b`).FindAllString(section, -1) {
		files := glob(t, pattern)
		if len(files) == 0 {
			t.Errorf("CONTRIBUTING.md's map names %s: got no such file", pattern)
		}
		for _, f := range files {
			named[f] = true
		}
	}
	for _, f := range glob(t, "*.go") {
		if !strings.HasSuffix(f, "_test.go") && !named[f] {
			t.Errorf("got %s, which CONTRIBUTING.md's map does not name; want every file in it", f)
		}
	}
}

// The map's line of a package is what the package says of itself, so neither can go
// stale without the other.
func TestTheMapSaysOfAPackageWhatThePackageSays(t *testing.T) {
	said := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([\\w/-]+)` \\| (.*) \\|$").FindAllStringSubmatch(read(t, "CONTRIBUTING.md"), -1) {
		said[m[1]] = m[2]
	}
	for dir, want := range synopses(t) {
		if got := said[dir]; got != want {
			t.Errorf("CONTRIBUTING.md's map says of %s %q; want the beginning of its doc comment:\n| `%[1]s` | %[3]s |", dir, got, want)
		}
		delete(said, dir)
	}
	for dir := range said {
		t.Errorf("CONTRIBUTING.md's map names the package %s: got none there", dir)
	}
}

// synopses are the first sentences of all packages below the root, by folder, as the
// map has them: up to a colon or a semicolon.
func synopses(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == ".":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		found[dir] += nameless.ReplaceAllString(new(doc.Package).Synopsis(f.Doc.Text()), "")
		return nil
	})
	must(t, err)
	return found
}

// nameless matches what a line of the map is without: a package's name at the
// beginning, what a colon or a semicolon begins, the full stop, and the brackets of links.
var nameless = regexp.MustCompile(`^((Package|Command) )?[\w-]+ |[:;] .*$|\.$|[\[\]]`)

// smoke are the tests of the quick tier that start servers.
var smoke = map[string]bool{"bench_test.go": true, "replay_test.go": true}

// What a document calls a test must be one: the name of a claim is its proof. And a test
// that starts servers has them by testserver, which leaves it to the full tier.
func TestTheTestsThatDocumentsNameExist(t *testing.T) {
	tests := map[string]bool{}
	starts, starters := regexp.MustCompile(`redisserver\.Need(All)?\(`), 0
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			text := read(t, path)
			for _, m := range decl.FindAllStringSubmatch(text, -1) {
				tests[m[1]] = true
			}
			if starts.MatchString(text) {
				starters++
			}
			if starts.MatchString(text) && !smoke[path] && !strings.HasPrefix(path, "bench"+string(filepath.Separator)) && !strings.HasPrefix(path, filepath.Join("chaos", "contenders")) {
				t.Errorf("%s starts servers in the quick tier: use testserver.Need", path)
			}
		}
		return nil
	})
	must(t, err)
	if starters == 0 {
		t.Error("no test starts servers by itself: mend the pattern")
	}
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(read(t, page), -1) {
			if !tests[name] {
				t.Errorf("%s names %s: got no such test", page, name)
			}
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// A program that was built in the tree, and added by accident, stays in its history.
func TestNoFileOfTheTreeIsLarge(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("not a checkout, or no git: %v", err)
	}
	files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("got %d files; want the tree's", len(files))
	}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && info.Size() > most {
			t.Errorf("%s: got %d bytes; want %d at most", name, info.Size(), most)
		}
	}
}

// A row of the table of faults without a test is a claim without its proof.
// (That the test exists is TestTheTestsThatDocumentsNameExist's.)
func TestEveryFaultOfTheTableNamesItsTest(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "docs/SAFETY.md"), "| fault | redlock |")
	if !found {
		t.Fatal("docs/SAFETY.md has no table of faults")
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	rows := strings.Split(rest, "\n")[2:]
	if len(rows) < 12 {
		t.Errorf("got %d rows; the search for them is broken", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 5 || !strings.Contains(cells[4], "`Test") {
			t.Errorf("got the row %q; want five cells, of which the last names a test", row)
		}
	}
}

// The same holds for each table of docs/BESIDE.md that says what redlock does: of the same
// faults with other libraries, and of the known attacks.
func TestEveryComparisonNamesItsTest(t *testing.T) {
	page := read(t, "docs/BESIDE.md")
	for heading, want := range map[string]struct{ cells, rows int }{
		"| what happens | redlock | Redisson | Curator | redlock4j | shown by |": {cells: 6, rows: 15},
		"| attack or answer | here | test |":                                     {cells: 3, rows: 9},
	} {
		_, rest, found := strings.Cut(page, heading+"\n")
		rest, _, _ = strings.Cut(rest, "\n\n")
		rows := strings.Split(strings.TrimSpace(rest), "\n")[1:]
		if !found || len(rows) < want.rows {
			t.Errorf("docs/BESIDE.md: got %d rows under %q; the search for them is broken", len(rows), heading)
		}
		for _, row := range rows {
			cells := strings.Split(strings.Trim(row, "| "), " | ")
			if len(cells) != want.cells || !strings.Contains(cells[len(cells)-1], "`Test") {
				t.Errorf("got the row %q; want %d cells, of which the last names a test", row, want.cells)
			}
		}
	}
}

// The page of promises is read by people in a hurry: what is promised, what that
// leans on and where it ends come first, and the whole is short.
func TestTheSafetyPageBeginsWithWhatItPromises(t *testing.T) {
	page := read(t, "docs/SAFETY.md")
	if n := len(strings.Fields(page)); n > 5000 {
		t.Errorf("docs/SAFETY.md: got %d words; want 5,000 at most", n)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1) {
		got = append(got, m[1])
	}
	want := []string{"Promises", "Assumptions", "Limits", "Faults, side by side"}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("docs/SAFETY.md: got the headings %q; want them to begin with %q", got, want)
	}
}

// Each promise has an argument, which links to the tests behind it, or names them.
func TestEveryPromiseHasAnArgumentAndTests(t *testing.T) {
	page := read(t, "docs/SAFETY.md")
	_, promises, _ := strings.Cut(page, "## Promises")
	promises, _, _ = strings.Cut(promises, "## Assumptions")
	rows := regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(#([\w-]+)\)`).FindAllStringSubmatch(promises, -1)
	if len(rows) < 7 {
		t.Errorf("got %d promises; the search for them is broken", len(rows))
	}
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n### ")[1:] {
		heading, text, _ := strings.Cut(s, "\n")
		sections[anchors("### " + heading)[0]] = text
	}
	for _, row := range rows {
		if !regexp.MustCompile(`\]\(evidence/TESTS\.md#|` + "`Test").MatchString(sections[row[1]]) {
			t.Errorf("docs/SAFETY.md: the section of %q names no tests", row[1])
		}
	}
}

// So does an item of what a primitive promises. What it does not promise has none.
func TestEveryPromiseOfAPrimitiveNamesItsTest(t *testing.T) {
	_, part, _ := strings.Cut(read(t, "docs/SAFETY.md"), "\n## Primitives\n")
	part, _, _ = strings.Cut(part, "\n## ")
	items := 0
	for _, section := range strings.Split(part, "\n### ")[1:] {
		promises, not, found := strings.Cut(section, "\n**Not promised:**")
		heading, _, _ := strings.Cut(section, "\n")
		if !found || strings.TrimSpace(not) == "" {
			t.Errorf("docs/SAFETY.md: the section %q does not say what is not promised", heading)
		}
		for _, line := range strings.Split(promises, "\n") {
			if !strings.HasPrefix(line, "- ") {
				continue
			}
			items++
			if !strings.Contains(line, "`Test") {
				t.Errorf("docs/SAFETY.md, %s: got the item %q; want it to name a test", heading, line)
			}
		}
	}
	if items < 25 {
		t.Errorf("got %d items; the search for them is broken", items)
	}
}

// The same holds for the page that says which test shows what. Its long parts are counted each
// by itself: a part whose rows are not seen has none that could fail.
func TestEveryClaimOfThePageOfTestsNamesOne(t *testing.T) {
	least := map[string]int{
		"Guarantees":                             20,
		"Faults":                                 30,
		"Waiting in order: the rules inside":     15,
		"The other primitives: the rules inside": 6,
	}
	for _, part := range strings.Split(read(t, "docs/evidence/TESTS.md"), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		shown, rows := false, 0
		for _, line := range strings.Split(text, "\n") {
			switch {
			case !strings.HasPrefix(line, "|"):
				shown = false
			case strings.HasSuffix(line, "| shown by |"):
				shown = true
			case shown && !strings.HasPrefix(line, "|-"):
				rows++
				cells := strings.Split(strings.Trim(line, "| "), " | ")
				if last := cells[len(cells)-1]; !strings.Contains(last, "`Test") && !strings.Contains(last, "the control *") {
					t.Errorf("docs/evidence/TESTS.md, %s: got the row %q; want its last cell to name a test", heading, line)
				}
			}
		}
		if rows < least[heading] {
			t.Errorf("docs/evidence/TESTS.md, %s: got %d rows; the search for them is broken", heading, rows)
		}
		delete(least, heading)
	}
	for heading := range least {
		t.Errorf("docs/evidence/TESTS.md has no part %q", heading)
	}
}
