package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// ErrTwice is why a node does not vote whose server another node of the list is.
var ErrTwice = errors.New("one server listed twice")

// Siblings is what the nodes of one Locker need to know of each other: their clocks,
// and which servers they are.
type Siblings struct {
	hints   *Hints
	stepped []func(by time.Duration) // by node: has it take note that its clock has stepped

	mu      sync.Mutex // guards the fields below
	offsets []int64    // by node: its clock minus ours, in microseconds; 0: no sample yet
	seenBy  *clock.CrossCheck
	runs    []string // by node: its run_id
	names   []string
}

// NewSiblings is for the nodes of these names, which New takes in; factor is the drift
// that their clocks may have. The hints follow the nodes' clocks.
func NewSiblings(names []string, factor float64, h *Hints) *Siblings {
	return &Siblings{
		hints: h, stepped: make([]func(time.Duration), len(names)),
		offsets: make([]int64, len(names)), runs: make([]string, len(names)), names: names,
		seenBy: clock.NewCrossCheck(len(names), factor),
	}
}

// sampled takes in a reading of a node's clock. It returns which nodes have
// stepped, by the word of other nodes' clocks.
func (s *Siblings) sampled(node int, r clock.Sample) []clock.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offsets[node] = (r.Least + r.Most).Microseconds() / 2
	var known [quorum.MaxNodes]int64
	offsets := known[:0]
	for _, o := range s.offsets {
		if o != 0 {
			offsets = append(offsets, o)
		}
	}
	slices.Sort(offsets)
	// The median: one node whose clock is off, either way, moves nothing.
	s.hints.bound(offsets[(len(offsets)-1)/2])
	return s.seenBy.Take(node, r)
}

// tell has each of these nodes know that its clock has stepped.
func (s *Siblings) tell(steps []clock.Step) {
	for _, step := range steps {
		s.stepped[step.Node](step.By)
	}
}

// forget drops what server a node was: it is down, and may come back as another.
func (s *Siblings) forget(node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[node] = ""
}

// serves notes which server process a node is. One server listed twice would
// vote twice, so the second entry is refused.
func (s *Siblings) serves(node int, runID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.runs {
		if i != node && other == runID && other != "" {
			return fmt.Errorf("%w: %w: %s is %s", fault.ErrMisconfigured, ErrTwice, s.names[node], s.names[i])
		}
	}
	s.runs[node] = runID
	return nil
}
