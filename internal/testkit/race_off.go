//go:build !race

package testkit

// UnderRace is false: this build has no race detector.
const UnderRace = false
