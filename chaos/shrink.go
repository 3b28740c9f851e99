package chaos

import (
	"slices"
	"time"
)

// Shrink returns the smallest plan that it finds which still fails: fewer faults
// first, then fewer clients and less time. fails must be true for p. It asks
// fails a few dozen times for a plan of some dozen faults; every plan that it
// asks about has the seed of p, so that what is left happens as it did.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	p = p.withFewerFaults(fails)
	for clients := 1; clients < p.Clients; clients *= 2 {
		if smaller, ok := p.withClients(clients); ok && fails(smaller) {
			p = smaller
			break
		}
	}
	for length := p.end(); length < p.For; length = 2*length + time.Second {
		shorter := p
		shorter.For = length
		if fails(shorter) {
			return shorter
		}
	}
	return p
}

// withFewerFaults leaves faults out, half of them at once, then a quarter, and so
// on down to single ones, as long as the plan fails without them.
func (p Plan) withFewerFaults(fails func(Plan) bool) Plan {
	for size := (len(p.Faults) + 1) / 2; size > 0; {
		left := len(p.Faults)
		for from := 0; from < len(p.Faults); {
			without := p
			without.Faults = slices.Delete(slices.Clone(p.Faults), from, min(from+size, len(p.Faults)))
			if fails(without) {
				p = without
			} else {
				from += size
			}
		}
		switch {
		case size > 1:
			size = (size + 1) / 2
		case len(p.Faults) == left:
			return p
		}
	}
	return p
}

// withClients is the plan with that many clients, if no fault names another.
func (p Plan) withClients(n int) (Plan, bool) {
	p.Clients = n
	for _, f := range p.Faults {
		if f.Client != "" && !p.has(f.Client) {
			return p, false
		}
	}
	return p, true
}

// has tells whether the plan has a client of that name.
func (p Plan) has(client string) bool {
	for i := range p.Clients {
		if clientName(i) == client {
			return true
		}
	}
	return false
}

// end is when the last fault begins, and some time to take effect.
func (p Plan) end() time.Duration {
	end := time.Duration(0)
	for _, f := range p.Faults {
		end = max(end, f.At)
	}
	return end + p.Lease
}
