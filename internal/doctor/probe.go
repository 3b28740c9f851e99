package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
)

// A node is proved by the commands of a lock, so that any refusal of its server shows in
// the server's own words. With reading alone nothing was found while
// two of three servers were full, and no lock could be taken. A member takes, extends
// and releases a lock with the real scripts. On any other node the voting scripts must
// not be loaded, since their absence keeps it from voting: it leaves a tombstone, as a
// release does there, which needs the server to write as well.
//
// Nothing that is done counts: the name is nobody's (no caller may lock what begins
// with lua.OwnPrefix), its counter is a field of its own beside the stripes and goes
// again, and no entry of a queue is made. Keys that a broken connection leaves behind
// lapse.
const (
	// probeField is the counter of such a name, in redlock:node. Stripes are numbers.
	probeField = "probe"
	// probeLife is the lease of a probe. It is released in the same pipeline; this is
	// for a connection that breaks in between.
	probeLife = time.Second
	// waitInLine is the use without which a node still takes a lock for which nobody waits.
	waitInLine = "wait in line"
)

// step is one command of a probe.
type step struct {
	use   string // its purpose
	wakes bool   // without it locks work, and waiting is slow
	asks  bool   // it asks for the lock
	cmd   node.AnyCall
	want  int64 // the least that it must return; 0 allows anything
}

// failedUse is a purpose for which a probe was refused.
type failedUse struct {
	use   string
	wakes bool
	err   error
}

func (f failedUse) String() string {
	if right := node.MissingRight(f.err); right != "" {
		return fmt.Sprintf("to %s, which takes %s: %v", f.use, right, f.err)
	}
	return fmt.Sprintf("to %s: %v", f.use, f.err)
}

// slow reports whether the node did not refuse, but did not answer in time.
func (f failedUse) slow() bool {
	return errors.Is(f.err, round.ErrTimeout) || errors.Is(f.err, node.ErrUnreached)
}

var errProbeGone = errors.New("the lock that it had just granted was gone")

// proveNode finds out whether the node does what a lock needs. voter tells whether the node
// shows a member's record on the very connection of the probe, and its epoch; nil if the
// node is not asked for a lock. hidden is why a script can't learn on which server it
// runs; nil if it can, or if that was not asked.
func proveNode(ctx context.Context, n *node.Node, voter func(membership.Observation) (string, bool)) (faults []failedUse, hidden error) {
	ctx, cancel := context.WithTimeout(ctx, node.DialShare*n.Timeout)
	defer cancel()
	var steps []step
	var sent clock.Instant
	err := n.Watch(ctx, func(tx *redis.Tx) error {
		p := newProbe(ctx, n.Cfg.Chance.Name())
		epoch, member, why := probeVoter(ctx, n, tx, voter)
		if hidden = why; member {
			if err := node.LoadVoting(ctx, tx); err == nil { // a refusal shows below
				p.lock(epoch) //nolint:contextcheck // only the arguments of the call that it lays out are used
			}
		}
		p.keep()
		p.wait()
		steps, sent = p.steps, n.Clock.Now()
		return send(ctx, tx, steps)
	})
	if steps == nil {
		return []failedUse{{use: "be connected to", err: node.Explain(err)}}, nil
	}
	return judgeProbe(n, steps, n.Clock.Now()-sent >= clock.Instant(probeLife)), hidden
}

// probeVoter is the epoch of a member, as the node shows it on this connection.
func probeVoter(ctx context.Context, n *node.Node, tx *redis.Tx, voter func(membership.Observation) (string, bool)) (epoch string, member bool, hidden error) {
	if voter == nil {
		return "", false, nil
	}
	now := n.Clock.Now()
	v, err := node.Keep(ctx, tx, lua.ReadScript, "0")
	reply, ok := v.([]any)
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal) && node.HidesIdentity(refusal):
		return "", false, err
	case err != nil || !ok:
		return "", false, nil //nolint:nilerr // any other failure is a finding of its own
	}
	epoch, member = voter(n.Tracker.Judge(n.Index, membership.ParseObservation(reply, now, n.Clock.Now())))
	return epoch, member, nil
}

// probe is a probe's commands.
type probe struct {
	ctx         context.Context //nolint:containedctx // it is of one pipeline, and ends with it
	id          string
	key, dead   string
	steps       []step
	life, short int64 // of the lease and of the tombstone, in ms
}

func newProbe(ctx context.Context, id string) *probe {
	return &probe{ctx: ctx, id: id, key: lua.ProbeKey + id, dead: lua.TombstoneKey + id, life: clock.Milliseconds(probeLife), short: 1}
}

func (p *probe) add(use string, want int64, args ...any) {
	p.steps = append(p.steps, step{use: use, want: want, cmd: node.AnyCall{Cmd: redis.NewCmd(p.ctx, args...)}})
}

// lock takes a lock and extends it.
func (p *probe) lock(epoch string) {
	p.add("take a lock", 1, node.AcquireArgs(p.key, p.id, p.life, 1, probeField, epoch)...)
	p.steps[0].asks = true
	p.add("renew a lock", 1, node.ExtendArgs(&round.Claim{Key: p.key, Owner: p.id}, p.life, epoch)...)
}

// keep releases the lock, if there is one, and leaves a tombstone that ends at once.
func (p *probe) keep() {
	locked := len(p.steps) > 0
	p.add("load its scripts", 0, "SCRIPT", "LOAD", lua.ReleaseScript.Body)
	want := int64(0)
	if locked {
		want = 1
	}
	p.add("release a lock", want, "EVALSHA", lua.ReleaseScript.Hash, 2, p.key, p.dead, p.id, p.short)
	if locked {
		p.add("write its record", 0, "HDEL", lua.NodeKey, probeField)
	}
}

// wait tries the commands of waiting, in a form that changes nothing: on keys that are not
// there, or that live longer.
func (p *probe) wait() {
	queue := lua.QueueKey + p.key
	p.add(waitInLine, 0, "ZADD", queue, "XX", 1, p.id)
	p.add(waitInLine, 0, "ZRANGE", queue, 0, 0)
	p.add(waitInLine, 0, "ZREM", queue, p.id)
	p.add(waitInLine, 0, "DEL", lua.LiveKey+p.id)
	p.add(waitInLine, 0, "PEXPIRE", lua.WaitingKey, 1, "GT")
	p.add("wake the next in line", 0, "PUBLISH", lua.WakeChannel+p.id, p.key)
	p.steps[len(p.steps)-1].wakes = true
}

// send does the steps in one pipeline, on one connection.
func send(ctx context.Context, tx *redis.Tx, steps []step) error {
	_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range steps {
			_ = p.Process(ctx, s.cmd) // queued only
		}
		return nil
	})
	for _, s := range steps {
		if s.cmd.Err() == nil && s.cmd.Val() == nil {
			s.cmd.SetErr(errors.Join(node.ErrNoReply, err))
		}
	}
	return nil
}

// judgeProbe lists the refusals, each once. slow says that the lock may have
// lapsed before the last reply.
func judgeProbe(n *node.Node, steps []step, slow bool) []failedUse {
	var out []failedUse
	note := func(s step, err error) {
		same := func(f failedUse) bool { return f.err.Error() == err.Error() }
		if !slices.ContainsFunc(out, same) {
			out = append(out, failedUse{s.use, s.wakes, err})
		}
	}
	for _, s := range steps {
		err := s.cmd.Err()
		n.SawRefusal("", err)
		got := integer(s.cmd.Val())
		switch {
		case node.IsMissingScript(err) && len(out) > 0: // the failed load is told
		case err != nil && !errors.Is(err, redis.Nil):
			if !node.IsReply(err) {
				err = node.Explain(err)
			}
			note(s, err) // the server's own words
			if s.want > 0 {
				return out // later failures follow from it
			}
		case got < s.want && s.asks:
			return out // its epoch has changed just now: nothing is refused
		case got < s.want && slow:
			return out // its lease was over: nothing is refused
		case got < s.want:
			note(s, errProbeGone)
			return out
		}
	}
	if len(out) == 0 {
		n.SawWrite("")
	}
	return out
}

// integer is the first integer of a script's reply.
func integer(reply any) int64 {
	if all, ok := reply.([]any); ok && len(all) > 0 {
		reply = all[0]
	}
	n, _ := reply.(int64)
	return n
}

// prove proves all nodes that answered.
func (d *doctor) prove(ctx context.Context, nodes []*node.Node) {
	d.seen = d.readRecords()
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range nodes {
		if d.exams[i].err == nil {
			g.Go(func() error {
				d.exams[i].faults, d.exams[i].hidden = proveNode(ctx, n, d.voterIn(i))
				return nil
			})
		}
	}
	_ = g.Wait()
}

// voterIn judges a node's right to vote while it is proved, by the exams of all nodes.
func (d *doctor) voterIn(i int) func(membership.Observation) (string, bool) {
	if d.cfg.Unprotected {
		epoch := ""
		if rec := d.exams[i].record; len(rec) > 1 {
			epoch, _ = rec[1].(string) // in the order of membership.RecordFields
		}
		return func(membership.Observation) (string, bool) { return epoch, epoch != "" }
	}
	return func(o membership.Observation) (string, bool) {
		v := d.view()
		v.Nodes[i] = o
		st, why := v.Voter(i)
		return st.Epoch, why == ""
	}
}

var (
	aboutFullMemory = diagnosis{
		FindingRefuses,
		"It answers, and grants no lock: with a quorum like it, nothing can be locked",
		aboutMemory.remedy,
	}
	aboutLackingReplicas = diagnosis{
		FindingRefuses,
		"It answers, and grants no lock while fewer replicas than that follow it",
		aboutMinReplicas.remedy,
	}
	aboutRefusal = diagnosis{
		FindingRefuses,
		"What a lock needs is refused there, so the node can't do its part",
		"See what the reply says, and the server's log",
	}
	aboutNoRight        = diagnosis{FindingRefuses, aboutRefusal.why, rightsRemedy}
	aboutMissingCommand = diagnosis{FindingRefuses, aboutRefusal.why, aboutNoCommand.remedy}
	aboutNoWake         = diagnosis{
		FindingRefuses,
		"A release wakes nobody there, and no reply says so: who waits in line looks by itself, seconds later",
		"Grant the user +publish and &redlock:wake:*",
	}
)

// probeDiagnoses are what refusals mean, by how the reply begins or what it has in it.
var probeDiagnoses = []struct {
	sign  string
	about diagnosis
}{
	{"OOM", aboutFullMemory},
	{"NOREPLICAS", aboutLackingReplicas},
	{"MISCONF", diagnosis{FindingRefuses, aboutFailedWrites.why, aboutFailedWrites.remedy}},
	{"READONLY", diagnosis{FindingRefuses, aboutReplica.why, aboutReplica.remedy}},
	{"NOPERM", aboutNoRight},
	{"ACL", aboutNoRight},
	{"can't run this command", aboutNoRight},
	{"can't access", aboutNoRight},
	{"unknown command", aboutMissingCommand},
	{"Unknown Redis command", aboutMissingCommand},
	{"Unknown command called from script", aboutMissingCommand}, // Valkey
}

// covers tells whether the rights that were looked at say already why this was refused.
func (e *exam) covers(refusal error) bool {
	if refusal == nil {
		return false
	}
	about, _ := meaning(refusal)
	missing := len(e.unknown) > 0 && about == aboutMissingCommand
	return missing || about == aboutNoRight && slices.ContainsFunc(e.denied, func(x denial) bool { return !x.name })
}

// meaning is the diagnosis for a refusal.
func meaning(err error) (about diagnosis, known bool) {
	for _, g := range probeDiagnoses {
		if strings.Contains(err.Error(), g.sign) {
			return g.about, true
		}
	}
	return aboutRefusal, false
}

// probe judges the refusals of the node when it was proved, and its silence.
func (d *doctor) probe(i int) {
	var refused []string
	about, known := aboutRefusal, false
	for _, f := range d.exams[i].faults {
		if d.exams[i].covers(f.err) {
			continue
		}
		if f.slow() { // what follows on its connection fails as well
			if len(d.exams[i].trips) > 0 { // otherwise roundTrip tells it
				d.find(SeverityError, i, aboutRoundTrip, "it is slow: no reply within %v when it was asked to %s", d.cfg.NodeTimeout, f.use)
			}
			break
		}
		if f.wakes {
			d.find(SeverityWarning, i, aboutNoWake, "it refuses %s", f)
			continue
		}
		if refused = append(refused, f.String()); !known {
			about, known = meaning(f.err)
		}
	}
	if len(refused) > 0 {
		d.find(SeverityError, i, about, "it refuses %s", strings.Join(refused, "; "))
	}
}
