package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/quorumkit/redlock"
)

func revokeCommand() command {
	return command{
		name: "revoke", synopsis: "KEY [flags]", summary: "ask the holders of a key to give it up",
		about: `Asks all who hold KEY, alone, beside others or by slots, to give it up, and waits until none
of them holds it any more. They decide: nothing is taken away (that is redlock release).
They must have taken it with --revocable, or WithRevocation in the library; if one of them
has not, none is asked. Who takes KEY meanwhile is not asked, so KEY need not be free then.

Exit status 0 when all who were asked have given it up, or nobody held it; 75 if one still
holds it when --timeout is over; 1 if a holder can't be asked. With --json, the "outcome" is
"gone" or "not held".`,
		define: func(fs *flag.FlagSet) action {
			patience := newDuration(fs, "timeout", 0, "give up after this `DURATION` (default: wait until they have)")
			return func(ctx context.Context, a *app, args []string) error {
				if err := exactly(1, args, "one KEY"); err != nil {
					return err
				}
				if *patience < 0 {
					return usage("--timeout %v: give a positive duration", *patience)
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.revoke(ctx, s, args[0], *patience) })
			}
		},
	}
}

// revokeShows is what came of it, as --json shows it.
type revokeShows struct {
	Key     string `json:"key"`
	Outcome string `json:"outcome"`
}

// revoke asks for a key until it is given up, a signal comes, or the patience is over.
func (a *app) revoke(ctx context.Context, s *session, key string, patience time.Duration) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	outcome := "gone"
	switch err := s.locker.Revoke(ctx, key); {
	case errors.Is(err, redlock.ErrNotHeld):
		outcome = "not held"
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()): // no matter what else it is
		var by *statusError
		if errors.As(context.Cause(ctx), &by) {
			return by
		}
		return &statusError{exitBusy, err}
	case err != nil:
		return err
	}
	if a.connection.json {
		return a.answer(revokeShows{key, outcome})
	}
	p := a.newPage()
	p.printf("%s: %s\n", key, outcome)
	return a.flush(p)
}
