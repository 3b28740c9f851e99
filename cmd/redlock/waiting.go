package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/fault"
)

const (
	// quorumPatience is for how long a command waits for a quorum before it says so, and how
	// often it looks for another cause after that. A node that is busy, or restarts, is often
	// back before.
	quorumPatience = 2 * time.Second
	// quorumGlance is how often it looks whether it waits for a quorum at all.
	quorumGlance = quorumPatience / 8
)

// withLocks runs a command that takes locks. While it waits for a quorum, it says why there
// is none: a job of cron would hang for ever, and mail nothing. Of a lock that others hold
// nothing is said, as flock does.
func (a *app) withLocks(ctx context.Context, f *lockFlags, do func(context.Context, *session) error, opts ...redlock.Option) error {
	return a.withSession(ctx, func(ctx context.Context, s *session) error {
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { a.tellWaits(watching, s, labelOf(f.keys)) })
		err := do(ctx, s)
		stop()
		watch.Wait()
		a.tellLeftOut(ctx, s, err)
		return err
	}, opts...)
}

// tellWaits says why there is no quorum, once a lock was wanted for quorumPatience without
// one, and again when there is another cause.
func (a *app) tellWaits(ctx context.Context, s *session, wanted string) {
	told := ""
	for pause := quorumGlance; ; {
		t := newTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		lacked := s.lacking()
		if lacked < quorumPatience {
			if pause = quorumGlance; lacked == 0 {
				told = ""
			}
			continue
		}
		pause = quorumPatience
		status, err := s.locker.Cluster().Status(ctx)
		if err != nil || status.Votes() >= status.Quorum {
			continue
		}
		if cause, words := quorumWords(status); cause != told {
			a.complain("waiting for " + wanted + ": " + words)
			told = cause
		}
	}
}

// quorumWords is why too few nodes vote, and what may be done. cause is the same for as long
// as the nodes are in the same states: what they say of it may have the time in it.
func quorumWords(status redlock.ClusterStatus) (cause, words string) {
	var g fault.Grouped
	joining := false
	for _, n := range status.Nodes {
		cause += fmt.Sprint(n.State, n.Refuses != "", n.Cause != "", ";")
		switch {
		case n.State == redlock.NodeJoining:
			joining = true
			g.Add(n.Name, "new or returned, voting in "+cli.Short(max(n.Left.Round(time.Second), time.Second)))
		case n.State == redlock.NodeMember && n.Cause == "" && n.Refuses == "":
		default:
			g.Add(n.Name, n.State.String()+": "+because(n))
		}
	}
	remedy := " (see: redlock doctor)"
	if joining {
		remedy = " (at once, if no lock made before is held: redlock nodes admit --yes)"
	}
	var nodes []string
	g.Each(func(names string, _ int, words string) { nodes = append(nodes, names+" "+words) })
	return cause, worded(fmt.Sprintf("no quorum: %d of %s vote, it takes %d: %s",
		status.Votes(), plural(len(status.Nodes), "node"), status.Quorum, strings.Join(nodes, "; "))) + remedy
}

// dial is how go-redis connects.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// stall makes a node's connections fall silent while it lasts: what is written is lost,
// as it is to a node that hangs, and the reader waits.
type stall struct {
	mu    sync.Mutex
	lasts bool
	owed  map[net.Conn]struct{} // those that lost something, on which no reply will come
}

// begin has what is written be lost from now on.
func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts, s.owed = true, make(map[net.Conn]struct{})
}

// end closes the connections that lost something: nobody waits for a timeout on them.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts = false
	for c := range s.owed {
		_ = c.Close()
	}
	s.owed = nil
}

// loses tells whether what is written to c now is lost.
func (s *stall) loses(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasts {
		s.owed[c] = struct{}{}
	}
	return s.lasts
}

// of has connections be subject to the stall.
func (s *stall) of(base dial) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := base(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return stalledConn{c, s}, nil
	}
}

// stalledConn is a connection that may fall silent.
type stalledConn struct {
	net.Conn

	stall *stall
}

// Write sends p, or loses it.
func (c stalledConn) Write(p []byte) (int, error) {
	if c.stall.loses(c.Conn) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// ending is the last event of a command that takes a lock: with --json, every end of exec,
// lead and hold has a line on stderr with its event, key and status. What is told of it
// grows while the command goes on.
type ending struct{ event }

func newEnding() *ending { return &ending{event{Event: "ended"}} }

// of makes the end tell of the keys that were asked for.
func (e *ending) of(keys []string) {
	if e != nil && len(keys) > 0 {
		e.Key = keys[0]
	}
}

// after makes the end tell of the hold by its last event.
func (e *ending) after(last event) {
	if e != nil {
		e.event = last
	}
}

// tellEnd says how a command ended: as an event where those are wanted, in words
// otherwise, if there are any.
func (a *app) tellEnd(code int, message string) {
	switch {
	case a.JSON && a.ending != nil:
		e := a.ending.event
		e.Status, e.Message = &code, unnamed(message)
		w := newEventWriter(a.Console)
		w.tell(e)
		w.close()
	case message != "":
		a.complain(message)
	}
}

const (
	// A lock is renewed at a third of its TTL, so two thirds are left of it in good
	// times. --kill-after is half of the TTL at most.
	renewedShare = 3
	// lengthenPause is the longest pause after an extension that no quorum confirmed;
	// it is shorter when little is left.
	lengthenPause = 250 * time.Millisecond
)

// lengthen returns when the lock has at least two thirds of ttl left, as one that is
// renewed in time has. A lock that the release of another granted has two to three
// seconds at first, no matter its TTL: what is planned by that, or told to a script,
// would be wrong a moment later. It sends nothing where enough is left.
//
// It blocks for one round trip, or until the lock ends where no quorum answers. Where
// the lock has ended its error has exit status 124. Any other error leaves the lock
// held: ctx's, with the last extension's, or Extend's.
//
// A missing quorum is no loss yet: a command that runs goes on meanwhile, and its lock
// is tried again until its validity ends. So it is here too. A lost message does not
// cost a lock that may have been waited for long. Nothing is started with the little
// that is left, because it would have to be ended at once. When that has passed, it is
// a lock that was lost before the start.
func lengthen(ctx context.Context, lock *holding, ttl time.Duration) error {
	var unconfirmed error
	for lock.Remaining() < ttl-ttl/renewedShare {
		err := lock.Extend(ctx, ttl)
		if err == nil {
			return nil
		}
		cause := lock.Err()
		switch {
		case cause != nil && unconfirmed != nil:
			return endedBy(lock.label(), fmt.Errorf("%w; it was not lengthened: %w", cause, unconfirmed))
		case cause != nil:
			return endedBy(lock.label(), cause)
		case ctx.Err() != nil || !errors.Is(err, redlock.ErrNoQuorum):
			return err
		}
		unconfirmed = err
		t := newTimer(max(min(lengthenPause, lock.Remaining()/4), time.Millisecond))
		select {
		case <-t.C:
		case <-lock.Done():
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}
