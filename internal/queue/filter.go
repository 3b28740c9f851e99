package queue

import (
	"github.com/quorumkit/redlock/internal/lua"
)

// filterBits is how many bits a process remembers the names by that it stood in line
// for: 8 KiB, from the first such name on.
const filterBits = 1 << 16

// nameFilter is which names a process has ever stood in line for: a Bloom filter of one hash. A node
// may have an entry of ours for any of them, as long as we live: a leave that an
// outage swallowed, or a look that came late, leaves one, and nobody knows when it
// is met. So none is forgotten, and the memory has a bound all the same: a set of names
// would have none. It may take a name for another, after 1,000 names one in 65: what is
// sent for it then does nothing on the node.
//
// It is for forged calls. A client that may publish can call for any name, and each call
// would have a leave sent.
type nameFilter struct{ bits *[filterBits / 64]uint64 }

func (f *nameFilter) add(key string) {
	if f.bits == nil {
		f.bits = new([filterBits / 64]uint64)
	}
	h := lua.HashOf(key) % filterBits
	f.bits[h/64] |= 1 << (h % 64)
}

func (f *nameFilter) has(key string) bool {
	if f.bits == nil {
		return false
	}
	h := lua.HashOf(key) % filterBits
	return f.bits[h/64]&(1<<(h%64)) != 0
}
