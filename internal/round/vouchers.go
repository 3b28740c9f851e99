package round

import (
	"math/bits"
	"sync"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// vouchers are the nodes that vouch for a claim: those that granted or confirmed it
// in the round that it stands on. The round and its nodes change together, so that
// a straggler of an older round vouches for nothing any more.
type vouchers struct {
	mu    sync.Mutex       // guards the fields below; nothing else is taken under it
	round clock.Instant    // when the round was sent
	since *[]clock.Instant // by node: its lease began no earlier; nil if all began with the round
	nodes uint64           // one bit each
	list  quorum.List      // whose nodes they are, and by which they are counted
	doubt uint64           // nodes that were found to have forgotten since the round began
}

// Stand puts the claim on the round that was sent at start, for which these
// nodes vouch.
func (v *vouchers) Stand(start clock.Instant, nodes uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.round, v.since, v.nodes, v.doubt = start, nil, nodes&v.list.Nodes(quorum.MaxNodes), 0
}

// GoBy makes the claim one of the list, before anything is asked for it.
func (v *vouchers) GoBy(list quorum.List) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = list
}

// List returns the list of nodes that the claim goes by.
func (v *vouchers) List() quorum.List {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.list
}

// StandBy puts the claim on the round that was sent at start, and on the list by which these nodes
// vouch for it.
func (v *vouchers) StandBy(list quorum.List, start clock.Instant, nodes uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.round, v.since, v.nodes, v.list, v.doubt = start, nil, nodes, list, 0
}

// GoOver puts the claim on a newer list, a quorum of which confirmed it in the round that was sent
// at start: these nodes, of a client with so many. A claim that stands on another round by now stays
// where it is, and so does one of whose nodes too many were found to have forgotten since.
func (v *vouchers) GoOver(list quorum.List, start clock.Instant, nodes uint64, of int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if nodes &^= v.doubt; v.round == start && bits.OnesCount64(nodes) >= list.Quorum(of) {
		v.list, v.nodes = list, nodes
	}
}

// standEach makes the claim stand on leases that these nodes granted one by one, by pushes
// or to asks: no straggler joins them. since, by node, changes no more.
func (v *vouchers) standEach(since *[]clock.Instant, nodes uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.round, v.since, v.nodes, v.doubt = clock.Never, since, nodes, 0
}

// Vouch notes that node i granted or confirmed the claim in the round that was sent
// at start.
func (v *vouchers) Vouch(i int, start clock.Instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.round == start && v.list.Has(i) {
		v.nodes |= 1 << i
	}
}

// Discount takes node i out if its round or lease began at since or later: the node may have
// forgotten anything that it granted since then. It returns whether the node vouched, how many
// are left, and of which list.
func (v *vouchers) Discount(i int, since clock.Instant) (vouched bool, left int, list quorum.List) {
	v.mu.Lock()
	defer v.mu.Unlock()
	began := v.round
	if v.since != nil {
		began = (*v.since)[i]
	}
	if began < since {
		return false, 0, v.list
	}
	vouched = v.nodes&(1<<i) != 0
	v.nodes &^= 1 << i
	v.doubt |= 1 << i
	return vouched, bits.OnesCount64(v.nodes), v.list
}

// Set returns the nodes that vouch, one bit each.
func (v *vouchers) Set() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes
}

// VouchedBy tells whether node i vouches.
func (v *vouchers) VouchedBy(i int) bool { return v.Set()&(1<<i) != 0 }
