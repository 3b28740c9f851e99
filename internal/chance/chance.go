// Package chance is where a Locker takes from what it leaves to chance: its pauses,
// and values that nobody else has. That is the system's randomness, unless a
// simulation has sown a seed for the Locker's first client. Its choices then follow
// from the seed, the moment and the subject, and not from how many were made
// before: goroutines that choose at one moment, in any order, choose the same. Names
// alone are counted.
package chance

import (
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

var sown sync.Map // *sowing, by client

type sowing struct {
	seed    uint64
	sources atomic.Uint64 // made so far
}

// Sow has every Source that is made for the client from now on follow from seed.
func Sow(client *redis.Client, seed uint64) { sown.Store(client, &sowing{seed: seed}) }

// Reap ends what Sow began. Sources stay as they were made.
func Reap(client *redis.Client) { sown.Delete(client) }

// Source is one Locker's. It is safe for concurrent use; nil is the system's
// randomness.
type Source struct {
	seed  uint64
	first uint64        // of its names: two of one client make none that are equal
	names atomic.Uint64 // made so far
}

// Of makes the source of a Locker whose first client this is; nil: one of another
// type.
func Of(client *redis.Client) *Source {
	of, ok := sown.Load(client)
	if !ok {
		return nil
	}
	s := of.(*sowing)
	return &Source{seed: s.seed, first: (s.sources.Add(1) - 1) << 40}
}

// Share returns a number from 0 up to 1, for what is decided at that moment about
// that subject.
func (s *Source) Share(at int64, subject string) float64 {
	if s == nil {
		return rand.Float64()
	}
	sum := mix(s.seed, uint64(at)) //nolint:gosec // any bits do
	for i := range len(subject) {
		sum = mix(sum, uint64(subject[i]))
	}
	return float64(sum>>11) / (1 << 53)
}

// Name returns a value that nobody else has: a UUID of version 4.
func (s *Source) Name() string { return string(s.AppendName(nil)) }

// ID returns a value that nobody else has, in 22 characters: the 128 bits of a Name. A
// queue's members are ids with owner values behind them, and Redis keeps a small sorted
// set as a list for as long as none is longer than 64 bytes.
func (s *Source) ID() string {
	id := s.next()
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// AppendName appends what Name returns. It allocates nothing where there is room.
func (s *Source) AppendName(to []byte) []byte {
	text, _ := s.next().MarshalText() // never an error
	return append(to, text...)
}

// next is the next UUID.
func (s *Source) next() (id uuid.UUID) {
	if s == nil {
		_, _ = crand.Read(id[:]) // never an error
	} else {
		n := s.first + s.names.Add(1)
		binary.BigEndian.PutUint64(id[:8], mix(s.seed, n))
		binary.BigEndian.PutUint64(id[8:], mix(s.seed+1, n))
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, of RFC 9562
	return id
}

// mix is the finalizer of splitmix64 over both.
func mix(a, b uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
