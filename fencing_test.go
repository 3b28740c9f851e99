package redlock_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock"
)

// grants reads votes from a string, a letter a node: a digit is a grant of this
// token, other letters as in ballots.
func grants(text string) []redlock.Ballot {
	var votes []redlock.Ballot
	for _, c := range text {
		if c >= '0' && c <= '9' {
			votes = append(votes, redlock.BallotOf(redlock.Granted, redlock.Token(c-'0')))
			continue
		}
		votes = append(votes, ballots(string(c))...)
	}
	return votes
}

var rulingNames = map[redlock.Ruling]string{
	redlock.Unsettled: "unsettled", redlock.Settled: "settled", redlock.Waiting: "waiting", redlock.Uneven: "uneven",
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		votes string
		want  redlock.Ruling
		token redlock.Token
	}{
		{"1", redlock.Settled, 1},
		{"p", redlock.Unsettled, 0},
		{"7t", redlock.Unsettled, 0},
		{"77", redlock.Settled, 7},
		{"78", redlock.Uneven, 8},
		{"77p", redlock.Settled, 7}, // the straggler does not matter
		{"779", redlock.Settled, 7}, // not the largest grant: the one that a quorum gave
		{"78p", redlock.Waiting, 8}, // the straggler may say 7 or 8
		{"78u", redlock.Uneven, 8},
		{"7pp", redlock.Unsettled, 0},
		{"789", redlock.Uneven, 9},
		{"7799", redlock.Uneven, 9}, // half is no quorum
		{"7779", redlock.Settled, 7},
		{"778p", redlock.Waiting, 8},
		{"789p", redlock.Uneven, 9}, // one more makes two of four
		{"778pp", redlock.Waiting, 8},
		{"789pp", redlock.Waiting, 9},
		{"789pu", redlock.Uneven, 9},
		{"77t8p", redlock.Waiting, 8},
		{"77ttt", redlock.Unsettled, 0},
	} {
		if got, token := redlock.Settle(grants(c.votes)); got != c.want || token != c.token {
			t.Errorf("%s: got %s %d; want %s %d", c.votes, rulingNames[got], token, rulingNames[c.want], c.token)
		}
	}
}

// settledBy tries every majority of nodes: is there one that gave the same value?
func settledBy(votes []redlock.Ballot) (token redlock.Token, ok bool) {
	for set := range 1 << len(votes) {
		if 2*ones(set) <= len(votes) {
			continue
		}
		same, first := true, -1
		for i, v := range votes {
			if set&(1<<i) == 0 {
				continue
			}
			if first < 0 {
				first = i
			}
			same = same && v.Outcome() == redlock.Granted && v.Token() == votes[first].Token()
		}
		if same {
			return votes[first].Token(), true
		}
	}
	return 0, false
}

// settleInTheEnd is settle, by trying: majorities, and every value that the
// pending nodes could all give.
func settleInTheEnd(votes []redlock.Ballot) (redlock.Ruling, redlock.Token) {
	granted, largest := 0, redlock.Token(0)
	for _, v := range votes {
		if v.Outcome() == redlock.Granted {
			granted, largest = granted+1, max(largest, v.Token())
		}
	}
	if token, ok := settledBy(votes); ok {
		return redlock.Settled, token
	}
	if 2*granted <= len(votes) {
		return redlock.Unsettled, 0
	}
	for _, hope := range votes {
		end := append([]redlock.Ballot(nil), votes...)
		for i, v := range end {
			if v.Outcome() == redlock.Pending && hope.Outcome() == redlock.Granted {
				end[i] = hope
			}
		}
		if _, ok := settledBy(end); ok {
			return redlock.Waiting, largest
		}
	}
	return redlock.Uneven, largest
}

// eachGrants calls f with every list of n votes with tokens 1 to 3.
func eachGrants(n int, f func([]redlock.Ballot)) {
	letters := "123ptu"
	text := make([]byte, n)
	var fill func(i int)
	fill = func(i int) {
		if i == n {
			f(grants(string(text)))
			return
		}
		for _, c := range []byte(letters) {
			text[i] = c
			fill(i + 1)
		}
	}
	fill(0)
}

func TestSettleIsWhatAMajorityGaveOrCanGive(t *testing.T) {
	for n := 1; n <= 4; n++ {
		eachGrants(n, func(votes []redlock.Ballot) { checkSettle(t, votes) })
	}
	rnd := rand.New(rand.NewPCG(2, 0))
	for range 5_000 {
		checkSettle(t, anyGrants(rnd))
	}
}

// anyGrants is mostly grants, of few values.
func anyGrants(rnd *rand.Rand) []redlock.Ballot {
	text := make([]byte, 1+rnd.IntN(mostVotes))
	for i := range text {
		text[i] = "1111222233pptuaf"[rnd.IntN(16)]
	}
	return grants(string(text))
}

// checkSettle compares with the oracle, and then changes the votes in ways whose
// effect is known.
func checkSettle(t *testing.T, votes []redlock.Ballot) {
	t.Helper()
	ruling, token := redlock.Settle(votes)
	if want, wantToken := settleInTheEnd(votes); ruling != want || token != wantToken {
		t.Fatalf("%v: got %s %d; want %s %d", votes, rulingNames[ruling], token, rulingNames[want], wantToken)
	}
	if won := redlock.VerdictOf(votes) == redlock.Won; won == (ruling == redlock.Unsettled) {
		t.Fatalf("%v: %s, but won is %v", votes, rulingNames[ruling], won)
	}
	checkSettleScaled(t, votes, ruling, token)
	if ruling == redlock.Waiting || ruling == redlock.Uneven {
		checkRaise(t, votes, token)
	}
	for i, v := range votes {
		if v.Outcome() != redlock.Pending {
			continue
		}
		for _, late := range grants("123tuaf") {
			more := append([]redlock.Ballot(nil), votes...)
			more[i] = late
			r, later := redlock.Settle(more)
			switch {
			case ruling == redlock.Settled && (r != redlock.Settled || later != token):
				t.Fatalf("%v: settled %d, but %s %d with %v", votes, token, rulingNames[r], later, late)
			case ruling == redlock.Uneven && r != redlock.Uneven:
				t.Fatalf("%v: uneven, but %s with %v: it should have been waiting", votes, rulingNames[r], late)
			}
		}
	}
}

// checkSettleScaled: the order of nodes, and how large the values are, change
// nothing but the value.
func checkSettleScaled(t *testing.T, votes []redlock.Ballot, ruling redlock.Ruling, token redlock.Token) {
	t.Helper()
	large := func(t redlock.Token) redlock.Token {
		if t == 0 {
			return 0
		}
		return redlock.MaxToken - 100 + 7*t
	}
	var scaled []redlock.Ballot
	for i := range votes {
		v := votes[len(votes)-1-i]
		scaled = append(scaled, redlock.BallotOf(v.Outcome(), large(v.Token())))
	}
	if r, got := redlock.Settle(scaled); r != ruling || got != large(token) {
		t.Fatalf("%v: got %s %d; want %s %d", scaled, rulingNames[r], got, rulingNames[ruling], large(token))
	}
}

// checkRaise: when every node that is asked to raise does, the token is settled;
// nobody is asked to lower its grant, and nobody whose grant is not known.
func checkRaise(t *testing.T, votes []redlock.Ballot, token redlock.Token) {
	t.Helper()
	raised := append([]redlock.Ballot(nil), votes...)
	for i, v := range votes {
		if !redlock.NeedsRaise(v, token) {
			continue
		}
		if v.Outcome() != redlock.Granted || v.Token() >= token {
			t.Fatalf("%v: node %d is asked to raise to %d", votes, i, token)
		}
		raised[i] = redlock.BallotOf(redlock.Granted, token)
	}
	if r, got := redlock.Settle(raised); r != redlock.Settled || got != token {
		t.Fatalf("%v: raised to %d: got %s %d; want settled", votes, token, rulingNames[r], got)
	}
}

func TestNeedsRaise(t *testing.T) {
	for _, c := range []struct {
		vote string
		to   redlock.Token
		want bool
	}{
		{"4", 5, true},
		{"5", 5, false},
		{"6", 5, false},
		{"p", 5, false},
		{"t", 5, false},
		{"a", 5, false},
		{"u", 5, false},
		{"f", 5, false},
	} {
		if got := redlock.NeedsRaise(grants(c.vote)[0], c.to); got != c.want {
			t.Errorf("%s to %d: got %v; want %v", c.vote, c.to, got, c.want)
		}
	}
}

func FuzzSettle(f *testing.F) {
	f.Add("778p")
	f.Add("112233ptu")
	f.Fuzz(func(t *testing.T, text string) {
		votes := grants(text)
		if len(votes) == 0 || len(votes) > mostVotes {
			return
		}
		for _, v := range votes {
			if v.Outcome() == redlock.Granted && v.Token() == 0 {
				return // never issued
			}
		}
		checkSettle(t, votes)
	})
}

func TestTokenIsDecimal(t *testing.T) {
	if got, want := redlock.MaxToken.String(), "9007199254740991"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}
