package redlockotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumkit/redlock"
)

// gauges are the instruments that are read from Stats.
type gauges struct {
	held, active             metric.Int64ObservableUpDownCounter
	acquires, ends, releases metric.Int64ObservableCounter
	second, votes            metric.Int64ObservableCounter
	calls, errors, dropped   metric.Int64ObservableCounter
	up                       metric.Int64ObservableGauge
	time                     metric.Float64ObservableCounter
}

// Watch reads the Locker's Stats whenever metrics are collected, until stop is
// called. attrs go onto each of these metrics: give them where the program has more
// than one Locker, to tell them apart.
func (o *Observer) Watch(l *redlock.Locker, attrs ...attribute.KeyValue) (stop func() error, err error) {
	if l == nil {
		return nil, errors.New("redlockotel: the Locker is nil")
	}
	var g gauges
	all, err := g.make(o.meter)
	if err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	r, err := o.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		g.read(to, l.Stats(), attrs)
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	return r.Unregister, nil
}

// make makes them, and returns all that went wrong.
func (g *gauges) make(m metric.Meter) ([]metric.Observable, error) {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	counter := func(name, unit, what string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		return c
	}
	level := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		c, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		return c
	}
	g.held = level("redlock.lock.held", "{lock}", "Locks that are held.")
	g.active = level("redlock.acquire.active", "{call}", "Calls that want a lock.")
	g.acquires = counter("redlock.acquire.calls", "{call}", "Calls that wanted a lock, by result.")
	g.ends = counter("redlock.hold.ends", "{lock}", "Holds that ended, by what ended them.")
	g.releases = counter("redlock.release.calls", "{release}", "Releases, by whether a quorum confirmed.")
	g.second = counter("redlock.attempt.second_rounds", "{attempt}", "Attempts that took a second round trip, for the token.")
	g.votes = counter("redlock.node.votes", "{vote}", "What the node had answered when an attempt was decided.")
	g.calls = counter("redlock.node.calls", "{call}", "Round trips to the node.")
	g.errors = counter("redlock.node.errors", "{call}", "Round trips to the node that failed.")
	g.dropped = counter("redlock.event.dropped", "{event}", "Events that no observer was told.")
	var err error
	g.up, err = m.Int64ObservableGauge("redlock.node.up", metric.WithUnit("{node}"), metric.WithDescription("1 while the node answers, votes and takes writes, else 0."))
	note(err)
	g.time, err = m.Float64ObservableCounter("redlock.node.time", metric.WithUnit("s"), metric.WithDescription("Time spent in round trips to the node."))
	note(err)
	return []metric.Observable{g.held, g.active, g.acquires, g.ends, g.releases, g.second, g.votes, g.calls, g.errors, g.dropped, g.up, g.time}, errors.Join(errs...)
}

// labels adds those of one point to those of the Locker.
type labels func(more ...attribute.KeyValue) metric.ObserveOption

// part is one point of a counter that a label divides.
type part struct {
	is string
	n  uint64
}

// read reports one snapshot.
func (g *gauges) read(to metric.Observer, s redlock.Stats, attrs []attribute.KeyValue) {
	with := labels(func(more ...attribute.KeyValue) metric.ObserveOption {
		return metric.WithAttributes(append(append([]attribute.KeyValue(nil), attrs...), more...)...)
	})
	g.readCalls(to, &s, with)
	for i := range s.Nodes {
		g.readNode(to, &s.Nodes[i], with)
	}
}

// readCalls reports the calls of the Locker, and their results. Each part is
// there from the start, with 0: an increase over time misses the first of a point
// that appears with it.
func (g *gauges) readCalls(to metric.Observer, s *redlock.Stats, with labels) {
	to.ObserveInt64(g.held, int64(s.Held), with())
	to.ObserveInt64(g.active, int64(s.Acquiring), with())
	to.ObserveInt64(g.second, count(s.SecondRounds), with())
	to.ObserveInt64(g.dropped, count(s.EventsDropped), with())
	for _, p := range []part{
		{"acquired", s.Acquired},
		{"reentered", s.Reentered},
		{"not_acquired", s.NotAcquired},
		{"no_quorum", s.NoQuorum},
		{"misconfigured", s.Misconfigured},
		{"cancelled", s.Cancelled},
	} {
		to.ObserveInt64(g.acquires, count(p.n), with(attribute.String("redlock.acquire.result", p.is)))
	}
	for _, p := range []part{
		{"released", s.Released - s.MaxHeld},
		{"max_hold", s.MaxHeld},
		{"lapsed", s.Lapsed},
		{"gone", s.Gone},
		{"clock_stepped", s.ClockStepped},
	} {
		to.ObserveInt64(g.ends, count(p.n), with(attribute.String("redlock.hold.end", p.is)))
	}
	to.ObserveInt64(g.releases, count(s.Confirmed), with(attribute.Bool("redlock.release.confirmed", true)))
	to.ObserveInt64(g.releases, count(s.Unconfirmed), with(attribute.Bool("redlock.release.confirmed", false)))
}

// readNode reports the figures of one node.
func (g *gauges) readNode(to metric.Observer, n *redlock.NodeStats, with labels) {
	name := attribute.String("redlock.node.name", n.Name)
	up := int64(1)
	if n.Down || n.Abstains || n.Refuses {
		up = 0
	}
	to.ObserveInt64(g.up, up, with(name))
	to.ObserveInt64(g.calls, count(n.Calls), with(name))
	to.ObserveInt64(g.errors, count(n.Errors), with(name))
	to.ObserveFloat64(g.time, n.Time.Seconds(), with(name))
	for _, p := range []part{
		{"granted", n.Granted},
		{"taken", n.Taken},
		{"abstained", n.Abstained},
		{"unknown", n.Unknown},
		{"failed", n.Failed},
		{"late", n.Late},
	} {
		to.ObserveInt64(g.votes, count(p.n), with(name, attribute.String("redlock.vote", p.is)))
	}
}

func count(n uint64) int64 { return int64(n) } //nolint:gosec // nobody counts so far
