package main

import (
	"bufio"
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

// errTaken is a round that a quorum refused.
var errTaken = errors.New("taken")

// floor is about what the protocol costs at the least in this language: the library's
// own scripts on one socket a node, a wait for the quorum, and none of what makes a
// library (timers, retries, rollback, errors of a node, contexts). A token that differs
// between nodes is not raised: one acquisition in 500 needs that.
type floor struct {
	nodes   []*floorNode
	quorum  int
	readers sync.WaitGroup
}

func openFloor(ctx context.Context, e *env) (*contender, error) {
	f := &floor{quorum: len(e.servers)/2 + 1}
	for i, srv := range e.servers {
		n, err := newFloorNode(ctx, srv, e.addrs[i])
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.nodes = append(f.nodes, n)
		f.readers.Go(n.read)
	}
	return &contender{acquire: f.acquire, close: f.close}, nil
}

func (f *floor) acquire(_ context.Context, resource string) (held, error) {
	l := &floorLock{
		floor: f, key: resource, owner: uuid.NewString(), done: make(chan error, 1),
		stripe: strconv.FormatInt(lua.StripeOf(resource), 10), hint: strconv.FormatInt(time.Now().UnixMicro(), 10),
	}
	l.dead = lua.TombstoneKey + l.owner
	for _, n := range f.nodes {
		n.acquire(l)
	}
	return l, <-l.done
}

func (f *floor) close() error {
	var errs []error
	for _, n := range f.nodes {
		errs = append(errs, n.conn.Close())
	}
	f.readers.Wait()
	return errors.Join(errs...)
}

// floorLock is one acquisition and, after it, its release.
type floorLock struct {
	floor                          *floor
	key, dead, owner, stripe, hint string
	done                           chan error // of a quorum, for either

	mu                        sync.Mutex // guards what follows
	granted, refused, deleted int        // nodes
}

func (l *floorLock) Release(context.Context) error {
	for _, n := range l.floor.nodes {
		n.release(l)
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

// floorNode is one node's socket. An idle one is written by the caller. While it is
// waited for, the next batch gathers, and its reader sends that: so batches grow with the
// load by themselves.
type floorNode struct {
	conn  net.Conn
	in    *bufio.Reader
	epoch string
	life  string // of a lock, in ms

	mu                 sync.Mutex // guards what follows
	acquires, releases []*floorLock
	flying             flush
	buf                []byte
}

// flush is what one write carries.
type flush struct{ acquires, releases []*floorLock }

func newFloorNode(ctx context.Context, srv *server, addr string) (*floorNode, error) {
	for _, s := range []*lua.Script{lua.AcquireScript, lua.AcquireBatchScript, lua.ReleaseScript, lua.ReleaseBatchScript} {
		if err := srv.control.ScriptLoad(ctx, s.Body).Err(); err != nil {
			return nil, err
		}
	}
	epoch, err := srv.control.HGet(ctx, lua.NodeKey, "epoch").Result()
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &floorNode{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), epoch: epoch, life: strconv.FormatInt(ttl.Milliseconds(), 10)}, nil
}

func (n *floorNode) acquire(l *floorLock) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acquires = append(n.acquires, l)
	n.send(false)
}

// release overtakes the acquires of a flush. If the lock's own still waits here it is
// dropped instead, and the node has nothing to delete.
func (n *floorNode) release(l *floorLock) {
	n.mu.Lock()
	if i := slices.Index(n.acquires, l); i >= 0 {
		n.acquires = slices.Delete(n.acquires, i, i+1)
		n.mu.Unlock()
		l.answer(&l.deleted, nil)
		return
	}
	defer n.mu.Unlock()
	n.releases = append(n.releases, l)
	n.send(false)
}

// send sends what has gathered, up to a batch of each kind, unless a flush is out that was
// not answered.
func (n *floorNode) send(answered bool) {
	if !answered && len(n.flying.acquires)+len(n.flying.releases) > 0 {
		return
	}
	a, r := min(len(n.acquires), lua.AcquireBatchSize), min(len(n.releases), lua.ReleaseBatchSize)
	n.flying.acquires = append(n.flying.acquires[:0], n.acquires[:a]...)
	n.flying.releases = append(n.flying.releases[:0], n.releases[:r]...)
	n.acquires, n.releases = slices.Delete(n.acquires, 0, a), slices.Delete(n.releases, 0, r)
	if a+r == 0 {
		return
	}
	n.encode(n.flying)
	_, _ = n.conn.Write(n.buf) // the reader meets what fails
}

// read hands on the replies until the connection is closed.
func (n *floorNode) read() {
	for {
		_, err := n.in.Peek(1)
		n.mu.Lock()
		f := n.flying // nobody else changes it while it flies
		n.mu.Unlock()
		if err == nil {
			err = n.answer(f)
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				panic(fmt.Sprintf("bench: the floor's node %s: %v", n.conn.RemoteAddr(), err))
			}
			return
		}
		n.mu.Lock()
		n.send(true)
		n.mu.Unlock()
	}
}

// answer reads the replies of one flush and hands them to their locks. Batches of
// releases answer with a sum, so each answer counts as its lock's.
func (n *floorNode) answer(f flush) error {
	if len(f.releases) > 0 {
		if _, err := n.reply(':'); err != nil {
			return err
		}
	}
	for _, l := range f.releases {
		l.answer(&l.deleted, nil)
	}
	if len(f.acquires) > 1 {
		if _, err := n.reply('*'); err != nil {
			return err
		}
	}
	for _, l := range f.acquires {
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

func (n *floorNode) encode(f flush) {
	n.buf = n.buf[:0]
	key, owner := func(l *floorLock) string { return l.key }, func(l *floorLock) string { return l.owner }
	switch k := len(f.releases); k {
	case 0:
	case 1:
		n.call(lua.ReleaseScript, "1", key(f.releases[0]), owner(f.releases[0]))
	default:
		size := strconv.Itoa(k)
		n.call(lua.ReleaseBatchScript, slices.Concat([]string{size}, column(f.releases, key), []string{size}, column(f.releases, owner))...)
	}
	switch k := len(f.acquires); k {
	case 0:
	case 1:
		l := f.acquires[0]
		n.call(lua.AcquireScript, "3", l.key, lua.NodeKey, l.dead, l.owner, n.life, l.hint, l.stripe, n.epoch)
	default:
		n.call(lua.AcquireBatchScript, slices.Concat(
			[]string{strconv.Itoa(1 + 2*k), lua.NodeKey}, column(f.acquires, key), column(f.acquires, func(l *floorLock) string { return l.dead }),
			[]string{n.epoch}, column(f.acquires, func(l *floorLock) string { return l.stripe }), column(f.acquires, owner),
			slices.Repeat([]string{n.life}, k), column(f.acquires, func(l *floorLock) string { return l.hint }))...)
	}
}

func column(locks []*floorLock, word func(*floorLock) string) []string {
	words := make([]string, len(locks))
	for i, l := range locks {
		words[i] = word(l)
	}
	return words
}

// call adds an EVALSHA; the words begin with the number of keys.
func (n *floorNode) call(s *lua.Script, words ...string) {
	n.header('*', 2+len(words))
	for _, word := range append([]string{"EVALSHA", s.Hash}, words...) {
		n.header('$', len(word))
		n.buf = append(append(n.buf, word...), '\r', '\n')
	}
}

func (n *floorNode) header(kind byte, length int) {
	n.buf = append(strconv.AppendInt(append(n.buf, kind), int64(length), 10), '\r', '\n')
}
