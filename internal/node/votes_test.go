package node_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// What the script says is a vote, and what nobody says is none: a number that no script
// returns must not be taken for a lease, nor for a grant.
func TestEveryReplyToAnAcquireIsOneVote(t *testing.T) {
	const longest = time.Minute
	for _, c := range []struct {
		name  string
		reply int64
		want  quorum.Outcome
		says  string
	}{
		{"a token", 42, quorum.Granted, ""},
		{"another epoch", 0, quorum.Abstained, "its record changed"},
		{"a tombstone", -1, quorum.Failed, "given up"},
		{"no token left", -2, quorum.Abstained, "at its end"},
		{"kept for the head", -3, quorum.Taken, "kept for another"},
		{"nothing to hand over", -4, quorum.Taken, "no longer there"},
		{"no end", -9, quorum.Taken, "without an end"},
		{"the last instant", -10, quorum.Taken, "0s left"},
		{"a lease", -10 - 1500, quorum.Taken, "1.5s left"},
		{"a lease that nobody may take", -10 - 3_600_000, quorum.Taken, "beyond MaxTTL"},
		{"no number of the script's", -5, quorum.Unknown, "without a reply"},
		{"no reply", math.MinInt64, quorum.Unknown, "without a reply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, cause := node.AcquireVote(c.reply, func() time.Duration { return longest })
			if v.Outcome != c.want || (v.Token != 0) != (c.want == quorum.Granted) {
				t.Errorf("got %v; want the outcome %v, and a token with a grant alone", v, c.want)
			}
			says := ""
			if cause != nil {
				says = cause.Error()
			}
			if !strings.Contains(says, c.says) || c.says == "" && cause != nil {
				t.Errorf("got the cause %q; want one that says %q", says, c.says)
			}
		})
	}
}

// FuzzInfoField: no matter what INFO says, a field is a part of one line of it.
func FuzzInfoField(f *testing.F) {
	for _, info := range []string{"", "\nrun_id:", "# Server\r\nrun_id:x\r\n", "\nrun_id:a\nrun_id:b\r\n", "run_id:x\r\n"} {
		f.Add(info)
	}
	f.Fuzz(func(t *testing.T, info string) {
		if got := node.InfoField(info, "run_id"); strings.Contains(got, "\r\n") || !strings.Contains(info, "\nrun_id:"+got) && got != "" {
			t.Fatalf("of %q: got %q", info, got)
		}
	})
}
