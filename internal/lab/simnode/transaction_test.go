package simnode_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/simnode"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Transactions as observers of an election use them, and what is refused of them. A MULTI
// in a MULTI is not among them: Redis refuses that command alone, Valkey the transaction.
var transactions = [][][]string{
	{{"MULTI"}, {"SET", "a", "1"}, {"MGET", "a", "b"}, {"EXISTS", "a", "b"}, {"EXEC"}, {"GET", "a"}},
	{{"ZADD", "z", "1", "m"}, {"MULTI"}, {"MGET", "a", "z"}, {"ZRANGE", "a", "0", "0"}, {"ZRANGE", "z", "0", "0"}, {"EXISTS", "z"}, {"EXEC"}},
	{{"HSET", "node", "epoch", "e"}, {"MULTI"}, {"MGET", "a"}, {"HMGET", "node", "epoch"}, {"HMGET", "none", "epoch"}, {"EXEC"}},
	{{"MULTI"}, {"EXEC"}},
	{{"EXEC"}, {"DISCARD"}},
	{{"MULTI"}, {"SET", "a", "2"}, {"DISCARD"}, {"GET", "a"}, {"EXEC"}},
	{{"MULTI"}, {"SET", "a"}, {"SET", "a", "4"}, {"EXEC"}, {"GET", "a"}},
	{{"MULTI"}, {"NOSUCH", "a"}, {"SET", "a", "5"}, {"EXEC"}, {"GET", "a"}},
	{{"MULTI"}, {"EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"}, {"EVALSHA", "0000000000000000000000000000000000000000", "0"}, {"GET", "n"}, {"EXEC"}},
}

func TestTransactionsAreThoseOfAServer(t *testing.T) {
	ours, _ := newSimPeer(t)
	server := newRealPeer(t, testserver.NeedOne(t, redisserver.Config{}))
	for _, commands := range transactions {
		if got, want := ours.all(commands), server.all(commands); !slices.Equal(got, want) {
			t.Errorf("%q: got %q; a server says %q", commands, got, want)
		}
	}
}

// A command in a transaction is seen when it is executed, once.
func TestWhoWatchesANodeSeesATransactionAtItsEnd(t *testing.T) {
	node := simnode.New()
	p := newSession(t, node)
	var seen []string
	node.Watch(func(args [][]byte) { seen = append(seen, string(args[0])) })
	p.all([][]string{{"MULTI"}, {"SET", "a", "1"}, {"INCR", "node"}, {"HSET", "a", "f", "v"}})
	before := fmt.Sprint(seen)
	p.do("EXEC")
	if before != "[MULTI]" || fmt.Sprint(seen) != "[MULTI SET INCR EXEC]" {
		t.Errorf("got %s before, and %s in all", before, seen)
	}
}
