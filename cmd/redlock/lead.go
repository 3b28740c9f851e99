package main

// lead is an election whose winner runs a command: one of many machines runs it at a time. It
// promises what exec does, of each lead. In addition:
//
//   - It campaigns again after a lead that was lost or that --max-hold ended, once the command
//     is dead. Its place is then the last in the queue, so that others get their turn.
//   - It ends when the command ends by itself, and resigns at once.
//
// Exit status: the command's own, or 128+n, if it ended by itself; 128+n after a signal that
// ended the wait; 75, or -E, if --wait is over; 69, 78, 64, 126 and 127 as exec has them.
// Not 123 or 124: after those lead campaigns again, unless a signal asked for the end.

import (
	"context"
	"flag"

	"github.com/quorumkit/redlock/internal/cli"
)

func leadCommand(a *app) cli.Command {
	return cli.Command{
		Name: "lead", Synopsis: "[flags] KEY [--] CMD [ARG...]", Summary: "run a command while this process leads",
		Verbatim: true,
		About: `Stands for the election KEY, and runs CMD while it is elected: of all that run it with the
same KEY, one runs its CMD. The holder of that name's lock leads. Flags stand before
KEY. There is no shell: for one, run sh -c '...'.

CMD and everything it started are dead before the lead ends, by the rule that exec has (see:
redlock help exec): when --kill-after is left of the lock's validity, because no quorum
confirms it any more, they get --signal; shortly before the end they are killed. A lead that
was taken away kills them at once. Only then lead campaigns again, at the end of the line,
and starts CMD anew when it is elected; --max-hold ends a lead in the same way.

When CMD ends by itself, lead resigns, which lets the next one lead at once, and ends with
the status of CMD: one that is to run for ever is started again by the program that started lead. A lead
that dies is followed within its TTL and some round trips.

HUP, INT, QUIT, TERM, USR1, USR2, ALRM, WINCH, TSTP and CONT are passed on to the group of
CMD. While it waits to lead, the first four end lead, and the others do nothing, but that
TSTP stops it; HUP and INT do nothing where a shell began lead with them ignored, as nohup
and & do. After INT, QUIT or TERM it does not campaign again, however CMD ends.

With --revocable, others may ask for the lead (redlock revoke). The group of CMD gets
--revoked-signal then, once; when CMD ends, lead resigns.

CMD's environment has REDLOCK_KEY, REDLOCK_TOKEN (the fencing token, larger in each lead:
have the resource refuse a smaller one than the largest it has seen) and
REDLOCK_VALIDITY_MS. Others see who leads by: redlock observe KEY. --value is what they
are told.

With --json, what happens is told on stderr, one value a line: as by exec, and "waiting"
before each campaign.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			e := &execution{command: "lead"}
			e.defineHold(fs, "CMD is dead after this `DURATION` of a lead, its first signal comes\n--kill-after earlier; then campaign again. "+leastHold)
			e.defineEnd(fs)
			return func(ctx context.Context, args []string) error {
				err := e.takeLead(args)
				a.ending.of(e.keys)
				if err != nil {
					return err
				}
				e.listen()
				return a.withLocks(ctx, &e.lockFlags, func(ctx context.Context, s *session) error { return campaign(ctx, a, s, e) }, e.options()...)
			}
		},
	}
}

// takeLead checks the arguments. lead has no -n, --shared, --limit, --also or
// --hold-at-least: an election has one winner of one name, and a candidate waits.
// --wait 0 would be one attempt, so it is refused like -n.
func (e *execution) takeLead(args []string) error {
	if err := e.take(args); err != nil {
		return err
	}
	if e.now {
		return cli.Usagef("--wait %v: lead waits for its turn: give a positive duration, or run exec -n for one attempt", e.wait)
	}
	return nil
}
