package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock/internal/lua"
)

var (
	errTaken  = errors.New("taken") // by a quorum
	floorLife = strconv.FormatInt(ttl.Milliseconds(), 10)
)

// floor is about what the protocol costs at the least in this language: the library's own
// scripts on one socket a node, a wait for the quorum, and none of what makes a library (timers,
// retries, rollback, contexts). It raises no uneven tokens, which one acquisition in 500 has.
type floor struct {
	nodes   []*floorNode
	quorum  int
	running sync.WaitGroup
}

func openFloor(ctx context.Context, e *env) (*contender, error) {
	f := &floor{quorum: len(e.servers)/2 + 1}
	for i, srv := range e.servers {
		var err error
		for _, s := range []*lua.Script{lua.AcquireScript, lua.AcquireBatchScript, lua.ReleaseScript, lua.ReleaseBatchScript} {
			err = errors.Join(err, srv.control.ScriptLoad(ctx, s.Body).Err())
		}
		epoch, errEpoch := srv.control.HGet(ctx, lua.NodeKey, "epoch").Result()
		conn, errDial := (&net.Dialer{}).DialContext(ctx, "tcp", e.addrs[i])
		if err := errors.Join(err, errEpoch, errDial); err != nil {
			return nil, errors.Join(err, f.close())
		}
		n := &floorNode{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), epoch: epoch}
		n.some = sync.NewCond(&n.mu)
		f.nodes = append(f.nodes, n)
		f.running.Go(n.run)
	}
	return &contender{acquire: f.acquire, close: f.close}, nil
}

func (f *floor) acquire(_ context.Context, resource string) (held, error) {
	owner := uuid.NewString()
	l := &floorLock{floor: f, done: make(chan error, 1), words: [...]string{
		resource, lua.TombstoneKey + owner, owner, strconv.FormatInt(lua.StripeOf(resource), 10), strconv.FormatInt(time.Now().UnixMicro(), 10),
	}}
	for _, n := range f.nodes {
		n.put(l, false)
	}
	return l, <-l.done
}

// close is for when no lock is held.
func (f *floor) close() error {
	for _, n := range f.nodes {
		n.put(nil, false)
	}
	f.running.Wait()
	return nil
}

// What a node is told of a lock, by its place among the words.
const (
	wordKey = iota
	wordDead
	wordOwner
	wordStripe
	wordHint
)

// floorLock is one acquisition and, after it, its release.
type floorLock struct {
	floor *floor
	words [wordHint + 1]string
	done  chan error // of a quorum, for either

	mu                        sync.Mutex // guards what follows
	granted, refused, deleted int        // nodes
}

func (l *floorLock) Release(context.Context) error {
	for _, n := range l.floor.nodes {
		n.put(l, true)
	}
	return <-l.done
}

// answer counts one node's answer. The one that makes a quorum is the lock's.
func (l *floorLock) answer(count *int, err error) {
	l.mu.Lock()
	*count++
	decided := *count == l.floor.quorum
	l.mu.Unlock()
	if decided {
		l.done <- err
	}
}

// floorNode is one node's socket. Its goroutine takes what waits, sends it in one write,
// reads the replies, and takes again. While it waits for the node the next batch gathers,
// so batches grow with the load by themselves.
type floorNode struct {
	conn  net.Conn
	in    *bufio.Reader
	epoch string
	batch floorJobs // that is out
	buf   []byte

	mu     sync.Mutex // guards what follows
	some   *sync.Cond
	queue  floorJobs
	closed bool
}

type floorJobs struct{ acquires, releases []*floorLock }

// put queues an acquire or a release; nil ends the node. If a release finds its own acquire
// it drops that instead, and there is nothing to delete.
func (n *floorNode) put(l *floorLock, release bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch i := slices.Index(n.queue.acquires, l); {
	case l == nil:
		n.closed = true
	case !release:
		n.queue.acquires = append(n.queue.acquires, l)
	case i >= 0:
		n.queue.acquires = slices.Delete(n.queue.acquires, i, i+1)
		l.answer(&l.deleted, nil)
	default:
		n.queue.releases = append(n.queue.releases, l)
	}
	n.some.Signal()
}

// take waits for work and moves up to a batch of each kind. No acquire overtakes a release:
// it may be of the same name.
func (n *floorNode) take() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, b := &n.queue, &n.batch
	for !n.closed && len(q.acquires)+len(q.releases) == 0 {
		n.some.Wait()
	}
	r := min(len(q.releases), lua.ReleaseBatchSize)
	b.releases, q.releases = append(b.releases[:0], q.releases[:r]...), slices.Delete(q.releases, 0, r)
	a := min(len(q.acquires), lua.AcquireBatchSize)
	if len(q.releases) > 0 {
		a = 0
	}
	b.acquires, q.acquires = append(b.acquires[:0], q.acquires[:a]...), slices.Delete(q.acquires, 0, a)
	return a+r > 0
}

func (n *floorNode) run() {
	defer n.conn.Close()
	for n.take() {
		n.encode()
		_, err := n.conn.Write(n.buf)
		if err = cmp.Or(err, n.read()); err != nil {
			panic(fmt.Sprintf("bench: the floor's node %s: %v", n.conn.RemoteAddr(), err))
		}
	}
}

// read hands the replies to their locks. Releases answer with a sum, which counts for each.
func (n *floorNode) read() error {
	if len(n.batch.releases) > 0 {
		if _, err := n.reply(':'); err != nil {
			return err
		}
	}
	for _, l := range n.batch.releases {
		l.answer(&l.deleted, nil)
	}
	if len(n.batch.acquires) > 1 {
		if _, err := n.reply('*'); err != nil {
			return err
		}
	}
	for _, l := range n.batch.acquires {
		switch token, err := n.reply(':'); {
		case err != nil:
			return err
		case token > 0:
			l.answer(&l.granted, nil)
		default:
			l.answer(&l.refused, errTaken)
		}
	}
	return nil
}

// reply reads an integer, or how many an array has.
func (n *floorNode) reply(kind byte) (int64, error) {
	line, err := n.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q; want %q and a number", line, kind)
	}
	return strconv.ParseInt(string(line[1:len(line)-2]), 10, 64)
}

func (n *floorNode) encode() {
	n.buf = n.buf[:0]
	if r := n.batch.releases; len(r) == 1 {
		n.call("EVALSHA", lua.ReleaseScript.Hash, "1", r[0].words[wordKey], r[0].words[wordOwner])
	} else if len(r) > 1 {
		size := strconv.Itoa(len(r))
		n.call(slices.Concat([]string{"EVALSHA", lua.ReleaseBatchScript.Hash, size}, column(r, wordKey), []string{size}, column(r, wordOwner))...)
	}
	if a := n.batch.acquires; len(a) == 1 {
		w := &a[0].words
		n.call("EVALSHA", lua.AcquireScript.Hash, "3", w[wordKey], lua.NodeKey, w[wordDead], w[wordOwner], floorLife, w[wordHint], w[wordStripe], n.epoch)
	} else if len(a) > 1 {
		n.call(slices.Concat(
			[]string{"EVALSHA", lua.AcquireBatchScript.Hash, strconv.Itoa(1 + 2*len(a)), lua.NodeKey}, column(a, wordKey), column(a, wordDead),
			[]string{n.epoch}, column(a, wordStripe), column(a, wordOwner), slices.Repeat([]string{floorLife}, len(a)), column(a, wordHint))...)
	}
}

func column(locks []*floorLock, word int) []string {
	out := make([]string, len(locks))
	for i, l := range locks {
		out[i] = l.words[word]
	}
	return out
}

func (n *floorNode) call(words ...string) {
	n.buf = append(strconv.AppendInt(append(n.buf, '*'), int64(len(words)), 10), "\r\n"...)
	for _, word := range words {
		n.buf = append(strconv.AppendInt(append(n.buf, '$'), int64(len(word)), 10), "\r\n"...)
		n.buf = append(append(n.buf, word...), "\r\n"...)
	}
}
