package redlockotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumkit/redlock"
)

// scope is the instrumentation scope of all instruments and spans.
const scope = "github.com/quorumkit/redlock/redlockotel"

// Observer makes metrics and spans. One serves as many Lockers as there are; it is
// safe for use by many goroutines at once.
type Observer struct {
	meter     metric.Meter
	tracer    trace.Tracer
	resources bool
	instruments
}

// Option configures an Observer.
type Option interface{ apply(s *settings) }

type settings struct {
	meters    metric.MeterProvider
	tracers   trace.TracerProvider
	resources bool
}

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// WithMeterProvider sets where the metrics go. The default is the global one.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(s *settings) { s.meters = p })
}

// WithTracerProvider sets where the spans go. The default is the global one.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(s *settings) { s.tracers = p })
}

// WithResourceNames puts the name of the resource, as redlock.resource, and the text
// of errors into the spans; never into a metric.
func WithResourceNames() Option { return option(func(s *settings) { s.resources = true }) }

// New makes an Observer. It returns the meter's error if an instrument can not be
// made.
func New(opts ...Option) (*Observer, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("redlockotel: option %d is nil", i)
		}
		o.apply(&s)
	}
	if s.meters == nil || s.tracers == nil {
		return nil, errors.New("redlockotel: a provider is nil")
	}
	v := version()
	o := &Observer{
		meter:     s.meters.Meter(scope, metric.WithInstrumentationVersion(v)),
		tracer:    s.tracers.Tracer(scope, trace.WithInstrumentationVersion(v)),
		resources: s.resources,
	}
	if err := o.instruments.make(o.meter); err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	return o, nil
}

// Observe takes in an event; give it to redlock.WithObserver. It blocks for as long
// as the providers do, which delays no lock.
func (o *Observer) Observe(e redlock.Event) {
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	o.measure(ctx, &e)
	o.span(ctx, &e)
}

// failure is the error.type of an event; nothing where it is no failure.
func failure(e *redlock.Event) []attribute.KeyValue {
	if e.Reason == redlock.NoReason {
		return nil
	}
	return []attribute.KeyValue{attribute.String("error.type", e.Reason.String())}
}
