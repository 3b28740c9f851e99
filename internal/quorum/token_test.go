package quorum_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
)

// grants reads votes from a string, a letter a node: a digit is a grant of this
// token, other letters as in votesOf.
func grants(text string) []quorum.Vote {
	var votes []quorum.Vote
	for _, c := range text {
		if c >= '0' && c <= '9' {
			votes = append(votes, quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(c - '0')})
			continue
		}
		votes = append(votes, votesOf(string(c))...)
	}
	return votes
}

var tokenVerdictNames = map[quorum.TokenVerdict]string{
	quorum.Unsettled: "unsettled", quorum.Settled: "settled", quorum.Waiting: "waiting", quorum.Uneven: "uneven",
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		votes string
		want  quorum.TokenVerdict
		token quorum.Token
	}{
		{"1", quorum.Settled, 1},
		{"p", quorum.Unsettled, 0},
		{"7t", quorum.Unsettled, 0},
		{"77", quorum.Settled, 7},
		{"78", quorum.Uneven, 8},
		{"77p", quorum.Settled, 7}, // the straggler does not matter
		{"779", quorum.Settled, 7}, // not the largest grant: the one that a quorum gave
		{"78p", quorum.Waiting, 8}, // the straggler may say 7 or 8
		{"78u", quorum.Uneven, 8},
		{"7pp", quorum.Unsettled, 0},
		{"789", quorum.Uneven, 9},
		{"7799", quorum.Uneven, 9}, // half is no quorum
		{"7779", quorum.Settled, 7},
		{"778p", quorum.Waiting, 8},
		{"789p", quorum.Uneven, 9}, // one more makes two of four
		{"778pp", quorum.Waiting, 8},
		{"789pp", quorum.Waiting, 9},
		{"789pu", quorum.Uneven, 9},
		{"77t8p", quorum.Waiting, 8},
		{"77ttt", quorum.Unsettled, 0},
	} {
		if got, token := quorum.Settle(grants(c.votes)); got != c.want || token != c.token {
			t.Errorf("%s: got %s %d; want %s %d", c.votes, tokenVerdictNames[got], token, tokenVerdictNames[c.want], c.token)
		}
	}
}

// settledBy tries every majority of nodes: is there one that gave the same value?
func settledBy(votes []quorum.Vote) (token quorum.Token, ok bool) {
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
			same = same && v.Outcome == quorum.Granted && v.Token == votes[first].Token
		}
		if same {
			return votes[first].Token, true
		}
	}
	return 0, false
}

// settleInTheEnd is settle, by trying: majorities, and every value that the
// pending nodes could all give.
func settleInTheEnd(votes []quorum.Vote) (quorum.TokenVerdict, quorum.Token) {
	granted, largest := 0, quorum.Token(0)
	for _, v := range votes {
		if v.Outcome == quorum.Granted {
			granted, largest = granted+1, max(largest, v.Token)
		}
	}
	if token, ok := settledBy(votes); ok {
		return quorum.Settled, token
	}
	if 2*granted <= len(votes) {
		return quorum.Unsettled, 0
	}
	for _, hope := range votes {
		end := append([]quorum.Vote(nil), votes...)
		for i, v := range end {
			if v.Outcome == quorum.Pending && hope.Outcome == quorum.Granted {
				end[i] = hope
			}
		}
		if _, ok := settledBy(end); ok {
			return quorum.Waiting, largest
		}
	}
	return quorum.Uneven, largest
}

// eachGrants calls f with every list of n votes with tokens 1 to 3.
func eachGrants(n int, f func([]quorum.Vote)) {
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
		eachGrants(n, func(votes []quorum.Vote) { checkSettle(t, votes) })
	}
	rnd := rand.New(rand.NewPCG(2, 0))
	for range 5_000 {
		checkSettle(t, anyGrants(rnd))
	}
}

// anyGrants is mostly grants, of few values.
func anyGrants(rnd *rand.Rand) []quorum.Vote {
	text := make([]byte, 1+rnd.IntN(mostVotes))
	for i := range text {
		text[i] = "1111222233pptuaf"[rnd.IntN(16)]
	}
	return grants(string(text))
}

// checkSettle compares with the oracle, and then changes the votes in ways whose
// effect is known.
func checkSettle(t *testing.T, votes []quorum.Vote) {
	t.Helper()
	verdict, token := quorum.Settle(votes)
	if want, wantToken := settleInTheEnd(votes); verdict != want || token != wantToken {
		t.Fatalf("%v: got %s %d; want %s %d", votes, tokenVerdictNames[verdict], token, tokenVerdictNames[want], wantToken)
	}
	if won := quorum.Count(votes).Verdict() == quorum.Won; won == (verdict == quorum.Unsettled) {
		t.Fatalf("%v: %s, but won is %v", votes, tokenVerdictNames[verdict], won)
	}
	checkSettleScaled(t, votes, verdict, token)
	if verdict == quorum.Waiting || verdict == quorum.Uneven {
		checkRaise(t, votes, token)
	}
	for i, v := range votes {
		if v.Outcome != quorum.Pending {
			continue
		}
		for _, late := range grants("123tuaf") {
			more := append([]quorum.Vote(nil), votes...)
			more[i] = late
			r, later := quorum.Settle(more)
			switch {
			case verdict == quorum.Settled && (r != quorum.Settled || later != token):
				t.Fatalf("%v: settled %d, but %s %d with %v", votes, token, tokenVerdictNames[r], later, late)
			case verdict == quorum.Uneven && r != quorum.Uneven:
				t.Fatalf("%v: uneven, but %s with %v: it should have been waiting", votes, tokenVerdictNames[r], late)
			}
		}
	}
}

// checkSettleScaled: the order of nodes, and how large the values are, change
// nothing but the value.
func checkSettleScaled(t *testing.T, votes []quorum.Vote, verdict quorum.TokenVerdict, token quorum.Token) {
	t.Helper()
	large := func(t quorum.Token) quorum.Token {
		if t == 0 {
			return 0
		}
		return quorum.MaxToken - 100 + 7*t
	}
	var scaled []quorum.Vote
	for i := range votes {
		v := votes[len(votes)-1-i]
		scaled = append(scaled, quorum.Vote{Outcome: v.Outcome, Token: large(v.Token)})
	}
	if r, got := quorum.Settle(scaled); r != verdict || got != large(token) {
		t.Fatalf("%v: got %s %d; want %s %d", scaled, tokenVerdictNames[r], got, tokenVerdictNames[verdict], large(token))
	}
}

// checkRaise: when every node that is asked to raise does, the token is settled;
// nobody is asked to lower its grant, and nobody whose grant is not known.
func checkRaise(t *testing.T, votes []quorum.Vote, token quorum.Token) {
	t.Helper()
	raised := append([]quorum.Vote(nil), votes...)
	for i, v := range votes {
		if !quorum.NeedsRaise(v, token) {
			continue
		}
		if v.Outcome != quorum.Granted || v.Token >= token {
			t.Fatalf("%v: node %d is asked to raise to %d", votes, i, token)
		}
		raised[i] = quorum.Vote{Outcome: quorum.Granted, Token: token}
	}
	if r, got := quorum.Settle(raised); r != quorum.Settled || got != token {
		t.Fatalf("%v: raised to %d: got %s %d; want settled", votes, token, tokenVerdictNames[r], got)
	}
}

func TestNeedsRaise(t *testing.T) {
	for _, c := range []struct {
		vote string
		to   quorum.Token
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
		if got := quorum.NeedsRaise(grants(c.vote)[0], c.to); got != c.want {
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
			if v.Outcome == quorum.Granted && v.Token == 0 {
				return // never issued
			}
		}
		checkSettle(t, votes)
	})
}
