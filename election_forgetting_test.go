package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// A node that forgot shows nothing of a hold that stands: that is no sign that nobody
// leads, also to an observer whose Locker does nothing else and has not noticed yet.
func TestANodeThatForgotDoesNotSayThatNobodyLeads(t *testing.T) {
	testkit.Unraced(t)
	forget := map[string]func(*redlocktest.Node){
		"emptied":          (*redlocktest.Node).FlushAll,
		"restarted, empty": (*redlocktest.Node).Restart,
		"restarted, with old data": func(n *redlocktest.Node) {
			n.RestartKeepingData()
			n.Miniredis().Del("jobs")
		},
	}
	for how, forgets := range forget {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				idle := separateLocker(t, nodes)
				warm(t, l)
				told := observes(t, idle)
				wantVacant(t, isTold(t, told, time.Second))
				lock := mustAcquire(t, l, "jobs", redlock.WithFixedLease(), redlock.WithTTL(20*time.Second), redlock.WithValue("a"))
				wantLeader(t, isTold(t, told, 1100*time.Millisecond), "a", 0)
				time.Sleep(1300 * time.Millisecond)
				forgets(nodes.Node(1))
				forgets(nodes.Node(2))
				synctest.Wait()
				s := isTold(t, told, 4*time.Second)
				wantError(t, "two of three nodes forgot", s.err, redlock.ErrNoQuorum)
				if err := lock.Err(); err != nil {
					t.Fatalf("the hold ended: %v", err)
				}
				isQuiet(t, told, 5*time.Second) // it is blank, and waits
				<-lock.Done()
				wantVacant(t, isTold(t, told, time.Minute)) // once they vote again
			})
		})
	}
}

// A node that forgot and was taken in anew votes: its looks count, though the observer's
// Locker knew it under another epoch.
func TestObserversLearnThatANodeWasTakenInAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		idle := separateLocker(t, nodes)
		warm(t, l)
		told := observes(t, idle)
		wantVacant(t, isTold(t, told, time.Second))
		for i := range 3 { // one after another: there is a quorum at every time
			nodes.Node(i).FlushAll()
			synctest.Wait()
			isQuiet(t, told, 3*time.Minute)
		}
		lock := mustAcquire(t, l, "jobs", redlock.WithValue("a"))
		wantLeader(t, isTold(t, told, 1100*time.Millisecond), "a", 0)
		mustRelease(t, lock)
	})
}
