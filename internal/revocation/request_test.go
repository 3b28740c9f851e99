package revocation_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/revocation"
)

// FuzzParse: what is taken for a message is one that this library writes.
func FuzzParse(f *testing.F) {
	for _, message := range []string{"", "revoke", "revoke ", "revoke o", " revoke o", "revoke revoke o"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		if owner, ok := revocation.Parse(message); ok && (owner == "" || revocation.Message(owner) != message) {
			t.Fatalf("Parse(%q): got %q", message, owner)
		}
	})
}

// Two readings in a row that each show somebody who can't be asked end a request, also
// where it is another one in the second; others between them begin that anew.
func TestTwoReadingsOfWhoCantBeAskedEndARequest(t *testing.T) {
	t.Parallel()
	showing := func(owner string) []revocation.Reading {
		r := revocation.Reading{Answered: true}
		if owner != "" {
			r.Owners = []string{owner}
		}
		return []revocation.Reading{r, r, {}}
	}
	foreign := []revocation.Reading{{Answered: true, Foreign: true}, {Answered: true, Foreign: true}, {}}
	for _, c := range []struct {
		name     string
		readings [][]revocation.Reading
		want     revocation.Action
	}{
		{"the same twice", [][]revocation.Reading{showing(names[3]), showing(names[3])}, revocation.NotRevocable},
		{"one after the other", [][]revocation.Reading{showing(names[3]), showing(names[4])}, revocation.NotRevocable},
		{"another program after one", [][]revocation.Reading{showing(names[3]), foreign}, revocation.NotRevocable},
		{"one after another program", [][]revocation.Reading{foreign, showing(names[3])}, revocation.NotRevocable},
		{"once", [][]revocation.Reading{showing(names[3])}, revocation.LookAgain},
		{"nothing between", [][]revocation.Reading{showing(names[3]), {{Answered: true}, {Answered: true}, {Answered: true}}, showing(names[4])}, revocation.LookAgain},
		{"silence between", [][]revocation.Reading{showing(names[3]), {{}, {}, {}}, showing(names[4])}, revocation.LookAgain},
		{"one who can be asked in the second", [][]revocation.Reading{showing(names[3]), showing(names[1])}, revocation.Ask},
	} {
		var r revocation.Request
		var step revocation.Step
		for _, nodes := range c.readings {
			step = r.Next(nodes)
		}
		if step.Do != c.want {
			t.Errorf("%s: got action %d; want %d", c.name, step.Do, c.want)
		}
	}
}
