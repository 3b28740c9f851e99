package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// roster is what one Locker has seen of its nodes, and what it concluded. The
// writers publish what they read when they verify their node; the joiner looks
// at all of them where one does not vote.
type roster struct {
	charter  charter
	clock    *clock.Clock
	nodes    []memberNode // attached before anybody asks
	observer rosterObserver
	founder  string // the cluster id that this Locker would bring

	work   chan struct{} // a slot for whoever does deeds: one at a time
	raised []bool        // MaxTTL, on each node: told. Of whoever has the slot
	stale  []atomic.Bool // to be verified before the next flush
	bound  []bool        // the same for strict recovery
	least  atomic.Int64  // the smallest MaxTTL below ours that a record had, in ns; 0: none had
	nudge  chan struct{}
	asked  chan struct{} // a look is asked for
	stop   chan struct{}
	ended  chan struct{}

	mu      sync.Mutex // guards the fields below
	sights  []sight
	watches []watch
	tenures []tenure
	known   []bool          // looked at since the start, with or without an answer
	seated  []bool          // its writer votes
	faults  []error         // what the last deed for a node failed with
	until   []clock.Instant // of the waits that are running, by the last plan; 0: none
	cluster string          // that a quorum carries
	knew    string          // the strict cluster that this client knows
	longest time.Duration   // the longest lease that anyone may have taken
	changed chan struct{}   // closed by the next publication
	looks   int             // at all nodes, that have begun
	done    int             // the latest of them that has ended
	looked  clock.Instant   // when the latest began
	next    chan struct{}   // closed when one ends
}

// rosterObserver is told what the joiner writes into records, by the node's index. It
// must block for nobody.
type rosterObserver interface {
	MaxTTLRaised(node int, cause error)
	StrictRecoverySet(node int, cause error)
}

// memberNode is a node as the roster reaches it.
type memberNode interface {
	// Look reads the node and publishes what was seen; counted asks for its largest
	// number too.
	Look(ctx context.Context, counted bool)
	// Do does one deed on the node.
	Do(ctx context.Context, p plan) error
}

func newRoster(cfg charter, founder string, c *clock.Clock, o rosterObserver) *roster {
	n := len(cfg.names)
	return &roster{
		charter: cfg, clock: c, observer: o, founder: founder,
		work: make(chan struct{}, 1), raised: make([]bool, n), bound: make([]bool, n), stale: make([]atomic.Bool, n), nudge: make(chan struct{}, 1), asked: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		sights: make([]sight, n), watches: make([]watch, n), tenures: make([]tenure, n), known: make([]bool, n), seated: make([]bool, n),
		faults: make([]error, n), until: make([]clock.Instant, n), changed: make(chan struct{}), next: make(chan struct{}),
	}
}

// attach adds the next node, before anybody asks.
func (r *roster) attach(n memberNode) { r.nodes = append(r.nodes, n) }

// maxTTL is this client's MaxTTL, as the records count it.
func (r *roster) maxTTL() time.Duration { return r.charter.maxTTL }

// fleet is the cluster as it was last seen; mu is held.
func (r *roster) fleet() fleet {
	f := newFleet(r.charter, slices.Clone(r.sights), slices.Clone(r.watches))
	f.faults, f.knew = slices.Clone(r.faults), r.knew
	return f
}

// current is the fleet as it was last seen.
func (r *roster) current() fleet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fleet()
}

// publish takes in what was seen of node i. A node that may vote now, and whose
// writer does not know it yet, is verified before its next flush; all are where
// the cluster's id is another than before. It returns the sight, judged by what
// was seen of the node before.
func (r *roster) publish(i int, s sight) sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.sent < r.sights[i].sent {
		_, s = r.tenures[i].look(s)
		return s // an older look that came later
	}
	r.tenures[i], s = r.tenures[i].look(s)
	r.sights[i], r.watches[i], r.known[i] = s, r.watches[i].look(s), true
	f := r.fleet()
	moved := f.cluster() != r.cluster
	r.cluster, r.longest, r.knew = f.cluster(), f.wait(), f.knows()
	if least := time.Duration(r.least.Load()); s.recorded && s.rec.maxTTL < r.charter.maxTTL && (least == 0 || s.rec.maxTTL < least) {
		r.least.Store(int64(s.rec.maxTTL))
	}
	for j := range r.stale {
		if _, why := f.seat(j); moved || why == "" && !r.seated[j] {
			r.stale[j].Store(true)
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return s
}

// judge is a sight by what was seen of the node before; it is not published.
func (r *roster) judge(i int, s sight) sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, s = r.tenures[i].look(s)
	return s
}

// missed notes that node i did not answer.
func (r *roster) missed(i int, sent clock.Instant, cause error) {
	r.mu.Lock()
	last := r.sights[i]
	r.mu.Unlock()
	why := fault.Unnamed(cause.Error())
	s := unread(last, sent, r.clock.Now(), why)
	if errors.Is(cause, fault.ErrMisconfigured) {
		s.answered = true
		s = s.refuse(strings.TrimPrefix(why, fault.Unnamed(fault.ErrMisconfigured.Error())+": ")) // the state says so
	}
	r.publish(i, s)
}

// seatOf is node i's right to vote, or why it abstains, by what was read of it on
// the connection that it will vote on (own). Which cluster is ours is known only
// when a quorum of nodes, or all of them, were looked at: it blocks until then,
// or until ctx is done.
func (r *roster) seatOf(ctx context.Context, i int, own sight) (seat, error) {
	for {
		r.mu.Lock()
		f, changed := r.fleet(), r.changed
		f.sights[i] = own
		complete := f.cluster() != "" || !slices.Contains(r.known, false)
		if complete || ctx.Err() != nil {
			st, why := f.seat(i)
			r.seated[i] = why == ""
			r.stale[i].Store(false) // what was published until now is in st
			err := r.abstention(f, i, why)
			r.mu.Unlock()
			if why != "" || f.next(i, r.clock.Now(), r.proposal()).do != doNothing {
				r.wake()
			}
			return st, err
		}
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// whyNot is why node i abstains, as of now; nil: its writer should look by
// itself. The joiner looks at blank nodes only, so that one which missed a single
// look of the joiner's would stay out for ever.
func (r *roster) whyNot(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fleet()
	if state, _ := f.standing(i); state == NodeUnreachable {
		return nil
	}
	_, why := f.seat(i)
	return r.abstention(f, i, why)
}

// abstention puts the reason into an error; mu is held. What waiting does not
// mend says so.
func (r *roster) abstention(f fleet, i int, why string) error {
	if why == "" {
		return nil
	}
	p := f.next(i, r.clock.Now(), r.proposal())
	if p.cause != "" {
		why = p.cause
	}
	a := &abstention{fault: f.fault(i)}
	switch state, _ := f.standing(i); {
	case state == NodeForeign || state == NodeMisconfigured, state == NodeMember && f.refounded(), state == NodeBlank && f.barred(i), errors.Is(a.fault, fault.ErrMisconfigured):
		a.why = fmt.Errorf("%w: %s", fault.ErrMisconfigured, why)
	case state == NodeBlank && p.do == doNotice && a.fault == nil:
		a.why = fmt.Errorf("%s; it votes after a wait of MaxTTL (%v), or at once after Cluster.Admit (redlock nodes admit), when no lock made before is held", why, f.wait())
	default:
		a.why = errors.New(why)
	}
	return a
}

// abstention is why a node abstains by what was seen of it, which grows old.
type abstention struct {
	why   error
	fault error // what a deed for it failed with, which why has in words; nil: none did
}

func (a *abstention) Error() string { return a.why.Error() }

// Unwrap returns the reason, and the fault.
func (a *abstention) Unwrap() []error {
	if a.fault == nil {
		return []error{a.why}
	}
	return []error{a.why, a.fault}
}

// raisedFrom is the smallest MaxTTL that a record was seen to have before this client
// raised it; 0: none was below ours.
func (r *roster) raisedFrom() time.Duration { return time.Duration(r.least.Load()) }

// mayVote tells whether node i may, by what was seen last.
func (r *roster) mayVote(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, why := r.fleet().seat(i)
	return why == ""
}

// proposal is what this Locker would found a cluster with.
func (r *roster) proposal() proposal {
	return proposal{cluster: r.founder, clock: quorum.Token(max(r.clock.Wall().UnixMicro(), 0))}
}

// readSince tells whether node i answered a look that was sent after since.
func (r *roster) readSince(i int, since clock.Instant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sights[i].answered && r.sights[i].sent > since
}

// longestLease is the cluster's MaxTTL, as far as any record that was seen says.
func (r *roster) longestLease() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.longest, r.charter.maxTTL)
}

// void takes node i's seat away until it has been verified again.
func (r *roster) void(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seated[i] = false
}

// forgot notes that node i was seen to be a replica, or another than the one that
// was verified: its epoch has ended, even should it come back as it was.
func (r *roster) forgot(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenures[i] = r.tenures[i].end()
}

// outdate has node i verified before its next flush.
func (r *roster) outdate(i int) { r.stale[i].Store(true) }

// outdated tells whether node i is to be verified, to its writer, who then does it.
func (r *roster) outdated(i int) bool { return r.stale[i].Swap(false) }

// wake has the joiner look.
func (r *roster) wake() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}
