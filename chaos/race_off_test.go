//go:build !race

package chaos_test

// raceDetector tells whether the tests run under it.
const raceDetector = false
