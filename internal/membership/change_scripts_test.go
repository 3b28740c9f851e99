package membership_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/membership"
)

// The scripts of a change, each with what it refuses, in their order.
func TestTheScriptsOfAChangeRefuseWhatIsNotTheirs(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		ab, abc, next := "a\nb", "a\nb\nc", "90000\n1\na\nb\nc"
		three := membership.Configuration{Names: []string{"a", "b", "c"}, MaxTTL: 90 * time.Second, Strict: true}
		rec := recordOf("e1", "c1", s.read().Run, []string{"a", "b"}, time.Minute, 5)
		s.install(rec)
		for _, step := range []struct {
			what, script string
			args         []any
			want         int64
			change       func(*membership.Record)
		}{
			{"settle under another epoch", "settle", []any{"e0", "e2", 0, 1}, -1, nil},
			{"settle of another generation", "settle", []any{"e1", "e2", 1, 1}, 0, nil},
			{"settle", "settle", []any{"e1", "e2", 0, 4}, 1, func(r *membership.Record) { r.Epoch, r.Settled, r.Ballot = "e2", true, 4 }},
			{"settle with the same ballot", "settle", []any{"e2", "e3", 0, 4}, 0, nil},
			{"settle with a higher one", "settle", []any{"e2", "e3", 0, 6}, 1, func(r *membership.Record) { r.Epoch, r.Ballot = "e3", 6 }},
			{"accept under the earlier epoch", "accept", []any{"e2", 4, 9, next}, -1, nil},
			{"accept with the earlier ballot", "accept", []any{"e3", 4, 9, next}, 0, nil},
			{"accept", "accept", []any{"e3", 6, 9, next}, 1, func(r *membership.Record) {
				r.Base, r.Proposed = 9, membership.Proposed{Ballot: 6, Configuration: three}
			}},
			{"accept again, with a smaller base", "accept", []any{"e3", 6, 7, next}, 1, nil},
			{"in force under another epoch", "force", []any{"e2", "e4", 1, abc, 90000, 1, ab, 60000, 20}, -1, nil},
			{"in force", "force", []any{"e3", "e4", 1, abc, 90000, 1, ab, 60000, 20}, 1, func(r *membership.Record) {
				r.Epoch, r.Gen, r.Configuration, r.Before, r.BeforeMaxTTL, r.Base = "e4", 1, three, []string{"a", "b"}, time.Minute, 20
				r.Settled, r.Ballot, r.Proposed = false, 0, membership.Proposed{}
			}},
			{"the same again", "force", []any{"e4", "e5", 1, ab, 60000, "", ab, 60000, 30}, 0, nil},
			{"two on, with a smaller base", "force", []any{"e4", "e5", 3, ab, 1000, "", abc, 90000, 7}, 1, func(r *membership.Record) {
				r.Epoch, r.Gen, r.Configuration, r.Before, r.BeforeMaxTTL = "e5", 3, membership.Configuration{Names: []string{"a", "b"}, MaxTTL: time.Second}, three.Names, three.MaxTTL
			}},
		} {
			if got := s.run(step.script, step.args...); got != step.want {
				t.Errorf("%s: got %v; want %d", step.what, got, step.want)
			}
			if step.change != nil {
				step.change(&rec)
			}
			got, ok := s.record()
			if got.Since.IsZero() != (rec.Gen == 0) {
				t.Errorf("%s: got a list in force since %v", step.what, got.Since)
			}
			got.Since = time.Time{}
			if !ok || !reflect.DeepEqual(got, rec) {
				t.Errorf("%s: got %+v, %t; want %+v", step.what, got, ok, rec)
			}
		}
		settled := rec
		settled.Settled, settled.Ballot, settled.Proposed = true, 7, membership.Proposed{Ballot: 3, Configuration: three}
		s.install(settled)
		got, ok := s.record()
		if !ok || got.Base != 20 || !reflect.DeepEqual(got, settled) {
			t.Errorf("installed: got %+v, %t; want %+v", got, ok, settled)
		}
	})
}
