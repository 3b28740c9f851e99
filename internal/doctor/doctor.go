// Package doctor looks at all nodes of a Locker, at its clients and at its options, and
// finds what would weaken the lock, why, and what to do. An exam is what one node and
// its client showed; the doctor judges all of them together.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Severity says how much a Finding matters. Greater is worse.
type Severity uint8

// The severities, as the public ones of the same names and numbers say.
const (
	SeverityInfo Severity = iota + 1
	SeverityUnknown
	SeverityWarning
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

// Finding is one thing that the doctor has noticed.
type Finding struct {
	Severity Severity
	Code     FindingCode
	Node     int      // its index; -1 for the cluster
	What     string   // what was seen
	Why      string   // why it matters for the lock
	Remedy   string   // what to do about it
	Run      []string // the remedy as lines for a shell, in their order; nil: it is none that can be run
}

// Report is what the doctor found, the worst first; findings that are alike stand in
// the order of the nodes. The same cluster gives the same order every time.
type Report struct {
	Answered int      // how many nodes answered
	Votes    int      // how many of them vote, and refuse nothing that a lock takes
	Quorum   int      // of the list that the nodes show
	Silent   []error  // why a node told nothing, by its index; nil if it answered
	Servers  []string // each node's program, by its index, such as "Valkey 8.1.1"; empty if it does not tell
	Findings []Finding
}

// Config is the part of a Locker's options by which the nodes are judged.
type Config struct {
	TTL            time.Duration
	MaxTTL         time.Duration
	NodeTimeout    time.Duration
	Drift          float64 // the factor
	Prefix         string  // of the names
	StrictRecovery bool
	Pin            string // WithCluster
	Unprotected    bool   // without membership
	TrustClocks    bool   // without the clock watch
}

// doctor judges the exams of all nodes.
type doctor struct {
	cfg      Config
	names    []string
	exams    []exam
	seen     []membership.Observation // the membership that the exams show
	failed   []error                  // the error of the loop's last action for each node; nil if it did not fail
	waits    []bool                   // this client waited for the node already when the exam began
	origin   wallTime                 // our wall clock at the Clock's origin
	findings []Finding
}

// Examine asks all nodes at once, proves those that answered, looks at their clocks a
// second time, and judges. There is at least one node, and all are of one Locker. A
// node that does not answer is a finding. The only error is ctx's, once it has ended.
func Examine(ctx context.Context, nodes []*node.Node, cfg Config) (Report, error) {
	if err := fault.OfContext(ctx); err != nil {
		return Report{}, err
	}
	d := &doctor{cfg: cfg}
	clock := nodes[0].Clock
	for _, w := range nodes[0].Tracker.View().Waits {
		// A program that has only just started may end before its wait does.
		d.waits = append(d.waits, w.Since != 0 && clock.Early().Sub(w.Since) > cfg.NodeTimeout)
	}
	d.examine(ctx, nodes)
	if clock.Over(ctx) {
		<-ctx.Done() // the sockets have the same deadline, and may be a moment earlier
	}
	if err := fault.OfContext(ctx); err != nil {
		return Report{}, err
	}
	d.prove(ctx, nodes)
	d.lookAgain(ctx, nodes)
	if err := fault.OfContext(ctx); err != nil {
		return Report{}, err
	}
	d.failed = nodes[0].Tracker.View().Faults
	d.origin = clock.Wall().Add(-clock.Early().Sub(0))
	return d.report(), nil
}

// examine asks all nodes everything.
func (d *doctor) examine(ctx context.Context, nodes []*node.Node) {
	d.exams = make([]exam, len(nodes))
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range nodes {
		d.names = append(d.names, n.Name)
		g.Go(func() error {
			d.exams[i] = examineNode(ctx, n, d.cfg.Prefix)
			return nil
		})
	}
	_ = g.Wait()
}

// report is all findings, in order. It sends nothing.
func (d *doctor) report() Report {
	r := Report{Silent: make([]error, len(d.names)), Servers: make([]string, len(d.names))}
	for i := range d.exams {
		d.client(i)
		if e := &d.exams[i]; e.err != nil {
			r.Silent[i] = e.err
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
		if !d.cfg.Unprotected {
			d.record(i)
		}
	}
	d.sameServer()
	d.sameHost()
	d.clocks()
	d.rates()
	if !d.cfg.Unprotected {
		d.membership()
	}
	d.config()
	r.Votes, r.Quorum = d.votes(), quorum.Size(len(d.listed()))
	founded := func(o membership.Observation) bool { return o.Recorded }
	torn := func(f Finding) bool { return f.Code == FindingNoCluster } // it says so already
	if r.Votes < r.Quorum && !slices.ContainsFunc(d.findings, torn) &&
		(r.Answered < r.Quorum || slices.ContainsFunc(d.seen, founded)) {
		d.find(SeverityError, -1, aboutNoQuorum, "no quorum: %d of %d nodes vote, and it takes %d", r.Votes, len(d.listed()), r.Quorum)
	}
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Node, b.Node))
	})
	r.Findings = d.findings
	return r
}

// votes is how many nodes vote, show their clock, and took a lock when they were proved. A
// record that any client brings up to date before its first lock takes no vote away.
func (d *doctor) votes() (n int) {
	v := d.view()
	if v.Cluster() == "" && !d.cfg.Unprotected { // members wait for the others
		return 0
	}
	for i, e := range d.exams {
		state, _ := v.Standing(i)
		votes := state == membership.Member || state == membership.Behind
		refuses := func(x failedUse) bool { return !x.wakes && x.use != waitInLine }
		if e.err == nil && slices.Contains(d.listed(), d.names[i]) && (votes || d.cfg.Unprotected) && (d.cfg.TrustClocks || !node.IsReply(e.timeErr)) && !slices.ContainsFunc(e.faults, refuses) {
			n++
		}
	}
	return n
}

// diagnosis is the common part of all findings of a kind: why it matters for the lock, and
// what to do.
type diagnosis struct {
	code        FindingCode
	why, remedy string
}

// find notes something about a node, or about the cluster (-1).
func (d *doctor) find(s Severity, node int, g diagnosis, format string, args ...any) {
	d.findings = append(d.findings, Finding{
		Severity: s, Code: g.code, Node: node,
		What: fmt.Sprintf(format, args...), Why: g.why, Remedy: g.remedy, Run: d.lines(node, g),
	})
}

// FindingCode names a kind of Finding.
type FindingCode string

// The codes. The public ones of the same names are documented.
const (
	FindingUnreachable FindingCode = "unreachable"
	FindingCredentials FindingCode = "credentials"
	FindingTLS         FindingCode = "tls"
	FindingBusy        FindingCode = "busy"

	FindingVersion      FindingCode = "version"
	FindingRunID        FindingCode = "run-id"
	FindingSameServer   FindingCode = "same-server"
	FindingSameHost     FindingCode = "same-host"
	FindingReplica      FindingCode = "replica"
	FindingHasReplicas  FindingCode = "has-replicas"
	FindingBacklog      FindingCode = "repl-backlog"
	FindingDebug        FindingCode = "debug-command"
	FindingMode         FindingCode = "mode"
	FindingEviction     FindingCode = "eviction"
	FindingMemory       FindingCode = "memory"
	FindingImportMode   FindingCode = "import-mode"
	FindingMaxClients   FindingCode = "max-clients"
	FindingMinReplicas  FindingCode = "min-replicas"
	FindingPersistence  FindingCode = "persistence"
	FindingReplay       FindingCode = "aof-default-user"
	FindingWritesFailed FindingCode = "writes-failed"
	FindingRefuses      FindingCode = "refuses"
	FindingCommand      FindingCode = "command"
	FindingACL          FindingCode = "acl"
	FindingACLNames     FindingCode = "acl-names"

	FindingClock       FindingCode = "clock"
	FindingClockRate   FindingCode = "clock-rate"
	FindingRoundTrip   FindingCode = "round-trip"
	FindingTTLRound    FindingCode = "ttl-roundtrip"
	FindingNodeTimeout FindingCode = "node-timeout"
	FindingMaxTTL      FindingCode = "max-ttl"
	FindingStrict      FindingCode = "strict"

	FindingEvenNodes   FindingCode = "even-nodes"
	FindingFewNodes    FindingCode = "few-nodes"
	FindingOtherNodes  FindingCode = "other-n"
	FindingForeign     FindingCode = "other-cluster"
	FindingRecord      FindingCode = "record"
	FindingListChange  FindingCode = "list-change"
	FindingOldList     FindingCode = "old-list"
	FindingBlank       FindingCode = "blank"
	FindingExposed     FindingCode = "exposed"
	FindingNoCluster   FindingCode = "no-cluster"
	FindingNoQuorum    FindingCode = "no-quorum"
	FindingDial        FindingCode = "client-dial"
	FindingPool        FindingCode = "client-pool"
	FindingLimiter     FindingCode = "client-limiter"
	FindingMaintenance FindingCode = "client-maintenance"
	FindingClient      FindingCode = "client"
)
