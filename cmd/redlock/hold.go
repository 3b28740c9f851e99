package main

// hold is the lock for scripts that can't be run as a command of exec: it prints one line of
// JSON when it holds the key, and holds until a signal. It kills nothing, so its promise is
// smaller: it ends when the lock does, and the reader has to stop by itself.
//
// Exit status: 0 after HUP, INT, QUIT or TERM, since that is how a hold ends well, and after the
// end of the process that started it (follow), which is taken for a HUP; 128+n if the
// signal came while it waited; 75, or -E, if somebody else holds the key; 69 if no quorum
// answered, or none confirmed the release; 123 for --max-hold; 124 if the lock was lost.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

// parent is the process that started this one. It is read before anything else: one that ends
// sooner is never seen.
var parent = os.Getppid()

// parentGlance is the time between two looks whether that one still lives.
const parentGlance = time.Second

func holdCommand(a *app) cli.Command {
	return cli.Command{
		Name: "hold", Synopsis: "[flags] KEY...", Summary: "hold a key until a signal, for scripts",
		About: `Takes KEY, prints one line of JSON on stdout, and holds KEY, renewed, until HUP, INT, QUIT
or TERM; then releases it. The line has the fencing token and what is left of the validity:

  {"event":"held","key":"k","token":1795293929195814,"validity_ms":9896}

Of several KEYs all are held or none, and it ends with the first that is lost. The line
has the first key where one stands, and all of them, each with its token, under "keys".
With --shared it says "shared":true, and with --limit which "slot" it has.

With --revocable, others may ask for KEY (redlock revoke). Another line then says so, as
{"event":"revoked",...}, and KEY is held on: the reader stops what it does, and then
sends a signal.

When the process that started it has ended, hold ends within about a second, as after a
HUP: a script that was killed sends no signal. Under nohup or setsid it holds on.

Exit status 0 after a signal, or 69 if no quorum has confirmed the release in time; 123 if
--max-hold has passed; 124 if the lock was lost. The reader must stop when this
program ends, for any reason: nothing is killed here. Where a command can be given,
exec is safer. With --json, the end is told on stderr as well, as exec tells it.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			f := &lockFlags{}
			f.define(fs, "end after this `DURATION`, renewed or not: exit status 123")
			return func(ctx context.Context, args []string) error {
				err := f.take(args)
				a.ending.of(f.keys)
				if err != nil {
					return err
				}
				f.listen()
				defer f.follow()()
				return a.withLocks(ctx, f, func(ctx context.Context, s *session) error { return a.hold(ctx, s, f) }, append(f.options(), redlock.WithMaxHold(f.maxHold))...)
			}
		},
	}
}

// take checks the arguments. All are keys: hold has no command that could follow them.
func (f *lockFlags) take(args []string) error {
	if len(args) == 0 {
		return cli.Usagef("hold: give at least one KEY")
	}
	f.keys = args
	return f.validate()
}

// follow sends a HUP to this program when the process that started it has ended. Who wants it
// to live on has said so: nohup ignores HUP, and setsid makes it the leader of a session, as
// service managers do. The parent is asked for, by all systems alike; the kernel's own signal
// (PR_SET_PDEATHSIG) would tell of the end of the thread that started it.
func (f *lockFlags) follow() (end func()) {
	done := make(chan struct{})
	var following sync.WaitGroup
	if !signal.Ignored(syscall.SIGHUP) && !leadsSession() {
		following.Go(func() {
			for os.Getppid() == parent {
				t := newTimer(parentGlance)
				select {
				case <-done:
					return
				case <-t.C:
				}
			}
			f.signals <- syscall.SIGHUP
		})
	}
	return func() { close(done); following.Wait() }
}

// hold holds until a signal or a loss. --max-hold is the library's here (WithMaxHold): no
// command needs a grace, so the lock may end without notice. "held" is an answer on stdout,
// with or without --json: a script reads the token from it.
func (a *app) hold(ctx context.Context, s *session, f *lockFlags) error {
	held, err := f.acquire(ctx, s)
	if err != nil {
		return skipped(err)
	}
	a.ending.after(held.tells("ended"))
	// A script that has gone would never send the signal: the key would stay taken.
	if err = a.Answer(held.tells("held")); err != nil {
		return errors.Join(fmt.Errorf("hold: nobody reads that it is held: %w", err), held.Release(ctx))
	}
	for asked := held.Revoked(); ; {
		select {
		case <-f.signals:
			a.ending.after(held.tells("ended"))
			return held.Release(ctx)
		case <-held.Done():
			a.ending.after(held.tells("ended"))
			return endedBy(held.label(), held.Err())
		case <-asked:
			asked = nil
			_ = a.Answer(held.tells("revoked")) // a reader that closed the pipe may still hold on
		}
	}
}
