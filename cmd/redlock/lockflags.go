package main

// What exec, lead and hold have in common: the flags of a lock, and the way to get one. Flags
// are named as flock(1) names them where it has them (-n, -E); --wait stands for -w, since
// durations have units here. A flag without a meaning for the command is not defined, so that
// package flag refuses it, rather than being ignored.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

// lockFlags are the flags of the commands that take a lock.
type lockFlags struct {
	ttl      time.Duration
	maxHold  time.Duration
	wait     time.Duration
	now      bool
	busyCode int
	holder   string
	value    string
	shared   bool
	limit    int  // 0 if none
	lets     bool // --revocable
	keys     []string
	app      *app // set by withLocks, as is session
	session  *session
	given    func(flag string) bool // it was given: 0 is refused then, though 0 is the default of some
	signals  chan os.Signal         // that ask for the end, from before anything is sent
	held     stopwatch              // since the lock was granted
}

// define adds the flags of exec and hold, and what --max-hold does: of lead it
// ends one lead, and the program goes on.
func (f *lockFlags) define(fs *flag.FlagSet, most string) {
	f.defineHold(fs, most)
	fs.BoolVar(&f.now, "n", false, "do not wait: give up if somebody else holds it")
	fs.BoolVar(&f.shared, "shared", false, "hold it beside others that do so too, never beside one without --shared")
	fs.Func("limit", fmt.Sprintf("hold it beside at most `N`-1 others that give the same N, 1 to %d", redlock.MaxLimit), f.takeLimit)
}

// takeLimit is for a flag whose bounds its error names.
func (f *lockFlags) takeLimit(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > redlock.MaxLimit {
		return fmt.Errorf("give 1 to %d", redlock.MaxLimit)
	}
	f.limit = n
	return nil
}

// defineHold adds those that lead has as well.
func (f *lockFlags) defineHold(fs *flag.FlagSet, most string) {
	cli.DurationFlag(fs, &f.maxHold, "max-hold", 0, most)
	cli.DurationFlag(fs, &f.ttl, "ttl", redlock.DefaultTTL, "the lease that is renewed meanwhile, a `DURATION`: how long a dead holder blocks others")
	cli.DurationFlag(fs, &f.wait, "wait", 0, "give up after this `DURATION` (default: wait until the lock is free, and nodes answer)")
	fs.IntVar(&f.busyCode, "E", exitBusy, "the exit `STATUS` if somebody else holds it")
	fs.StringVar(&f.holder, "holder", "", "the `LABEL` that status shows (default: host:pid)")
	fs.StringVar(&f.value, "value", "", "`TEXT` that observe shows, behind the label in what status shows: no secret")
	fs.BoolVar(&f.lets, "revocable", false, "others may ask for it: redlock revoke")
	f.given = func(name string) (set bool) {
		fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
		return set
	}
}

// validate checks the keys, and what the library can't know. The library checks the rest,
// TTL against MaxTTL and node timeout, and its errors get status 64 as well (exitCode).
func (f *lockFlags) validate() error {
	if err := cli.Positive("--ttl", f.ttl); err != nil {
		return err
	}
	switch {
	case f.wait < 0:
		return cli.Usagef("--wait %v: give a positive duration, or 0 for one attempt", f.wait)
	case f.maxHold < 0 || f.maxHold == 0 && f.given("max-hold"):
		return cli.Usagef("--max-hold %v: give a positive duration", f.maxHold)
	case f.now && f.wait > 0:
		return cli.Usagef("give -n or --wait, not both")
	// A status has eight bits: 256 would be told as 0, which means done.
	case f.busyCode < 0 || f.busyCode > 255:
		return cli.Usagef("-E %d: give a status from 0 to 255", f.busyCode)
	// A slot is held alone, and a shared hold has no slot: each is refused by the library too,
	// though with the names of its options.
	case f.limit > 0 && f.shared:
		return cli.Usagef("give --limit or --shared, not both")
	case f.limit > 0 && len(f.keys) > 1:
		return cli.Usagef("--limit is for one KEY: got %d", len(f.keys))
	}
	// --wait 0 is the one attempt of -n: WithWait(0) would mean no bound.
	f.now = f.now || f.given("wait") && f.wait == 0
	return checkKeys(f.keys)
}

// listen keeps signals for acquire, and for what follows it.
func (f *lockFlags) listen() {
	f.signals = make(chan os.Signal, 64) // a full channel loses signals; nobody types faster than it is read
	cli.WatchFor(f.signals, cli.Endings...)
	keepPipes()
}

// keepPipes keeps a closed stdout or stderr from ending the program, which would
// leave a lock, or a child, behind. Unlike signal.Ignore it is not inherited.
func keepPipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

func (f *lockFlags) options() []redlock.Option {
	label := f.holder
	// flock has no holder to show. Here status does, and host and pid lead to the process.
	if label == "" {
		host, _ := os.Hostname()
		label = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return []redlock.Option{redlock.WithTTL(f.ttl), redlock.WithHolder(label)}
}

// acquire takes the keys, and sees to it that they have most of their TTL left (lengthen).
// A signal that comes before it returns ends the wait; a lock that was granted at the
// same moment is released, so that nothing is started after the signal. If it
// returns an error, no lock is held. It waits for the request's goroutine even after a
// signal: only then is it known whether a lock was granted.
func (f *lockFlags) acquire(ctx context.Context, s *session) (*holding, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var held *holding
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if held, err = f.request(ctx, s); err == nil {
			f.held = startWatch()
			err = lengthen(ctx, held, f.ttl)
		}
	}()
	end := f.tellHeld(ctx)
	defer end()
	var by os.Signal
	select {
	case by = <-f.signals:
		cancel()
		<-done
	case <-done:
		// Both may be ready, and select chooses by chance: the signal has to win.
		select {
		case by = <-f.signals:
		default:
		}
	}
	if held != nil && (by != nil || err != nil) {
		_ = held.Release(ctx) // unconfirmed, or ended before: it lapses
	}
	switch {
	case by != nil:
		return nil, &cli.StatusError{Code: cli.SignalStatus(by), Cause: fmt.Errorf("%v while waiting for %s", by, labelOf(f.keys))}
	case err != nil && exitCode(err) == exitBusy:
		return nil, &cli.StatusError{Code: f.busyCode, Cause: f.busy(ctx, err)}
	case err != nil:
		return nil, err
	}
	return held, nil
}

// lookAtHolder bounds the look at who holds a busy key: it must not be waited for like the key.
const lookAtHolder = time.Second

// busy says first who holds the key, by one look at the nodes, if it tells and somebody reads it.
func (f *lockFlags) busy(ctx context.Context, err error) error {
	if f.busyCode != cli.ExitOK {
		ctx, cancel := context.WithTimeout(ctx, lookAtHolder)
		defer cancel()
		if by := f.heldBy(ctx); by != "" {
			return fmt.Errorf("%s is held by %s: %w", labelOf(f.keys), by, err)
		}
	}
	return fmt.Errorf("%w (redlock status KEY shows who holds it)", err)
}

func (f *lockFlags) acquireOptions() []redlock.AcquireOption {
	var opts []redlock.AcquireOption
	if f.shared {
		opts = append(opts, redlock.WithShared())
	}
	if f.limit > 0 {
		opts = append(opts, redlock.WithLimit(f.limit))
	}
	if f.lets {
		opts = append(opts, redlock.WithRevocation())
	}
	if f.value != "" {
		opts = append(opts, redlock.WithValue(f.value))
	}
	return opts
}

// request asks for the keys, for as long as --wait says. Without --wait it has no bound, as
// flock has none. Several keys are one call: AcquireAll prevents the deadlock of two callers
// with other orders.
func (f *lockFlags) request(ctx context.Context, s *session) (*holding, error) {
	opts := f.acquireOptions()
	one, all := s.locker.Acquire, s.locker.AcquireAll
	if f.now {
		one, all = s.locker.TryAcquire, s.locker.TryAcquireAll
	} else if f.wait > 0 {
		opts = append(opts, redlock.WithWait(f.wait))
	}
	if len(f.keys) > 1 {
		set, err := all(ctx, f.keys, opts...)
		if err != nil {
			return nil, err
		}
		return holdingAll(set, f.shared), nil
	}
	lock, err := one(ctx, f.keys[0], opts...)
	if err != nil {
		return nil, err
	}
	return holdingOf(lock), nil
}

// skipped drops the error of a busy lock if the user asked for status 0 (--skip-if-busy, or
// -E 0): cron mails each word on stderr.
func skipped(err error) error {
	var known *cli.StatusError
	if errors.As(err, &known) && known.Code == cli.ExitOK {
		return nil
	}
	return err
}

// checkKeys says what is wrong with the keys of a command, before a node is asked. The
// library would refuse them too, in words about names of a set.
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
