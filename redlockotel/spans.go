package redlockotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumkit/redlock"
)

// span makes a span of an event that ends something: when it began follows from
// how long it took.
func (o *Observer) span(ctx context.Context, e *redlock.Event) {
	var name string
	var attrs []attribute.KeyValue
	took, kind := e.Duration, trace.SpanKindClient
	switch e.Kind {
	case redlock.EventLockAcquired:
		name = "redlock.acquire"
		attrs = append(attrs, attribute.Int("redlock.attempts", e.Attempts), attribute.Int("redlock.rounds", e.Rounds),
			attribute.String("redlock.turn", e.Turn.String()), attribute.Float64("redlock.wait", e.Waited.Seconds()))
	case redlock.EventAcquireFailed:
		name = "redlock.acquire"
		attrs = append(attrs, attribute.Int("redlock.attempts", e.Attempts))
	case redlock.EventLockExtended, redlock.EventExtendFailed:
		if e.Renewal { // nobody called, and a lock that is held for days has thousands
			return
		}
		name = "redlock.extend"
	case redlock.EventLockReleased, redlock.EventLockLost:
		name, took, kind = "redlock.hold", e.Held, trace.SpanKindInternal
		attrs = append(attrs, attribute.String("redlock.hold.end", e.Reason.String()))
	case redlock.EventReleaseConfirmed, redlock.EventReleaseUnconfirmed:
		name = "redlock.release"
	case redlock.EventAttemptFailed, redlock.EventLockReentered, redlock.EventNodeDown, redlock.EventNodeUp, redlock.EventNodeAbstains, redlock.EventNodeVotes,
		redlock.EventClusterFounded, redlock.EventNodeClockStepped, redlock.EventNodeRefusesWrites, redlock.EventNodeTakesWrites: // of a node, or of a part of something
		return
	default: // of a later version
		return
	}
	if e.Token != 0 {
		attrs = append(attrs, attribute.Int64("redlock.token", int64(e.Token))) //nolint:gosec // below 2^53
	}
	if e.Validity != 0 {
		attrs = append(attrs, attribute.Float64("redlock.validity", e.Validity.Seconds()))
	}
	if o.resources {
		attrs = append(attrs, attribute.String("redlock.resource", e.Resource))
	}
	if e.Kind != redlock.EventLockReleased { // its reason is no failure
		attrs = append(attrs, failure(e)...)
	}
	o.record(ctx, name, kind, e, took, attrs)
}

// record makes a span that is over.
func (o *Observer) record(ctx context.Context, name string, kind trace.SpanKind, e *redlock.Event, took time.Duration, attrs []attribute.KeyValue) {
	_, s := o.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(e.Time.Add(-took)), trace.WithAttributes(attrs...))
	if e.Err != nil && o.resources {
		s.RecordError(e.Err, trace.WithTimestamp(e.Time))
	}
	if e.Err != nil && e.Reason != redlock.ReasonNotAcquired && e.Reason != redlock.ReasonCancelled {
		s.SetStatus(codes.Error, e.Reason.String())
	}
	s.End(trace.WithTimestamp(e.Time))
}
