package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// A tally is a file with one summary per line, so that runs which follow one
// another, each in its own process, need nothing but an append.
func appendTally(name string, sum summary) error {
	line, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the caller names the file
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func readTally(name string) ([]summary, error) {
	f, err := os.Open(name) //nolint:gosec // the caller names the file
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // no run got as far as a count
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var sums []summary
	for dec := json.NewDecoder(bufio.NewReader(f)); ; {
		var sum summary
		err := dec.Decode(&sum)
		if errors.Is(err, io.EOF) {
			return sums, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sums = append(sums, sum)
	}
}

// closeTally prints each run's counts, each reason to skip and each failure, and
// then the closing line. It returns errFailed when anything failed.
func closeTally(name string, out io.Writer) error {
	sums, err := readTally(name)
	if err != nil {
		return err
	}
	var all summary
	for _, sum := range sums {
		fmt.Fprintf(out, "tests of %s: passed %d, failed %d, skipped %d\n",
			sum.Run, sum.Passed, len(sum.Failed), len(sum.Skipped))
		if sum.Dials > 0 {
			fmt.Fprintf(out, "tests of %s: %d lines say %q\n", sum.Run, sum.Dials, failedToDial)
		}
		all.Passed += sum.Passed
		all.Failed = append(all.Failed, sum.Failed...)
		all.Skipped = append(all.Skipped, sum.Skipped...)
	}
	printReasons(out, all.Skipped)
	for _, f := range all.Failed {
		fmt.Fprintf(out, "failed: %s\n%s", f.Name, indent(f.Words))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", all.Passed, len(all.Failed), len(all.Skipped))
	if len(all.Failed) > 0 {
		return errFailed
	}
	return nil
}

// printReasons groups the skips: one missing server is one line, not thirty.
func printReasons(out io.Writer, skips []skip) {
	byReason := map[string][]string{}
	for _, s := range skips {
		byReason[s.Reason] = append(byReason[s.Reason], s.Test)
	}
	for _, why := range sortedKeys(byReason) {
		tests := byReason[why]
		slices.Sort(tests)
		fmt.Fprintf(out, "skipped: %s (%d, the first is %s)\n", why, len(tests), tests[0])
	}
}
