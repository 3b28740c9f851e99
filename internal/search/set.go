package search

import (
	"hash/maphash"
	"sync"
)

// key stands for a state: 128 bits of hash under two random seeds.
type key [2]uint64

// shards is a power of two: enough that two workers seldom meet in one, and that
// the growth of one (which holds it twice for a moment) is small.
const shards = 256

// set holds the keys of the states seen so far. It is safe for concurrent use.
type set[S comparable] struct {
	seeds [2]maphash.Seed
	parts [shards]part
}

// part is an open-addressing table: the zero key marks a free place.
type part struct {
	mu    sync.Mutex // guards all below
	table []key      // of mask+1 places
	mask  uint64
	used  int
}

func newSet[S comparable]() *set[S] {
	return &set[S]{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// add puts the state in, and tells whether it is new.
func (v *set[S]) add(s S) bool {
	k := key{maphash.Comparable(v.seeds[0], s), maphash.Comparable(v.seeds[1], s) | 1}
	p := &v.parts[k[0]%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(k)
}

func (p *part) add(k key) bool {
	if p.used*4 >= len(p.table)*3 {
		p.grow()
	}
	if !p.place(k) {
		return false
	}
	p.used++
	return true
}

// place writes k to the first free place of its run, unless it is there already.
func (p *part) place(k key) bool {
	for i := (k[0] / shards) & p.mask; ; i = (i + 1) & p.mask {
		switch p.table[i] {
		case key{}:
			p.table[i] = k
			return true
		case k:
			return false
		}
	}
}

func (p *part) grow() {
	old := p.table
	p.mask = max(63, 2*p.mask+1)
	p.table = make([]key, p.mask+1)
	for _, k := range old {
		if k != (key{}) {
			p.place(k)
		}
	}
}
