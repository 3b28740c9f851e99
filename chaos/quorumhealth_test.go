package chaos_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A quorum is healthy again a second after its links and processes are; but where a command
// may have been held back for longer than its release is repeated, once its key has ended.
func TestWhenAQuorumIsHealthyAgain(t *testing.T) {
	second := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	fault := func(kind chaos.Break, node int, at, lasts float64) chaos.Fault {
		return chaos.Fault{Kind: kind, Node: node, At: second(at), For: second(lasts)}
	}
	of := func(client string, f chaos.Fault) chaos.Fault { f.Client = client; return f }
	by := func(delay float64, f chaos.Fault) chaos.Fault { f.Delay = second(delay); return f }
	down := fault(chaos.Cut, 2, 0, 60)
	for _, c := range []struct {
		name   string
		faults []chaos.Fault
		well   float64
		varied int
	}{
		{"a short stall", []chaos.Fault{fault(chaos.Stall, 1, 10, 2)}, 13, 0},
		{"one of nearly a lease", []chaos.Fault{fault(chaos.Stall, 1, 10, 2.5)}, 17, 0},
		{"one of many leases", []chaos.Fault{fault(chaos.Stall, 1, 10, 20)}, 35, 0},
		{"one of a short lease", []chaos.Fault{fault(chaos.Stall, 1, 10, 0.5)}, 13, 2},
		{"two short ones in a row", []chaos.Fault{fault(chaos.Stall, 1, 10, 2), fault(chaos.Stall, 1, 11.5, 1)}, 17, 0},
		{"two with a pause", []chaos.Fault{fault(chaos.Stall, 1, 10, 2), fault(chaos.Stall, 1, 14, 1)}, 16, 0},
		{"two of other nodes", []chaos.Fault{fault(chaos.Stall, 1, 10, 2), fault(chaos.Stall, 0, 11.5, 1)}, 13.5, 0},
		{"two of other clients", []chaos.Fault{of("client-0", fault(chaos.Cut, 1, 10, 2)), of("client-1", fault(chaos.Cut, 1, 11.5, 1))}, 13.5, 0},
		{"a client that is stopped first", []chaos.Fault{of("client-0", fault(chaos.Suspend, 0, 8, 3)), fault(chaos.Stall, 1, 10, 1)}, 16, 0},
		{"requests held back", []chaos.Fault{fault(chaos.CutRequests, 1, 10, 4)}, 19, 0},
		{"requests lost", []chaos.Fault{fault(chaos.LoseRequests, 1, 10, 4)}, 15, 0},
		{"replies held back: the commands ran", []chaos.Fault{fault(chaos.CutReplies, 1, 10, 4)}, 15, 0},
		{"late for a moment, for long", []chaos.Fault{by(0.5, fault(chaos.Slow, 1, 10, 4))}, 15.5, 0},
		{"late for long", []chaos.Fault{by(2.5, fault(chaos.Reorder, 1, 10, 4))}, 21, 0},
		{"late twice: delays of one link add up", []chaos.Fault{of("client-0", by(0.25, fault(chaos.Slow, chaos.Everything, 10, 4))), by(0.5, fault(chaos.Reorder, 1, 11, 3))}, 19.75, 0},
		{"late twice, of other links", []chaos.Fault{of("client-0", by(0.25, fault(chaos.Slow, 1, 10, 4))), of("client-1", by(0.5, fault(chaos.Reorder, 1, 11, 3)))}, 15.5, 0},
		{"late, and the releases lost", []chaos.Fault{by(0.5, fault(chaos.Slow, 1, 10, 4)), fault(chaos.LoseRequests, 1, 11, 4)}, 19.5, 0},
	} {
		p := chaos.Plan{Nodes: 3, Clients: 2, Names: 1, Lease: 3 * time.Second, MaxTTL: 4 * time.Second, For: time.Minute, Faults: append([]chaos.Fault{down}, c.faults...)}
		p.Varied = c.varied
		got := p.Health()
		if last := got[len(got)-1]; last.Kind != trace.Well || last.At.Seconds() != c.well {
			t.Errorf("%s: got %v; want it healthy at %v s", c.name, got, c.well)
		}
	}
}

// A command may be in transit for as long as a fault lasts, and by all that a link adds then.
func TestACommandIsInTransitForAllDelaysOfItsLink(t *testing.T) {
	late := func(node int, at, by time.Duration) chaos.Fault {
		return chaos.Fault{Kind: chaos.Reorder, Node: node, At: at, For: 4 * time.Second, Delay: by}
	}
	p := chaos.Plan{Nodes: 3, Clients: 2, Names: 1, Lease: 3 * time.Second, MaxTTL: 4 * time.Second, For: time.Minute, Faults: []chaos.Fault{
		late(chaos.Everything, 10*time.Second, time.Second), late(1, 11*time.Second, 2*time.Second), late(0, 20*time.Second, 2500*time.Millisecond),
	}}
	if got := p.Judge().Transit; got != 7*time.Second {
		t.Errorf("got %v; want 4 s of a fault, and 1 and 2 s of one link", got)
	}
}
