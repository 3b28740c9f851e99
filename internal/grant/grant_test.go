package grant_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
)

func TestParsePush(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]grant.Push{
		"redlock:push\ne1\n41\n123456\nlabel with spaces 00-a\norders\n42": {Epoch: "e1", Token: 41, Reading: 123456, Owner: "label with spaces 00-a", Name: "orders\n42"},
		"redlock:push\ne1\n9007199254740991\n-5\no\nn":                     {Epoch: "e1", Token: quorum.MaxToken, Reading: -5, Owner: "o", Name: "n"},
		"orders/42":                    {},
		"redlock:push":                 {},
		"redlock:push\ne1\n0\n1\no\nn": {},
		"redlock:push\ne1\n9007199254740992\n1\no\nn": {},
		"redlock:push\ne1\nx\n1\no\nn":                {},
		"redlock:push\ne1\n1\nx\no\nn":                {},
		"redlock:push\ne1\n1\n1\no":                   {},
	} {
		got, ok := grant.ParsePush(message)
		if got != want || ok != (want != grant.Push{}) {
			t.Errorf("ParsePush(%q): got %+v, %t; want %+v", message, got, ok, want)
		}
	}
}

func TestAPushGrantsTheAttemptOfItsOwnerUnderItsEpoch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		push grant.Push
		want bool
	}{
		{"of the open attempt", grant.Push{Owner: "o", Epoch: "e"}, true},
		{"by a node that was installed anew", grant.Push{Owner: "o", Epoch: "former"}, false},
		{"of an attempt that was given back", grant.Push{Owner: "former", Epoch: "e"}, false},
	} {
		if got := c.push.Grants("e", "o"); got != c.want {
			t.Errorf("a push %s: got %t; want %t", c.name, got, c.want)
		}
	}
}

// at is an instant.
func at(seconds int) clock.Instant { return clock.Instant(time.Duration(seconds) * time.Second) }

// The searched fault F1: a node granted 7, and a raise or an ask brought it to 9; the push
// comes late. Believed, it makes a quorum of sevens, and another had 8 since.
func TestALatePushDoesNotLowerAToken(t *testing.T) {
	t.Parallel()
	a := grant.NewAttempt(3)
	a.Granted(0, 9, at(2))
	a.Granted(1, 7, at(2))
	a.Granted(0, 7, at(1))
	if step, _, token := a.Next(); step == grant.Hold {
		t.Errorf("holds %d", token)
	}
	a.Granted(1, 9, at(2))
	if step, _, token := a.Next(); step != grant.Hold || token != 9 {
		t.Errorf("got step %v, %d; want it to hold 9", step, token)
	}
	if until, ok := a.LeaseUntil(9); !ok || until != at(2) {
		t.Errorf("got %v until %v; want until 2s: a late push shortens no lease", ok, until)
	}
}

// The searched fault F4: an attempt was given back, its push comes after that. Ignored, it
// leaves a node free that nobody asks.
func TestAPushOfWhatWasGivenBackHasItsNodeAsked(t *testing.T) {
	t.Parallel()
	a := grant.NewAttempt(3)
	if (grant.Push{Owner: "former", Epoch: "e"}).Grants("e", "now") {
		t.Fatal("it counts; want it to say no more than a call")
	}
	a.Hinted |= 1 << 2
	if step, nodes, _ := a.Next(); step != grant.Ask || nodes != 1<<2 {
		t.Errorf("got step %v of %b; want node 3 asked", step, nodes)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	a := grant.NewAttempt(5)
	want := func(what string, step grant.Step, nodes uint64, token quorum.Token) {
		t.Helper()
		s, n, tok := a.Next()
		if s != step || n != nodes || tok != token {
			t.Errorf("%s: got step %v, nodes %b, token %d; want %v, %b, %d", what, s, n, tok, step, nodes, token)
		}
	}
	want("nothing known", grant.Rest, 0, 0)
	a.Ask(1<<5 - 1)
	want("all asked", grant.Wait, 0, 0)
	for i := range 5 {
		a.Answered(i)
		a.Refused(i, quorum.Taken)
	}
	want("all refused", grant.Rest, 0, 0)
	if !a.Granted(1, 7, at(1)) {
		t.Error("the first push was not the first")
	}
	want("a push", grant.Wait, 0, 0)
	a.All = true
	want("2 ms later", grant.Ask, 0b11101, 0)
	a.Ask(0b11101)
	a.Refused(1, quorum.Taken)
	a.Granted(2, 8, at(1))
	for _, i := range []int{0, 3, 4} {
		a.Answered(i)
		a.Refused(i, quorum.Taken)
	}
	want("one ask is out", grant.Wait, 0, 0)
	a.Answered(2)
	want("all answered", grant.Wait, 0, 0)
	late := *a
	late.Late = true
	if step, _, _ := late.Next(); step != grant.GiveBack {
		t.Errorf("5 ms later: got %v; want all given back", step)
	}
	a.Granted(3, 7, at(3))
	want("a quorum of different numbers", grant.Raise, 0, 8)
	a.Granted(0, 7, at(2))
	want("a quorum of equal ones", grant.Hold, 0, 7)
	if until, ok := a.LeaseUntil(7); !ok || until != at(1) {
		t.Errorf("got %v, %t; want the third best", until, ok)
	}
}

func TestEqualTokensAreWaitedForUntilOthersAreAsked(t *testing.T) {
	t.Parallel()
	a := grant.NewAttempt(3)
	a.Granted(0, 7, at(1))
	a.Granted(1, 8, at(1))
	if step, _, _ := a.Next(); step != grant.Wait {
		t.Errorf("got %v; want to wait for the third", step)
	}
	a.All = true
	if step, _, token := a.Next(); step != grant.Raise || token != 8 {
		t.Errorf("got %v to %d; want a raise to 8", step, token)
	}
}

// Who was granted different numbers by the release that put it in line is told of its
// place first: that raises them.
func TestNothingIsRaisedBeforeThePlaceIsKnown(t *testing.T) {
	t.Parallel()
	a := grant.NewAttempt(3)
	a.Ask(0b111)
	want := func(what string, step grant.Step, token quorum.Token) {
		t.Helper()
		if s, _, tok := a.Next(); s != step || tok != token {
			t.Errorf("%s: got step %v to %d; want %v to %d", what, s, tok, step, token)
		}
	}
	for i, token := range []quorum.Token{7, 8} {
		a.Answered(i)
		a.Granted(i, token, at(1))
	}
	a.All, a.Unplaced = true, true
	want("no place is known", grant.Wait, 8)
	a.Unplaced, a.Told = false, 0b011
	want("the place is known, and no node is told of it", grant.Raise, 8)
	a.Ask(a.Told)
	want("two nodes are told of it", grant.Wait, 8)
	a.Answered(0)
	a.Granted(0, 9, at(1))
	want("one of them knows it", grant.Wait, 9)
	a.Answered(1)
	want("both know it, and a counter had moved", grant.Raise, 9)
	a.Granted(1, 9, at(1))
	want("both know it", grant.Hold, 9)
}

func TestPlaceOf(t *testing.T) {
	t.Parallel()
	place := func(more int64) grant.Standing { return grant.StandingOf(more) }
	for _, c := range []struct {
		name  string
		said  []grant.Standing
		place int64
		tell  uint64
		ok    bool
	}{
		{"the same everywhere", []grant.Standing{place(7), place(7), place(7)}, 7, 0, true},
		{"one said another", []grant.Standing{place(7), place(9), place(9)}, 9, 0b001, true},
		{"one has not replied", []grant.Standing{place(7), place(9), {}}, 9, 0b101, true},
		{"one has no place for us", []grant.Standing{place(7), place(0), place(7)}, 7, 0b010, true},
		{"one granted with less", []grant.Standing{place(-5), place(9), place(9)}, 9, 0b001, true},
		{"one granted with no less", []grant.Standing{place(-9), place(9), {}}, 10, 0b111, true},
		{"too few", []grant.Standing{place(7), {}, place(0)}, 0, 0, false},
	} {
		if at, tell, ok := grant.PlaceOf(c.said, quorum.Size(len(c.said))); at != c.place || tell != c.tell || ok != c.ok {
			t.Errorf("%s: got %d, %b, %t; want %d, %b, %t", c.name, at, tell, ok, c.place, c.tell, c.ok)
		}
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	n := 0
	for handed := range uint64(320) {
		if grant.Calls(handed, false) {
			n++
		}
		if !grant.Calls(handed, true) {
			t.Fatal("grants where a foreign value was seen")
		}
	}
	if n != 10 {
		t.Errorf("%d of 320 hand-overs call; want 10", n)
	}
}

// FuzzParsePush: no matter what comes on a channel, it is a push whose token can be one, or a
// call for the name that it is.
func FuzzParsePush(f *testing.F) {
	for _, message := range []string{"", "orders/42", "redlock:push\n", "redlock:push\ne1\n41\n-5\no\norders\n42", "redlock:push\n\n1\n+9223372036854775808\n\n"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		p, ok := grant.ParsePush(message)
		if ok && (p.Token == 0 || p.Token > quorum.MaxToken) || !ok && p != (grant.Push{}) {
			t.Fatalf("ParsePush(%q): got %+v, %t", message, p, ok)
		}
	})
}
