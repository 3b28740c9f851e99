package redlockotel

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumkit/redlock"
)

// Boundaries of the histograms, in seconds. A lock on nodes nearby takes a third of
// a millisecond; a hold may take minutes.
var (
	callBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	holdBounds = []float64{.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}
)

// instruments measure events.
type instruments struct {
	acquire   metric.Float64Histogram
	wait      metric.Float64Histogram
	hold      metric.Float64Histogram
	remaining metric.Float64Histogram
	extend    metric.Float64Histogram
	release   metric.Float64Histogram
	attempts  metric.Int64Counter
	losses    metric.Int64Counter
	changes   metric.Int64Counter
}

// make makes them, and returns all that went wrong.
func (i *instruments) make(m metric.Meter) error {
	var errs []error
	seconds := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	i.acquire = seconds("redlock.acquire.duration", "Duration of calls that want a lock, the waiting included.", callBounds)
	i.wait = seconds("redlock.acquire.wait", "The part of an acquisition before the attempt that brought the lock.", callBounds)
	i.hold = seconds("redlock.hold.duration", "How long locks were held.", holdBounds)
	i.remaining = seconds("redlock.hold.remaining", "The validity that was left when a lock was released.", holdBounds)
	i.extend = seconds("redlock.extend.duration", "Duration of extensions and renewals.", callBounds)
	i.release = seconds("redlock.release.duration", "How long releases took to be confirmed by a quorum.", callBounds)
	i.attempts = counter("redlock.attempt.failures", "{attempt}", "Attempts that brought no lock and were rolled back.")
	i.losses = counter("redlock.lock.losses", "{lock}", "Locks that ended without having been released.")
	i.changes = counter("redlock.node.changes", "{change}", "Changes of nodes: down, up, abstaining, voting, refusing and taking writes, clock stepped.")
	return errors.Join(errs...)
}

// measure puts an event into the metrics.
func (i *instruments) measure(ctx context.Context, e *redlock.Event) {
	failed := failure(e)
	switch e.Kind {
	case redlock.EventLockAcquired:
		turn := attribute.String("redlock.turn", e.Turn.String())
		i.acquire.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(turn))
		i.wait.Record(ctx, e.Waited.Seconds(), metric.WithAttributes(turn))
	case redlock.EventAcquireFailed:
		i.acquire.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(failed...))
	case redlock.EventAttemptFailed:
		i.attempts.Add(ctx, 1, metric.WithAttributes(failed...))
	case redlock.EventLockExtended, redlock.EventExtendFailed:
		i.extend.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(append(failed, attribute.Bool("redlock.extend.renewal", e.Renewal))...))
	case redlock.EventLockReleased:
		i.hold.Record(ctx, e.Held.Seconds(), metric.WithAttributes(attribute.String("redlock.hold.end", e.Reason.String())))
		i.remaining.Record(ctx, e.Validity.Seconds(), metric.WithAttributes(attribute.String("redlock.hold.end", e.Reason.String())))
	case redlock.EventLockLost:
		i.hold.Record(ctx, e.Held.Seconds(), metric.WithAttributes(attribute.String("redlock.hold.end", e.Reason.String())))
		i.losses.Add(ctx, 1, metric.WithAttributes(failed...))
	case redlock.EventReleaseConfirmed, redlock.EventReleaseUnconfirmed:
		i.release.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(failed...))
	case redlock.EventNodeDown, redlock.EventNodeUp, redlock.EventNodeAbstains, redlock.EventNodeVotes,
		redlock.EventNodeRefusesWrites, redlock.EventNodeTakesWrites, redlock.EventNodeClockStepped:
		i.changes.Add(ctx, 1, metric.WithAttributes(attribute.String("redlock.node.name", e.Name), attribute.String("redlock.node.change", change(e.Kind))))
	case redlock.EventClusterFounded, redlock.EventLockReentered:
	}
}

// change is a node's event as a label: "node clock stepped" is clock_stepped.
func change(k redlock.EventKind) string {
	return strings.ReplaceAll(strings.TrimPrefix(k.String(), "node "), " ", "_")
}

// version is that of this module in the program that imports it, for the
// instrumentation scope: "v0.9.0", or "(devel)" where the build does not say.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unversioned
	}
	return versionIn(info)
}

const unversioned = "(devel)"

// versionIn finds the module among what a program was built of. Where another one
// takes its place, the version is that one's, if it has any.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != scope {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return unversioned
}
