package quorum_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
)

// mostVotes is the largest cluster that the pure rules are tried with.
const mostVotes = 9

var allOutcomes = []quorum.Outcome{
	quorum.Pending, quorum.Granted, quorum.Taken, quorum.Abstained, quorum.Unknown, quorum.Failed,
}

// votesOf reads votes from a string, a letter a node: g granted, t taken,
// p pending, a abstained, u unknown, f failed. Grants are of token 1.
func votesOf(text string) []quorum.Vote {
	var votes []quorum.Vote
	for _, c := range text {
		for _, o := range allOutcomes {
			if c == rune(o.String()[0]) {
				votes = append(votes, quorum.Vote{Outcome: o, Token: 1})
			}
		}
	}
	return votes
}

var verdictNames = map[quorum.Verdict]string{
	quorum.Undecided: "undecided", quorum.Won: "won", quorum.Lost: "lost",
	quorum.Contended: "contended", quorum.NoQuorum: "no quorum",
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		votes string
		want  quorum.Verdict
	}{
		{"g", quorum.Won},
		{"p", quorum.Undecided},
		{"t", quorum.Contended},
		{"u", quorum.NoQuorum},
		{"gp", quorum.Undecided},
		{"gg", quorum.Won},
		{"gt", quorum.Contended},
		{"gu", quorum.NoQuorum},
		{"tp", quorum.Lost}, // whether it is contention, the other one will say
		{"tt", quorum.Contended},
		{"ggp", quorum.Won}, // without the straggler
		{"gtp", quorum.Undecided},
		{"gtu", quorum.Contended},
		{"gta", quorum.Contended},
		{"guf", quorum.NoQuorum},
		{"uup", quorum.NoQuorum}, // no matter what the last one says
		{"ttp", quorum.Contended},
		{"gtpp", quorum.Undecided},
		{"ggtt", quorum.Contended}, // split two to two: at once
		{"ggtp", quorum.Undecided},
		{"gttp", quorum.Contended},
		{"ggup", quorum.Undecided},
		{"guup", quorum.NoQuorum},
		{"gtup", quorum.Lost}, // three may have answered in the end, or two
		{"gggpp", quorum.Won},
		{"ggtup", quorum.Undecided},
		{"ggtuu", quorum.Contended},
		{"ggauu", quorum.NoQuorum},
		{"ttupp", quorum.Lost},
		{"pppuu", quorum.Undecided},
		{"ppuuu", quorum.NoQuorum},
	} {
		if got := quorum.Count(votesOf(c.votes)).Verdict(); got != c.want {
			t.Errorf("%s: got %s; want %s", c.votes, verdictNames[got], verdictNames[c.want])
		}
	}
}

// verdictInTheEnd tries what the pending votes may become, every one of them, and
// says what all the ends have in common.
func verdictInTheEnd(votes []quorum.Vote) quorum.Verdict {
	var granted, taken, pending int
	for _, v := range votes {
		if v.Outcome == quorum.Granted {
			granted++
		}
		if v.Outcome == quorum.Taken {
			taken++
		}
		if v.Outcome == quorum.Pending {
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
		return quorum.Won
	case canWin:
		return quorum.Undecided
	case most(granted + taken):
		return quorum.Contended
	case canAnswer:
		return quorum.Lost
	default:
		return quorum.NoQuorum
	}
}

// eachOutcomes calls f with every list of n outcomes, in the order of their
// numbers only: nothing depends on which node said what (see below).
func eachOutcomes(n int, f func([]quorum.Vote)) {
	votes := make([]quorum.Vote, 0, n)
	var fill func(from int)
	fill = func(from int) {
		if len(votes) == n {
			f(votes)
			return
		}
		for i := from; i < len(allOutcomes); i++ {
			votes = append(votes, quorum.Vote{Outcome: allOutcomes[i], Token: 1})
			fill(i)
			votes = votes[:len(votes)-1]
		}
	}
	fill(0)
}

func TestVerdictIsWhatEveryEndHasInCommon(t *testing.T) {
	for n := 1; n <= mostVotes; n++ {
		eachOutcomes(n, func(votes []quorum.Vote) { checkVerdict(t, votes) })
	}
}

// checkVerdict compares with the oracle, and then changes the votes in ways whose
// effect is known.
func checkVerdict(t *testing.T, votes []quorum.Vote) {
	t.Helper()
	got := quorum.Count(votes).Verdict()
	if want := verdictInTheEnd(votes); got != want {
		t.Fatalf("%v: got %s; want %s", votes, verdictNames[got], verdictNames[want])
	}
	for i, v := range votes {
		other := append([]quorum.Vote(nil), votes...)
		for _, o := range allOutcomes {
			other[i] = quorum.Vote{Outcome: o, Token: 1}
			later := quorum.Count(other).Verdict()
			if v.Outcome == quorum.Pending && !refines(got, later) {
				t.Fatalf("%v: %s became %s when vote %d became %v", votes, verdictNames[got], verdictNames[later], i, o)
			}
			if mute(v.Outcome) && mute(o) && later != got {
				t.Fatalf("%v: %s, but %s with vote %d %v: neither is an answer", votes, verdictNames[got], verdictNames[later], i, o)
			}
		}
	}
}

// mute outcomes are no answer, now or later.
func mute(o quorum.Outcome) bool {
	return o == quorum.Abstained || o == quorum.Unknown || o == quorum.Failed
}

// refines tells whether a verdict may become another when one more reply is in:
// it is never taken back.
func refines(early, later quorum.Verdict) bool {
	if early == quorum.Lost {
		return later == quorum.Lost || later == quorum.Contended || later == quorum.NoQuorum
	}
	return early == quorum.Undecided || early == later
}

func TestVerdictDoesNotDependOnTheOrderOfNodes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 0))
	for range 20_000 {
		votes := make([]quorum.Vote, 1+rnd.IntN(mostVotes))
		for i := range votes {
			votes[i] = quorum.Vote{Outcome: allOutcomes[rnd.IntN(len(allOutcomes))], Token: 1}
		}
		before := quorum.Count(votes).Verdict()
		rnd.Shuffle(len(votes), func(i, j int) { votes[i], votes[j] = votes[j], votes[i] })
		if after := quorum.Count(votes).Verdict(); after != before {
			t.Fatalf("%v: got %s; %s in another order", votes, verdictNames[after], verdictNames[before])
		}
	}
}

func TestTwoQuorumsShareANode(t *testing.T) {
	for n := 1; n <= mostVotes; n++ {
		q := quorum.Size(n)
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
		var votes []quorum.Vote
		for _, b := range raw {
			votes = append(votes, quorum.Vote{Outcome: allOutcomes[int(b)%len(allOutcomes)], Token: 1})
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
	if got := quorum.Outcome(200).String(); got != "invalid" {
		t.Errorf("got %q; want invalid", got)
	}
}

// What may be on a quorum: of five nodes of ours, and of other lists, which may have others.
func TestOpenLooksAtEachList(t *testing.T) {
	for _, c := range []struct {
		n     int
		lists [][]int
		may   uint64
		want  bool
	}{
		{5, nil, 0b00111, true},
		{5, nil, 0b00011, false},
		{4, nil, 0b0011, false},
		{4, [][]int{{0, 1, 2}}, 0b0011, true},
		{4, [][]int{{1, 2, 3}}, 0b0001, false},
		{3, [][]int{{0, 1, 2, -1}}, 0b001, false},
		{3, [][]int{{0, -1}}, 0b001, true},
		{2, [][]int{{0, -1, -1}}, 0, true},
		{3, [][]int{nil}, 0, false},
	} {
		if got := quorum.Open(append(c.lists, quorum.List(0).Indexes(c.n)), func(i int) bool { return c.may&(1<<i) != 0 }); got != c.want {
			t.Errorf("%d nodes, lists %v, on %b: got %t; want %t", c.n, c.lists, c.may, got, c.want)
		}
	}
}
