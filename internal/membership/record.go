package membership

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// recordFormat is part of the wire format. A record of another format is never
// touched: it is a configuration error.
const recordFormat = 1

// maxNodeName bounds a node's name: all of them stand in every record.
const maxNodeName = 255

// record is what a node knows of its membership: the fields of redlock:node that
// are not stripes.
type record struct {
	format  int
	epoch   string // new at every install; what a vote is judged by
	cluster string
	n       int
	names   []string      // of all N nodes, sorted
	maxTTL  time.Duration // no vote is for a longer lease, since the epoch began
	was     time.Duration // MaxTTL of before, while it is lowered; 0: it is not
	run     string        // the identity under which it was installed
	base    quorum.Token  // every stripe is at least this
	strict  bool          // beyond the table only an operator decides, whoever asks

	gone     bool        // this node is retired
	retired  []string    // names that abstain for ever
	replaced []placement // names that took the place of a retired one
}

// longest is the longest lease that a lock may have which rests on the node.
func (r record) longest() time.Duration { return max(r.maxTTL, r.was) }

// placement is a name that joined in the place of a retired one.
type placement struct{ old, new string }

// notice is the mark from which a joiner waits: a nonce, and the identity of the
// server that it was put on. The zero value is none.
type notice struct{ nonce, run string }

// sight is what one node showed at one moment, read by one script.
type sight struct {
	sent     clock.Instant // before the read was sent
	seen     clock.Instant // after its reply was here
	answered bool
	cause    string       // why not, or what is wrong with the record
	refused  bool         // it answered, with something that waiting does not mend
	run      string       // its identity
	replica  bool         // its role is not master
	returned bool         // its epoch has ended: see tenure
	counted  bool         // largest is known
	largest  quorum.Token // the largest of base and stripes
	recorded bool         // it shows a record that we understand; of a node that does not answer now, its last
	rec      record
	notice   notice // the one that stands, of whatever run
}

// recordFields is the order in which read.lua returns them.
var recordFields = [...]string{
	"format", "epoch", "cluster", "n", "names", "maxttl", "run", "base",
	"gone", "retired", "replaced", "maxttl_was", "nonce", "nonce_run", "strict",
}

// unread is a sight of a node that did not answer. What it showed last still
// tells whose it is, and nothing else.
func unread(last sight, sent, seen clock.Instant, cause string) sight {
	return sight{sent: sent, seen: seen, cause: cause, recorded: last.recorded, rec: last.rec}
}

// parseSight reads read.lua's reply. What can't be understood is refused, never
// overwritten: somebody must look at it.
func parseSight(reply []any, sent, seen clock.Instant) sight {
	s := sight{sent: sent, seen: seen, answered: true}
	if len(reply) != 3+len(recordFields) {
		return s.refuse(fmt.Sprintf("the record has %d fields; want %d", len(reply)-3, len(recordFields)))
	}
	s.run, _ = reply[0].(string)
	role, _ := reply[1].(string)
	s.replica = role != "master"
	largest, _ := reply[2].(int64)
	if s.run == "" || largest < 0 || largest > int64(quorum.MaxToken) {
		return s.refuse("its identity or its largest number can't be read")
	}
	s.largest = quorum.Token(largest)
	f := map[string]string{}
	for i, name := range recordFields {
		if v, ok := reply[3+i].(string); ok {
			f[name] = v
		}
	}
	s.notice = notice{f["nonce"], f["nonce_run"]}
	return s.parseRecord(f)
}

// parseRecord fills in the record from the fields that are there. A node with
// nothing but a notice has none; nor one with strict alone, which stands all the
// same.
func (s sight) parseRecord(f map[string]string) sight {
	s.rec.strict = f["strict"] != ""
	for _, name := range []string{"nonce", "nonce_run", "strict"} {
		delete(f, name)
	}
	if len(f) == 0 {
		return s
	}
	s.rec.gone = f["gone"] != ""
	if _, some := f["format"]; !some && s.rec.gone {
		s.recorded = true
		return s
	}
	if format := f["format"]; format != strconv.Itoa(recordFormat) {
		return s.refuse(fmt.Sprintf("its record is of format %q; this client writes %d", format, recordFormat))
	}
	var faults []string
	number := func(name string, least uint64) uint64 {
		v, err := strconv.ParseUint(f[name], 10, 64)
		if err != nil || v < least || v > uint64(quorum.MaxToken) {
			faults = append(faults, fmt.Sprintf("%s is %q", name, f[name]))
		}
		return v
	}
	s.rec.format = recordFormat
	s.rec.n = int(min(number("n", 1), quorum.MaxNodes+1))
	lease := func(name string) time.Duration {
		return time.Duration(min(number(name, 1), uint64(clock.MaxMaxTTL/time.Millisecond))) * time.Millisecond // no client takes more
	}
	s.rec.maxTTL = lease("maxttl")
	if _, lowered := f["maxttl_was"]; lowered {
		s.rec.was = lease("maxttl_was")
	}
	s.rec.base = quorum.Token(number("base", 0))
	s.rec.epoch, s.rec.cluster, s.rec.run = f["epoch"], f["cluster"], f["run"]
	s.rec.names = lines(f["names"])
	slices.Sort(s.rec.names)
	s.rec.retired = lines(f["retired"])
	for _, line := range lines(f["replaced"]) {
		old, name, ok := strings.Cut(line, "\t")
		if !ok {
			faults = append(faults, fmt.Sprintf("replaced has %q", line))
		}
		s.rec.replaced = append(s.rec.replaced, placement{old, name})
	}
	if s.rec.cluster == "" || len(s.rec.names) != s.rec.n || checkNames(s.rec.names) != nil {
		faults = append(faults, fmt.Sprintf("cluster %q, n %d, names %q", s.rec.cluster, s.rec.n, s.rec.names))
	}
	if len(faults) > 0 {
		return s.refuse("its record is damaged (" + strings.Join(faults, "; ") + ")")
	}
	s.recorded = true
	return s
}

// refuse is a sight of something that waiting does not mend.
func (s sight) refuse(cause string) sight {
	s.refused, s.cause, s.recorded, s.rec = true, cause, false, record{}
	return s
}

// member tells whether the record is the showing server's own: one that restarted,
// or took over other data, shows a record of another identity.
func (s sight) member() bool {
	return s.answered && s.recorded && !s.rec.gone && s.rec.epoch != "" && s.rec.run == s.run && !s.replica && !s.returned
}

// standingNotice tells which notice a joiner may wait on: one of this identity.
func (s sight) standingNotice() (notice, bool) {
	return s.notice, s.answered && s.notice.nonce != "" && s.notice.run == s.run
}

// installArgs are install.lua's arguments, for a record that is installed under
// this notice with this epoch.
func (r record) installArgs(n notice) []any {
	replaced := make([]string, 0, len(r.replaced))
	for _, p := range r.replaced {
		replaced = append(replaced, p.old+"\t"+p.new)
	}
	return []any{
		n.nonce, n.run, recordFormat, r.epoch, r.cluster, r.n, strings.Join(r.names, "\n"),
		r.maxTTL.Milliseconds(), r.base.String(), strings.Join(r.retired, "\n"), strings.Join(replaced, "\n"),
		markArg(r.strict),
	}
}

// markArg is a script's argument for what is set, or stays as it is.
func markArg(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// checkNames returns all that is wrong with the names of a cluster's nodes. They
// stand in the record one a line.
func checkNames(names []string) error {
	var faults []string
	for i, name := range names {
		switch {
		case name == "" || len(name) > maxNodeName:
			faults = append(faults, fmt.Sprintf("node %d: a name has 1 to %d bytes", i, maxNodeName))
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

func identityOf(run, history string) string { return run + "." + history }

// processOf is the run_id of an identity, historyOf its replication id.
func processOf(identity string) string {
	run, _, _ := strings.Cut(identity, ".")
	return run
}

func historyOf(identity string) string {
	_, history, _ := strings.Cut(identity, ".")
	return history
}
