package search

import (
	"math/bits"
	"unsafe"
)

// store keeps the states of a chunk that wait to be expanded. A state is mostly
// zeros (places that the instance does not use, messages that are not under way),
// so each run of eight bytes is kept as a mask and the bytes that are not zero: a
// third or less, and it is the two levels of waiting states that fill memory.
type store[S comparable] struct {
	packed []byte
	n      uint32
}

// push appends a state.
func (st *store[S]) push(s *S) {
	raw := bytesOf(s)
	for i := 0; i < len(raw); i += 8 {
		at, mask := len(st.packed), byte(0)
		st.packed = append(st.packed, 0)
		for j, b := range raw[i:min(i+8, len(raw))] {
			if b != 0 {
				mask |= 1 << j
				st.packed = append(st.packed, b)
			}
		}
		st.packed[at] = mask
	}
	st.n++
}

// each calls f with the states in order.
func (st *store[S]) each(f func(i uint32, s S)) {
	rest := st.packed
	for n := range st.n {
		var s S
		raw := bytesOf(&s)
		for i := 0; i < len(raw); i += 8 {
			mask := rest[0]
			rest = rest[1:]
			for ; mask != 0; mask &= mask - 1 {
				raw[i+bits.TrailingZeros8(mask)] = rest[0]
				rest = rest[1:]
			}
		}
		f(n, s)
	}
}

// bytesOf is the state as it lies in memory: a System's states have no pointers.
func bytesOf[S any](s *S) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) //nolint:gosec // all of one value, while it lives
}
