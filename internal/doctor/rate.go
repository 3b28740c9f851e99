package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
)

// How far apart the doctor's two looks at a node's clock are: so many round trips, that
// the rate is known to half a percent, and no less and no more than the two others.
const (
	tripsPerLook = 200
	leastApart   = 100 * time.Millisecond
	mostApart    = 5 * time.Second
)

// tickRemedy is where the limits of time services are told.
const tickRemedy = "Limit how fast its time service slews, on the nodes and the clients (chronyd: maxslewrate 2000; ntpd keeps to 500 ppm), and wait until it is done; a virtual machine's clock may need its host's"

var (
	aboutRate = diagnosis{
		FindingClockRate,
		"A clock that runs faster or slower than the drift factor allows is taken for one that steps, and the node abstains: with a quorum of such nodes nothing can be locked; without the clock watch its leases are not the holder's",
		tickRemedy,
	}
	aboutOwnRate = diagnosis{
		FindingClockRate,
		"This client counts time at another rate than the nodes, beyond the drift factor: it takes them for nodes whose clocks step, and can lock nothing",
		tickRemedy,
	}
)

// lookAgain reads the clocks a second time, so that their rates can be told. It
// blocks until the looks are far enough apart, or ctx is done.
func (d *doctor) lookAgain(ctx context.Context, nodes []*node.Node) {
	var slowest time.Duration
	var first clock.Instant
	looked := false
	for _, e := range d.exams {
		if best, ok := e.bestTrip(); ok {
			slowest, first, looked = max(slowest, best.took), max(first, best.at), true
		}
	}
	if !looked {
		return
	}
	c := nodes[0].Clock
	t := c.NewTimer(min(max(tripsPerLook*slowest, leastApart), mostApart) - c.Early().Sub(first))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return
	}
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range nodes {
		g.Go(func() error {
			d.exams[i].timeAgain(ctx, n)
			return nil
		})
	}
	_ = g.Wait()
}

// timeAgain takes a few more round trips of a node that answered all the others.
func (e *exam) timeAgain(ctx context.Context, n *node.Node) {
	if len(e.trips) == 0 || e.lost > 0 {
		return
	}
	for range fewPings {
		if t, err := takeTrip(ctx, n, n.Timeout); err == nil && (e.later.took == 0 || t.took < e.later.took) {
			e.later = t
		}
	}
}

// bestTrip is the shortest round trip, on which the clock is known best.
func (e *exam) bestTrip() (trip, bool) {
	if len(e.trips) == 0 {
		return trip{}, false
	}
	return slices.MinFunc(e.trips, func(a, b trip) int { return cmp.Compare(a.took, b.took) }), true
}

// rate is how much faster a node's clock runs than ours, give or take the bound, as
// parts of one.
type rate struct {
	node      int
	by, bound float64
}

// rates judges how fast the clocks run. Where the nodes agree, and not with us, it is
// our own clock that is slewed, or all of theirs.
func (d *doctor) rates() {
	var all []rate
	for i := range d.exams {
		e := &d.exams[i]
		first, ok := e.bestTrip()
		if !ok || e.later.at == 0 {
			continue
		}
		apart := float64(e.later.at.Sub(first.at))
		all = append(all, rate{i, float64(e.later.offset.Sub(first.offset)) / apart, float64(first.took+e.later.took) / 2 / apart})
	}
	middle := rate{node: -1}
	if len(all) > 2 {
		byRate := slices.SortedFunc(slices.Values(all), func(a, b rate) int { return cmp.Compare(a.by, b.by) })
		middle.by, middle.bound = byRate[(len(all)-1)/2].by, byRate[(len(all)-1)/2].bound
	}
	if severity := middle.severity(d.cfg.Drift); severity > 0 {
		d.find(severity, -1, aboutOwnRate, "the nodes' clocks run %s than this client's", middle)
	} else {
		middle = rate{}
	}
	for _, r := range all {
		r.by, r.bound = r.by-middle.by, r.bound+middle.bound
		if severity := r.severity(d.cfg.Drift); severity > 0 {
			d.find(severity, r.node, aboutRate, "its clock runs %s than %s", r, d.against(middle))
		}
	}
}

func (d *doctor) against(middle rate) string {
	if middle.by != 0 {
		return "the nodes' median"
	}
	return "this client's"
}

// severity is an error beyond the drift factor, and a warning beyond half of it: the
// other half is for a client with a clock that is slewed the other way. 0 means neither.
func (r rate) severity(factor float64) Severity {
	switch by := max(r.by, -r.by) - r.bound; {
	case by > factor:
		return SeverityError
	case by > factor/2:
		return SeverityWarning
	}
	return 0
}

// String is the rate in words.
func (r rate) String() string {
	way := "faster"
	if r.by < 0 {
		way = "slower"
	}
	return fmt.Sprintf("%.1f %% %s (give or take %.1f)", 100*max(r.by, -r.by), way, 100*r.bound)
}

// The diagnoses of findings about reaching a node.
var (
	aboutSilence = diagnosis{
		FindingUnreachable,
		"It can't vote; while a quorum of the others does, it uses up one of the failures that they may have",
		"Mend the address, the network or the firewall; a TLS port wants rediss://, any other redis://",
	}
	aboutDown = diagnosis{FindingUnreachable, aboutSilence.why, "Start it, or mend the address, or the firewall that refuses"}
	aboutHung = diagnosis{
		FindingUnreachable,
		aboutSilence.why,
		"See whether another machine reaches it, before a restart costs its vote for MaxTTL. If one does, mend the network or the firewall between. " +
			"If none does, its process may be stopped (SIGSTOP; kill -CONT continues it); CLIENT PAUSE ends by itself",
	}
	aboutNoQuorum = diagnosis{FindingNoQuorum, "No new lock is given until a quorum votes; renewals go on only where nodes are merely full", "Mend what keeps the other nodes from it, one by one"}
	aboutLoading  = diagnosis{
		FindingUnreachable,
		"It can't vote until its data are loaded",
		"Wait; INFO persistence tells how far it is",
	}
	aboutFull = diagnosis{FindingMaxClients, "It runs, and closes each new connection: it can't vote for this client", aboutMaxClients.remedy}
	aboutBusy = diagnosis{
		FindingBusy,
		"One script or function has run there for longer than busy-reply-threshold, and nothing else is answered until it ends: it can't vote",
		"End it with SCRIPT KILL, or FUNCTION KILL (one that has written can be ended by SHUTDOWN NOSAVE only), and find out whose it is: redlock's own take microseconds",
	}
)

// tlsWhy is why it matters that TLS can't be set up.
const tlsWhy = "It can't vote for this client, and waiting does not mend it"

var (
	aboutNoTLS   = diagnosis{FindingTLS, tlsWhy, "That port speaks no TLS: give the server's tls-port, or a URL with redis://"}
	aboutOnlyTLS = diagnosis{FindingTLS, tlsWhy, "That port speaks TLS alone: give rediss://, or the server's port without it"}
)

// aboutProtected is of a server that would answer on its own machine.
var aboutProtected = diagnosis{
	FindingUnreachable,
	"It runs, and refuses each client that is not on its own machine: it can't vote, and waiting does not mend it",
	"Give it a password (requirepass, or an ACL user's) and its clients too, or set protected-mode no where no stranger can reach it",
}

// silent is a node that told nothing.
func (d *doctor) silent(i int, err error) {
	remedy := node.Remedy(err)
	err = fault.Once(err, " ("+remedy+")")
	if node.RefusesLogin(err) {
		d.find(SeverityError, i, diagnosis{FindingCredentials, tlsWhy, sentence(remedy)}, "it refuses the client: %s", fault.Reason(err))
		return
	}
	if errors.Is(err, node.ErrProtected) || strings.HasPrefix(err.Error(), "DENIED") {
		d.find(SeverityError, i, aboutProtected, "it is in protected mode: %s", fault.Reason(err))
		return
	}
	if about, ok := tlsFault(err, remedy); ok {
		d.find(SeverityError, i, about, "no TLS connection: %s", fault.Reason(err))
		return
	}
	for _, s := range []struct {
		sign  string
		about diagnosis
	}{{"BUSY ", aboutBusy}, {"ERR max number of clients", aboutFull}, {"LOADING", aboutLoading}} {
		if strings.Contains(err.Error(), s.sign) {
			d.find(SeverityError, i, s.about, "it refuses every command: %v", err)
			return
		}
	}
	about := aboutSilence
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		about = aboutDown
	case errors.Is(err, round.ErrTimeout), errors.Is(err, node.ErrUnreached):
		about = aboutHung
	}
	d.find(SeverityError, i, about, "it does not answer: %v", err)
}

// partingWords is the message of a server that closes a connection before any request,
// because it has too many: a client that writes first may never read it.
func partingWords(ctx context.Context, n *node.Node, err error) error {
	c, ok := n.Client.(*redis.Client)
	var op *net.OpError
	if dialing := errors.As(err, &op) && op.Op == "dial"; !ok || node.IsReply(err) || dialing || errors.Is(err, round.ErrTimeout) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	o := c.Options()
	conn, dialErr := o.Dialer(ctx, o.Network, o.Addr)
	if dialErr != nil {
		return err
	}
	defer conn.Close()
	if until, bounded := ctx.Deadline(); bounded {
		_ = conn.SetReadDeadline(until)
	}
	said := make([]byte, 256)
	if k, _ := conn.Read(said); k > 1 && said[0] == '-' {
		return fmt.Errorf("%s: %w", strings.TrimSpace(string(said[1:k])), err)
	}
	return err
}

// tlsFault tells what is wrong with TLS, if TLS keeps the node away.
func tlsFault(err error, remedy string) (diagnosis, bool) {
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain), errors.Is(err, node.ErrSpeaksPlain):
		return aboutNoTLS, true
	case errors.Is(err, node.ErrSpeaksTLS):
		return aboutOnlyTLS, true
	}
	return diagnosis{FindingTLS, tlsWhy, sentence(remedy)}, remedy != ""
}

// sentence is a remedy as a sentence of its own.
func sentence(remedy string) string {
	if remedy == "" {
		return ""
	}
	return strings.ToUpper(remedy[:1]) + remedy[1:]
}
