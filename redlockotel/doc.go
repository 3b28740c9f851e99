// Package redlockotel makes OpenTelemetry metrics and spans of what a
// [redlock.Locker] does. It is a module of its own, so that the importers of
// redlock do not inherit OpenTelemetry.
//
//	o, err := redlockotel.New()
//	locker, err := redlock.Open(ctx, urls, redlock.WithObserver(o.Observe))
//	stop, err := o.Watch(locker)
//	defer stop()
//
// Metrics made from events, for [Observer.Observe]:
//
//	redlock.acquire.duration    histogram, s       calls of Acquire, TryAcquire and Do; error.type, redlock.turn
//	redlock.acquire.wait        histogram, s       the part of it before the attempt that brought the lock
//	redlock.attempt.failures    counter, {attempt} attempts that were rolled back; error.type
//	redlock.hold.duration       histogram, s       how long locks were held; redlock.hold.end
//	redlock.hold.remaining      histogram, s       the validity that was left when a lock was released
//	redlock.lock.losses         counter, {lock}    locks that were lost; error.type
//	redlock.extend.duration     histogram, s       extensions and renewals; error.type, redlock.extend.renewal
//	redlock.release.duration    histogram, s       until a quorum confirmed, or the bound had passed; error.type
//	redlock.node.changes        counter, {change}  redlock.node.name, redlock.node.change
//
// Metrics read from [redlock.Locker.Stats], for [Observer.Watch]:
//
//	redlock.lock.held           updowncounter, {lock}
//	redlock.acquire.active      updowncounter, {call}    calls that want a lock now
//	redlock.acquire.calls       counter, {call}          calls that returned; redlock.acquire.result
//	redlock.hold.ends           counter, {lock}          holds that ended; redlock.hold.end
//	redlock.release.calls       counter, {release}       redlock.release.confirmed
//	redlock.attempt.second_rounds counter, {attempt}     attempts that took a second round trip
//	redlock.node.up             gauge, {node}            1, or 0 while the node is down, abstains or refuses writes; redlock.node.name
//	redlock.node.votes          counter, {vote}          redlock.node.name, redlock.vote
//	redlock.node.calls          counter, {call}          round trips; redlock.node.name
//	redlock.node.errors         counter, {call}          round trips that failed; redlock.node.name
//	redlock.node.time           counter, s               spent in round trips; redlock.node.name
//	redlock.event.dropped       counter, {event}         events that no observer was told
//
// The counters that are read from Stats show each of their points from the start,
// with 0; those made from events show a point with its first event. Alarms use the
// former. docs/OBSERVING.md has them, in the names that Prometheus gets.
//
// Spans, under the span of the context that the lock was acquired with:
// redlock.acquire, redlock.extend (calls of Extend, not renewals), redlock.hold
// (from the acquisition to the end, no matter what it is) and redlock.release.
//
// error.type is a [redlock.Reason]: not_acquired, no_quorum, lapsed and so on. A
// resource's name is never a label of a metric, since there may be millions; spans
// have it, and the errors' text that contains it, with [WithResourceNames].
package redlockotel
