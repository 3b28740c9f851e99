package queue

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/node"
)

const (
	// quietFor is how long a subscription may be silent before the node is asked
	// whether it is still there: nothing else tells a connection that a firewall
	// forgot from a name that nobody releases.
	quietFor = 5 * time.Second
	// The pause before a subscription that broke is made anew doubles from the one
	// to the other while that fails.
	firstResubscribe = 50 * time.Millisecond
	lastResubscribe  = 800 * time.Millisecond
)

// subscription is the connection over which one node calls this Locker, whatever
// the number of names that it waits for. A call is a hint and no more: it may be
// lost, doubled, late or forged, and all that it brings about is a question.
type subscription struct {
	node    *node.Node
	channel string
	clock   *clock.Clock
	called  func(node int, key string)
	renewed func(node int) // calls may have been missed before

	up      atomic.Bool
	settled chan struct{} // closed when it is up for the first time, or has failed
	first   atomic.Bool
	stopped chan struct{}
}

// run keeps the subscription up until ctx is done.
func (s *subscription) run(ctx context.Context) {
	defer close(s.stopped)
	failures := 0
	for ctx.Err() == nil {
		s.listen(ctx)
		failures++
		if s.up.Swap(false) {
			failures = 0
		}
		s.settle()
		pause := s.clock.NewTimer(min(firstResubscribe<<min(failures, 10), lastResubscribe))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
	s.settle()
}

func (s *subscription) settle() {
	if s.first.CompareAndSwap(false, true) {
		close(s.settled)
	}
}

// listen makes one subscription and hears it out. go-redis would connect and
// subscribe again by itself: in silence, and with a mutex held that Close needs. A
// context that is over keeps it from that; a new subscription says when that was.
// Receive is used because Channel drops messages when many come at once.
func (s *subscription) listen(ctx context.Context) {
	p := s.node.Client.Subscribe(ctx) // to nothing: it does not connect yet
	if p.Subscribe(ctx, s.channel) != nil {
		_ = p.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer func() {
		if stop() {
			_ = p.Close() // only ErrClosed
		}
	}()
	once, end := context.WithCancel(context.WithoutCancel(ctx))
	end()
	asked := false
	limit := node.DialShare * s.node.Timeout
	for ctx.Err() == nil {
		message, err := p.ReceiveTimeout(once, limit)
		var timeout net.Error
		switch {
		case err == nil:
			asked, limit = false, quietFor
		case asked || !s.up.Load() || !errors.As(err, &timeout) || !timeout.Timeout():
			return
		default:
			if asked, limit = true, s.node.Timeout; p.Ping(once) != nil {
				return
			}
			continue
		}
		switch m := message.(type) {
		case *redis.Subscription:
			s.up.Store(true)
			s.settle()
			s.renewed(s.node.Index)
		case *redis.Message:
			s.called(s.node.Index, m.Payload)
		}
	}
}
