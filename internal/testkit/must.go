package testkit

import (
	"errors"
	"testing"
	"time"
)

// Must ends the test where any of the errors is one.
func Must(tb testing.TB, errs ...error) {
	tb.Helper()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
}

// Eventually polls ok, in real time, and ends the test where it is not so within 10 s.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within 10 s", what)
		}
	}
}
