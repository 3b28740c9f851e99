package simnet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/simnet"
)

// resp is commands as a client sends them.
func resp(commands ...string) string {
	var b strings.Builder
	for _, c := range commands {
		words := strings.Fields(c)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	return b.String()
}

func TestWhatIsDeliveredTwiceIsWholeCommands(t *testing.T) {
	set, ping := resp("SET k *1"), resp("PING")
	for _, c := range []struct{ messages, want []string }{
		{[]string{set + ping, ping}, []string{set + ping, ping}},
		{[]string{set[:9], set[9:] + ping}, []string{"", set + ping}},
		{[]string{set + ping[:3], ping[3:]}, []string{set, ping}},
		{[]string{set[9:] + ping, ping}, []string{"", ping}}, // what began before
		{[]string{resp("hello 2"), set}, []string{"", set}},
		{[]string{resp("SUBSCRIBE a"), resp("subscribe a", "PING"), set}, []string{"", "", set}},
		{[]string{resp("MULTI", "INCR a", "EXEC"), resp("CLIENT SETINFO LIB-NAME x")}, []string{"", ""}},
		{[]string{resp("multi"), set, resp("INCR a", "EXEC"), ping}, []string{"", "", "", ping}}, // a transaction of several writes
		{[]string{ping + resp("MULTI") + set[:9], set[9:], ping, resp("DISCARD"), set}, []string{"", "", "", "", set}},
		{[]string{resp("MULTI"), resp("RESET"), set}, []string{"", "", set}},
		{[]string{"", "*x\r\n"}, []string{"", ""}},
	} {
		var copies simnet.Copies
		for i, m := range c.messages {
			if got := string(copies.Of([]byte(m))); got != c.want[i] {
				t.Errorf("%q, message %d: got %q; want %q", c.messages, i, got, c.want[i])
			}
		}
	}
}
