package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/internal/cli"
)

// comparer is the program that compare runs. It has a module of its own, so that
// the clients of other systems are no requirements of this one.
const comparer = "redlock-compare"

// comparerFrom is how to get it.
const comparerFrom = "cd chaos/contenders && go install ./redlock-compare"

// comparerEnds is how long it has after a signal to end what it has started.
const comparerEnds = 15 * time.Second

func compareCommand(a *app) cli.Command {
	return cli.Command{
		Name: "compare", Synopsis: "[flags] [--] [ARG...]", Summary: "play the same failures to the locks of other systems",
		About: `Plays failures to redlock and to the locks of etcd, ZooKeeper, PostgreSQL, MariaDB, memcached
and other clients of Redis, on servers that it starts and kills itself, and writes one table
and a page of pictures for each failure. What is not installed here is not played, and the
table says so. A run takes ten to twenty minutes.

It runs the program redlock-compare of PATH, with ARGs: redlock-lab compare -- -h shows which
there are. The program has a module of its own. In a clone of this repository:

  ` + comparerFrom + `
  redlock-lab compare -- -contenders redlock,etcd -scenarios pause

Exit status: that of redlock-compare, 1 if redlock broke what it promises; 127 if it is not
in PATH.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			out := fs.String("out", "comparison", "the `DIR` for table.md, a page for each failure, and traces.jsonl")
			return func(ctx context.Context, args []string) error {
				return a.compare(ctx, *out, args)
			}
		},
	}
}

// compare runs the program with this one's standard streams.
func (a *app) compare(ctx context.Context, out string, args []string) error {
	path, err := exec.LookPath(comparer)
	if err != nil {
		return &cli.StatusError{Code: cli.ExitNotFound, Cause: fmt.Errorf("compare: no %s in PATH; in a clone of redlock's repository: %s", comparer, comparerFrom)}
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, path, append([]string{"-out", out}, args...)...) //nolint:gosec // the user's own, by its name
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = comparerEnds
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ended) && ended.Exited():
		return cli.Quietly(ended.ExitCode()) // it has said why
	case ended != nil:
		status, _ := ended.Sys().(syscall.WaitStatus)
		return &cli.StatusError{Code: cli.ExitSignal + int(status.Signal()), Cause: fmt.Errorf("compare: %s: %w", path, err)}
	case err != nil:
		return &cli.StatusError{Code: cli.ExitCannotRun, Cause: fmt.Errorf("compare: %s: %w", path, err)}
	}
	return nil
}
