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
}

// field is all contenders, in the order of the table.
var field = []spec{
	redlockSpec, redsyncSpec, rueidisSpec, bsmSpec, redissonSpec,
	etcdSpec, zookeeperSpec,
	advisorySpec, forUpdateSpec, rowSpec, mariadbSpec, memcachedSpec,
}

// find returns the contender of that name.
func find(name string) (spec, error) {
	var names []string
	for _, s := range field {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return spec{}, fmt.Errorf("no contender %q: there are %s", name, strings.Join(names, ", "))
}
