package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

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

Exit status 0 after a signal, or 69 if no quorum has confirmed the release in time; 123 if
--max-hold has passed; 124 if the lock was lost. The reader must stop when this
program ends, for any reason: nothing is killed here. Where a command can be given,
exec is safer. With --json, the end is told on stderr as well, as exec tells it.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			f := &lockFlags{}
			f.define(fs)
			return func(ctx context.Context, args []string) error {
				err := f.take(args)
				a.ending.of(f.keys)
				if err != nil {
					return err
				}
				f.listen()
				return a.withLocks(ctx, f, func(ctx context.Context, s *session) error { return a.hold(ctx, s, f) }, append(f.options(), redlock.WithMaxHold(f.maxHold))...)
			}
		},
	}
}

// take checks the arguments.
func (f *lockFlags) take(args []string) error {
	if len(args) == 0 {
		return cli.Usagef("hold: give at least one KEY")
	}
	f.keys = args
	return f.validate()
}

// hold holds until a signal or a loss.
func (a *app) hold(ctx context.Context, s *session, f *lockFlags) error {
	held, err := f.acquire(ctx, s)
	if err != nil {
		return skipped(err)
	}
	a.ending.after(held.tells("ended"))
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
			_ = a.Answer(held.tells("revoked")) // one who reads no more may still hold on
		}
	}
}

// grip is a lock, or a set of locks that are held as one.
type grip interface {
	Remaining() time.Duration
	Err() error
	Done() <-chan struct{}
	Revoked() <-chan struct{}
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// holding is the keys that a command holds.
type holding struct {
	grip

	keys   []heldKey // in the order in which they were given
	shared bool
	slot   int // of --limit; -1: there is none
}

// heldKey is one of them, as --json shows it.
type heldKey struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
}

func holdingOf(lock *redlock.Lock) *holding {
	return &holding{lock, []heldKey{{lock.Resource(), uint64(lock.Token())}}, lock.Shared(), lock.Slot()}
}

func holdingAll(set *redlock.MultiLock, shared bool) *holding {
	h := &holding{grip: set, shared: shared, slot: -1}
	for _, key := range set.Resources() {
		h.keys = append(h.keys, heldKey{key, uint64(set.Token(key))})
	}
	return h
}

// tells makes an event of what is held. The first key stands where a single one does.
func (h *holding) tells(name string) event {
	e := event{Event: name, Key: h.keys[0].Key, Token: h.keys[0].Token, Shared: h.shared, Left: h.Remaining().Milliseconds()}
	if len(h.keys) > 1 {
		e.Keys = h.keys
	}
	if h.slot >= 0 {
		e.Slot = &h.slot
	}
	return e
}

// label is what messages call the keys.
func (h *holding) label() string {
	keys := make([]string, len(h.keys))
	for i, k := range h.keys {
		keys[i] = k.Key
	}
	return labelOf(keys)
}

func labelOf(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	return fmt.Sprintf("%s and %d more", keys[0], len(keys)-1)
}

// checkKeys says what is wrong with the keys of a command, before a node is asked.
func checkKeys(keys []string) error {
	if n := len(keys); n > redlock.MaxSet {
		return cli.Usagef("%d keys: at most %d are held together", n, redlock.MaxSet)
	}
	seen := map[string]bool{}
	for _, key := range keys {
		switch {
		case key == "":
			return cli.Usagef("a KEY is empty: give each a name")
		case seen[key]:
			return cli.Usagef("the key %q is given twice: give each key once", key)
		}
		seen[key] = true
	}
	return nil
}

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
TSTP stops it. After INT, QUIT or TERM it does not campaign again, however CMD ends.

With --revocable, others may ask for the lead (redlock revoke). The group of CMD gets
--revoked-signal then, once; when CMD ends, lead resigns.

CMD's environment has REDLOCK_KEY, REDLOCK_TOKEN (the fencing token, larger in each lead:
have the resource refuse a smaller one than the largest it has seen) and
REDLOCK_VALIDITY_MS. Others see who leads by: redlock observe KEY. --value is what they
are told.

With --json, what happens is told on stderr, one value a line: "held", "ending", "killed",
"revoked", "ended" as by exec, and "waiting" before each campaign.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			e := &execution{command: "lead"}
			e.defineHold(fs)
			e.defineEnd(fs)
			cli.DurationFlag(fs, &e.maxHold, "max-hold", 0, "lead for this `DURATION` at most, then end CMD and campaign again")
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

// takeLead checks the arguments.
func (e *execution) takeLead(args []string) error {
	if err := e.take(args); err != nil {
		return err
	}
	if e.now {
		return cli.Usagef("--wait %v: lead waits for its turn: give a positive duration, or run exec -n for one attempt", e.wait)
	}
	return nil
}
