package contenders

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// lease is every contender's: short, so that a run of all of them takes minutes. It is
// the shortest that etcd grants with an election timeout of two seconds.
const lease = 3 * time.Second

// countedLease is what a holder counts of a lease that it counts itself: one in a
// hundred less, for clocks that drift.
const countedLease = lease * 99 / 100

// pollEvery is how often those ask again who have no way to wait.
const pollEvery = 100 * time.Millisecond

// client is one process's end of a contender.
type client interface {
	// acquire waits until it has the lock on name, or until ctx is done.
	acquire(ctx context.Context, name string) (lock, error)
	close() error
}

// lock is a hold, as its holder sees it.
type lock interface {
	// held is what the holder may believe by what it knows, without asking anybody.
	held() bool
	// counts is who says so when held is false.
	counts() string
	// told gets one word of who says so when the lock is lost; nil: nobody ever does.
	told() <-chan string
	// ask asks the servers whether it is still held.
	ask(ctx context.Context) (bool, error)
	// fence is a number that is greater than that of every earlier hold; empty: none.
	fence() string
	release(ctx context.Context) error
}

// Who tells of a loss.
const (
	byLibrary = "library"   // unasked: a channel closes, a context ends, a state changes
	byCount   = "own count" // the holder's own code, which counts the lease
	byRenewal = "renewal"   // the renewal that the holder's own code sent
	bySession = "session"   // the connection or session that the lock lives by
	byWrite   = "its write" // the write of its work, which was refused
)

// errNotHeld means that a renewal found the lock with nobody, or with somebody else.
var errNotHeld = errors.New("the lock is not held any more")

// errLate means that a write was refused: somebody else wrote since the work began.
var errLate = errors.New("somebody else wrote first")

// renewed is the holder's own code around a lock that somebody must renew: it sends a
// renewal each third of the lease, counts the lease from when the last one was sent
// that succeeded, and stops believing at the end.
type renewed struct {
	until atomic.Int64 // by monotonic
	over  atomic.Bool  // it was not held at some look
	news  chan string
	stop  chan struct{}
	done  chan struct{}
}

// renew begins to renew what was asked for at sent. A renewal that fails with an error
// that is errNotHeld is the end; after any other it is tried again.
func renew(sent int64, who string, f func(ctx context.Context) error) *renewed {
	r := &renewed{news: make(chan string, 1), stop: make(chan struct{}), done: make(chan struct{})}
	r.until.Store(sent + int64(countedLease))
	go func() {
		defer close(r.done)
		r.run(who, f)
	}()
	return r
}

func (r *renewed) run(who string, f func(ctx context.Context) error) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
		over, sent := r.over.Load(), monotonic()
		ctx, cancel := context.WithTimeout(context.Background(), lease)
		err := f(ctx)
		cancel()
		switch {
		case errors.Is(err, errNotHeld):
			r.news <- who // first, so that who finds it over also finds who says so
			r.over.Store(true)
			return
		case err == nil && over: // it is ours again, to nobody's use
			return
		case err == nil:
			r.until.Store(sent + int64(countedLease))
		}
	}
}

func (r *renewed) held() bool {
	if monotonic() >= r.until.Load() {
		r.over.Store(true)
	}
	return !r.over.Load()
}

func (r *renewed) counts() string      { return byCount }
func (r *renewed) told() <-chan string { return r.news }

// end stops the renewals, and waits for the one that is under way: to break it off
// would break the session that some locks live by. It is called once or again, by one
// goroutine.
func (r *renewed) end() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	<-r.done
}
