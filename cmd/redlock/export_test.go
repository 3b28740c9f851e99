package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

// NodeView is a nodeView, for the tests.
type NodeView struct {
	Counts bool
	Shared bool
	Owners []string
}

// Judge is judge, for the tests.
func Judge(views []NodeView, quorum int) (says, owner string, most int) {
	in := make([]nodeView, len(views))
	for i, b := range views {
		in[i] = nodeView{b.Counts, b.Shared, b.Owners}
	}
	k, owner, most := judge(in, quorum)
	return string(k), owner, most
}

// Redact is redact, for the tests.
var Redact = redact

// TakeArguments is takeArguments, for the tests.
var TakeArguments = takeArguments

// CloseSession closes a session of one client, for the tests.
func CloseSession(c *redis.Client) error { return (&session{clients: []*redis.Client{c}}).close() }

// Lengthen is lengthen, for the tests.
func Lengthen(ctx context.Context, lock *redlock.Lock, ttl time.Duration) error {
	return lengthen(ctx, holdingOf(lock), ttl)
}

// RemoveShared is removeShared, for the tests.
var RemoveShared = removeShared

// ExitCode is exitCode, for the tests.
var ExitCode = exitCode
