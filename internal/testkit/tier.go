// Package testkit decides how much of the project's own tests runs.
//
// REDLOCK_TEST says it: quick, which is the default, full or deep (CONTRIBUTING.md has
// what each costs). A test that is not of the quick tier says so in its first line.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// variable is the one switch. A value that is not one of the tiers ends the tests: a
// misspelt one must not run less than was asked for.
const variable = "REDLOCK_TEST"

func tier() string {
	switch t := os.Getenv(variable); t {
	case "":
		return "quick"
	case "quick", "full", "deep":
		return t
	default:
		panic(fmt.Sprintf("%s=%q: want quick, full or deep", variable, t))
	}
}

// Quick tells whether only the quick tier runs: `go test ./...`, at each save.
func Quick() bool { return tier() == "quick" }

// Deep tells whether everything runs: whole searches, sweeps of each command.
func Deep() bool { return tier() == "deep" }

// Full skips a test in the quick tier.
func Full(tb testing.TB) {
	tb.Helper()
	if Quick() {
		tb.Skip("the full tier has it: " + variable + "=full")
	}
}

// Unraced is [Full] for a test that plays whole plans. The race detector makes them ten
// times as slow: .ci/run plays them without.
func Unraced(tb testing.TB) {
	tb.Helper()
	Full(tb)
	if UnderRace {
		tb.Skip("played without the race detector")
	}
}

// NeedDeep skips a test but in the deep tier.
func NeedDeep(tb testing.TB) {
	tb.Helper()
	if !Deep() {
		tb.Skip("the deep tier has it: " + variable + "=deep")
	}
}

// Of is how many of something to try: all in the deep tier, few below it.
func Of[N int | int64 | uint64](few, all N) N {
	if Deep() {
		return all
	}
	return few
}

// Every is for sweeps: of how many commands one is tried, in each tier.
func Every[N int | int64](quick, full, deep N) N {
	switch {
	case Deep():
		return deep
	case Quick():
		return quick
	}
	return full
}
