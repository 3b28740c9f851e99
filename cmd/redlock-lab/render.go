package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

func renderCommand(a *app) cli.Command {
	return cli.Command{
		Name: "render", Synopsis: "[flags] TRACE", Summary: "judge a trace again, and draw it",
		About: `Reads TRACE, JSON lines as play --trace writes them or as a program of yours does (package
chaos, Record), judges it, and draws it with --html or --svg. "-" reads stdin.

Exit status: 0 if all was as claimed, or nothing is claimed of it; 1 if not; 65 if TRACE is
no trace, 66 if it is not there.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			o := &outputs{}
			o.define(fs)
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one TRACE"); err != nil {
					return err
				}
				return a.render(args[0], o)
			}
		},
	}
}

// render judges a trace that was written before, and draws it.
func (a *app) render(name string, o *outputs) error {
	in := io.ReadCloser(a.In)
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // G304: the file that the user asks for
		if err != nil {
			return &cli.StatusError{Code: exitNoInput, Cause: err}
		}
		in = f
	}
	defer in.Close()
	runs, err := trace.ReadRuns(in)
	if err != nil {
		return &cli.StatusError{Code: exitBadData, Cause: fmt.Errorf("%s: %w", name, err)}
	}
	return errors.Join(a.save(o, runs), a.report(runs, o))
}
