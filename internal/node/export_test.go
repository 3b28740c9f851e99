package node

import "github.com/quorumkit/redlock/internal/clock"

// Vouchers are the nodes that vouch for a claim.
type Vouchers = vouchers

// Vouch is a node's word in the round of start.
func (v *vouchers) Vouch(i int, start clock.Instant) { v.vouch(i, start) }

// AcquireVote reads a reply of acquire.lua.
var AcquireVote = acquireVote
