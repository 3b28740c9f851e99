package election_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/quorum"
)

// at is so many milliseconds from the beginning.
func at(ms int) clock.Instant { return clock.Instant(time.Duration(ms) * time.Millisecond) }

// shows has each of three nodes show a reading: looked at one after another, ten
// milliseconds apart, from then on.
func shows(v *election.View, r election.Reading, ms int) {
	for i := range 3 {
		v.Look(i, r, at(ms+10*i), at(ms+10*i+1))
	}
}

// hints has so many of three nodes pass on a leader's hint.
func hints(v *election.View, nodes int, owner string, token quorum.Token) {
	for i := range nodes {
		v.Hint(i, election.Hint{Owner: owner, Token: token})
	}
}

// A leader is shown with the token that its own hold has, or with none: hints are lost,
// and the one before had another.
func TestALeaderIsShownWithItsOwnTokenOrNone(t *testing.T) {
	owns := func(owner string) election.Reading { return election.Reading{Kind: election.Owned, Owner: owner} }
	led := func(owner string, token quorum.Token) election.Sight {
		return election.Sight{State: election.Led, Owner: owner, Token: token}
	}
	for _, c := range []struct {
		name  string
		first quorum.Token // that A's hold is hinted with; 0: its hints are lost
		next  election.Reading
		hint  quorum.Token // that of B, who holds then, or will
		nodes int          // that pass it on
		want  election.Sight
	}{
		{"the same leader", 10, owns("A"), 0, 0, led("A", 10)},
		{"the same leader, while the next one's hints overtake the looks", 10, owns("A"), 11, 3, led("A", 10)},
		{"the same leader, whose hints were lost", 0, owns("A"), 11, 3, led("A", 0)},
		{"the next leader", 10, owns("B"), 11, 2, led("B", 11)},
		{"the next leader, whose hints were lost", 10, owns("B"), 0, 0, led("B", 0)},
		{"the next leader, whose hints one node passes on", 10, owns("B"), 11, 1, led("B", 0)},
		{"two leaders whose hints were lost", 0, owns("B"), 0, 0, led("B", 0)},
		{"nobody", 10, election.Reading{Kind: election.Free}, 0, 0, election.Sight{State: election.Vacant}},
		{"somebody else's key", 10, election.Reading{Kind: election.Foreign}, 0, 0, election.Sight{State: election.Taken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, o := election.NewView(3), election.NewObserver(at(0))
			hints(v, 3, "A", c.first)
			shows(v, owns("A"), 0)
			shows(v, owns("A"), 100)
			if s, changed := o.Next(v, at(200)); s != led("A", c.first) || !changed {
				t.Fatalf("first it is told %+v, %v; want %+v", s, changed, led("A", c.first))
			}
			hints(v, c.nodes, "B", c.hint)
			shows(v, c.next, 1000)
			shows(v, c.next, 1100)
			s, changed := o.Next(v, at(1200))
			if s != c.want || changed != (c.want != led("A", c.first)) {
				t.Errorf("then it is told %+v, new: %v; want %+v", s, changed, c.want)
			}
		})
	}
}

// What the looks come to is known as of the oldest of them. From then on an observer goes
// by it for two seconds, when no node answers any more.
func TestWhatIsToldIsAsOldAsTheOldestLook(t *testing.T) {
	for name, r := range map[string]election.Reading{
		"free": {Kind: election.Free}, "foreign": {Kind: election.Foreign}, "owned": {Kind: election.Owned, Owner: "A"},
	} {
		t.Run(name, func(t *testing.T) {
			v, o := election.NewView(3), election.NewObserver(at(0))
			shows(v, r, 1000)
			shows(v, r, 2000)
			known := at(2000)
			if r.Kind == election.Owned { // a quorum had it, by looks before and after, when the second node was looked at
				known = at(2010)
			}
			if got := v.Judge(at(3500)).At; got != known {
				t.Errorf("it is known as of %v; want %v", got, known)
			}
			told, _ := o.Next(v, at(3500))
			if s, changed := o.Next(v, known.Add(election.Stale)); s != told || changed {
				t.Errorf("two seconds after the looks it is told %+v, new: %v; want %+v still", s, changed, told)
			}
			if s, _ := o.Next(v, known.Add(election.Stale+15*time.Millisecond)); s.State != election.Unknown {
				t.Errorf("and then it is told %+v; want that nobody can say", s)
			}
		})
	}
}

// FuzzParseHint: no matter what comes on a channel, what is taken for a hint is written as it
// was read.
func FuzzParseHint(f *testing.F) {
	for _, message := range []string{"", "7", "7 ", "7 web-1/x y", "0 o", "9007199254740992 o", "-1 o"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		h, ok := election.ParseHint(message)
		if again, same := election.ParseHint(h.String()); ok && (!same || again != h || h.Token > quorum.MaxToken) || !ok && h != (election.Hint{}) {
			t.Fatalf("ParseHint(%q): got %+v, %t; and %+v of that", message, h, ok, again)
		}
	})
}
