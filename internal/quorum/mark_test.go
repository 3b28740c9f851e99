package quorum_test

import (
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
)

// What the node said to have stays, no matter what becomes of later commands, and so does
// the doubt about one that was never answered.
func TestAMarkForgetsNeitherAGrantNorADoubt(t *testing.T) {
	outcomes := []quorum.Outcome{quorum.Granted, quorum.Taken, quorum.Abstained, quorum.Failed, quorum.Unknown}
	var walk func(m quorum.Mark, granted, doubted bool, path []quorum.Outcome)
	walk = func(m quorum.Mark, granted, doubted bool, path []quorum.Outcome) {
		if granted && m == quorum.Absent {
			t.Errorf("after %v: got absent; want it released: one was granted", path)
		}
		if doubted && !m.Doubtful() {
			t.Errorf("after %v: got no doubt; want one: a command was never answered", path)
		}
		if len(path) == 4 {
			return
		}
		for _, o := range outcomes {
			walk(m.Again().After(o), granted || o == quorum.Granted, doubted || o == quorum.Unknown, append(slices.Clone(path), o))
		}
	}
	walk(quorum.Absent, false, false, nil)
}
