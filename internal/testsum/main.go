// Command testsum runs `go test -json` and says in plain lines what happened: a
// line for each package, the whole output of each failing test when it fails, and
// the reason of each skip.
//
//	testsum [-tally file] [-run name] [-v] -- go test -json ./...
//	testsum -close file
//
// The first form exits non-zero when a test failed, when a package could not be
// built or ended without a verdict, when the command itself failed, and when go-redis
// said more than a few times that it failed to dial; it appends its counts to the tally.
// The second form adds up a tally over all its runs, repeats how the words of each
// failure begin, and ends with one line, alone:
// "N passed, N failed, N skipped".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.Is(err, errFailed):
		os.Exit(1) // the closing line stays the last one
	case err != nil:
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
}

// errFailed ends a run whose failures have been printed already.
var errFailed = errors.New("there are failures")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		tallyFile = flags.String("tally", "", "append this run's counts to `file`")
		name      = flags.String("run", "go test", "what to call this run in the tally")
		verbose   = flags.Bool("v", false, "print the output of passing tests too")
		closeFile = flags.String("close", "", "add up the tally in `file` and print the closing line")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *closeFile != "" && flags.NArg() == 0:
		return closeTally(*closeFile, stdout)
	case *closeFile != "" || flags.NArg() == 0:
		return errors.New("want either a command after --, or -close file")
	}
	sum, err := runCommand(ctx, flags.Args(), stdout, stderr, *verbose)
	if err != nil {
		return err
	}
	sum.Run = *name
	if *tallyFile != "" {
		if err := appendTally(*tallyFile, sum); err != nil {
			return err
		}
	}
	if len(sum.Failed) > 0 {
		return errFailed
	}
	return nil
}

// runCommand runs args and summarises its standard output. A command that fails
// although no test of it did (a go.mod that does not parse, a pattern that
// matches nothing) counts as one failure, so that no tally calls it green.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer, verbose bool) (summary, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // running the caller's command is the purpose
	cmd.Stderr = stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return summary{}, err
	}
	if err := cmd.Start(); err != nil {
		return summary{}, err
	}
	sum, readErr := summarise(pipe, stdout, verbose)
	waitErr := cmd.Wait()
	if readErr != nil {
		return summary{}, readErr
	}
	if waitErr != nil && len(sum.Failed) == 0 {
		what := fmt.Sprintf("%s: %v, though no test failed", args[0], waitErr)
		fmt.Fprintln(stdout, "FAIL", what)
		sum.Failed = append(sum.Failed, failure{Name: what})
	}
	sum.failLoud(stdout)
	return sum, nil
}
