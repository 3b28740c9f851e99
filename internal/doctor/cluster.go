package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

var (
	aboutEvenNodes = diagnosis{
		FindingEvenNodes,
		"It survives no more failures than one node less would, and has one more that can fail; two attempts can split the vote evenly",
		"Use an odd number of nodes: 3 or 5",
	}
	aboutFewNodes = diagnosis{
		FindingFewNodes,
		"No node may fail or restart: until it is back there is no quorum",
		"Use 3 nodes, which survive one failure, or 5, which survive two",
	}
	aboutSameServer = diagnosis{
		FindingSameServer,
		"One server would vote twice, so a minority of servers could make a quorum; redlock refuses the second entry",
		"Give each node its own server, on its own machine; look for a proxy or a load balancer before them",
	}
	aboutSameHost = diagnosis{
		FindingSameHost,
		"When that machine fails, there is no quorum: as many failures as the number of nodes promises are not survived",
		"Give each node its own machine, in a place of its own; nothing, if the address forwards to several",
	}
	aboutForeignNode = diagnosis{
		FindingForeign,
		"Its vote counts in another cluster: two lists that share a node could both find a quorum, so redlock does not use it",
		"Give all clients the same list; to take a node over, take it out there, Cluster.Change (redlock nodes change --remove), and empty it first",
	}
	aboutPinned = diagnosis{
		FindingForeign,
		"This client is pinned to another cluster (WithCluster, REDLOCK_CLUSTER), and counts no vote of this one: either it was founded anew, when a majority had forgotten, or the addresses are of another",
		"If it was founded anew, give clients the new id to pin; otherwise give this client the nodes of its cluster",
	}
	aboutBeside = diagnosis{
		FindingForeign,
		"A client with an old list founded that beside this cluster: nothing can be locked here until it is ended and its leases are over",
		"Nothing at once: the next client that the cluster serves ends it. Then find the client with the old list, and pin all (WithCluster, REDLOCK_CLUSTER)",
	}
	aboutOtherNodes = diagnosis{
		FindingOtherNodes,
		"A quorum of one list and a quorum of another need not meet",
		"Give all clients the same list, by the same names (WithNodeNames); to change it while clients run: Cluster.Change (redlock nodes change)",
	}
	aboutRecord = diagnosis{
		FindingRecord,
		"Without its record it can't be told whose the node is and what it forgot, so it does not vote",
		"Find out who wrote the key redlock:node; a newer client of redlock, or another program",
	}
	aboutBlank = diagnosis{
		FindingBlank,
		"A new cluster gives no lock until a client that runs for so long has waited MaxTTL: cron jobs never do",
		"Call Cluster.Join (redlock nodes join --wait), unless such a client runs, or skip the wait, " +
			"if no lock made before is held: Cluster.Admit (redlock nodes admit)",
	}
	aboutForgot = diagnosis{
		FindingBlank,
		"It does not vote until a client that runs for so long has waited MaxTTL and rebuilt it from the others: cron jobs never do",
		"Call Cluster.Join (redlock nodes join --wait), unless such a client runs",
	}
	aboutStuck = diagnosis{
		FindingBlank,
		"It does not vote, and no wait brings it in while that is so",
		"Mend what keeps it out, and any client does the rest in the background; if that is WithStrictRecovery: " +
			"Cluster.Admit (redlock nodes admit --strict-recovery), when no lock made before is held",
	}
	aboutNoCluster = diagnosis{
		FindingNoCluster,
		"Without a quorum that agrees which cluster it is, nobody may lock",
		"Give all clients the same list; where every node answers they are founded anew",
	}
	aboutChange = diagnosis{
		FindingListChange,
		"Clients of the list before get no vote, and the next change waits for this one",
		"Run redlock nodes change with that again, from anywhere: it finishes what was begun",
	}
	aboutBehind = diagnosis{
		FindingListChange,
		"It votes for clients of its own list, and for others once it is up to date",
		"Nothing: any client of the latest list does it in the background",
	}
	aboutOldList = diagnosis{
		FindingOldList,
		"The next change, or a close, Cluster.Change (redlock nodes change --close), ends the locks of clients that have the list before",
		"Give them the latest list before that",
	}
	aboutOtherMaxTTL = diagnosis{
		FindingMaxTTL,
		"No node votes for a longer lease than the cluster's MaxTTL",
		"Take less (WithTTL), or raise it: Cluster.Change (redlock nodes change --max-ttl)",
	}
	aboutShortMaxTTL = diagnosis{
		FindingMaxTTL,
		"Where all records are lost it may found the cluster anew after its own MaxTTL, while a longer lease still runs",
		"Give this client no less than the cluster's (WithMaxTTL)",
	}
	aboutLax = diagnosis{
		FindingStrict,
		"This client takes no lock: it asks for strict recovery (WithStrictRecovery), and the cluster has none",
		"Cluster.Change (redlock nodes change --strict on)",
	}
)

// config judges the options that need no node's answer.
func (d *doctor) config() {
	n, c := len(d.listed()), d.cfg
	if n < 3 {
		d.find(SeverityWarning, -1, aboutFewNodes, "%s, and the quorum is %d", of(n), quorum.Size(n))
	}
	if n%2 == 0 {
		d.find(SeverityWarning, -1, aboutEvenNodes, "there are %d nodes, and the quorum is %d", n, quorum.Size(n))
	}
	if timeoutsPerTTL*c.NodeTimeout > c.TTL {
		d.find(SeverityWarning, -1, aboutLongTimeout, "the node timeout of %v is more than a third of the TTL of %v", c.NodeTimeout, c.TTL)
	}
}

// of says how many nodes there are.
func of(n int) string {
	if n == 1 {
		return "there is 1 node"
	}
	return fmt.Sprintf("there are %d nodes", n)
}

// sameServer looks for a process that stands twice in the list.
func (d *doctor) sameServer() {
	for i, e := range d.exams {
		if j := d.entry(i); j < i {
			d.find(SeverityError, i, aboutSameServer, "it is the same server as node %d (%s): run_id %s", j, d.names[j], e.run)
		}
	}
}

// sameHost looks for an address without which there is no quorum. A machine's own (loopback) is for trying.
func (d *doctor) sameHost() {
	all, at := d.listed(), map[string][]string{}
	for i, e := range d.exams {
		if e.options == nil || d.entry(i) != i || !slices.Contains(all, d.names[i]) {
			continue
		}
		host, _, err := net.SplitHostPort(e.options.Addr)
		if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			at[host] = append(at[host], d.names[i])
		}
	}
	for _, host := range slices.Sorted(maps.Keys(at)) {
		if names := at[host]; len(names) > 1 && len(all)-len(names) < quorum.Size(len(all)) {
			d.find(SeverityWarning, -1, aboutSameHost, "%d of %d nodes are at %s: %s", len(names), len(all), host, strings.Join(names, ", "))
		}
	}
}

// entry is the first node that is the same process as i: i itself, if it stands in the list once.
func (d *doctor) entry(i int) int {
	run := d.exams[i].run
	if run == "" {
		return i
	}
	return slices.IndexFunc(d.exams, func(e exam) bool { return e.run == run })
}

// readRecords are the nodes' records, as the rules of membership take them.
func (d *doctor) readRecords() []membership.Observation {
	seen := make([]membership.Observation, len(d.exams))
	for i, e := range d.exams {
		if e.err == nil && e.recErr == nil && e.run != "" {
			seen[i] = membership.ParseObservation(append([]any{membership.IdentityOf(e.run, e.info["master_replid"]), e.info["role"], int64(0), e.info["server_time_usec"]}, e.record...), 0, 0)
		}
	}
	return seen
}

// listed are the nodes that count: of the list that the nodes show.
func (d *doctor) listed() []string {
	if d.cfg.Unprotected {
		return d.names
	}
	return d.view().Sorted()
}

// view is the cluster as the nodes showed it.
func (d *doctor) view() membership.View {
	c := membership.NewConfig(d.names, d.cfg.MaxTTL, d.cfg.StrictRecovery)
	c.Pin = d.cfg.Pin
	return membership.NewView(c.GoingBy(d.seen), slices.Clone(d.seen), make([]membership.Wait, len(d.names)))
}

// record judges whether a node's record could be read at all.
func (d *doctor) record(i int) {
	e := &d.exams[i]
	if e.recErr == nil {
		return
	}
	severity := SeverityUnknown
	if strings.HasPrefix(e.recErr.Error(), "WRONGTYPE") {
		severity = SeverityError
	}
	d.find(severity, i, aboutRecord, "its record can't be read: %v", e.recErr)
}

// membership judges to which cluster each node belongs.
func (d *doctor) membership() {
	v := d.view()
	v.Faults = d.hindrances()
	for i, o := range v.Nodes {
		state, why := v.Standing(i)
		switch state {
		case membership.Member:
			d.member(v, i)
		case membership.Foreign:
			g := aboutForeignNode
			switch {
			case v.Beside(i):
				g = aboutBeside
			case v.Pin != "" && o.Record.Cluster != v.Pin:
				g = aboutPinned
			}
			d.find(SeverityError, i, g, "%s", why)
		case membership.Misconfigured:
			g := aboutOtherNodes
			if o.Refused {
				g = aboutRecord
			}
			d.find(SeverityError, i, g, "%s", why)
		case membership.Behind:
			d.find(SeverityInfo, i, aboutBehind, "%s", why)
		case membership.Blank, membership.Joining: // below, beside what keeps it out
		case membership.Unreachable: // told already
		case membership.Unlisted: // it is asked for nothing
		}
	}
	d.list(v)
	if v.Cluster() == "" && len(v.IDs) > 1 {
		var ids []string
		for _, k := range v.IDs {
			ids = append(ids, fmt.Sprintf("%s on %d", k.ID, k.Nodes))
		}
		d.find(SeverityError, -1, aboutNoCluster, "no cluster is on a quorum (%d of %d) of the nodes: %s",
			quorum.Size(len(v.Sorted())), len(v.Sorted()), strings.Join(ids, ", "))
	}
	for i := range v.Nodes {
		if state, why := v.Standing(i); state == membership.Blank && d.entry(i) == i { // a second entry has no vote to wait for
			d.blank(v, i, why)
		}
		d.exposed(v, i)
	}
}

// exposed judges whether a client with an old list could found another cluster on the node.
func (d *doctor) exposed(v membership.View, i int) {
	what, remedy := v.Exposed(i)
	if what == "" {
		return
	}
	severity := SeverityWarning
	if state, _ := v.Standing(i); state == membership.Unlisted { // it may be new
		severity = SeverityInfo
	}
	about := diagnosis{FindingExposed, "Two clusters beside each other could both give a name away", strings.ToUpper(remedy[:1]) + remedy[1:]}
	d.find(severity, i, about, "%s", what)
}

// list judges the cluster's configuration: its MaxTTL, and its list of nodes, once that was changed.
func (d *doctor) list(v membership.View) {
	in := v.Newest()
	if most := cmp.Or(in.MaxTTL, d.cfg.MaxTTL); most > ttlsPerMaxTTL*d.cfg.TTL {
		about := aboutLongMaxTTL
		about.remedy = fmt.Sprintf(about.remedy, ttlsInMaxTTL*d.cfg.TTL)
		d.find(SeverityInfo, -1, about, "MaxTTL is %v, and the TTL %v", most, d.cfg.TTL)
	} else if most < d.cfg.TTL {
		d.find(SeverityError, -1, aboutOtherMaxTTL, "the cluster's MaxTTL is %v, and this client's TTL %v", most, d.cfg.TTL)
	}
	if in.MaxTTL > d.cfg.MaxTTL {
		d.find(SeverityWarning, -1, aboutShortMaxTTL, "the cluster's MaxTTL is %v; this client has %v", in.MaxTTL, d.cfg.MaxTTL)
	}
	if again := v.Pending(); again != "" {
		d.find(SeverityWarning, -1, aboutChange, "a change has begun, and is not finished: %s", again)
	}
	if in.Gen > 0 && slices.Equal(in.Before, v.Sorted()) && !slices.Equal(in.Names, v.Sorted()) {
		d.find(SeverityWarning, -1, aboutOldList, "this client has the list before the latest, which is %s", strings.Join(in.Names, ", "))
	}
	signs := make([][]any, len(d.exams))
	for i, e := range d.exams {
		signs[i] = e.signs
	}
	for _, s := range v.Stragglers(in.Gen, signs) {
		d.find(SeverityInfo, -1, aboutOldList, "%s has the list before the latest; it used it %s", s.Name, s.When())
	}
}

// hindrances are the errors that keep each node from being taken in: the refusal when it
// was proved, or else the failure of this Locker's last action there.
func (d *doctor) hindrances() []error {
	out := make([]error, len(d.exams))
	for i, e := range d.exams {
		if err := d.failed[i]; node.IsReply(err) {
			out[i] = err
		}
		if at := slices.IndexFunc(e.faults, func(x failedUse) bool { return !x.wakes && !x.slow() }); at >= 0 {
			out[i] = fmt.Errorf("it refuses %s", e.faults[at])
		}
	}
	return out
}

// blank judges a node that is to be taken in. Where its wait alone is not enough, or the
// cluster votes without it and it may stay so, that is a warning unless a finding tells an
// error: nothing else would say it.
func (d *doctor) blank(v membership.View, i int, why string) {
	hindered := v.Nodes[i].Replica || v.Fault(i) != nil
	obstacle, _ := v.Obstacle(i)
	about, quiet := aboutStuck, slices.ContainsFunc(d.findings, func(g Finding) bool { return g.Severity == SeverityError })
	switch {
	case hindered:
		why = v.Hindered(i, why)
	case obstacle != "":
		why += "; and " + strings.TrimSuffix(obstacle, ": ") // of a node that does not answer the cause is told already
	case !slices.ContainsFunc(v.Nodes, func(o membership.Observation) bool { return o.Recorded }): // a new cluster: the next client waits for its first lock
		about, quiet = aboutBlank, true
	case len(v.Members(i, 0)) < quorum.Size(len(v.Sorted())): // a majority forgot
		about, quiet = aboutForgot, d.waits[i]
	default:
		about, quiet = aboutForgot, quiet || d.waits[i]
	}
	severity := SeverityWarning
	if quiet {
		severity = SeverityInfo
	}
	d.find(severity, i, about, "%s", why)
}

// member judges the record of a node that votes.
func (d *doctor) member(v membership.View, i int) {
	rec := v.Nodes[i].Record
	if in := v.Newest(); rec.Gen < in.Gen {
		d.find(SeverityInfo, i, aboutBehind, "its configuration is of generation %d, and the cluster's of %d", rec.Gen, in.Gen)
	}
	if v.Lax(i) {
		d.find(SeverityError, i, aboutLax, "its record has no strict recovery")
	}
}
