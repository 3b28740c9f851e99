package simnode_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// told are the sections and fields of an INFO, or the pairs of a reply, by name. What
// differs from one process to the next is left out.
func told(reply string) map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?:^"|\\n)(# \w+|\w+)(?::([^\\]*))?\\r`).FindAllStringSubmatch(reply, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// unlike are the fields whose values are a process's own.
var unlike = []string{"redis_version", "run_id", "uptime_in_seconds", "server_time_usec", "master_replid"}

// valkeyNames are what Valkey calls otherwise; redlock knows both.
var valkeyNames = map[string]string{"redis_mode": "server_mode"}

func TestWhatANodeTellsOfItselfAServerTellsToo(t *testing.T) {
	server := newRealPeer(t, testserver.NeedOne(t, redisserver.Config{AOF: redisserver.FsyncAlways}))
	ours, _ := newSimPeer(t)
	for _, ask := range [][]string{
		{"INFO"}, {"INFO", "server"}, {"INFO", "REPLICATION"}, {"INFO", "server", "replication"}, {"INFO", "persistence"}, {"INFO", "everything"}, {"INFO", "nothing"},
	} {
		got, want := told(ours.do(ask...)), told(server.do(ask...))
		for name, value := range got {
			there, has := want[name]
			if other := valkeyNames[name]; !has && other != "" {
				there, has = want[other]
			}
			if !has || there != value && !slices.Contains(unlike, name) {
				t.Errorf("%q: the node tells %s:%s; a server %q (%v)", ask, name, value, there, has)
			}
		}
		if ask[len(ask)-1] != "nothing" && len(got) < 2 {
			t.Errorf("%q tells %v", ask, got)
		}
		if len(ask) > 1 && (len(got) == 0) != (len(want) == 0) {
			t.Errorf("%q: the node tells %v; a server %v", ask, got, want)
		}
	}
	for _, setting := range []string{"appendfsync", "appendonly", "maxmemory", "maxmemory-policy", "save", "absent"} {
		if got, want := ours.do("CONFIG", "GET", setting), server.do("CONFIG", "GET", setting); got != want {
			t.Errorf("CONFIG GET %s: the node replies %s; a server %s", setting, got, want)
		}
	}
	for _, proto := range []string{"2", "3"} {
		got, want := ours.do("HELLO", proto), server.do("HELLO", proto)
		for _, pair := range []string{`"mode" "standalone"`, `"role" "master"`, `"proto" :` + proto, `"modules" [`} {
			if !strings.Contains(got, pair) || !strings.Contains(want, pair) {
				t.Errorf("HELLO %s: the node replies %s; a server %s; want %s", proto, got, want, pair)
			}
		}
	}
}

// A node says of what it has not that it is unknown, as a server would. Neither
// redlock nor the locks that it is compared with need any of it.
func TestWhatANodeHasNotIsUnknown(t *testing.T) {
	ours, _ := newSimPeer(t)
	for _, command := range [][]string{
		{"ROLE"}, {"REPLICAOF", "NO", "ONE"}, {"FAILOVER"}, {"SWAPDB", "0", "1"}, {"FUNCTION", "LIST"}, {"FCALL", "f", "0"}, {"ACL", "WHOAMI"}, {"COMMAND"}, {"WATCH", "k"}, {"DEBUG", "SLEEP", "0"},
	} {
		if got, want := ours.do(command...), "-ERR unknown command '"+command[0]+"'"; !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s; want %s", command, got, want)
		}
	}
}
