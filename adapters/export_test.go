package adapters

import (
	"time"

	"github.com/quorumkit/redlock"
)

// Hold is the lock by which this process leads.
func (e *Elector) Hold() *redlock.Lock {
	e.candidate.mu.Lock()
	defer e.candidate.mu.Unlock()
	return e.candidate.reign.held.lock
}

// LeadsAfter tells whether this process leads, and by which token, after a while in which the campaign learns
// nothing: as when the process stands still, and has just come back.
func (e *Elector) LeadsAfter(d time.Duration) (redlock.Token, bool) {
	e.candidate.mu.Lock()
	defer e.candidate.mu.Unlock()
	time.Sleep(d)
	return e.candidate.tokenLocked(), e.candidate.leading() != nil
}
