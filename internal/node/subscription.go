package node

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// quietFor is how long a subscription may be silent before the node is asked
	// whether it is still there: nothing else tells a connection that a firewall
	// forgot from a name that nobody releases. A call that is lost in these seconds costs
	// its waiter a look (quorum.RestAfter), and no turn.
	quietFor = 5 * time.Second
	// The pause before a subscription that broke is made anew doubles from the one
	// to the other while that fails. The first is short: a waiter whose connection is back
	// within its sign of life (700 ms after a call, ADR 17) keeps its turn.
	firstResubscribe = 50 * time.Millisecond
	lastResubscribe  = 800 * time.Millisecond
)

// Subscription is the connection over which one node tells this Locker what is
// published on its channels, no matter their number. What comes is a hint and no more: it
// may be lost, doubled, late or forged, and all that it brings about is a question. A grant
// by push too is judged like any reply (SubmitPush).
type Subscription struct {
	node *Node
	// heard and renewed are called by Run's goroutine, with no mutex held; renewed after each
	// time that the node took a subscription in: hints may have been missed before.
	heard   func(node int, channel, message string)
	renewed func(node int)

	mu       sync.Mutex // guards the fields below; held while subscribe sends what changed meanwhile
	channels map[string]bool
	open     *redis.PubSub // the connection that is subscribed to some of them; nil if none is

	up      atomic.Bool   // the node has said that it will tell us
	settled chan struct{} // closed when it is up for the first time, or has failed
	first   atomic.Bool   // settled is closed
	stopped chan struct{} // closed when Run has ended
}

// NewSubscription makes one to these channels. It does nothing before Run.
func NewSubscription(n *Node, heard func(node int, channel, message string), renewed func(node int), channels ...string) *Subscription {
	s := &Subscription{
		node: n, heard: heard, renewed: renewed, channels: make(map[string]bool),
		settled: make(chan struct{}), stopped: make(chan struct{}),
	}
	for _, c := range channels {
		s.channels[c] = true
	}
	return s
}

// Up tells whether the node has said that it will tell us.
func (s *Subscription) Up() bool { return s.up.Load() }

// Settled is closed when it is up for the first time, or has failed.
func (s *Subscription) Settled() <-chan struct{} { return s.settled }

// Stopped is closed when Run has ended.
func (s *Subscription) Stopped() <-chan struct{} { return s.stopped }

// Add subscribes to one more channel. Where the node is reached it blocks until
// that is sent, and renewed is called when the node has taken it in. The channel is noted
// before the connection is looked up: either this call sends it, or subscribe does.
func (s *Subscription) Add(ctx context.Context, channel string) {
	s.mu.Lock()
	s.channels[channel] = true
	p := s.open
	s.mu.Unlock()
	if p != nil {
		_ = p.Subscribe(over(ctx), channel) // what fails ends the connection, and a new one has all channels
	}
}

// Drop ends Add. A message that was on its way may still be heard.
func (s *Subscription) Drop(ctx context.Context, channel string) {
	s.mu.Lock()
	delete(s.channels, channel)
	p := s.open
	s.mu.Unlock()
	if p != nil {
		_ = p.Unsubscribe(over(ctx), channel) // as in Add
	}
}

// Run keeps the subscription up until ctx is done. A connection that was up and broke starts
// the pauses anew; one that never came up lengthens them.
func (s *Subscription) Run(ctx context.Context) {
	defer close(s.stopped)
	failures := 0
	for ctx.Err() == nil {
		s.listen(ctx)
		failures++
		if s.up.Swap(false) {
			failures = 0
		}
		s.settle()
		pause := s.node.Clock.NewTimer(min(firstResubscribe<<min(failures, 10), lastResubscribe))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
	s.settle()
}

// settle closes settled, once: by success, by failure, or by the end of Run. A waiter does not
// wait longer for a node that can't be subscribed to: it looks there instead.
func (s *Subscription) settle() {
	if s.first.CompareAndSwap(false, true) {
		close(s.settled)
	}
}

// over is a context that has ended. go-redis would connect and subscribe again by itself:
// in silence, and with a mutex held that Close needs. This keeps it from that; a new
// subscription says when that was.
func over(ctx context.Context) context.Context {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	end()
	return ctx
}

// listen makes one subscription and hears it out, until the connection fails or ctx is done.
// It uses Receive, since go-redis's Channel drops messages when many come at once.
//
// A connection that is silent for quietFor is asked by PING, and ends if that has no answer
// within the node timeout. PING is sent once for each silence (asked). Whether the user may
// PING does not matter: an error reply is an answer as well.
func (s *Subscription) listen(ctx context.Context) {
	p := s.node.Calls.Subscribe(ctx) // to nothing: it does not connect yet
	ready := s.subscribe(ctx, p)
	stop := context.AfterFunc(ctx, func() { _ = p.Close() }) // ends a Receive that blocks
	defer func() {
		s.mu.Lock()
		s.open = nil
		s.mu.Unlock()
		if stop() {
			_ = p.Close() // only ErrClosed
		}
	}()
	if !ready {
		return
	}
	once := over(ctx)
	asked := false
	limit := DialShare * s.node.Timeout // for the first message, which says that it is up
	for ctx.Err() == nil {
		message, err := receive(once, p, limit)
		var timeout net.Error
		switch {
		case err == nil:
			asked, limit = false, quietFor
		case asked && s.up.Load() && redis.HasErrorPrefix(err, "NOPERM"):
			asked, limit = false, quietFor // it may not PING, and has answered
			continue
		case asked || !s.up.Load() || !errors.As(err, &timeout) || !timeout.Timeout():
			return // the connection failed, did not come up, or left the PING without an answer
		default: // it was silent
			if asked, limit = true, s.node.Timeout; p.Ping(once) != nil {
				return
			}
			continue
		}
		switch m := message.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				s.up.Store(true)
				s.settle()
				s.renewed(s.node.Index)
			}
		case *redis.Message:
			s.heard(s.node.Index, m.Channel, m.Payload)
		}
	}
}

// receive is ReceiveTimeout, which panics at a push that is empty or has no string where one
// belongs (careful does the same for calls). No Redis server sends that, so the connection has
// failed.
func receive(ctx context.Context, p *redis.PubSub, limit time.Duration) (message any, err error) {
	defer spare(&err)
	return p.ReceiveTimeout(ctx, limit)
}

// subscribe connects, and subscribes to all channels. From then on Add and Drop send
// their own. It dials without mu, which may take long; what Add and Drop changed meanwhile
// is sent under it, so that no change falls between them and open.
func (s *Subscription) subscribe(ctx context.Context, p *redis.PubSub) bool {
	s.mu.Lock()
	var first []string
	for c := range s.channels {
		first = append(first, c)
	}
	s.mu.Unlock()
	if len(first) == 0 || p.Subscribe(ctx, first...) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = p
	var late, gone []string // since then
	for c := range s.channels {
		if !slices.Contains(first, c) {
			late = append(late, c)
		}
	}
	for _, c := range first {
		if !s.channels[c] {
			gone = append(gone, c)
		}
	}
	return (len(late) == 0 || p.Subscribe(over(ctx), late...) == nil) && (len(gone) == 0 || p.Unsubscribe(over(ctx), gone...) == nil)
}
