package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// HintLead is how far a hint may be ahead of the nodes' clocks, so that a client
// whose clock is years ahead does not use the tokens up.
const HintLead = time.Minute

// ErrTwice is why a node does not vote whose server another node of the list is.
var ErrTwice = errors.New("one server listed twice")

// Peers is what the nodes of one Locker need to know of each other, and of the
// tokens that were seen.
type Peers struct {
	clock *clock.Clock
	Nodes []*Node      // attached once they are made
	lead  atomic.Int64 // how far a hint may be ahead of the Clock, in microseconds; 0: no sample yet
	last  atomic.Int64 // the largest token seen, or hint given

	mu      sync.Mutex // guards the fields below
	offsets []int64    // by node: its clock minus ours, in microseconds; 0: no sample yet
	seenBy  *clock.CrossCheck
	runs    []string // by node: its run_id
	names   []string
}

// NewPeers is for the nodes of these names; factor is the drift that their clocks may have.
func NewPeers(c *clock.Clock, names []string, factor float64) *Peers {
	return &Peers{
		clock: c, offsets: make([]int64, len(names)), runs: make([]string, len(names)), names: names,
		seenBy: clock.NewCrossCheck(len(names), factor),
	}
}

// sampled takes in a reading of a node's clock. It returns which nodes have
// stepped, by the word of other nodes' clocks.
func (p *Peers) sampled(node int, r clock.Sample) []clock.Step {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offsets[node] = (r.Least + r.Most).Microseconds() / 2
	var known [quorum.MaxNodes]int64
	offsets := known[:0]
	for _, o := range p.offsets {
		if o != 0 {
			offsets = append(offsets, o)
		}
	}
	slices.Sort(offsets)
	// The median: one node whose clock is off, either way, moves nothing.
	p.lead.Store(offsets[(len(offsets)-1)/2] + HintLead.Microseconds())
	return p.seenBy.Take(node, r)
}

// Hint suggests a token: the client's clock in microseconds, so that the nodes
// stay in step through crashes too, or one more than the last token seen. Each
// hint is given once.
func (p *Peers) Hint() int64 {
	for {
		last := p.last.Load()
		h := last + 1
		if lead := p.lead.Load(); lead != 0 {
			h = max(h, min(p.clock.Wall().UnixMicro(), int64(p.clock.Early())/1000+lead))
		}
		if p.last.CompareAndSwap(last, h) {
			return h
		}
	}
}

// Seen notes a token, so that the next hint is above it. One that is further
// ahead than a hint may be is some node's damage, or some name's past: it must not
// carry all other names along.
func (p *Peers) Seen(t quorum.Token) {
	if lead := p.lead.Load(); lead != 0 && int64(t) > int64(p.clock.Early())/1000+lead { //nolint:gosec // below 2^53
		return
	}
	for {
		last := p.last.Load()
		if t := int64(t); t <= last || p.last.CompareAndSwap(last, t) { //nolint:gosec // below 2^53
			return
		}
	}
}

// forget drops what server a node was: it is down, and may come back as another.
func (p *Peers) forget(node int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[node] = ""
}

// serves notes which server process a node is. One server listed twice would
// vote twice, so the second entry is refused.
func (p *Peers) serves(node int, runID string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.runs {
		if i != node && other == runID && other != "" {
			return fmt.Errorf("%w: %w: %s is %s", fault.ErrMisconfigured, ErrTwice, p.names[node], p.names[i])
		}
	}
	p.runs[node] = runID
	return nil
}
