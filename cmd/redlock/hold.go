package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/quorumkit/redlock"
)

func holdCommand() command {
	return command{
		name: "hold", synopsis: "[flags] KEY", summary: "hold a key until a signal, for scripts",
		about: `Takes KEY, prints one line of JSON on stdout, and holds KEY, renewed, until HUP, INT, QUIT
or TERM; then releases it. The line has the fencing token and what is left of the validity:

  {"event":"held","key":"k","token":1795293929195814,"validity_ms":9896}

Exit status 0 after a signal, or 69 if no quorum has confirmed the release in time; 124 if
the lock was lost or --max-hold has passed. Whoever
reads the line must stop when this program ends, for whatever reason: nothing is killed
here. Where a command can be given, exec is safer.`,
		define: func(fs *flag.FlagSet) action {
			f := &lockFlags{}
			f.define(fs)
			return func(ctx context.Context, a *app, args []string) error {
				if err := errors.Join(exactly(1, args, "one KEY"), f.validate()); err != nil {
					return err
				}
				f.listen()
				return a.withSession(ctx, func(ctx context.Context, s *session) error {
					err := a.hold(ctx, s, args[0], f)
					a.tellLeftOut(ctx, s, err)
					return err
				}, append(f.options(), redlock.WithMaxHold(f.maxHold))...)
			}
		},
	}
}

// hold holds until a signal or a loss.
func (a *app) hold(ctx context.Context, s *session, key string, f *lockFlags) error {
	lock, err := f.acquire(ctx, s, key)
	if err != nil {
		return skipped(err)
	}
	err = a.answer(event{Event: "held", Key: key, Token: uint64(lock.Token()), Left: milliseconds(lock.Remaining())})
	if err != nil {
		return errors.Join(fmt.Errorf("hold: nobody reads that it is held: %w", err), lock.Release(ctx))
	}
	select {
	case <-f.signals:
		return lock.Release(ctx)
	case <-lock.Done():
		return endedBy(key, lock.Err())
	}
}
