package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumkit/redlock"
)

// collector shows the Stats of one Locker to Prometheus. It reads them when it is
// asked, and keeps nothing.
type collector struct{ locker *redlock.Locker }

// The names follow Prometheus's habits: seconds, and _total for what only grows. No
// label contains the name of a resource: there may be millions.
var (
	held      = prometheus.NewDesc("redlock_locks_held", "Locks that are held.", nil, nil)
	acquiring = prometheus.NewDesc("redlock_acquiring", "Calls that want a lock.", nil, nil)
	acquires  = prometheus.NewDesc("redlock_acquires_total", "Calls that wanted a lock, by result.", []string{"result"}, nil)
	acquired  = prometheus.NewDesc("redlock_acquire_seconds", "Time until a lock was acquired.", nil, nil)
	waited    = prometheus.NewDesc("redlock_acquire_wait_seconds_total", "The part of it before the attempt that brought the lock.", nil, nil)
	rollbacks = prometheus.NewDesc("redlock_rollbacks_total", "Attempts that brought no lock and were rolled back.", nil, nil)
	second    = prometheus.NewDesc("redlock_second_rounds_total", "Attempts that took a second round trip, for the token.", nil, nil)
	ended     = prometheus.NewDesc("redlock_holds_total", "Holds that ended, by what ended them.", []string{"end"}, nil)
	hold      = prometheus.NewDesc("redlock_hold_seconds", "How long locks were held.", nil, nil)
	left      = prometheus.NewDesc("redlock_hold_validity_left_seconds_total", "Validity that was left when holds ended, summed up.", nil, nil)
	extends   = prometheus.NewDesc("redlock_extensions_total", "Extensions and renewals, by whether a quorum confirmed.", []string{"confirmed"}, nil)
	releases  = prometheus.NewDesc("redlock_releases_total", "Releases, by whether a quorum confirmed.", []string{"confirmed"}, nil)
	dropped   = prometheus.NewDesc("redlock_events_dropped_total", "Events that no observer was told.", nil, nil)
	up        = prometheus.NewDesc("redlock_node_up", "1 while the node answers, votes and takes writes, else 0.", []string{"node"}, nil)
	votes     = prometheus.NewDesc("redlock_node_votes_total", "What the node had answered when an attempt was decided.", []string{"node", "vote"}, nil)
	calls     = prometheus.NewDesc("redlock_node_call_seconds", "Round trips to the node.", []string{"node"}, nil)
	failures  = prometheus.NewDesc("redlock_node_errors_total", "Round trips to the node that failed.", []string{"node"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.locker.Stats()
	send := func(d *prometheus.Desc, t prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, t, value, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		send(d, prometheus.CounterValue, float64(n), labels...)
	}
	send(held, prometheus.GaugeValue, float64(s.Held))
	send(acquiring, prometheus.GaugeValue, float64(s.Acquiring))
	count(acquires, s.Acquired, "acquired")
	count(acquires, s.Reentered, "reentered")
	count(acquires, s.NotAcquired, "not_acquired")
	count(acquires, s.NoQuorum, "no_quorum")
	count(acquires, s.Misconfigured, "misconfigured")
	count(acquires, s.Cancelled, "cancelled")
	to <- prometheus.MustNewConstSummary(acquired, s.Acquired, s.AcquireTime.Seconds(), nil)
	send(waited, prometheus.CounterValue, s.WaitTime.Seconds())
	count(rollbacks, s.Rollbacks)
	count(second, s.SecondRounds)
	count(ended, s.Released-s.MaxHeld, "released")
	count(ended, s.MaxHeld, "max_hold")
	count(ended, s.Lapsed, "lapsed")
	count(ended, s.Gone, "gone")
	count(ended, s.ClockStepped, "clock_stepped")
	to <- prometheus.MustNewConstSummary(hold, s.Released+s.Lost, s.HoldTime.Seconds(), nil)
	send(left, prometheus.CounterValue, s.ValidityLeft.Seconds())
	count(extends, s.Extended, "true")
	count(extends, s.ExtendFailed, "false")
	count(releases, s.Confirmed, "true")
	count(releases, s.Unconfirmed, "false")
	count(dropped, s.EventsDropped)
	for i := range s.Nodes {
		c.node(&s.Nodes[i], to)
	}
}

// node shows one node.
func (c collector) node(n *redlock.NodeStats, to chan<- prometheus.Metric) {
	votesFor := 1.0
	if n.Down || n.Abstains || n.Refuses {
		votesFor = 0
	}
	to <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, votesFor, n.Name)
	to <- prometheus.MustNewConstSummary(calls, n.Calls, n.Time.Seconds(), nil, n.Name)
	to <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(n.Errors), n.Name)
	for vote, count := range map[string]uint64{
		"granted": n.Granted, "taken": n.Taken, "abstained": n.Abstained, "unknown": n.Unknown, "failed": n.Failed, "late": n.Late,
	} {
		to <- prometheus.MustNewConstMetric(votes, prometheus.CounterValue, float64(count), n.Name, vote)
	}
}
