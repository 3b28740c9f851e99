package contenders

import (
	"context"
	"fmt"
	"strings"
)

// spec is one contender: a lock, and the servers that it is over.
type spec struct {
	name    string
	module  string // of the client library; empty: written here, by its documents
	servers string // what it is over, in words
	fence   string // the number that a resource can compare, in words
	notice  string // who tells a holder of its loss
	start   func(ctx context.Context) (*system, error)
	open    func(ctx context.Context, addrs []string) (client, error)
	// plain opens it with all options of library and client as they come, where open sets
	// some; nil: it does not.
	plain func(ctx context.Context, addrs []string) (client, error)
	// optimistic: it locks nobody out. A hold is work that was begun, a release is the write
	// of it, and the write that comes late is refused.
	optimistic bool
	// holder is the program of its holders, with its arguments; nil: this one.
	holder func(s *system) []string
}

// field is all contenders, in the order of the table.
var field = []spec{
	redlockSpec, redsyncSpec, nodeSpec, rueidisSpec, bsmSpec, redissonSpec,
	etcdSpec, zookeeperSpec,
	advisorySpec, forUpdateSpec, rowSpec, optimisticSpec, mariadbSpec, memcachedSpec,
}

// find returns the contender of that name, or of what stands before its comma.
func find(name string) (spec, error) {
	var names []string
	for _, s := range field {
		word, _, _ := strings.Cut(s.name, ",")
		if s.name == name || word == name {
			return s, nil
		}
		names = append(names, word)
	}
	return spec{}, fmt.Errorf("no contender %q: there are %s", name, strings.Join(names, ", "))
}
