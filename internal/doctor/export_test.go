package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// WantFound compares all findings of that severity and worse with "error acl 4: nodes acl;
// warning even-nodes": of each the severity, the code, the node, if any, and words that its
// reason or its remedy must have, if any. A wrong one sends the operator elsewhere.
func WantFound(t *testing.T, r Report, least Severity, want string) {
	t.Helper()
	got, wanted := []string{}, []string{}
	for _, f := range r.Findings {
		if strings.HasSuffix(f.What, "does not: ") {
			t.Errorf("%s: got %q; want all of it", f.text(), f.What)
		}
		if f.Severity >= least {
			got = append(got, f.text())
		}
	}
	for w := range strings.SplitSeq(want, "; ") {
		text, words, _ := strings.Cut(w, ": ")
		if text != "" {
			wanted = append(wanted, text)
		}
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.text() == text && strings.Contains(f.Why+f.Remedy, words) }) && words != "" {
			t.Errorf("%s: got no such reason or remedy; want %q", text, words)
		}
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("got  %q\nwant %q: %+v", got, wanted, r.Findings)
	}
}

func (f Finding) text() string {
	return strings.TrimSuffix(fmt.Sprintf("%v %s %d", f.Severity, f.Code, f.Node), " -1")
}
