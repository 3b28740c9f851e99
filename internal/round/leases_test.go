package round

import (
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// granting is one message by which a node grants a claim that takes pushes.
type granting struct {
	node  int
	token quorum.Token
	lease Lease
}

// What nodes granted one by one: leases that begin and end at different times.
var leasesOfManyKinds = []struct {
	name  string
	nodes int
	said  []granting
	token quorum.Token
	since clock.Instant // of the whole
	until clock.Instant
	stand uint64
	began []clock.Instant // of the nodes' own leases
}{
	{"all alike", 3, []granting{{0, 7, Lease{100, 3100}}, {1, 7, Lease{100, 3100}}, {2, 7, Lease{100, 3100}}}, 7, 100, 3100, 0b111, []clock.Instant{100, 100, 100}},
	{"the last ends first", 3, []granting{{0, 7, Lease{400, 3400}}, {1, 7, Lease{400, 3400}}, {2, 7, Lease{0, 3000}}}, 7, 0, 3400, 0b011, []clock.Instant{400, 400, 0}},
	{"the first ends first", 3, []granting{{0, 7, Lease{0, 3000}}, {1, 7, Lease{400, 3400}}, {2, 7, Lease{300, 3300}}}, 7, 0, 3300, 0b110, []clock.Instant{0, 400, 300}},
	{"the first begins first", 3, []granting{{0, 7, Lease{0, 3000}}, {1, 7, Lease{400, 3400}}}, 7, 0, 3000, 0b011, []clock.Instant{0, 400, 0}},
	{"the last begins first", 3, []granting{{0, 7, Lease{200, 3200}}, {2, 7, Lease{100, 3100}}}, 7, 100, 3100, 0b101, []clock.Instant{200, 0, 100}},
	{"it is granted out of turn", 3, []granting{{2, 7, Lease{100, 3100}}, {1, 7, Lease{300, 3300}}, {0, 7, Lease{200, 3200}}}, 7, 100, 3200, 0b011, []clock.Instant{200, 300, 100}},
	{"the third best of five", 5, []granting{{0, 7, Lease{10, 3010}}, {1, 7, Lease{50, 3050}}, {2, 7, Lease{20, 3020}}, {3, 7, Lease{40, 3040}}, {4, 7, Lease{30, 3030}}}, 7, 10, 3030, 0b11010, []clock.Instant{10, 50, 20, 40, 30}},
	{"one has a smaller number", 3, []granting{{0, 7, Lease{0, 3000}}, {1, 7, Lease{200, 3200}}, {2, 5, Lease{500, 3500}}}, 7, 0, 3000, 0b111, []clock.Instant{0, 200, 500}},
	{"the number was raised", 3, []granting{{0, 5, Lease{300, 3300}}, {1, 6, Lease{100, 3100}}, {2, 7, Lease{200, 3200}}}, 7, 100, 3100, 0b111, []clock.Instant{300, 100, 200}},
	{"a longer lease follows", 3, []granting{{0, 7, Lease{100, 3100}}, {1, 7, Lease{200, 3200}}, {0, 7, Lease{400, 9900}}}, 7, 200, 3200, 0b011, []clock.Instant{400, 200, 0}},
	{"a shorter lease comes late", 3, []granting{{0, 7, Lease{400, 9900}}, {1, 7, Lease{200, 3200}}, {0, 7, Lease{500, 3500}}}, 7, 200, 3200, 0b011, []clock.Instant{400, 200, 0}},
}

// A claim counts since the first of its leases and is trusted as long as a quorum of them.
// It stands on those that last so long, on each since that one's own beginning: a node that
// is found to have forgotten since then is out, whichever began first.
func TestAClaimStandsOnEachLeaseSinceItsOwnBeginning(t *testing.T) {
	for _, c := range leasesOfManyKinds {
		t.Run(c.name, func(t *testing.T) {
			stand := func() *Claim {
				r := New(&Claim{Owner: "owner", Marks: make([]quorum.Mark, c.nodes)}, c.nodes, 0, &Sleeper{Wake: make(chan struct{}, 1)})
				r.Asks = &Asks{Heard: make([]quorum.Hearing, c.nodes)}
				r.AcceptPushes()
				for _, g := range c.said {
					r.Grant(g.node, g.token, g.lease, true)
				}
				r.Close()
				if since, valid := r.Leases(c.token); since != c.since || valid.Until != c.until {
					t.Fatalf("it counts since %d, until %d; want since %d, until %d", since, valid.Until, c.since, c.until)
				}
				return r.Claim
			}
			if got := stand().Set(); got != c.stand {
				t.Errorf("it stands on %05b; want %05b", got, c.stand)
			}
			for i, began := range c.began {
				stands := c.stand&(1<<i) != 0
				if vouched, _, _ := stand().Discount(i, began); vouched != stands {
					t.Errorf("node %d, found to have forgotten since %d: vouched is %t; want %t", i, began, vouched, stands)
				}
				if vouched, _, _ := stand().Discount(i, began+1); vouched {
					t.Errorf("node %d, found to have forgotten since %d: its lease of %d was proven", i, began+1, began)
				}
			}
		})
	}
}

// A reply that comes when the claim stands on its leases is of none of them.
func TestAStragglerDoesNotVouchForAClaimThatStandsOnItsLeases(t *testing.T) {
	r := New(&Claim{Owner: "owner", Marks: make([]quorum.Mark, 3)}, 3, 100, &Sleeper{Wake: make(chan struct{}, 1)})
	r.Asks = &Asks{Heard: make([]quorum.Hearing, 3)}
	r.AcceptPushes()
	r.Claim.Stand(r.Start, 0)
	for i := range 2 {
		r.Grant(i, 7, Lease{r.Start, 3100}, true)
	}
	r.Close()
	r.Leases(7)
	r.Claim.Vouch(2, r.Start)
	if got := r.Claim.Set(); got != 0b011 {
		t.Errorf("it stands on %03b; want 011", got)
	}
}
