package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
)

// floorJob is what a writer is asked to send for a lock.
type floorJob uint8

const (
	jobAcquire floorJob = iota
	jobRelease
	jobRaise
	jobs
)

// floorWriter owns one node's socket: it takes what waits, sends it in one
// write, reads the replies, and takes again. While it waits for the node the
// next batch gathers, so batches grow with the load by themselves.
type floorWriter struct {
	floor *floorLoad
	index int
	epoch []byte
	conn  net.Conn
	r     *bufio.Reader
	buf   []byte
	ints  []int64

	mu     sync.Mutex
	cond   *sync.Cond
	queue  [jobs][]*floorLock
	closed bool
}

// put queues a job. A release overtakes the acquires of a flush, so where the
// lock's own acquire still waits here it is dropped instead, and the node has
// nothing to delete.
func (w *floorWriter) put(j floorJob, l *floorLock) {
	w.mu.Lock()
	never := j == jobRelease && l.at[w.index] == queued
	if never {
		l.at[w.index] = dropped
	} else {
		w.queue[j] = append(w.queue[j], l)
	}
	w.mu.Unlock()
	if never {
		l.answered(releasing, holding, true)
		return
	}
	w.cond.Signal()
}

// take waits for work and moves up to a batch of each kind into dst.
func (w *floorWriter) take(dst *[jobs][]*floorLock) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && len(w.queue[jobAcquire])+len(w.queue[jobRelease])+len(w.queue[jobRaise]) == 0 {
		w.cond.Wait()
	}
	for j := range w.queue {
		n := min(len(w.queue[j]), batchMax)
		dst[j] = append(dst[j][:0], w.queue[j][:n]...)
		w.queue[j] = w.queue[j][:copy(w.queue[j], w.queue[j][n:])]
	}
	dst[jobAcquire] = slices.DeleteFunc(dst[jobAcquire], func(l *floorLock) bool {
		if l.at[w.index] == dropped {
			l.unref()
			return true
		}
		l.at[w.index] = sent
		return false
	})
	return !w.closed
}

func (w *floorWriter) run() {
	var work [jobs][]*floorLock
	for w.take(&work) {
		w.buf = w.buf[:0]
		w.encodeReleases(work[jobRelease])
		for _, l := range work[jobRaise] {
			w.encodeRaise(l)
		}
		w.encodeAcquires(work[jobAcquire])
		if _, err := w.conn.Write(w.buf); err != nil {
			return
		}
		if err := w.answer(&work); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				panic(fmt.Sprintf("bench: the floor's node %d: %v", w.index, err))
			}
			return
		}
	}
}

func (w *floorWriter) encodeReleases(locks []*floorLock) {
	n, s := len(locks), w.floor.scripts
	switch n {
	case 0:
		return
	case 1:
		w.buf = appendEval(w.buf, s.release, 1, 1)
	default:
		w.buf = appendEval(w.buf, s.releaseBatch, n, 1+n)
	}
	for _, l := range locks {
		w.buf = append(w.buf, l.key...)
	}
	if n > 1 {
		w.buf = appendInt(w.buf, int64(n))
	}
	for _, l := range locks {
		w.buf = append(w.buf, l.ownerWord...)
	}
}

func (w *floorWriter) encodeRaise(l *floorLock) {
	w.buf = appendEval(w.buf, w.floor.scripts.raise, 2, 4)
	w.buf = append(w.buf, l.key...)
	w.buf = appendBulk(w.buf, nodeKey)
	w.buf = append(append(w.buf, l.ownerWord...), l.stripe...)
	w.buf = appendInt(w.buf, l.token)
	w.buf = append(w.buf, w.epoch...)
}

func (w *floorWriter) encodeAcquires(locks []*floorLock) {
	n, s, ms := len(locks), w.floor.scripts, strconv.FormatInt(ttl.Milliseconds(), 10)
	if n == 0 {
		return
	}
	if n == 1 {
		l := locks[0]
		w.buf = append(appendEval(w.buf, s.acquire, 3, 5), l.key...)
		w.buf = append(appendBulk(w.buf, nodeKey), l.dead...)
		w.buf = appendBulk(append(w.buf, l.ownerWord...), ms)
		w.buf = append(append(append(w.buf, l.hint...), l.stripe...), w.epoch...)
		return
	}
	w.buf = appendBulk(appendEval(w.buf, s.acquireBatch, 1+2*n, 1+4*n), nodeKey)
	for _, l := range locks {
		w.buf = append(w.buf, l.key...)
	}
	for _, l := range locks {
		w.buf = append(w.buf, l.dead...)
	}
	w.buf = append(w.buf, w.epoch...)
	for _, l := range locks {
		w.buf = append(w.buf, l.stripe...)
	}
	for _, l := range locks {
		w.buf = append(w.buf, l.ownerWord...)
	}
	for range locks {
		w.buf = appendBulk(w.buf, ms)
	}
	for _, l := range locks {
		w.buf = append(w.buf, l.hint...)
	}
}

// answer reads the replies of one flush and hands them to their locks.
func (w *floorWriter) answer(work *[jobs][]*floorLock) error {
	if len(work[jobRelease]) > 0 {
		if _, err := readInt(w.r); err != nil {
			return err
		}
		for _, l := range work[jobRelease] {
			l.answered(releasing, holding, true)
		}
	}
	for _, l := range work[jobRaise] {
		raised, err := readInt(w.r)
		if err != nil {
			return err
		}
		l.answered(raising, holding, raised == 1)
	}
	got := w.ints[:len(work[jobAcquire])]
	var err error
	switch len(got) {
	case 0:
		return nil
	case 1:
		got[0], err = readInt(w.r)
	default:
		err = readInts(w.r, got)
	}
	for i, l := range work[jobAcquire] {
		if err == nil {
			l.granted(w.index, got[i])
		}
	}
	return err
}
