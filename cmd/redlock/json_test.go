package main_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	main "github.com/quorumkit/redlock/cmd/redlock"
)

var (
	shapeHeading = regexp.MustCompile(`(?m)^### (.*)$`)
	shapeRow     = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\|")
	shapeField   = regexp.MustCompile("`([a-z0-9_.\\[\\]]+)`")
)

// pagesShapes are the fields of each heading of docs/COMMAND.md below "JSON", and whether
// each may be left out.
func pagesShapes(t *testing.T) map[string]map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/COMMAND.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "\n## JSON\n")
	shapes := map[string]map[string]bool{}
	at := shapeHeading.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		section := text[m[1]:end]
		if i := strings.Index(section, "| field |"); i >= 0 {
			section = section[i:]
		}
		fields := map[string]bool{}
		for _, row := range shapeRow.FindAllStringSubmatch(section, -1) {
			for _, f := range shapeField.FindAllStringSubmatch(row[1], -1) {
				fields[f[1]] = strings.HasSuffix(row[2], "?")
			}
		}
		shapes[text[m[2]:m[3]]] = fields
	}
	return shapes
}

// fieldsOf are those of a type, as JSON has them, and whether each is left out where empty.
func fieldsOf(in reflect.Type, prefix string, into map[string]bool) {
	for in.Kind() == reflect.Slice || in.Kind() == reflect.Pointer {
		if in.Kind() == reflect.Slice && prefix != "" {
			prefix = strings.TrimSuffix(prefix, ".") + "[]."
		}
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return
	}
	for i := range in.NumField() {
		f := in.Field(i)
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		into[prefix+name] = strings.Contains(opts, "omitempty")
		fieldsOf(f.Type, prefix+name+".", into)
	}
}

// The page has the fields that are printed, all of them and no other, and says which may be
// left out.
func TestThePageHasTheFieldsOfTheJSON(t *testing.T) {
	t.Parallel()
	page, shapes := pagesShapes(t), main.Shapes()
	if got, want := slices.Sorted(maps.Keys(page)), slices.Sorted(maps.Keys(shapes)); !slices.Equal(got, want) {
		t.Fatalf("docs/COMMAND.md has %q; the command prints %q", got, want)
	}
	for name, shape := range shapes {
		printed := map[string]bool{}
		fieldsOf(reflect.TypeOf(shape), "", printed)
		for field, optional := range printed {
			if said, there := page[name][field]; !there || said != optional {
				t.Errorf("%s: %s, which may be left out: %v: docs/COMMAND.md has it: %v, as such: %v", name, field, optional, there, said)
			}
		}
		for field := range page[name] {
			if _, there := printed[field]; !there {
				t.Errorf("%s: docs/COMMAND.md has %s, which nothing prints", name, field)
			}
		}
	}
}

// pathsOf are the fields of a value.
func pathsOf(v any, prefix string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			path := strings.TrimPrefix(prefix+"."+name, ".")
			into[path] = true
			pathsOf(inner, path, into)
		}
	case []any:
		for _, inner := range v {
			pathsOf(inner, prefix+"[]", into)
		}
	}
}

// wantShape holds lines of output against the page: no field that it lacks, and each that
// is always there.
func wantShape(t *testing.T, page map[string]map[string]bool, shape, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%s: got %q; want JSON", shape, line)
			continue
		}
		fields := page[shape]
		if _, isMessage := v["message"]; isMessage && len(v) == 1 {
			fields = page["Messages"]
		}
		printed := map[string]bool{}
		pathsOf(v, "", printed)
		for path := range printed {
			if _, there := fields[path]; !there {
				t.Errorf("%s: docs/COMMAND.md lacks %s, in %s", shape, path, line)
			}
		}
		for path, optional := range fields {
			if !optional && !strings.Contains(path, "[]") && !printed[path] {
				t.Errorf("%s: got %s; want %s in it", shape, line, path)
			}
		}
	}
}

func TestTheJSONIsAsThePageSays(t *testing.T) {
	t.Parallel()
	page := pagesShapes(t)
	_, nodes := masters(t, 3)
	for key, opts := range map[string][]redlock.AcquireOption{
		"alone": {redlock.WithRevocation()}, "shared": {redlock.WithShared()}, "slots": {redlock.WithLimit(3), redlock.WithRevocation()},
	} {
		_, err := open(t, nodes, redlock.WithTTL(20*time.Second)).Acquire(t.Context(), key, opts...)
		must(t, err)
	}
	for _, c := range []struct{ args, shape string }{
		{"status alone shared slots never", "status"},
		{"nodes", "nodes, and nodes join, admit, retire and lower"},
		{"doctor", "doctor"},
		{"revoke never", "revoke"},
		{"release shared --force --yes", "release"},
		{"release slots --force --yes", "release"},
		{"bench --duration 50ms", "bench"},
		{"lab", "lab, without arguments"},
		{"lab gc-pause --contender redlock", "lab SCENARIO, lab render and lab explore"},
		{"version", "version"},
		{"exec --also b a true", "Events of exec, lead and hold"},
		{"exec --limit 2 c true", "Events of exec, lead and hold"},
		{"hold --shared --max-hold 100ms d", "Events of exec, lead and hold"},
		{"lead e true", "Events of exec, lead and hold"},
	} {
		r := run(t, nodes, append([]string{"--json", "--node-timeout", "1s"}, strings.Fields(c.args)...)...)
		if r.out+r.errs == "" {
			t.Errorf("%s: got nothing; want JSON", c.args)
		}
		wantShape(t, page, c.shape, r.out)
		wantShape(t, page, c.shape, r.errs)
	}
	p := start(t, prepare(t, nodes, "--json", "--node-timeout", "1s", "observe", "alone"))
	eventually(t, "the leader", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	wantShape(t, page, "observe", p.stdout())
}

// Every end of exec, lead and hold is told by a last line with event, key and status,
// however early it comes.
func TestEveryEndIsAnEventWithJSON(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes).Acquire(t.Context(), "busy")
	must(t, err)
	for _, c := range []struct {
		args string
		code int
		key  string
	}{
		{"exec k true", 0, "k"},
		{"exec k false", 1, "k"},
		{"exec -n busy true", 75, "busy"},
		{"exec --skip-if-busy busy true", 0, "busy"},
		{"exec k no-such-command-here", 127, "k"},
		{"exec --ttl -1s k true", 64, "k"},
		{"exec", 64, ""},
		{"exec --no-such-flag k true", 64, ""},
		{"exec --max-hold 300ms --kill-after 100ms k sleep 9", 123, "k"},
		{"exec --hold-at-least 100ms k true", 0, "k"},
		{"exec --nodes 127.0.0.1:1 -n k true", 69, "k"},
		{"lead k true", 0, "k"},
		{"lead --wait 1s busy true", 75, "busy"},
		{"hold --max-hold 100ms k", 123, "k"},
		{"hold -n -E 9 busy", 9, "busy"},
		{"hold", 64, ""},
	} {
		r := run(t, nodes, append([]string{"--json", "--node-timeout", "1s"}, strings.Fields(c.args)...)...)
		lines := strings.Split(strings.TrimSpace(r.errs), "\n")
		var last struct {
			Event, Key string
			Status     *int
		}
		decode(t, lines[len(lines)-1], &last)
		if last.Event != "ended" || last.Key != c.key || last.Status == nil || *last.Status != c.code || r.code != c.code {
			t.Errorf("%s: got exit status %d and %s; want ended, %q and %d at the end", c.args, r.code, r.errs, c.key, c.code)
		}
		if n := strings.Count(r.errs, `"event":"ended"`); n != 1 {
			t.Errorf("%s: got %d ends; want one\n%s", c.args, n, r.errs)
		}
	}
	p := start(t, prepare(t, nodes, "hold", "--json", "--node-timeout", "1s", "k"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0, `{"event":"ended","key":"k","token":`, `"status":0`)
}
