//go:build !race

package yourcode

const raceDetector = false
