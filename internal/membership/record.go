package membership

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// RecordFormat is part of the wire format. A record of another format is never
// touched: it is a configuration error.
const RecordFormat = 4

// MaxNodeName bounds a node's name: all of them stand in every record.
const MaxNodeName = 255

// Configuration is what the cluster agrees on, one a generation (change.go).
type Configuration struct {
	Names  []string      // of all nodes, sorted
	MaxTTL time.Duration // no vote is for a longer lease
	Strict bool          // beyond the table only an operator decides, no matter who asks
}

// equal tells whether the two are the same.
func (c Configuration) equal(o Configuration) bool {
	return slices.Equal(c.Names, o.Names) && c.MaxTTL == o.MaxTTL && c.Strict == o.Strict
}

// String says it in a line.
func (c Configuration) String() string {
	strict := ""
	if c.Strict {
		strict = ", strict recovery"
	}
	return fmt.Sprintf("%s, MaxTTL %v%s", strings.Join(c.Names, ", "), c.MaxTTL, strict)
}

// Record is what a node knows of its membership: the fields of redlock:node that
// are not stripes.
type Record struct {
	Format  int
	Epoch   string // new at every install; what a vote is judged by
	Cluster string
	Run     string       // the identity under which it was installed
	Base    quorum.Token // every stripe is at least this

	Gen           int // how often the configuration has changed: this is the one in force
	Configuration     // since the epoch began

	Before       []string      // the names of the generation before; nil in the first
	BeforeMaxTTL time.Duration // its MaxTTL; 0 in the first
	Settled      bool          // the next change has begun: Before does not vote any more
	Ballot       uint64        // of the latest operator's attempt at the next change; 0 if none
	Proposed     Proposed      // what an attempt would have next
	From         string        // of what its founder saw, a cluster and its generation after another: those before it
	Since        time.Time     // when this was put in force there, by the node's clock; zero: unknown, or it joined with it
}

// Proposed is the next configuration, as the attempt with this ballot proposed it. The
// zero value is none.
type Proposed struct {
	Ballot uint64
	Configuration
}

// Longest is the longest lease that a lock may have which rests on the node, or on others of
// its generation and the next: a quorum has a longer MaxTTL proposed before any node has it in force.
func (r Record) Longest() time.Duration {
	now := max(r.MaxTTL, r.BeforeMaxTTL)
	return max(now, r.Proposed.MaxTTL)
}

// Notice is the mark from which a joiner waits: a nonce, and the identity of the
// server that it was put on, with what its writer knew of the cluster (Claim). The zero value is none.
type Notice struct{ Nonce, Run, Claim string }

// Observation is what one node showed at one moment, read by one script.
type Observation struct {
	Sent     clock.Instant // before the read was sent
	Seen     clock.Instant // after its reply was here
	Answered bool
	Cause    string       // why not, or what is wrong with the record
	Refused  bool         // it answered, with something that waiting does not mend
	Run      string       // its identity
	Replica  bool         // its role is not master
	Returned bool         // its epoch has ended: see Incarnation
	Time     time.Time    // its clock; zero: unknown. For operators: nothing rests on it
	Counted  bool         // largest is known: only then it may be an install's base, or tokens would go back
	Largest  quorum.Token // the largest of base and stripes
	Recorded bool         // it shows a record that we understand; of a node that does not answer now, its last
	Record   Record
	Notice   Notice // the one that stands, of any run
}

// RecordFields is the order in which read.lua returns them.
var RecordFields = [...]string{
	"format", "epoch", "cluster", "names", "maxttl", "run", "base", "strict",
	"gen", "before", "before_maxttl", "settled", "ballot", "proposed", "nonce", "nonce_run", "since", "from", "claim",
}

// Unread is the observation of a node that did not answer. What it showed last still
// tells whose it is, and nothing else.
func Unread(last Observation, sent, seen clock.Instant, cause string) Observation {
	return Observation{Sent: sent, Seen: seen, Cause: cause, Recorded: last.Recorded, Record: last.Record}
}

// ParseObservation reads read.lua's reply. What can't be understood is refused, never
// overwritten: somebody must look at it.
func ParseObservation(reply []any, sent, seen clock.Instant) Observation {
	o := Observation{Sent: sent, Seen: seen, Answered: true}
	if len(reply) != 4+len(RecordFields) {
		return o.refuse(fmt.Sprintf("the record has %d fields; want %d", len(reply)-4, len(RecordFields)))
	}
	o.Run, _ = reply[0].(string)
	role, _ := reply[1].(string)
	o.Replica = role != "master"
	largest, _ := reply[2].(int64)
	if o.Run == "" || largest < 0 || largest > int64(quorum.MaxToken) {
		return o.refuse("its identity or its largest number can't be read")
	}
	o.Largest, o.Time = quorum.Token(largest), momentOf(reply[3])
	f := map[string]string{}
	for i, name := range RecordFields {
		if v, ok := reply[4+i].(string); ok {
			f[name] = v
		}
	}
	o.Notice = Notice{f["nonce"], f["nonce_run"], f["claim"]}
	return o.parseRecord(f)
}

// parseRecord fills in the record from the fields that are there. A node with
// nothing but a notice has none.
func (o Observation) parseRecord(f map[string]string) Observation {
	delete(f, "nonce")
	delete(f, "nonce_run")
	delete(f, "claim")
	if len(f) == 0 {
		return o
	}
	if format := f["format"]; format != strconv.Itoa(RecordFormat) {
		return o.refuse(fmt.Sprintf("its record is of format %q; this client writes %d: empty the server, once no lock is held", format, RecordFormat))
	}
	var faults []string
	number := func(name string, least uint64) uint64 {
		v, err := strconv.ParseUint(f[name], 10, 64)
		if err != nil || v < least || v > uint64(quorum.MaxToken) {
			faults = append(faults, fmt.Sprintf("%s is %q", name, f[name]))
		}
		return v
	}
	o.Record.Format = RecordFormat
	lease := func(name string) time.Duration {
		return time.Duration(min(number(name, 1), uint64(clock.MaxMaxTTL/time.Millisecond))) * time.Millisecond // no client takes more
	}
	o.Record.MaxTTL, o.Record.Strict = lease("maxttl"), f["strict"] != ""
	if f["before"] != "" {
		o.Record.BeforeMaxTTL = lease("before_maxttl")
	}
	o.Record.Base = quorum.Token(number("base", 0))
	o.Record.Epoch, o.Record.Cluster, o.Record.Run = f["epoch"], f["cluster"], f["run"]
	o.Record.Names, o.Record.Before, o.Record.Settled = sortedLines(f["names"]), sortedLines(f["before"]), f["settled"] != ""
	f["gen"], f["ballot"] = cmp.Or(f["gen"], "0"), cmp.Or(f["ballot"], "0")
	o.Record.Gen, o.Record.Ballot = int(min(number("gen", 0), math.MaxInt32)), number("ballot", 0)
	if part := append(strings.SplitN(f["proposed"], "\n", 4), "", "", ""); part[0] != "" {
		f["proposed ballot"], f["proposed maxttl"] = part[0], part[1]
		o.Record.Proposed = Proposed{number("proposed ballot", 1), Configuration{sortedLines(part[3]), lease("proposed maxttl"), part[2] != ""}}
	}
	o.Record.From, o.Record.Since = f["from"], momentOf(f["since"])
	if r := o.Record; r.Cluster == "" || len(r.Names) == 0 || CheckNames(r.Names) != nil || CheckNames(r.Before) != nil || CheckNames(r.Proposed.Names) != nil {
		faults = append(faults, fmt.Sprintf("cluster %q, names %q, before %q, proposed %q", r.Cluster, r.Names, r.Before, r.Proposed.Names))
	}
	if len(faults) > 0 {
		return o.refuse("its record is damaged (" + strings.Join(faults, "; ") + ")")
	}
	o.Recorded = true
	return o
}

// refuse is the observation of something that waiting does not mend.
func (o Observation) refuse(cause string) Observation {
	o.Refused, o.Cause, o.Recorded, o.Record = true, cause, false, Record{}
	return o
}

// member tells whether the record is the showing server's own: one that restarted,
// or took over other data, shows a record of another identity.
func (o Observation) member() bool {
	return o.Answered && o.Recorded && o.Record.Epoch != "" && o.Record.Run == o.Run && !o.Replica && !o.Returned
}

// StandingNotice tells which notice a joiner may wait on: one of this identity.
func (o Observation) StandingNotice() (Notice, bool) {
	return o.Notice, o.Answered && o.Notice.Nonce != "" && o.Notice.Run == o.Run
}

// InstallArgs are install.lua's arguments, for a record that is installed with this epoch: under
// this notice, or over a survivor of this identity and its earlier epoch.
func (r Record) InstallArgs(n Notice, earlier string) []any {
	return []any{
		n.Nonce, n.Run, RecordFormat, r.Epoch, r.Cluster, strings.Join(r.Names, "\n"),
		r.MaxTTL.Milliseconds(), r.Base.String(),
		markArg(r.Strict), r.Gen, strings.Join(r.Before, "\n"), r.BeforeMaxTTL.Milliseconds(), markArg(r.Settled), strconv.FormatUint(r.Ballot, 10), r.Proposed.arg(), earlier, n.Claim, r.From,
	}
}

// arg is the proposal as a record has it.
func (p Proposed) arg() string {
	if p.Ballot == 0 {
		return ""
	}
	return strconv.FormatUint(p.Ballot, 10) + "\n" + p.Configuration.arg()
}

// arg is the configuration as a proposal has it.
func (c Configuration) arg() string {
	return strconv.FormatInt(c.MaxTTL.Milliseconds(), 10) + "\n" + markArg(c.Strict) + "\n" + strings.Join(c.Names, "\n")
}

// markArg is a script's argument for what is set, or is not.
func markArg(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// CheckNames returns all that is wrong with the names of a cluster's nodes. They
// stand in the record one a line.
func CheckNames(names []string) error {
	var faults []string
	for i, name := range names {
		switch {
		case name == "" || len(name) > MaxNodeName:
			faults = append(faults, fmt.Sprintf("node %d: a name has 1 to %d bytes", i, MaxNodeName))
		case !fault.IsText(name):
			faults = append(faults, fmt.Sprintf("node %d (%q): a name is printable text", i, name))
		case slices.Contains(names[:i], name):
			faults = append(faults, fmt.Sprintf("node %d: %q names two nodes", i, name))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", fault.ErrInvalidNode, strings.Join(faults, "; "))
	}
	return nil
}

// lines is the inverse of strings.Join(.., "\n").
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// momentOf is a reading of a node's clock; zero if there is none.
func momentOf(us any) time.Time {
	text, _ := us.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(n)
}

// sortedLines is lines in the records' order.
func sortedLines(s string) []string {
	out := lines(s)
	slices.Sort(out)
	return out
}

// IdentityOf is the identity of a server by its run_id and its replication id.
func IdentityOf(run, history string) string { return run + "." + history }

// ProcessOf is the run_id of an identity.
func ProcessOf(identity string) string {
	run, _, _ := strings.Cut(identity, ".")
	return run
}

// HistoryOf is the replication id of an identity.
func HistoryOf(identity string) string {
	_, history, _ := strings.Cut(identity, ".")
	return history
}
