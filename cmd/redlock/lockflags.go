package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

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
	waitSet  func() bool
	signals  chan os.Signal // that ask for the end, from before anything is sent
	held     stopwatch      // since the lock was granted
}

// define adds the flags of exec and hold.
func (f *lockFlags) define(fs *flag.FlagSet) {
	f.defineHold(fs)
	cli.DurationFlag(fs, &f.maxHold, "max-hold", 0, "end after this `DURATION`, renewed or not: exit status 123")
	fs.BoolVar(&f.now, "n", false, "do not wait: give up if somebody else holds it")
	fs.BoolVar(&f.shared, "shared", false, "hold it beside others that do so too, never beside one without --shared")
	fs.Func("limit", fmt.Sprintf("hold it beside at most `N`-1 others that give the same N, 1 to %d", redlock.MaxLimit), f.takeLimit)
}

func (f *lockFlags) takeLimit(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > redlock.MaxLimit {
		return fmt.Errorf("give 1 to %d", redlock.MaxLimit)
	}
	f.limit = n
	return nil
}

// defineHold adds those that lead has as well.
func (f *lockFlags) defineHold(fs *flag.FlagSet) {
	cli.DurationFlag(fs, &f.ttl, "ttl", redlock.DefaultTTL, "the lease that is renewed meanwhile, a `DURATION`: how long a dead holder blocks others")
	cli.DurationFlag(fs, &f.wait, "wait", 0, "give up after this `DURATION` (default: wait until the lock is free, and nodes answer)")
	fs.IntVar(&f.busyCode, "E", exitBusy, "the exit `STATUS` if somebody else holds it")
	fs.StringVar(&f.holder, "holder", "", "the `LABEL` that status shows (default: host:pid)")
	fs.StringVar(&f.value, "value", "", "`TEXT` that observe shows, behind the label in what status shows: no secret")
	fs.BoolVar(&f.lets, "revocable", false, "others may ask for it: redlock revoke")
	f.waitSet = func() bool {
		set := false
		fs.Visit(func(f *flag.Flag) { set = set || f.Name == "wait" })
		return set
	}
}

// validate checks the keys, and what the library can't know.
func (f *lockFlags) validate() error {
	if err := cli.Positive("--ttl", f.ttl); err != nil {
		return err
	}
	switch {
	case f.wait < 0:
		return cli.Usagef("--wait %v: give a positive duration, or 0 for one attempt", f.wait)
	case f.maxHold < 0:
		return cli.Usagef("--max-hold %v: give a positive duration", f.maxHold)
	case f.now && f.wait > 0:
		return cli.Usagef("give -n or --wait, not both")
	case f.busyCode < 0 || f.busyCode > 255:
		return cli.Usagef("-E %d: give a status from 0 to 255", f.busyCode)
	case f.limit > 0 && f.shared:
		return cli.Usagef("give --limit or --shared, not both")
	case f.limit > 0 && len(f.keys) > 1:
		return cli.Usagef("--limit is for one KEY: got %d", len(f.keys))
	}
	f.now = f.now || f.waitSet() && f.wait == 0
	return checkKeys(f.keys)
}

// listen has signals kept for acquire, and for what follows it.
func (f *lockFlags) listen() {
	f.signals = make(chan os.Signal, 64) // nobody types faster than it is read
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
	if label == "" {
		host, _ := os.Hostname()
		label = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return []redlock.Option{redlock.WithTTL(f.ttl), redlock.WithHolder(label + "/")}
}

// acquire takes the keys, and sees to it that they have most of their TTL left (lengthen).
// A signal that comes before it returns ends the wait; a lock that was granted at the
// same moment is released, so that nothing is started after the signal. Where it
// returns an error, no lock is held.
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
	var by os.Signal
	select {
	case by = <-f.signals:
		cancel()
		<-done
	case <-done:
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
		return nil, &cli.StatusError{Code: f.busyCode, Cause: err}
	case err != nil:
		return nil, err
	}
	return held, nil
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

// request asks for the keys, for as long as --wait says.
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

// skipped says nothing about a busy lock whose status was asked to be 0.
func skipped(err error) error {
	var known *cli.StatusError
	if errors.As(err, &known) && known.Code == cli.ExitOK {
		return nil
	}
	return err
}

// tellLeftOut says which nodes are left out for now. Who ends before their wait is
// over does not take them in; if all clients are that short, nobody does.
func (a *app) tellLeftOut(ctx context.Context, s *session, err error) {
	if !s.abstaining() && !abstained(err) {
		return
	}
	status, err := s.locker.Cluster().Status(ctx)
	if err != nil {
		return
	}
	var out []string
	for _, n := range status.Nodes {
		switch n.State {
		case redlock.NodeJoining:
			out = append(out, fmt.Sprintf("%s (votes in %s)", n.Name, cli.Short(n.Left)))
		case redlock.NodeBlank:
			out = append(out, fmt.Sprintf("%s (%s)", n.Name, n.Cause))
		case redlock.NodeUnreachable, redlock.NodeMember, redlock.NodeRetired, redlock.NodeForeign, redlock.NodeMisconfigured:
		}
	}
	if len(out) > 0 {
		a.complain(worded(strings.Join(out, ", ")) + ": new or returned, and not voting; this command ended before it could be taken in. Run: redlock nodes join --wait")
	}
}

// abstained tells whether an error names a node that answered and did not vote:
// the observer may be told of it later than the caller.
func abstained(err error) bool {
	var round *redlock.QuorumError
	if !errors.As(err, &round) {
		return false
	}
	return slices.ContainsFunc(round.Nodes, func(n redlock.NodeResult) bool { return n.Outcome == redlock.Abstained })
}

// endedBy is the error of a lock that ended under its holder.
func endedBy(key string, cause error) error {
	if cause == nil {
		cause = errors.New("its validity was about to end")
	}
	code := exitLost
	if errors.Is(cause, redlock.ErrMaxHold) {
		code = exitMaxHold
	}
	return &cli.StatusError{Code: code, Cause: fmt.Errorf("%s: %w", key, cause)}
}

// password finds the user information of a URL: all up to the last @ before the
// next comma or blank. A password may hold an @, and, against the rules, a slash.
var password = regexp.MustCompile(`(://)[^,\s]*@`)

// redact takes user names and passwords out of a message.
func redact(s string) string { return password.ReplaceAllString(s, "${1}***@") }

// takeArguments returns a copy of the arguments, and blots out in the original
// what may be a password. On Unix the original is the memory that ps shows; a
// password given there is seen for the milliseconds before this runs, and stays in
// the shell's history: hence the advice to use --nodes-file.
func takeArguments(args []string) []string {
	taken := make([]string, len(args))
	for i, s := range args {
		taken[i] = strings.Clone(s)
		// All between the first and the last, so that no odd password is left over.
		if from, to := strings.Index(s, "://"), strings.LastIndex(s, "@"); from >= 0 && to > from {
			blot(args[i], from+len("://"), to)
		}
	}
	return taken
}

// blot overwrites a part of an argument in place.
func blot(s string, from, to int) {
	memory := unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // G103: argv is writable memory of this process, and nobody else has read it yet
	for i := from; i < to; i++ {
		memory[i] = '*'
	}
}

// flagsOf are the flags of what the library's messages call options. An option that is
// not here has no flag, and keeps its name.
var flagsOf = map[string]string{
	"WithHolder":         "--holder",
	"WithLimit":          "--limit",
	"WithMaxHold":        "--max-hold",
	"WithMaxTTL":         "--max-ttl",
	"WithNodeNames":      "--node-names",
	"WithNodeTimeout":    "--node-timeout",
	"WithPrefix":         "--prefix",
	"WithRevocation":     "--revocable",
	"WithShared":         "--shared",
	"WithStrictRecovery": "--strict-recovery",
	"WithTLS":            "--cacert",
	"WithTTL":            "--ttl",
	"WithValue":          "--value",
	"WithWait":           "--wait",
}

var (
	option = regexp.MustCompile(`\bWith[A-Z][A-Za-z]*\b`)
	// both are messages that name the flag as well.
	both = strings.NewReplacer(
		"WithNodeNames, or --node-names", "--node-names",
		"--cacert, WithTLS, or the client's TLSConfig", "--cacert",
		"--cert and --key, WithTLS", "--cert and --key",
	)
)

// worded is a message of the library as the command says it: with its flags, and without
// passwords.
func worded(message string) string {
	return redact(option.ReplaceAllStringFunc(both.Replace(message), func(name string) string {
		if f := flagsOf[name]; f != "" {
			return f
		}
		return name
	}))
}

// advice is worded for who configures programs as well: it names both.
func advice(message string) string {
	return redact(option.ReplaceAllStringFunc(both.Replace(message), func(name string) string {
		if f := flagsOf[name]; f != "" {
			return f + " (" + name + ")"
		}
		return name
	}))
}

// oneLine is an error without the line breaks of joined ones.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return worded(strings.ReplaceAll(err.Error(), "\n", "; "))
}
