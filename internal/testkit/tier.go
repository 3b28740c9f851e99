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

// Unraced is [Full] and [NotRaced]. It is for a test in virtual time that needs no server.
// The race detector sees the same code in the tests of the quick tier, which run under it
// when the full tier does.
func Unraced(tb testing.TB) {
	tb.Helper()
	Full(tb)
	NotRaced(tb)
}

// NotRaced skips a test under the race detector, which makes it six to twenty times as slow
// and finds nothing in it. .ci/run runs it without.
func NotRaced(tb testing.TB) {
	tb.Helper()
	if UnderRace {
		tb.Skip("run without the race detector")
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

// Every is for sweeps: of how many commands one is tried, in each tier. Under the race
// detector it is as in the quick one.
func Every[N int | int64](quick, full, deep N) N {
	switch {
	case Deep():
		return deep
	case Quick() || UnderRace:
		return quick
	}
	return full
}
