package redlock

import "github.com/quorumkit/redlock/internal/clock"

// Vouchers are the nodes that vouch for a claim.
type Vouchers = vouchers

// Stand has the claim stand on a round.
func (v *vouchers) Stand(start clock.Instant, nodes uint64) { v.stand(start, nodes) }

// Vouch is a node's word in the round of start.
func (v *vouchers) Vouch(i int, start clock.Instant) { v.vouch(i, start) }

// Set are the nodes that vouch.
func (v *vouchers) Set() uint64 { return v.set() }
