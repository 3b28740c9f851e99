package redlock_test

import (
	"os"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// wholeSearch tells whether to search all of it, not the cut of every day.
func wholeSearch() bool { return os.Getenv("REDLOCK_SEARCH") == "full" }

func closedSystem(change func(*memberSystem)) *memberSystem {
	sys := &memberSystem{
		nodes: 3, clients: 2, joiners: 1, life: 1, faults: 1, faulty: 1, lean: true, back: 64,
		memo: &decisions{known: map[question]answer{}},
	}
	change(sys)
	return sys
}

// walkedSystem has five nodes, whose clocks and those of the clients and joiners
// differ by up to a sixteenth either way, and everything that can go wrong.
func walkedSystem(change func(*memberSystem)) *memberSystem {
	sys := &memberSystem{
		nodes: 5, clients: 3, joiners: 2, life: 64, drift: 8,
		rates:  []uint8{17, 16, 15, 17, 15, 15, 17, 16, 17, 15},
		faults: 6, faulty: 5, blank: true, old: true, flush: true, extends: 3, releases: true, reuse: true, twice: true, racing: true,
		back: 64, memo: &decisions{known: map[question]answer{}},
	}
	change(sys)
	return sys
}

func TestMembershipClosed(t *testing.T) {
	for name, change := range map[string]func(*memberSystem){
		"blank": func(s *memberSystem) { s.blank = true },
		"old":   func(s *memberSystem) { s.old = true },
		"flush": func(s *memberSystem) { s.flush = true },
		"rates": func(s *memberSystem) {
			s.faults, s.joiners, s.life, s.drift = 0, 0, 64, 8
			s.rates = []uint8{17, 17, 17, 15, 15}
		},
		"race": func(s *memberSystem) { s.racing, s.frozen, s.joiners, s.faults, s.start = true, true, 2, 0, midRace },
		"late": func(s *memberSystem) {
			s.faults, s.joiners, s.extends, s.releases, s.start = 0, 0, 1, true, lateAcquire
		},
		"drops": func(s *memberSystem) { s.faults, s.joiners, s.clients, s.drops = 0, 0, 3, true },
		"founders": func(s *memberSystem) {
			s.founding, s.racing, s.joiners, s.clients, s.faults = true, true, 2, 0, 0
		},
		"blank twice":     func(s *memberSystem) { s.blank, s.faults = true, 2 },
		"old blank twice": func(s *memberSystem) { s.old, s.blank, s.faults = true, true, 2 },
		"all twice":       func(s *memberSystem) { s.old, s.blank, s.flush, s.faults, s.twice = true, true, true, 2, true },
		"two nodes":       func(s *memberSystem) { s.blank, s.faults, s.faulty = true, 2, 2 },
		"releases": func(s *memberSystem) {
			s.extends, s.releases, s.clients, s.blank = 1, true, 1, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r := search.Closed(closedSystem(change), search.Options{MaxStates: 20_000_000})
			t.Logf("%s %v", r, time.Since(start))
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestMembershipWalks(t *testing.T) {
	for name, change := range map[string]func(*memberSystem){
		"established": func(s *memberSystem) {},
		"founding":    func(s *memberSystem) { s.founding = true },
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r := search.Walk(walkedSystem(change), search.WalkOptions{Seed: 1, Walks: 100, Steps: 1000})
			t.Logf("%s %v", r, time.Since(start))
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestMembershipControls(t *testing.T) {
	for name, change := range map[string]func(*memberSystem){
		"no tombstone":     func(s *memberSystem) { s.slip, s.releases, s.clients, s.faults = slipNoTombstone, true, 1, 0 },
		"rejoin at once":   func(s *memberSystem) { s.slip, s.blank = slipRejoinAtOnce, true },
		"few others":       func(s *memberSystem) { s.slip, s.blank = slipFewOthers, true },
		"no nonce":         func(s *memberSystem) { s.slip, s.flush, s.faults, s.twice = slipNoNonce, true, 2, true },
		"load before":      func(s *memberSystem) { s.slip, s.old = slipLoadBeforeMember, true },
		"other conn":       func(s *memberSystem) { s.slip, s.old = slipOtherConnection, true },
		"stripes believed": func(s *memberSystem) { s.slip, s.old = slipStripesBelieved, true },
		"read before wait": func(s *memberSystem) { s.slip, s.blank = slipReadBeforeWait, true },
		"no epoch":         func(s *memberSystem) { s.slip, s.flush = slipNoEpoch, true },
		"install wipes": func(s *memberSystem) {
			s.slip, s.racing, s.frozen, s.joiners, s.faults, s.start = slipInstallWipes, true, true, 2, 0, midRace
		},
		"cache survives": func(s *memberSystem) { s.slip, s.old = slipCacheSurvives, true },
		"lapsed extends": func(s *memberSystem) {
			s.slip, s.faults, s.joiners, s.extends, s.releases, s.start = slipLapsedExtends, 0, 0, 1, true, lateAcquire
		},
		"long lease": func(s *memberSystem) { s.slip, s.blank = slipLongLease, true },
		"raise for anyone": func(s *memberSystem) {
			s.flaw, s.faults, s.joiners, s.clients, s.drops = scriptmodel.RaiseForAnyone, 0, 0, 3, true
		},
		"drift 0": func(s *memberSystem) {
			s.slip, s.faults, s.joiners, s.life, s.drift = slipNoDrift, 0, 0, 64, 8
			s.rates = []uint8{17, 17, 17, 15, 15}
		},
		"reseed dead": func(s *memberSystem) {
			s.flaw, s.faults, s.extends, s.releases, s.clients = scriptmodel.ReseedDead, 1, 1, true, 1
			s.blank = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			sys := closedSystem(change)
			sys.back = 0
			r := search.Closed(sys, search.Options{MaxStates: 2_000_000})
			t.Logf("%s: %s %v", name, r, time.Since(start))
			if r.Trace != nil {
				t.Log(r.Trace)
			} else {
				t.Error("not caught")
			}
		})
	}
}
