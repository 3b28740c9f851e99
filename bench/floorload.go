package main

import (
	"bufio"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// batchMax is how many acquires, and how many releases, one flush carries: as
// many as the library sends.
const batchMax = 64

// floorLoad is the floor for many goroutines: a queue, a socket and one writer
// per node, batch scripts, what five nodes are sent encoded once, and locks that
// are used again when the last straggler has answered.
type floorLoad struct {
	scripts *scripts
	nodes   []*floorWriter
	quorum  int
	pool    sync.Pool
	rounds  atomic.Int64 // acquisitions
	raises  atomic.Int64 // of them with a second round trip
	writers sync.WaitGroup
}

// floorLock is one acquisition and, after it, its release.
type floorLock struct {
	floor *floorLoad
	owner [36]byte

	// What the requests are made of, as RESP words.
	key, dead, ownerWord, stripe, hint []byte

	at []atNode // by node; each guarded by its writer's mu

	refs atomic.Int32  // the nodes that will still touch it, and the caller
	done chan struct{} // one token: the round that was waited for is decided

	mu      sync.Mutex
	votes   []int64 // 0: none yet
	replies int
	phase   phase
	token   int64
	acks    int
}

// atNode is what a lock's acquire came to at one node.
type atNode uint8

const (
	queued  atNode = iota
	sent           // from here on a release must follow it
	dropped        // released before it was sent: it never will be
)

// phase is what a lock waits for.
type phase uint8

const (
	settling  phase = iota // grants
	raising                // raised grants
	holding                // nothing
	releasing              // deletions
)

func openFloorLoad(ctx context.Context, e *env) (contender, error) {
	f := &floorLoad{scripts: e.scripts, quorum: len(e.servers)/2 + 1}
	f.pool.New = func() any {
		l := &floorLock{floor: f, done: make(chan struct{}, 1), votes: make([]int64, len(e.servers)), at: make([]atNode, len(e.servers))}
		return l
	}
	for i, srv := range e.servers {
		if err := e.scripts.load(ctx, srv); err != nil {
			return nil, errors.Join(err, f.close())
		}
		epoch, err := epochOf(ctx, srv)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		conn, err := dial(ctx, e.addrs[i])
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		w := &floorWriter{
			floor: f, index: i, epoch: appendBulk(nil, epoch), conn: conn,
			r: bufio.NewReaderSize(conn, 1<<16), ints: make([]int64, batchMax),
		}
		w.cond = sync.NewCond(&w.mu)
		f.nodes = append(f.nodes, w)
		f.writers.Go(w.run)
	}
	return f, nil
}

func (f *floorLoad) acquire(_ context.Context, resource string) (held, error) {
	l, ok := f.pool.Get().(*floorLock)
	if !ok {
		return nil, errors.New("the pool holds something else")
	}
	l.prepare(resource)
	l.refs.Store(int32(len(f.nodes)) + 1) //nolint:gosec // five nodes
	f.rounds.Add(1)
	f.enqueue(jobAcquire, l)
	<-l.done
	l.mu.Lock()
	uneven, t := l.phase == raising, l.token
	l.mu.Unlock()
	if uneven {
		f.raises.Add(1)
		if err := f.raise(l); err != nil {
			return nil, err
		}
		return l, nil
	}
	if t <= 0 {
		return nil, errTaken
	}
	return l, nil
}

func (f *floorLoad) enqueue(j floorJob, l *floorLock) {
	for _, w := range f.nodes {
		w.put(j, l)
	}
}

// raise lifts the grants below the largest to it.
func (f *floorLoad) raise(l *floorLock) error {
	var below []*floorWriter
	l.mu.Lock()
	for i, v := range l.votes {
		if v > 0 && v < l.token {
			below = append(below, f.nodes[i])
		}
	}
	l.mu.Unlock()
	l.refs.Add(int32(len(below))) //nolint:gosec // five nodes
	for _, w := range below {
		w.put(jobRaise, l)
	}
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != holding {
		return errors.New("the token could not be raised on a quorum")
	}
	return nil
}

// prepare encodes what every node is sent.
func (l *floorLock) prepare(resource string) {
	newOwner(&l.owner)
	l.key = appendBulk(l.key[:0], resource)
	l.ownerWord = append(l.ownerWord[:0], "$36\r\n"...)
	l.ownerWord = append(append(l.ownerWord, l.owner[:]...), '\r', '\n')
	l.dead = append(l.dead[:0], "$49\r\n"+deadPrefix...)
	l.dead = append(append(l.dead, l.owner[:]...), '\r', '\n')
	l.stripe = appendInt(l.stripe[:0], stripeOf(resource))
	l.hint = appendInt(l.hint[:0], time.Now().UnixMicro())
	clear(l.at) // no writer knows of it yet
	l.mu.Lock()
	clear(l.votes)
	l.replies, l.phase, l.token, l.acks = 0, settling, 0, 0
	l.mu.Unlock()
}

// unref gives the lock back when nobody will touch it any more.
func (l *floorLock) unref() {
	if l.refs.Add(-1) == 0 {
		l.floor.pool.Put(l)
	}
}

func (l *floorLock) extend(context.Context) error { return errUnsupported }

func (l *floorLock) release(context.Context) error {
	l.mu.Lock()
	l.phase = releasing
	l.mu.Unlock()
	l.refs.Add(int32(len(l.floor.nodes))) //nolint:gosec // five nodes
	l.floor.enqueue(jobRelease, l)
	<-l.done
	l.unref()
	return nil
}

// granted takes one node's answer to the acquire.
func (l *floorLock) granted(node int, value int64) {
	defer l.unref()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != settling {
		return
	}
	l.votes[node] = value
	l.replies++
	t, same := agreed(l.votes)
	switch {
	case same >= l.floor.quorum:
		l.token, l.phase = t, holding
	case l.replies < len(l.votes):
		return
	default:
		l.phase = raising
		for _, v := range l.votes {
			l.token = max(l.token, v)
		}
		for _, v := range l.votes {
			if v == l.token {
				l.acks++
			}
		}
	}
	l.done <- struct{}{}
}

// answered takes one node's answer to a raise or a release. Batches of releases
// answer with a sum, so each answer counts as its lock's.
func (l *floorLock) answered(of, next phase, ok bool) {
	defer l.unref()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != of || !ok {
		return
	}
	if l.acks++; l.acks == l.floor.quorum {
		l.phase, l.acks = next, 0
		l.done <- struct{}{}
	}
}

func (f *floorLoad) close() error {
	var errs []error
	for _, w := range f.nodes {
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		w.cond.Signal()
		errs = append(errs, w.conn.Close())
	}
	f.writers.Wait()
	return errors.Join(errs...)
}
