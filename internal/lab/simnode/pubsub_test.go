package simnode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What a connection hears that subscribes, beside another that publishes: "a" and "b"
// are who sends the command, "hears" is a message that no command asked for, and the
// number is how many replies there are.
var conversation = []struct {
	who     string
	replies int
	say     string
}{
	{"a", 1, "UNSUBSCRIBE"},
	{"a", 2, "SUBSCRIBE c1 c2"},
	{"b", 1, "PUBLISH c1 one"},
	{"a", 1, "hears"},
	{"a", 1, "SUBSCRIBE c1"},
	{"b", 1, "PUBLISH c2 two"},
	{"a", 1, "hears"},
	{"b", 1, "PUBLISH elsewhere three"},
	{"a", 1, "PING"},
	{"a", 1, "PING x"},
	{"a", 1, "GET k"},
	{"a", 1, "EVAL return 0"},
	{"a", 1, "UNSUBSCRIBE c1"},
	{"a", 1, "UNSUBSCRIBE c1"},
	{"b", 1, "PUBLISH c1 four"},
	{"a", 2, "UNSUBSCRIBE c2 elsewhere"},
	{"b", 1, "PUBLISH c2 five"},
	{"a", 1, "GET k"},
	{"a", 1, "PING"},
	{"b", 1, "EVAL return{redis.call('PUBLISH','c2','six')} 0"},
	{"a", 1, "SUBSCRIBE"},
	{"b", 1, "PUBLISH c1"},
	{"a", 1, "HGETALL h"},
	{"a", 1, "HGET h f"},
	{"a", 1, "SUBSCRIBE c1"},
	{"b", 1, "EVAL return{redis.call('PUBLISH','c1','seven')} 0"},
	{"a", 1, "hears"},
}

func TestMessagesAreThoseOfAServer(t *testing.T) {
	server := testserver.NeedOne(t, redisserver.Config{})
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			ours, node := newSimPeer(t)
			got := map[string]*peer{"a": ours, "b": newSession(t, node)}
			want := map[string]*peer{"a": newRealPeer(t, server), "b": newRealPeer(t, server)}
			for _, pair := range []map[string]*peer{got, want} {
				pair["b"].do("HSET", "h", "f", "v")
				if hello := pair["a"].do("HELLO", protocol); !strings.Contains(hello, `"proto" :`+protocol) {
					t.Fatalf("HELLO %s: got %s", protocol, hello)
				}
			}
			for i, line := range conversation {
				if g, w := got[line.who].hear(line.say, line.replies), want[line.who].hear(line.say, line.replies); g != w {
					t.Errorf("%d, %s: %s: got %s; want %s", i, line.who, line.say, g, w)
				}
			}
		})
	}
}

// hear is what a peer replies, or what reaches it.
func (p *peer) hear(say string, replies int) string {
	p.t.Helper()
	if say != "hears" {
		var b strings.Builder
		words := strings.Fields(say)
		if words[0] == "EVAL" {
			words = []string{"EVAL", strings.TrimSuffix(strings.TrimPrefix(say, "EVAL "), " 0"), "0"}
		}
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
		p.send([]byte(b.String()))
	}
	return p.items(replies)
}
