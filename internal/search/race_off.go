//go:build !race

package search

// UnderRace is false: this build has no race detector.
const UnderRace = false
