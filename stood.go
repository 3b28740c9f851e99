package redlock

import (
	"github.com/quorumkit/redlock/internal/lua"
)

// stoodBits is how many bits a process remembers the names by that it stood in line
// for: 8 KiB, from the first such name on.
const stoodBits = 1 << 16

// stood is which names a process has ever stood in line for, by their hash. A node
// may have an entry of ours for any of them, as long as we live: a leave that an
// outage swallowed, or a look that came late, leaves one, and nobody knows when it
// is met. So none is forgotten, and the memory has a bound all the same. It may take
// a name for another: what is sent for it then does nothing on the node.
type stood struct{ bits *[stoodBits / 64]uint64 }

func (s *stood) add(key string) {
	if s.bits == nil {
		s.bits = new([stoodBits / 64]uint64)
	}
	h := lua.HashOf(key) % stoodBits
	s.bits[h/64] |= 1 << (h % 64)
}

func (s *stood) has(key string) bool {
	if s.bits == nil {
		return false
	}
	h := lua.HashOf(key) % stoodBits
	return s.bits[h/64]&(1<<(h%64)) != 0
}
