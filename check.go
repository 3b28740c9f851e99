package redlock

import (
	"context"
	"fmt"

	"github.com/quorumkit/redlock/internal/doctor"
	"github.com/quorumkit/redlock/internal/fault"
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

// The doctor has the same severities by the same numbers.
var _ = [1]struct{}{}[(SeverityInfo-Severity(doctor.SeverityInfo))|(SeverityUnknown-Severity(doctor.SeverityUnknown))|
	(SeverityWarning-Severity(doctor.SeverityWarning))|(SeverityError-Severity(doctor.SeverityError))]

// String returns the severity in one word.
func (s Severity) String() string { return doctor.Severity(s).String() }

// Finding is one thing that Check has noticed.
type Finding struct {
	Severity Severity
	Code     FindingCode // for programs: stable over versions
	Node     int         // index of the node in the list given to New or Open; -1: the cluster
	Name     string      // the node's name; empty: the cluster
	What     string      // what was seen
	Why      string      // why it matters for the lock
	Remedy   string      // what to do about it
	// Run is the remedy as lines that a shell takes as they stand, in their order; nil where it is
	// none that can be run. redis-cli takes the password from REDISCLI_AUTH, and needs a user that may
	// configure the server; the command redlock takes the nodes from REDLOCK_NODES.
	Run []string
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
	Votes    int // how many of them vote, and refused nothing that a lock takes
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
// It proves each node: what a server refuses is a finding in its own words. A member
// takes, extends and releases a lock of a reserved name there (redlock:probe:..., a
// lease of a second). Any other node stores a tombstone that ends within a
// millisecond. Nothing of that stays, no counter of a token moves, and it counts for
// nobody. All else is read only.
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
	if l.acquirer.Closed() {
		return Report{}, fault.Errorf("redlock: check: %w", ErrClosed)
	}
	seen, err := doctor.Examine(ctx, l.nodes, doctor.Config{
		TTL: l.cfg.ttl, MaxTTL: l.cfg.maxTTL, NodeTimeout: l.cfg.nodeTimeout, Drift: l.cfg.drift, Prefix: l.cfg.prefix,
		StrictRecovery: l.cfg.strictRecovery, Pin: l.cfg.cluster, Unprotected: l.cfg.unprotected, TrustClocks: l.cfg.trustClocks,
	})
	if err != nil {
		return Report{}, fault.Errorf("redlock: check: %w", err)
	}
	r := l.reportOf(seen)
	if r.Answered == 0 {
		return r, l.silent("check", "nodes", seen.Silent)
	}
	return r, nil
}

// reportOf puts what the doctor found into public words.
func (l *core) reportOf(seen doctor.Report) Report {
	r := Report{Nodes: len(l.nodes), Answered: seen.Answered, Votes: seen.Votes, Quorum: seen.Quorum, Servers: seen.Servers}
	for _, f := range seen.Findings {
		name := ""
		if f.Node >= 0 {
			name = l.names[f.Node]
		}
		r.Findings = append(r.Findings, Finding{
			Severity: Severity(f.Severity), Code: FindingCode(f.Code), Node: f.Node, Name: name,
			What: f.What, Why: f.Why, Remedy: f.Remedy, Run: f.Run,
		})
	}
	return r
}

// FindingCode names a kind of Finding. Codes keep their meaning over versions;
// new ones may come.
type FindingCode string

// The codes, by what they are about: reaching the node, the server, its memory,
// its rights, time, the cluster, the client.
const (
	FindingUnreachable FindingCode = "unreachable" // it does not answer
	FindingCredentials FindingCode = "credentials" // it refuses the password or the user
	FindingTLS         FindingCode = "tls"         // a certificate is not accepted, or one side speaks no TLS
	FindingBusy        FindingCode = "busy"        // a script or function runs there, and nothing else

	FindingVersion      FindingCode = "version"          // the server is too old
	FindingRunID        FindingCode = "run-id"           // the server does not say which process it is
	FindingSameServer   FindingCode = "same-server"      // two entries are one server
	FindingSameHost     FindingCode = "same-host"        // one machine's failure would take the quorum
	FindingReplica      FindingCode = "replica"          // it follows a master
	FindingHasReplicas  FindingCode = "has-replicas"     // replicas follow it
	FindingBacklog      FindingCode = "repl-backlog"     // it will take another replication id without need
	FindingDebug        FindingCode = "debug-command"    // DEBUG may have it forget unseen
	FindingMode         FindingCode = "mode"             // cluster mode, or a Sentinel
	FindingEviction     FindingCode = "eviction"         // it may drop keys when memory is short
	FindingMemory       FindingCode = "memory"           // its memory is nearly full, and it evicts nothing
	FindingImportMode   FindingCode = "import-mode"      // it keeps what has ended (Valkey)
	FindingMaxClients   FindingCode = "max-clients"      // it has nearly as many connections as it takes
	FindingMinReplicas  FindingCode = "min-replicas"     // it writes only while replicas follow it
	FindingPersistence  FindingCode = "persistence"      // what it forgets when it restarts
	FindingReplay       FindingCode = "aof-default-user" // it can't read its append-only file again
	FindingWritesFailed FindingCode = "writes-failed"    // its last write to the disk failed
	FindingRefuses      FindingCode = "refuses"          // it refuses what a lock needs, in its own words
	FindingCommand      FindingCode = "command"          // the server does not know a command
	FindingACL          FindingCode = "acl"              // the user lacks a right
	FindingACLNames     FindingCode = "acl-names"        // the user may not lock every name

	FindingClock       FindingCode = "clock"         // clocks are apart
	FindingClockRate   FindingCode = "clock-rate"    // a clock runs faster or slower than the drift factor allows for
	FindingRoundTrip   FindingCode = "round-trip"    // round trips are long beside the node timeout
	FindingTTLRound    FindingCode = "ttl-roundtrip" // the TTL is short beside the round trip
	FindingNodeTimeout FindingCode = "node-timeout"  // the node timeout is long beside the TTL
	FindingMaxTTL      FindingCode = "max-ttl"       // MaxTTL is long beside the TTL, or below it
	FindingStrict      FindingCode = "strict"        // this client asks for strict recovery, and the cluster has none

	FindingEvenNodes   FindingCode = "even-nodes"         // one node more than is of use
	FindingFewNodes    FindingCode = "few-nodes"          // no node may fail
	FindingOtherNodes  FindingCode = "other-n"            // its record has another list of nodes
	FindingForeign     FindingCode = "other-cluster"      // it belongs to another cluster
	FindingRecord      FindingCode = "record"             // its membership record can't be read
	FindingListChange  FindingCode = "list-change"        // a change of the list has begun, or the node has not learned of it
	FindingOldList     FindingCode = "old-list"           // a client has the list before the latest: the next change ends its locks
	FindingBlank       FindingCode = "blank"              // it has not joined yet
	FindingExposed     FindingCode = "exposed"            // a client with an old list could found another cluster on it
	FindingNoCluster   FindingCode = "no-cluster"         // no cluster has a quorum of these nodes
	FindingNoQuorum    FindingCode = "no-quorum"          // too few nodes vote
	FindingDial        FindingCode = "client-dial"        // a cut-off node blocks its writer
	FindingPool        FindingCode = "client-pool"        // one connection for everything
	FindingLimiter     FindingCode = "client-limiter"     // a breaker or rate limiter of the client may refuse commands
	FindingMaintenance FindingCode = "client-maintenance" // the server may stretch the client's timeouts
	FindingClient      FindingCode = "client"             // options that redlock makes up for, or can't see
)
