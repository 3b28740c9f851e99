// Package pausedholder plays the failure that fencing exists for: a holder that
// stops after it was granted the lock, sleeps through the end of its lease, and
// writes when it wakes (Kleppmann, "How to do distributed locking", 2016).
//
// The tokens are the scenario's own, so that a guard is tested for what it does
// with them and not for where they come from.
package pausedholder

import "github.com/quorumkit/redlock"

// The tokens of the two holders, and what each of them writes.
const (
	PausedToken redlock.Token = 41
	NextToken   redlock.Token = 42

	PausedEarly = "the paused holder, in time"
	NextValue   = "the next holder"
	PausedLate  = "the paused holder, too late"
)

// Result is the outcome of the three writes, in the order they were made.
type Result struct {
	Early error // the first holder's write while it held the lock
	Next  error // the next holder's write after the first one's lease
	Late  error // the first holder's write after its pause
}

// Run plays the scenario on a resource that only write changes. It blocks until
// the last of the three writes has returned.
//
// The order is forced by channels: there is no clock in it, and no run in which
// the late write comes early.
func Run(write func(token redlock.Token, value string) error) Result {
	var r Result
	paused, resume, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r.Early = write(PausedToken, PausedEarly)
		close(paused)
		<-resume // the stop of the world, longer than the lease
		r.Late = write(PausedToken, PausedLate)
	}()
	<-paused
	r.Next = write(NextToken, NextValue)
	close(resume)
	<-done
	return r
}
