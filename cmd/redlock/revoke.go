package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

func revokeCommand(a *app) cli.Command {
	return cli.Command{
		Name: "revoke", Synopsis: "KEY [flags]", Summary: "ask the holders of a key to give it up",
		About: `Asks all who hold KEY, alone, beside others or by slots, to give it up, and waits until none
of them holds it any more. They decide: nothing is taken away (that is redlock release).
They must have taken it with --revocable, or WithRevocation in the library; if one of them
has not, none is asked. Who takes KEY meanwhile is not asked, so KEY need not be free then.

Exit status 0 when all who were asked have given it up, or nobody held it; 75 if one still
holds it when --timeout is over; 1 if a holder can't be asked. With --json, the "outcome" is
"gone" or "not held".`,
		Define: func(fs *flag.FlagSet) cli.Action {
			patience := cli.NewDuration(fs, "timeout", 0, "give up after this `DURATION` (default: wait until they have)")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one KEY"); err != nil {
					return err
				}
				if *patience < 0 {
					return cli.Usagef("--timeout %v: give a positive duration", *patience)
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
	ctx, stop := cli.UntilSignal(ctx)
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
		var by *cli.StatusError
		if errors.As(context.Cause(ctx), &by) {
			return by
		}
		return &cli.StatusError{Code: exitBusy, Cause: err}
	case err != nil:
		return err
	}
	if a.JSON {
		return a.Answer(revokeShows{key, outcome})
	}
	p := a.NewPage()
	p.Printf("%s: %s\n", key, outcome)
	return a.Flush(p)
}
