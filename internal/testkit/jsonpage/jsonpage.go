// Package jsonpage compares what a command prints as JSON with the page that has its fields,
// in a table under a heading for each shape.
package jsonpage

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	heading = regexp.MustCompile(`(?m)^### (.*)$`)
	row     = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\|")
	field   = regexp.MustCompile("`([a-z0-9_.\\[\\]]+)`")
)

// Page is the fields under each heading below "JSON", and whether each may be left out.
type Page map[string]map[string]bool

// Read reads the headings of a file that are wanted.
func Read(t *testing.T, file string, wanted func(heading string) bool) Page {
	t.Helper()
	page, err := os.ReadFile(file) //nolint:gosec // G304: a page of this tree
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## JSON\n")
	shapes := Page{}
	at := heading.FindAllStringSubmatchIndex(text, -1)
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
		for _, r := range row.FindAllStringSubmatch(section, -1) {
			for _, f := range field.FindAllStringSubmatch(r[1], -1) {
				fields[f[1]] = strings.HasSuffix(r[2], "?")
			}
		}
		if name := text[m[2]:m[3]]; wanted(name) {
			shapes[name] = fields
		}
	}
	return shapes
}

// WantTypes checks that the page has the fields of these types, all of them and no other,
// and says which may be left out.
func (p Page) WantTypes(t *testing.T, shapes map[string]any) {
	t.Helper()
	if got, want := slices.Sorted(maps.Keys(p)), slices.Sorted(maps.Keys(shapes)); !slices.Equal(got, want) {
		t.Fatalf("the page has %q; the command prints %q", got, want)
	}
	for name, shape := range shapes {
		printed := map[string]bool{}
		fieldsOf(reflect.TypeOf(shape), "", printed)
		for field, optional := range printed {
			if said, there := p[name][field]; !there || said != optional {
				t.Errorf("%s: %s, which may be left out: %v: the page has it: %v, as such: %v", name, field, optional, there, said)
			}
		}
		for field := range p[name] {
			if _, there := printed[field]; !there {
				t.Errorf("%s: the page has %s, which nothing prints", name, field)
			}
		}
	}
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

// WantLines holds lines of output against the page: no field that it lacks, and each that
// is always there.
func (p Page) WantLines(t *testing.T, shape, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%s: got %q; want JSON", shape, line)
			continue
		}
		fields := p[shape]
		if _, isMessage := v["message"]; isMessage && len(v) == 1 {
			fields = p["Messages"]
		}
		printed := map[string]bool{}
		pathsOf(v, "", printed)
		for path := range printed {
			if _, there := fields[path]; !there {
				t.Errorf("%s: the page lacks %s, in %s", shape, path, line)
			}
		}
		for path, optional := range fields {
			if !optional && !strings.Contains(path, "[]") && !printed[path] {
				t.Errorf("%s: got %s; want %s in it", shape, line, path)
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
