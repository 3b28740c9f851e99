package revocation_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/revocation"
)

// The system: holds of one name come and go on three nodes, each by commands that arrive
// at any time. The first two are of one Locker, which hands the name on from the first to
// the second or takes it anew, and can be asked for; the third and
// the fourth are others', and can't. Where the name has slots some of them have the second,
// beside who has the first.
// One request reads the nodes one by one, at any time, and is told by the real code what
// to do. What it publishes stays on its way, so that it comes late and as often as it
// likes, until it gets lost. A forger publishes what names no hold.

const (
	nodes  = 3
	owners = 4
	slots  = 2
	each   = 4 // bits of a slot's owner, among those of a node
	one    = 1<<each - 1
	unread = 0xff // of a node that was not read yet
	silent = 0xfe // of one that says nothing
)

// command is what is under way from an owner to a node.
type command uint8

const (
	acquires command = 1 << iota // may still arrive
	releases                     // the same
	buried                       // a release arrived: no acquire does anything any more
)

// Why a node says nothing.
const (
	speaks uint8 = iota
	unreached
	forgot // its keys, and may not vote
)

// What a message names: a bit each, of the owners' numbers and two more.
const (
	theResource = 0
	theLocker   = owners + 1
)

// life is how far an owner is.
type life uint8

const (
	unborn life = iota
	trying
	held     // a quorum had it, and it has not ended
	over     // given up or released
	outlived // one that was held is over
)

// state is all of it.
type state struct {
	key    [nodes]uint8 // who has each slot; of a name without slots, the first
	second uint8        // the owners with the second slot, if there is one: a bit each, never changed
	mute   [nodes]uint8 // why the request gets nothing from it
	deaf   [nodes]bool  // the holders' subscription there is broken
	sent   [owners + 1][nodes]command
	life   [owners + 1]life
	passed bool         // the first hold was handed on to the second
	flight [nodes]uint8 // messages on their way, a bit each
	told   uint8        // holds that were told that they are asked for, a bit each
	faults uint8        // so far

	// Of the request.
	begun  bool
	got    [nodes]uint8
	asked  uint8 // its state, as bits and a number
	ending uint8
	sends  uint8 // of what was asked, up to two
	ended  uint8 // what it came to, if it has ended

	// What it is judged by: since it has begun.
	named  uint8        // whom it asked for
	off    uint8        // owners that at some moment were not held
	vacant bool         // nobody held at some moment
	was    [nodes]uint8 // owners that can't be asked, and were there at some moment: a bit each
	late   uint8        // owners that began after it asked
	broken broken
}

// broken is what has gone wrong.
type broken uint8

const (
	nothing broken = iota
	wrongHold
	falseGone
	falseVacancy
	falseRefusal
	newcomer
)

const locker = "AAAAAAAAAAAAAAAAAAAAAA"

var names = [...]string{
	"",
	"a/" + lua.RevocationMark(locker) + "11111111-1111-4111-8111-111111111111",
	"a/" + lua.RevocationMark(locker) + "22222222-2222-4222-8222-222222222222",
	"b/" + "33333333-3333-4333-8333-333333333333",
	"c/" + "44444444-4444-4444-8444-444444444444",
}

func bit(k uint8) uint8 { return 1 << k }

// slotOf is the slot that an owner has when it has any.
func (s *state) slotOf(owner uint8) uint8 { return s.second >> owner & 1 }

// at is who has a slot, by what a node has.
func at(key, slot uint8) uint8 { return key >> (each * slot) & one }

// ownerAt is who has a slot on a node.
func (s *state) ownerAt(i, slot uint8) uint8 { return at(s.key[i], slot) }

// has tells whether an owner has its slot on a node.
func (s *state) has(owner, i uint8) bool { return s.ownerAt(i, s.slotOf(owner)) == owner }

// put has an owner, or with 0 nobody, have a slot on a node.
func (s *state) put(i, slot, owner uint8) {
	s.key[i] = s.key[i]&^(one<<(each*slot)) | owner<<(each*slot)
}

func (s *state) on(owner uint8) (n int) {
	for i := range uint8(nodes) {
		if s.has(owner, i) {
			n++
		}
	}
	return n
}

func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "keys %v mute %v deaf %v life %v told %03b, asked %03b got %v", s.key, s.mute, s.deaf, s.life[1:], s.told>>1, s.asked>>1, s.got)
	return b.String()
}

// readings are what the request got.
func (s *state) readings() (all []revocation.Reading) {
	for _, got := range s.got {
		r := revocation.Reading{Answered: got != silent}
		if got != silent {
			r.Owners = namesOf(shown(got))
		}
		all = append(all, r)
	}
	return all
}

// shown are those whom a reading shows, a bit each.
func shown(got uint8) (bits uint8) {
	for slot := range uint8(slots) {
		if owner := at(got, slot); got != silent && owner != 0 {
			bits |= bit(owner)
		}
	}
	return bits
}

func bitsOf(owners []string) (bits uint8) {
	for _, owner := range owners {
		bits |= bit(uint8(slices.Index(names[:], owner)))
	}
	return bits
}

func namesOf(bits uint8) (owners []string) {
	for k := uint8(1); int(k) < len(names); k++ {
		if bits&bit(k) != 0 {
			owners = append(owners, names[k])
		}
	}
	return owners
}

// request is the real request that the state stands for.
func (s *state) request() *revocation.Request {
	return revocation.Made(namesOf(s.asked), revocation.Action(s.ending))
}

func (s *state) keep(r *revocation.Request) {
	asked, ending := r.State()
	s.asked, s.ending = bitsOf(asked), uint8(ending)
}

// note notes what the request is judged by.
func (s *state) note() {
	holds := false
	for k := uint8(1); k <= owners; k++ {
		if s.on(k) > nodes/2 {
			if s.life[k] == trying {
				s.life[k] = held
			}
		}
		if s.life[k] == held {
			holds = true
		} else {
			s.off |= bit(k)
		}
	}
	s.vacant = s.vacant || !holds
	for i, key := range s.key {
		s.was[i] |= shown(key) &^ (bit(1) | bit(2))
	}
	if !s.begun {
		s.off, s.vacant, s.was = 0, false, [nodes]uint8{}
	}
}

// stood tells whether an owner was on a quorum since the request has begun, if on one node
// after another.
func (s *state) stood(owner uint8) bool {
	n := 0
	for _, was := range s.was {
		if was&bit(owner) != 0 {
			n++
		}
	}
	return n > nodes/2
}

// part is all that a state has of one node.
type part struct {
	key, got, flight, was uint8
	mute                  uint8
	deaf                  bool
	sent                  [owners + 1]command
}

func (p *part) bytes() (b [6 + owners]uint8) {
	b[0], b[1], b[2] = p.key, p.got, p.flight
	b[3] = p.mute
	if p.deaf {
		b[4] = 1
	}
	for k := 1; k <= owners; k++ {
		b[4+k] = uint8(p.sent[k])
	}
	b[5+owners] = p.was
	return b
}

// sorted is the state with its nodes in an order of their own.
func (s state) sorted() state {
	var parts [nodes]part
	for i := range parts {
		parts[i] = part{key: s.key[i], got: s.got[i], flight: s.flight[i], was: s.was[i], mute: s.mute[i], deaf: s.deaf[i]}
		for k := range s.sent {
			parts[i].sent[k] = s.sent[k][i]
		}
	}
	slices.SortFunc(parts[:], func(a, b part) int {
		x, y := a.bytes(), b.bytes()
		return slices.Compare(x[:], y[:])
	})
	for i, p := range parts {
		s.key[i], s.got[i], s.flight[i], s.was[i], s.mute[i], s.deaf[i] = p.key, p.got, p.flight, p.was, p.mute, p.deaf
		for k := range s.sent {
			s.sent[k][i] = p.sent[k]
		}
	}
	return s
}
