// Command quickstart takes a lock over five masters, loses two of them while it
// holds, and hands the lock to a second contender.
//
//	go run ./examples/quickstart
//
// needs nothing but Go: the masters live in its own process. To try it over
// servers of yours, none of which it touches beyond the lock:
//
//	REDLOCK_NODES=127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 go run ./examples/quickstart
//
// It exits with 1 if anything did not go as it says.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock"
)

const (
	resource = "orders/42"
	// A short lease, so that the demonstration outlasts it.
	ttl  = 2 * time.Second
	hold = 2500 * time.Millisecond
	// patience bounds the whole of it.
	patience = 2 * time.Minute
)

func main() {
	logging.Disable() // go-redis would log each failed dial; here they are the point
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("REDLOCK_NODES"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run makes the masters, or takes those of list, and shows a lock over them.
func run(ctx context.Context, out io.Writer, list string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	started := time.Now()
	show := func(format string, args ...any) {
		fmt.Fprintf(out, "%5.2fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
	m, err := newMasters(ctx, list)
	if err != nil {
		return err
	}
	if err := m.join(ctx, show); err != nil {
		return errors.Join(err, m.close())
	}
	return errors.Join(demonstrate(ctx, m, show), m.close())
}

// demonstrate is the story; each of the two workers has a Locker, and clients,
// of its own, as two processes would.
func demonstrate(ctx context.Context, m *masters, show func(string, ...any)) error {
	show("%d masters %s: a quorum is %d", m.count, m.kind, m.count/2+1)

	first, err := m.workers[0].Acquire(ctx, resource)
	if err != nil {
		return err
	}
	show("worker 1 holds %s with token %v, for %v and renewed", resource, first.Token(), ttl)
	shown, err := settled(ctx, m.workers[1])
	if err != nil {
		return err
	}
	show("%d of %d masters show it as the holder", shown, m.count)
	show("%s", m.lose())
	if _, err := m.workers[1].TryAcquire(ctx, resource); !errors.Is(err, redlock.ErrNotAcquired) {
		return fmt.Errorf("worker 2 tried to take what worker 1 holds, and got %w", err)
	}
	show("worker 2 tries to take it: refused")

	second, err := contend(ctx, m.workers[1], first, show)
	if err != nil {
		return err
	}
	if second.Token() <= first.Token() {
		return fmt.Errorf("worker 2 got token %v after %v", second.Token(), first.Token())
	}
	show("worker 2 holds it with token %v, which is greater", second.Token())
	show("a resource that checks tokens now refuses worker 1's: that is what they are for")
	if err := second.Release(ctx); err != nil {
		return err
	}
	show("worker 2 has released: done")
	return nil
}

// contend makes the second worker wait for a lock that the first one holds for
// longer than a lease, and then releases.
func contend(ctx context.Context, worker *redlock.Locker, first *redlock.Lock, show func(string, ...any)) (*redlock.Lock, error) {
	type result struct {
		lock *redlock.Lock
		err  error
	}
	won := make(chan result, 1)
	go func() {
		lock, err := worker.Acquire(ctx, resource)
		won <- result{lock, err}
	}()
	show("worker 2 waits for it")

	select {
	case r := <-won:
		return nil, errors.Join(errors.New("worker 2 did not wait while worker 1 held"), r.err)
	case <-first.Done():
		return nil, fmt.Errorf("worker 1 lost the lock: %w", first.Err())
	case <-time.After(hold):
	}
	show("worker 1 still holds it after %v, longer than its first lease", hold)

	released := time.Now()
	if err := first.Release(ctx); err != nil {
		return nil, err
	}
	show("worker 1 has released; its lock says: %v", first.Err())
	r := <-won
	if r.err == nil {
		show("worker 2 was granted it %v after the release", time.Since(released).Round(time.Millisecond))
	}
	return r.lock, r.err
}

// settled waits until every master that answers shows the holder, and returns
// how many do. The lock is held from the moment a quorum granted it; the other
// masters' grants come a moment later, and the lock can outlive only as many
// masters as granted it beyond a quorum.
func settled(ctx context.Context, worker *redlock.Locker) (int, error) {
	for {
		seen, err := worker.Inspect(ctx, resource)
		if err != nil {
			return 0, err
		}
		shown, answered := 0, 0
		for _, node := range seen.Nodes {
			if node.Err == nil {
				answered++
			}
			if node.Owner != "" {
				shown++
			}
		}
		if shown == answered {
			return shown, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d masters show a holder of %s: %w", shown, answered, resource, ctx.Err())
		}
	}
}
