package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock"
)

// ttl is every contender's lease: long enough that no lock ends in a run.
const ttl = 10 * time.Second

// errUnsupported is what a contender answers that lacks an operation.
var errUnsupported = errors.New("this library has no such operation")

// held is a lock as a workload sees it.
type held interface {
	extend(ctx context.Context) error
	release(ctx context.Context) error
}

// contender is one library, or the floor, over the run's servers.
type contender interface {
	acquire(ctx context.Context, resource string) (held, error)
	close() error
}

// env is what a contender is built on.
type env struct {
	servers cluster
	addrs   []string // the servers' addresses, or of proxies before them
	scripts *scripts
	options []redlock.Option // for this library
}

// spec says how to build a contender, and what its figures stand for.
type spec struct {
	name     string
	note     string
	masters  int      // how many of the run's servers it uses
	commands []string // what it sends, as INFO commandstats names it
	open     func(ctx context.Context, e *env) (contender, error)
}

// The names by which gates find their figures.
const (
	nameFloor   = "raw floor"
	nameRedlock = "redlock"
	nameBare    = "redlock, unprotected"
	nameRedsync = "redsync"
	nameRueidis = "rueidislock"
	nameAlone   = "rueidislock, one server"
	nameOneKey  = "rueidislock, one key"
	nameBSM     = "bsm/redislock"
)

var (
	scriptsOnly = []string{"evalsha"}

	redlockSpec = spec{name: nameRedlock, note: "fenced", masters: nodes, commands: scriptsOnly, open: openRedlock}

	// bareSpec shows what membership and the clock watch cost.
	bareSpec = spec{name: nameBare, note: "fenced; any server votes", masters: nodes, commands: scriptsOnly, open: openBare}

	rivals = []spec{
		{name: nameRedsync, note: "no token", masters: nodes, commands: []string{"set", "evalsha"}, open: openRedsync},
		{name: nameRueidis, note: "no token", masters: nodes, commands: scriptsOnly, open: openRueidis},
		{name: nameAlone, note: "no token, one master", masters: 1, commands: scriptsOnly, open: openRueidisAlone},
		{name: nameBSM, note: "no token, one master", masters: 1, commands: scriptsOnly, open: openBSM},
	}
)

// field lists the contenders of a workload, with the floor that fits it.
func field(floor func(context.Context, *env) (contender, error)) []spec {
	return append([]spec{
		redlockSpec, // the records that the floor asks for are there: cluster.found installed them
		{name: nameFloor, note: "fenced, same scripts", masters: nodes, commands: scriptsOnly, open: floor},
	}, rivals...)
}
