package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Severity says how much a Finding matters. Greater is worse.
type Severity uint8

const (
	// SeverityInfo asks for nothing; it is good to know.
	SeverityInfo Severity = iota + 1
	// SeverityUnknown marks what could not be looked at, most often because a managed
	// server refuses the question.
	SeverityUnknown
	// SeverityWarning leaves the lock safe, but a fault that the cluster is there
	// to survive would cost more than it should.
	SeverityWarning
	// SeverityError means that the node can't do its part, or can break a promise.
	SeverityError
)

var severityNames = [...]string{"", "info", "unknown", "warning", "error"}

// String returns the severity in one word.
func (s Severity) String() string {
	if int(s) < len(severityNames) && s > 0 {
		return severityNames[s]
	}
	return "invalid"
}

// Finding is one thing that Check has noticed.
type Finding struct {
	Severity Severity
	Code     FindingCode // for programs: stable over versions
	Node     int         // index of the node in the list given to New or Open; -1: the cluster
	Name     string      // the node's name; empty: the cluster
	What     string      // what was seen
	Why      string      // why it matters for the lock
	Remedy   string      // what to do about it
}

// String is the finding on one line.
func (f Finding) String() string {
	at := "cluster"
	if f.Node >= 0 {
		at = fmt.Sprintf("node %d (%s)", f.Node, f.Name)
	}
	return fmt.Sprintf("%s %s: %s: %s. %s. %s.", f.Severity, f.Code, at, f.What, f.Why, f.Remedy)
}

// Report is what Check found, the worst first; findings that are alike stand in
// the order of the nodes. The same cluster gives the same order every time.
type Report struct {
	Nodes    int // how many there are
	Answered int // how many answered
	Quorum   int
	Servers  []string // what each node runs, by its index, such as "Valkey 8.1.1"; empty: it does not tell
	Findings []Finding
}

// Worst returns the greatest severity found; 0 where nothing was.
func (r Report) Worst() Severity {
	var worst Severity
	for _, f := range r.Findings {
		worst = max(worst, f.Severity)
	}
	return worst
}

// AtLeast returns the findings of that severity and worse, in the report's order.
func (r Report) AtLeast(s Severity) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Severity >= s {
			out = append(out, f)
		}
	}
	return out
}

// Check is the configuration doctor: it looks at every node, at the clients and
// at the options, and reports what would weaken the lock, why, and what to do.
// It proves each node, so that whatever a server refuses is a finding in its own
// words: a member takes, extends and releases a lock of a reserved name there
// (redlock:probe:..., a lease of a second), any other node stores a tombstone that
// ends within a millisecond. Nothing of that stays, no counter of a token moves, and
// it counts for nobody. All else is read only.
//
// Each command is sent once, and all nodes are asked at once; each command is
// bounded by the node timeout (the first by four, since it may have to connect).
// The whole takes some fifty round trips to the slowest node, and a tenth of a
// second at least: a clock's rate shows between two looks, which are up to five
// seconds apart where round trips are long.
//
// What a server refuses to tell is a finding of SeverityUnknown, and a node that
// does not answer one of SeverityError: neither is an error of Check. It returns
// an error when the Locker is closed (ErrClosed), when ctx ends (its error), and
// when no node answered (*QuorumError with ErrNoQuorum, beside the report).
//
// A report without findings proves nothing about the network between the nodes,
// about who may promote, restore or flush them, or about the other clients.
func (c *Cluster) Check(ctx context.Context) (Report, error) {
	l := c.locker
	if l.closed.Load() {
		return Report{}, fault.Errorf("redlock: check: %w", ErrClosed)
	}
	if err := fault.OfContext(ctx); err != nil {
		return Report{}, fault.Errorf("redlock: check: %w", err)
	}
	d := &doctor{cfg: &l.cfg, exams: make([]exam, len(l.nodes))}
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range l.nodes {
		d.names = append(d.names, n.Name)
		g.Go(func() error {
			d.exams[i] = examineNode(ctx, n, l.cfg.prefix)
			return nil
		})
	}
	_ = g.Wait()
	if until, ok := ctx.Deadline(); ok && !l.clock.Wall().Before(until) {
		<-ctx.Done() // the sockets have the same deadline, and may be a moment earlier
	}
	if err := fault.OfContext(ctx); err != nil {
		return Report{}, fault.Errorf("redlock: check: %w", err)
	}
	d.prove(ctx, l.nodes)
	d.lookAgain(ctx, l.nodes)
	if err := fault.OfContext(ctx); err != nil {
		return Report{}, fault.Errorf("redlock: check: %w", err)
	}
	d.failed = l.tracker.View().Faults
	d.origin = l.clock.Wall().Add(-l.clock.Early().Sub(0))
	r := d.report()
	if r.Answered == 0 {
		votes, causes := make([]quorum.Vote, len(l.nodes)), make([]error, len(l.nodes))
		for i, e := range d.exams {
			votes[i].Outcome, causes[i] = node.Classify(e.err), e.err
		}
		return r, quorumError("check", "nodes", ErrNoQuorum, nil, l.names, votes, causes)
	}
	return r, nil
}

// doctor judges what the nodes showed. It sends nothing.
type doctor struct {
	cfg      *config
	names    []string
	exams    []exam
	seen     []membership.Observation // what the exams show of membership
	failed   []error                  // what the loop's last action for each node failed with
	origin   wallTime                 // our wall clock at the Clock's origin
	findings []Finding
}

// report is all findings, in order.
func (d *doctor) report() Report {
	r := Report{Nodes: len(d.names), Quorum: quorum.Size(len(d.names)), Servers: make([]string, len(d.names))}
	d.config()
	for i := range d.exams {
		d.client(i)
		if e := &d.exams[i]; e.err != nil {
			d.silent(i, e.err)
			continue
		}
		r.Answered++
		if name, version := d.program(i); version != "" {
			r.Servers[i] = name + " " + version
		}
		d.server(i)
		d.persistence(i)
		d.history(i)
		d.rights(i)
		d.probe(i)
		d.roundTrip(i)
		if !d.cfg.unprotected {
			d.record(i)
		}
	}
	d.sameServer()
	d.clocks()
	d.rates()
	if !d.cfg.unprotected {
		d.membership()
	}
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Node, b.Node))
	})
	r.Findings = d.findings
	return r
}

// diagnosis is what is the same for every finding of a kind: why it matters for
// the lock, and what to do.
type diagnosis struct {
	code        FindingCode
	why, remedy string
}

// find notes something about a node, or about the cluster (-1).
func (d *doctor) find(s Severity, node int, g diagnosis, format string, args ...any) {
	f := Finding{
		Severity: s, Code: g.code, Node: node,
		What: fmt.Sprintf(format, args...), Why: g.why, Remedy: g.remedy,
	}
	if node >= 0 {
		f.Name = d.names[node]
	}
	d.findings = append(d.findings, f)
}
