package fencing

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumkit/redlock"
)

// Memory guards resources that live in this process, and is the reference for
// the other guards. The zero value is ready for use. It must not be copied after
// first use, and is safe for concurrent use.
//
// Unit of atomicity: Write runs one write at a time for a resource, also where
// the writers share it. It keeps two numbers for each resource that it has seen,
// for as long as it lives.
//
// Not promised: that another process asks it, or that it remembers anything
// after a restart.
type Memory struct {
	mu      sync.Mutex // guards the fields below, the records' seen included
	records map[string]*record
}

// record is Memory's state of a resource.
type record struct {
	turn chan struct{} // holds one value while a write runs
	seen Seen
}

// Write calls write if Seen.Accept accepts token, and returns its error. The
// token is that of a shared hold if ctx says so: see IsShared. It blocks until earlier writes of the same resource have
// returned, or ctx is done; writes of other resources go on meanwhile. ctx is
// handed to write unchanged.
//
// The token is stored before write is called, and stays stored if write fails or
// panics: it was issued, so all earlier holders are stale no matter what became of
// this write. write must not call Write for the same resource.
//
// It returns what Seen.Accept returns, ctx's error if ctx ended before write was
// called, or write's error.
func (m *Memory) Write(ctx context.Context, resource string, token redlock.Token, write func(context.Context) error) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	r := m.record(resource)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // also when both were ready
		return fmt.Errorf("fencing: write %q: %w", resource, err)
	}
	if err := m.raise(r, resource, token, IsShared(ctx, resource, token)); err != nil {
		return err
	}
	return write(ctx)
}

// Highest returns the largest token of either kind that resource has seen, 0 if
// none.
func (m *Memory) Highest(resource string) redlock.Token {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[resource]; r != nil {
		return r.seen.Highest()
	}
	return 0
}

func (m *Memory) record(resource string) *record {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[resource]
	if r == nil {
		if m.records == nil {
			m.records = make(map[string]*record)
		}
		r = &record{turn: make(chan struct{}, 1)}
		m.records[resource] = r
	}
	return r
}

// raise stores token in r, whose turn the caller has.
func (m *Memory) raise(r *record, resource string, token redlock.Token, shared bool) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.seen, err = r.seen.Accept(resource, token, shared)
	return err
}
