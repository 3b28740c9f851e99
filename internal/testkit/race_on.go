//go:build race

package testkit

// UnderRace: the race detector makes a search twenty times as slow, and finds
// nothing in a state machine: such a build searches a first part only.
const UnderRace = true
