package main

import (
	"context"
	"flag"
	"runtime/debug"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
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

// Worded is worded, for the tests.
var Worded = worded

// Advice is advice, for the tests.
var Advice = advice

// Shell is shell of a command that was given these flags, for the tests.
func Shell(flags []string, line string) string {
	a, fs := newApp(), flag.NewFlagSet("", flag.ContinueOnError)
	a.connection.define(fs)
	if err := fs.Parse(flags); err != nil {
		return err.Error()
	}
	return a.shell(line)[0]
}

// Pages is what help says of each command, and in "" of all.
func Pages() map[string]string { return program(newApp()).Pages() }

// Version is what the command says of a build.
func Version(version string, settings map[string]string) string {
	info := &debug.BuildInfo{Main: debug.Module{Version: version}}
	for key, value := range settings {
		info.Settings = append(info.Settings, debug.BuildSetting{Key: key, Value: value})
	}
	return built(info, true).text()
}

// Shapes are what each command prints with --json, under the headings of docs/COMMAND.md.
func Shapes() map[string]any {
	return map[string]any{
		"Messages": cli.Message{}, "Events of exec, lead and hold": event{}, "status": keyStatus{}, "observe": observed{},
		"nodes, and each nodes command": clusterShows{}, "nodes acl": aclShows{}, "doctor": reportShows{}, "revoke": revokeShows{},
		"release": removals{}, "bench": phaseShows{}, "version": build{},
	}
}
