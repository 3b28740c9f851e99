package membership_test

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
)

// observed is a node that answered: a record (nil if none), a run_id, a largest number
// and a notice, read at an instant.
func observed(at clock.Instant, run string, rec *membership.Record, largest quorum.Token, n membership.Notice) membership.Observation {
	o := membership.Observation{Sent: at, Seen: at, Answered: true, Run: run, Counted: true, Largest: largest, Notice: n}
	if rec != nil {
		o.Recorded, o.Record = true, *rec
	}
	return o
}

// recordOf is a record as install.lua leaves it.
func recordOf(epoch, cluster, run string, names []string, maxTTL time.Duration, base quorum.Token) membership.Record {
	return membership.Record{
		Format: membership.RecordFormat, Epoch: epoch, Cluster: cluster, Run: run, Base: base,
		Configuration: membership.Configuration{Names: names, MaxTTL: maxTTL},
	}
}

func noticeOf(nonce, run string) membership.Notice { return membership.Notice{Nonce: nonce, Run: run} }

func waitOf(n membership.Notice, since clock.Instant) membership.Wait {
	return membership.Wait{Notice: n, Since: since}
}

func proposalOf(cluster string, clock quorum.Token, admit bool) membership.Proposal {
	return membership.Proposal{Cluster: cluster, Clock: clock, Admit: admit}
}

// asStrict is the record of a cluster that an operator recovers.
func asStrict(r membership.Record) membership.Record {
	r.Strict = true
	return r
}
