package redlock_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock"
)

// mostVotes is the largest cluster that the pure rules are tried with.
const mostVotes = 9

var allOutcomes = []redlock.Outcome{
	redlock.Pending, redlock.Granted, redlock.Taken, redlock.Abstained, redlock.Unknown, redlock.Failed,
}

// ballots reads votes from a string, a letter a node: g granted, t taken,
// p pending, a abstained, u unknown, f failed. Grants are of token 1.
func ballots(text string) []redlock.Ballot {
	var votes []redlock.Ballot
	for _, c := range text {
		for _, o := range allOutcomes {
			if c == rune(o.String()[0]) {
				votes = append(votes, redlock.BallotOf(o, 1))
			}
		}
	}
	return votes
}

var verdictNames = map[redlock.Verdict]string{
	redlock.Undecided: "undecided", redlock.Won: "won", redlock.Lost: "lost",
	redlock.Contended: "contended", redlock.NoQuorum: "no quorum",
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		votes string
		want  redlock.Verdict
	}{
		{"g", redlock.Won},
		{"p", redlock.Undecided},
		{"t", redlock.Contended},
		{"u", redlock.NoQuorum},
		{"gp", redlock.Undecided},
		{"gg", redlock.Won},
		{"gt", redlock.Contended},
		{"gu", redlock.NoQuorum},
		{"tp", redlock.Lost}, // whether it is contention, the other one will say
		{"tt", redlock.Contended},
		{"ggp", redlock.Won}, // without the straggler
		{"gtp", redlock.Undecided},
		{"gtu", redlock.Contended},
		{"gta", redlock.Contended},
		{"guf", redlock.NoQuorum},
		{"uup", redlock.NoQuorum}, // whatever the last one says
		{"ttp", redlock.Contended},
		{"gtpp", redlock.Undecided},
		{"ggtt", redlock.Contended}, // split two to two: at once
		{"ggtp", redlock.Undecided},
		{"gttp", redlock.Contended},
		{"ggup", redlock.Undecided},
		{"guup", redlock.NoQuorum},
		{"gtup", redlock.Lost}, // three may have answered in the end, or two
		{"gggpp", redlock.Won},
		{"ggtup", redlock.Undecided},
		{"ggtuu", redlock.Contended},
		{"ggauu", redlock.NoQuorum},
		{"ttupp", redlock.Lost},
		{"pppuu", redlock.Undecided},
		{"ppuuu", redlock.NoQuorum},
	} {
		if got := redlock.VerdictOf(ballots(c.votes)); got != c.want {
			t.Errorf("%s: got %s; want %s", c.votes, verdictNames[got], verdictNames[c.want])
		}
	}
}

// verdictInTheEnd tries what the pending votes may become, every one of them, and
// says what all the ends have in common.
func verdictInTheEnd(votes []redlock.Ballot) redlock.Verdict {
	var granted, taken, pending int
	for _, v := range votes {
		if v.Outcome() == redlock.Granted {
			granted++
		}
		if v.Outcome() == redlock.Taken {
			taken++
		}
		if v.Outcome() == redlock.Pending {
			pending++
		}
	}
	most := func(k int) bool { return 2*k > len(votes) }
	canWin, canAnswer := false, false
	for more := range pending + 1 {
		for others := range pending - more + 1 {
			canWin = canWin || most(granted+more)
			canAnswer = canAnswer || most(granted+more+taken+others)
		}
	}
	switch {
	case most(granted):
		return redlock.Won
	case canWin:
		return redlock.Undecided
	case most(granted + taken):
		return redlock.Contended
	case canAnswer:
		return redlock.Lost
	default:
		return redlock.NoQuorum
	}
}

// eachOutcomes calls f with every list of n outcomes, in the order of their
// numbers only: nothing depends on which node said what (see below).
func eachOutcomes(n int, f func([]redlock.Ballot)) {
	votes := make([]redlock.Ballot, 0, n)
	var fill func(from int)
	fill = func(from int) {
		if len(votes) == n {
			f(votes)
			return
		}
		for i := from; i < len(allOutcomes); i++ {
			votes = append(votes, redlock.BallotOf(allOutcomes[i], 1))
			fill(i)
			votes = votes[:len(votes)-1]
		}
	}
	fill(0)
}

func TestVerdictIsWhatEveryEndHasInCommon(t *testing.T) {
	for n := 1; n <= mostVotes; n++ {
		eachOutcomes(n, func(votes []redlock.Ballot) { checkVerdict(t, votes) })
	}
}

// checkVerdict compares with the oracle, and then changes the votes in ways whose
// effect is known.
func checkVerdict(t *testing.T, votes []redlock.Ballot) {
	t.Helper()
	got := redlock.VerdictOf(votes)
	if want := verdictInTheEnd(votes); got != want {
		t.Fatalf("%v: got %s; want %s", votes, verdictNames[got], verdictNames[want])
	}
	for i, v := range votes {
		other := append([]redlock.Ballot(nil), votes...)
		for _, o := range allOutcomes {
			other[i] = redlock.BallotOf(o, 1)
			later := redlock.VerdictOf(other)
			if v.Outcome() == redlock.Pending && !refines(got, later) {
				t.Fatalf("%v: %s became %s when vote %d became %v", votes, verdictNames[got], verdictNames[later], i, o)
			}
			if mute(v.Outcome()) && mute(o) && later != got {
				t.Fatalf("%v: %s, but %s with vote %d %v: neither is an answer", votes, verdictNames[got], verdictNames[later], i, o)
			}
		}
	}
}

// mute outcomes are no answer, now or later.
func mute(o redlock.Outcome) bool {
	return o == redlock.Abstained || o == redlock.Unknown || o == redlock.Failed
}

// refines tells whether a verdict may become another when one more reply is in:
// it is never taken back.
func refines(early, later redlock.Verdict) bool {
	if early == redlock.Lost {
		return later == redlock.Lost || later == redlock.Contended || later == redlock.NoQuorum
	}
	return early == redlock.Undecided || early == later
}

func TestVerdictDoesNotDependOnTheOrderOfNodes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 0))
	for range 20_000 {
		votes := make([]redlock.Ballot, 1+rnd.IntN(mostVotes))
		for i := range votes {
			votes[i] = redlock.BallotOf(allOutcomes[rnd.IntN(len(allOutcomes))], 1)
		}
		before := redlock.VerdictOf(votes)
		rnd.Shuffle(len(votes), func(i, j int) { votes[i], votes[j] = votes[j], votes[i] })
		if after := redlock.VerdictOf(votes); after != before {
			t.Fatalf("%v: got %s; %s in another order", votes, verdictNames[after], verdictNames[before])
		}
	}
}

func TestTwoQuorumsShareANode(t *testing.T) {
	for n := 1; n <= mostVotes; n++ {
		q := redlock.QuorumOf(n)
		for a := range 1 << n {
			for b := range 1 << n {
				if ones(a) == q && ones(b) == q && a&b == 0 {
					t.Fatalf("%d nodes: %d and %d are both quorums of %d", n, a, b, q)
				}
			}
		}
		if 2*(q-1) > n {
			t.Errorf("%d nodes: %d is more than a quorum needs", n, q)
		}
	}
}

func ones(mask int) (n int) {
	for ; mask != 0; mask >>= 1 {
		n += mask & 1
	}
	return n
}

func FuzzVerdict(f *testing.F) {
	f.Add([]byte{1, 1, 2, 2})
	f.Add([]byte{1, 0, 4})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || len(raw) > mostVotes {
			return
		}
		var votes []redlock.Ballot
		for _, b := range raw {
			votes = append(votes, redlock.BallotOf(allOutcomes[int(b)%len(allOutcomes)], 1))
		}
		checkVerdict(t, votes)
	})
}

func TestOutcomeNamesItself(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range allOutcomes {
		seen[o.String()] = true
	}
	if len(seen) != len(allOutcomes) || seen["invalid"] {
		t.Errorf("got %v; want %d names", seen, len(allOutcomes))
	}
	if got := redlock.Outcome(200).String(); got != "invalid" {
		t.Errorf("got %q; want invalid", got)
	}
}
