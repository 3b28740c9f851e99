package membership

import (
	"cmp"
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

// Tracker is what one Locker has seen of its nodes, and what it concluded. The
// writers publish what they read when they verify their node; the loop of
// reconcile.go looks at all of them where one does not vote.
type Tracker struct {
	clock   *clock.Clock
	nodes   []Node // attached before anybody asks
	founder string // the cluster id that this Locker would bring

	list      atomic.Uint64 // that this client goes by: a quorum.List
	relisted  func()        // called after each change of it; nil: nobody asks
	work      chan struct{} // a slot for the one who changes nodes: one at a time
	begun     *Founding     // under way. Of who has the slot; written under mu as well
	foundings int           // that have ended. Of who has the slot
	stale     []atomic.Bool // to be verified before the next flush
	nudge     chan struct{}
	asked     chan struct{} // a look is asked for
	stop      chan struct{}
	ended     chan struct{}

	mu           sync.Mutex // guards the fields below
	config       Config
	seen         []Observation
	waits        []Wait
	incarnations []Incarnation
	known        []bool          // looked at since the start, with or without an answer
	voting       []bool          // its writer votes
	faults       []error         // what the last action for a node failed with
	until        []clock.Instant // of the waits that are running, by the last plan; 0 if none
	cluster      string          // that a quorum carries
	another      clock.Instant   // when it became another than before
	longest      time.Duration   // the longest lease that anyone may have taken
	latest       Claim           // the latest configuration that was seen
	unclaimed    string          // why no vote counts for an acquisition, by what was seen; empty if votes count
	seized       clock.Instant   // until when what was seized may still have its locks
	rival        clock.Instant   // until when another founder is left alone
	mine         string          // the cluster that this client founded last
	changed      chan struct{}   // closed by the next publication
	looks        int             // at all nodes, that have begun
	done         int             // the latest of them that has ended
	looked       clock.Instant   // when the latest began
	next         chan struct{}   // closed when one ends
	resting      bool            // the loop has been at work, has nothing to do, and sleeps until it is woken
}

// Node is a node as the Tracker reaches it.
type Node interface {
	// Look reads the node and publishes what was seen; counted asks for its largest
	// number too.
	Look(ctx context.Context, counted bool)
	// Do does on the node what is planned.
	Do(ctx context.Context, p Plan) error
}

// NewTracker is the Tracker of a client that would found the cluster with the id founder.
func NewTracker(cfg Config, founder string, c *clock.Clock) *Tracker {
	n := len(cfg.Names)
	return &Tracker{
		config: cfg, clock: c, founder: founder,
		work: make(chan struct{}, 1), stale: make([]atomic.Bool, n), nudge: make(chan struct{}, 1), asked: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		seen: make([]Observation, n), waits: make([]Wait, n), incarnations: make([]Incarnation, n), known: make([]bool, n), voting: make([]bool, n),
		faults: make([]error, n), until: make([]clock.Instant, n), changed: make(chan struct{}), next: make(chan struct{}),
	}
}

// OnList has f called after each change of the list that this client goes by. It is set before
// anybody asks, and must not block.
func (t *Tracker) OnList(f func()) { t.relisted = f }

// List returns the list that this client goes by.
func (t *Tracker) List() quorum.List { return quorum.List(t.list.Load()) }

// Outside reports whether the list that this client goes by does not have node i, nor an earlier one
// had it, as far as is known: nothing of this client can be there.
func (t *Tracker) Outside(i int) bool {
	if t.List().Has(i) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.seen[i].Recorded
}

// Attach adds the next node, before anybody asks.
func (t *Tracker) Attach(n Node) { t.nodes = append(t.nodes, n) }

// viewLocked is the cluster as it was last seen, in copies that the caller may keep.
func (t *Tracker) viewLocked() View {
	v := NewView(t.config, slices.Clone(t.seen), slices.Clone(t.waits))
	v.Faults, v.Rival, v.Known = slices.Clone(t.faults), t.rival, t.latest
	return v
}

// View is the cluster as it was last seen.
func (t *Tracker) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.viewLocked()
}

// Publish takes in what was seen of node i. A node that may vote now, and whose
// writer does not know it yet, is verified before its next flush; all are where
// the cluster's id is another than before. It returns the observation, judged by what
// was seen of the node before. Looks at one node are published in their order: Node's
// observe waits until the earlier look is published.
func (t *Tracker) Publish(i int, o Observation) Observation {
	defer t.tellRelisted(t.List())
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.publishLocked(i, o)
}

// tellRelisted tells if the list is another than before.
func (t *Tracker) tellRelisted(before quorum.List) {
	if t.List() != before && t.relisted != nil {
		t.relisted()
	}
}

// publishLocked is Publish for a caller that holds mu.
func (t *Tracker) publishLocked(i int, o Observation) Observation {
	if o.Sent < t.seen[i].Sent {
		_, o = t.incarnations[i].After(o)
		return o // an older look that came later
	}
	t.incarnations[i], o = t.incarnations[i].After(o)
	if t.waits[i].Notice.Nonce != "" && o.member() && o.Record.Cluster != t.mine { // somebody has taken it in
		t.rival = o.Seen.Add(rivalTime)
	}
	t.seen[i], t.waits[i], t.known[i] = o, t.waits[i].After(o), true
	relisted := t.goByLocked(t.config.goesBy(t.seen, t.latest))
	v := t.viewLocked()
	moved := v.Cluster() != t.cluster
	if moved && t.cluster != "" {
		t.another = o.Seen
	}
	t.cluster, t.longest = v.Cluster(), v.wait()
	if t.latest.Cluster != "" || t.List() == 0 || !slices.Contains(t.known, false) { // else another node may know of a longer list
		t.latest = v.learn(t.latest)
	}
	v.Known = t.latest
	t.unclaimed = v.unclaimed()
	for j, o := range v.Nodes {
		if c := v.claimAt(j); c.Seized {
			t.seized = max(t.seized, t.waits[j].Since.Add(c.Lease))
		}
		if v.beside(j) { // also if it does not answer from now on
			t.seized = max(t.seized, o.Seen.Add(v.besideFor(j)))
		}
	}
	for j := range t.stale {
		if _, why := v.Voter(j); moved || relisted || why == "" && !t.voting[j] {
			t.stale[j].Store(true)
		}
	}
	close(t.changed)
	t.changed = make(chan struct{})
	return o
}

// goByLocked makes the client go by a list, and reports whether it went by another.
func (t *Tracker) goByLocked(list []string) bool {
	if slices.Equal(list, t.config.sorted) {
		return false
	}
	t.config.sorted = list
	t.list.Store(uint64(t.config.bits(list)))
	return true
}

// claimWithin is how old a look at any node may be when votes count for an acquisition.
const claimWithin = 15 * time.Second

// Claimed returns why no vote counts for an acquisition whose round was sent at since: a node lacks
// the cluster's claim (claims.go), what was seized may still have locks, or this client goes by
// another cluster since. It returns nil where votes count. It waits for the first look at each node,
// which the writers take, and looks itself where the last look is too old or showed such a node:
// three node timeouts at most, or until ctx is done, with ctx's error. A node that does not answer
// in time lacks nothing.
func (t *Tracker) Claimed(ctx context.Context, timeout time.Duration, since clock.Instant) error {
	if err := t.met(ctx, timeout); err != nil {
		return err
	}
	age, limit, lacks := t.unseen()
	switch {
	case age > limit || lacks:
		if !t.LookAgain(ctx, timeout) && ctx.Err() != nil {
			return fault.OfContext(ctx)
		}
		if began := t.clock.Early().Sub(t.lookDue()); began > limit {
			return fmt.Errorf("no node was looked at for %v", began.Round(100*time.Millisecond))
		}
	case age > limit/2: // no acquisition waits for a look, if one comes now and then
		select {
		case t.asked <- struct{}{}:
		default:
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	why := t.unclaimed
	if why == "" && t.another > since {
		why = "the nodes are of another cluster than those that granted"
	}
	if left := t.seized.Sub(t.clock.Early()); why == "" && left > 0 {
		why = fmt.Sprintf("what an old list founded beside this cluster may have locks for another %v", left.Round(100*time.Millisecond))
	}
	if why == "" {
		return nil
	}
	t.wake()
	return errors.New(why)
}

// met waits until each node was looked at since the start, for a node timeout at most.
func (t *Tracker) met(ctx context.Context, timeout time.Duration) error {
	var over <-chan time.Time
	for {
		t.mu.Lock()
		all, changed := !slices.Contains(t.known, false), t.changed
		t.mu.Unlock()
		if all {
			return nil
		}
		if over == nil {
			timer := t.clock.NewTimer(timeout)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-over:
			return nil
		case <-ctx.Done():
			return fault.OfContext(ctx)
		}
	}
}

// unseen returns the age of the oldest of the nodes' last looks, how old it may be, and whether those
// looks showed a node that lacks the claim.
func (t *Tracker) unseen() (age, limit time.Duration, lacks bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Early()
	for i, o := range t.seen {
		if t.known[i] && slices.Contains(t.config.sorted, t.config.Names[i]) {
			age = max(age, now.Sub(o.Sent))
		}
	}
	return age, min(claimWithin, cmp.Or(t.longest, t.config.MaxTTL)/2), t.unclaimed != ""
}

// Claim plans the claim of node i, which showed this. It is put before that is published, as no vote
// counts beside a node that lacks it. DoNothing where none is due.
func (t *Tracker) Claim(i int, o Observation) Plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes := slices.Clone(t.seen)
	_, nodes[i] = t.incarnations[i].After(o)
	v := NewView(t.config, nodes, slices.Clone(t.waits))
	v.Known = t.latest
	if state, _ := v.Standing(i); t.begun != nil || state != Blank || o.Replica || !v.wanted(i) {
		return Plan{}
	}
	return v.claim(i)
}

// Judge is an observation by what was seen of the node before; it is not published.
func (t *Tracker) Judge(i int, o Observation) Observation {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, o = t.incarnations[i].After(o)
	return o
}

// Missed notes that node i did not answer.
func (t *Tracker) Missed(i int, sent clock.Instant, cause error) {
	defer t.tellRelisted(t.List())
	t.mu.Lock()
	defer t.mu.Unlock()
	o := Unread(t.seen[i], sent, t.clock.Now(), fault.Unnamed(cause.Error()))
	if errors.Is(cause, fault.ErrMisconfigured) {
		o.Answered = true
		o = o.refuse(fault.Reason(cause))
	}
	t.publishLocked(i, o)
}

// VoterOf is node i's right to vote, or why it abstains, by what was read of it on
// the connection that it will vote on (own). Which cluster is ours is known only
// when a quorum of nodes, or all of them, were looked at: it blocks until then,
// or until ctx is done.
func (t *Tracker) VoterOf(ctx context.Context, i int, own Observation) (Voter, error) {
	for {
		t.mu.Lock()
		v, changed := t.viewLocked(), t.changed
		v.Nodes[i] = own
		complete := v.Cluster() != "" || !slices.Contains(t.known, false)
		if complete || ctx.Err() != nil {
			st, why := v.Voter(i)
			t.voting[i] = why == ""
			t.stale[i].Store(false) // what was published until now is in st
			err := t.abstentionLocked(v, i, why)
			t.mu.Unlock()
			if why != "" || v.Next(i, t.clock.Now(), t.Proposal()).Action != DoNothing {
				t.wake()
			}
			return st, err
		}
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// WhyNot is why node i abstains, as of now; nil: its writer should look by
// itself. The loop looks at blank nodes only, so that one which missed a single
// look of the loop's would stay out for ever.
func (t *Tracker) WhyNot(i int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.viewLocked()
	if state, _ := v.Standing(i); state == Unreachable {
		return nil
	}
	_, why := v.Voter(i)
	return t.abstentionLocked(v, i, why)
}

// abstentionLocked puts the reason into an error. A reason that waiting does not mend wraps
// ErrMisconfigured.
func (t *Tracker) abstentionLocked(v View, i int, why string) error {
	if why == "" {
		return nil
	}
	p := v.Next(i, t.clock.Now(), t.Proposal())
	if p.Cause != "" {
		why = p.Cause
	}
	a := &AbstentionError{fault: v.Fault(i)}
	switch state, _ := v.Standing(i); {
	case state == Foreign || state == Misconfigured, v.Lax(i), state == Blank && (v.pinLost() || v.oldList(i) != ""), errors.Is(a.fault, fault.ErrMisconfigured):
		if a.why = fmt.Errorf("%w: %s", fault.ErrMisconfigured, why); a.fault == nil && v.nextTo(v.Nodes[i]) {
			a.fault = ErrNextList
		}
	case state == Blank && v.Barred(i): // the fault is its neighbour's
		a.why, a.fault = fmt.Errorf("%s; it is not taken in beside %s", why, strings.Join(v.misfits(), ", ")), fault.ErrMisconfigured
	case state == Blank && p.Action == DoNotice && a.fault == nil:
		a.why = errors.New(v.waiting(i, v.waitOf(i), why))
	default:
		a.why = errors.New(why)
	}
	return a
}

// AbstentionError is why a node abstains by what was seen of it, which grows old.
type AbstentionError struct {
	why   error
	fault error // what an action for it failed with, or what is wrong beside it, which why has in words; nil: nothing
}

// Error is the reason.
func (a *AbstentionError) Error() string { return a.why.Error() }

// Unwrap returns the reason, and the fault.
func (a *AbstentionError) Unwrap() []error {
	if a.fault == nil {
		return []error{a.why}
	}
	return []error{a.why, a.fault}
}

// Refused tells whether so many nodes refuse this client for good that no quorum is left.
func (t *Tracker) Refused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.viewLocked()
	var listed []int
	for i := range v.Names {
		if v.inList(i) {
			listed = append(listed, i)
		}
	}
	return fault.Hopeless(len(listed), quorum.Size(len(listed)), func(k int) error {
		i := listed[k]
		_, why := v.Voter(i)
		return t.abstentionLocked(v, i, why)
	})
}

// Beside tells whether another client founds the cluster just now.
func (t *Tracker) Beside() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.viewLocked().Cluster() == "" && t.clock.Now() < t.rival
}

// MayVote tells whether node i may, by what was seen last.
func (t *Tracker) MayVote(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, why := t.viewLocked().Voter(i)
	return why == ""
}

// Proposal is what this Locker would found a cluster with.
func (t *Tracker) Proposal() Proposal {
	return Proposal{Cluster: t.founder, Clock: quorum.Token(max(t.clock.Wall().UnixMicro(), 0))}
}

// ReadSince tells whether node i answered a look that was sent after since.
func (t *Tracker) ReadSince(i int, since clock.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[i].Answered && t.seen[i].Sent > since
}

// LongestLease is the cluster's MaxTTL, as far as any record that was seen says.
func (t *Tracker) LongestLease() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.longest, t.config.MaxTTL)
}

// Void takes node i's right to vote away until it has been verified again.
func (t *Tracker) Void(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.voting[i] = false
}

// Forgot notes that the server which was verified as node i under this epoch is a replica,
// or another by now: the epoch has ended, even should it come back as it was. A later one,
// under which the node was installed meanwhile, has not.
func (t *Tracker) Forgot(i int, epoch string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.incarnations[i] = t.incarnations[i].without(epoch)
}

// Outdate has node i verified before its next flush.
func (t *Tracker) Outdate(i int) { t.stale[i].Store(true) }

// Outdated tells whether node i is to be verified, to its writer, who then does it.
func (t *Tracker) Outdated(i int) bool { return t.stale[i].Swap(false) }

// OutOfDate is what Outdated will say.
func (t *Tracker) OutOfDate(i int) bool { return t.stale[i].Load() }

// wake makes the loop look.
func (t *Tracker) wake() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}
