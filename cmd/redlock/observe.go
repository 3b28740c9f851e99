package main

// observe tells a program that does not campaign who leads: a proxy that forwards to the leader,
// a dashboard. It holds nothing and promises nothing of the next moment; the token that it
// prints is what a reader can compare.
//
// Exit status: 0 after a signal, its only good end. A missing quorum is told on stderr, and
// observe goes on, since it may come back; 64 if KEY can't be the name of a lock.

import (
	"context"
	"errors"
	"flag"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lua"
)

func observeCommand(a *app) cli.Command {
	return cli.Command{
		Name: "observe", Synopsis: "KEY [flags]", Summary: "print who leads an election, at each change",
		About: `Prints a line when it has found out who leads the election KEY, and one at every change,
until HUP, INT, QUIT or TERM: who holds the lock of that name, by lead, exec, hold or a
program. What is printed is its --value, or its --holder label if it gave none.

  leader: VALUE OR LABEL, token 1795293929195814
  no leader

With --json, one value a line: {"key":"k","held":true,"leader":"a:1/","token":1795293929195814}.
The token is left out where the leader was found by a look, and has not told it.

Nodes are looked at once a second, and at once where a leader says that it was elected or
has resigned. A line may be late by two seconds, and a lead that is shorter than a second
may be missed: decide nothing by it that a token does not check. Nobody leads a key that is
shared. While no quorum answers, or another program's data is under the name, that is said
on stderr, and looked at again. Exit status 0 after a signal.`,
		Define: func(*flag.FlagSet) cli.Action {
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one KEY"); err != nil {
					return err
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.observe(ctx, s, args[0]) })
			}
		},
	}
}

// observed is the leader, as --json shows it. held is there even if false: a reader need not
// conclude it from a missing field.
type observed struct {
	Key    string `json:"key"`
	Held   bool   `json:"held"`
	Leader string `json:"leader,omitempty"`
	Token  uint64 `json:"token,omitempty"`
}

// observe prints the leader, at each change, until a signal comes. A write to stdout that
// fails ends it: nobody reads any more.
func (a *app) observe(ctx context.Context, s *session, key string) error {
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	s.sayDeaf(ctx, a.connection.prefix+key)
	for leader, err := range s.locker.Observe(ctx, key) {
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, redlock.ErrInvalidResource), errors.Is(err, redlock.ErrClosed):
			return err
		// The sequence goes on behind such an error (Locker.Observe), and so does the command.
		case err != nil:
			a.complain(worded(err.Error()))
		default:
			if err := a.showLeader(observed{key, leader.Held, leader.Value, uint64(leader.Token)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sayDeaf says once that a leader's word does not arrive, for want of a right: the token is in
// it, and the looks would go on for ever without.
func (s *session) sayDeaf(ctx context.Context, key string) {
	var once sync.Once
	s.each(ctx, func(ctx context.Context, i int, c *redis.Client) {
		sub := c.Subscribe(ctx, lua.LeaderChannel+key)
		defer sub.Close()
		if _, err := sub.Receive(ctx); redis.HasErrorPrefix(err, "NOPERM") {
			once.Do(func() {
				s.warn("no token is shown, and changes are found by looks alone: " + s.names[i] + ": " + err.Error() + " (see: redlock nodes acl --for observe)")
			})
		}
	})
}

func (a *app) showLeader(o observed) error {
	if a.JSON {
		return a.Answer(o)
	}
	p := a.NewPage()
	switch {
	case !o.Held:
		p.Printf("no leader\n")
	case o.Token == 0:
		p.Printf("leader: %s\n", o.Leader)
	default:
		p.Printf("leader: %s, token %d\n", o.Leader, o.Token)
	}
	return a.Flush(p)
}
