//go:build race

package yourcode

// raceDetector: it has Go's scheduler draw who is next, so that no two runs are alike.
const raceDetector = true
