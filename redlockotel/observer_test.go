package redlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlockotel"
	"github.com/quorumkit/redlock/redlocktest"
)

// rig is a Locker over in-process nodes, and where its metrics and spans go.
type rig struct {
	nodes    *redlocktest.Cluster
	locker   *redlock.Locker
	reader   *metric.ManualReader
	recorder *tracetest.SpanRecorder
	tracers  *sdktrace.TracerProvider
}

func newRig(t *testing.T, opts ...redlockotel.Option) *rig {
	t.Helper()
	r := &rig{nodes: redlocktest.Start(t, 3), reader: metric.NewManualReader(), recorder: tracetest.NewSpanRecorder()}
	r.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.recorder))
	o, err := redlockotel.New(append([]redlockotel.Option{
		redlockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(r.reader))), redlockotel.WithTracerProvider(r.tracers),
	}, opts...)...)
	testkit.Must(t, err)
	r.locker, err = redlock.New(r.nodes.Clients(), redlock.WithNodeNames(r.nodes.Names()...), redlock.WithNodeTimeout(2*time.Second), redlock.WithObserver(o.Observe))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = r.locker.Close() })
	if _, err := o.Watch(r.locker, attribute.String("redlock.cluster", "test")); err != nil {
		t.Fatal(err)
	}
	return r
}

// play takes a lock, is refused it, extends it, releases it, and loses another.
// All events are told when it returns.
func (r *rig) play(ctx context.Context, t *testing.T) redlock.Token {
	t.Helper()
	lock, err := r.locker.Acquire(ctx, "orders/42")
	testkit.Must(t, err)
	if _, err := r.locker.TryAcquire(ctx, "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Fatalf("TryAcquire: got %v; want it refused", err)
	}
	testkit.Must(t, lock.Extend(ctx, 20*time.Second))
	testkit.Must(t, lock.Release(ctx))
	lost, err := r.locker.Acquire(ctx, "orders/43")
	testkit.Must(t, err)
	for _, n := range r.nodes.Nodes() {
		n.Miniredis().Set("orders/43", "somebody else's") //nolint:errcheck // it is a string
	}
	if err := lost.Extend(ctx, 20*time.Second); !errors.Is(err, redlock.ErrLost) {
		t.Fatalf("Extend of a lock that is gone: got %v; want it lost", err)
	}
	testkit.Must(t, r.locker.Close())
	return lock.Token()
}

func (r *rig) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	testkit.Must(t, r.reader.Collect(t.Context(), &all))
	out := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			out[m.Name] = m
		}
	}
	return out
}

// points are a metric's data points, as "label=value,...: count or value".
func points(m metricdata.Metrics) []string {
	var out []string
	add := func(set attribute.Set, value any) {
		var labels []string
		for _, kv := range set.ToSlice() {
			labels = append(labels, string(kv.Key)+"="+kv.Value.String())
		}
		out = append(out, fmt.Sprintf("%s: %v", strings.Join(labels, ","), value))
	}
	switch d := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Count)
		}
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Value > 0)
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Value)
		}
	}
	slices.Sort(out)
	return out
}

func TestEventsBecomeMetrics(t *testing.T) {
	r := newRig(t)
	r.play(t.Context(), t)
	got := r.metrics(t)
	for name, want := range map[string]struct {
		unit   string
		points []string
	}{
		"redlock.acquire.duration": {"s", []string{"error.type=not_acquired: 1", "redlock.turn=first: 2"}},
		"redlock.acquire.wait":     {"s", []string{"redlock.turn=first: 2"}},
		"redlock.hold.duration":    {"s", []string{"redlock.hold.end=gone: 1", "redlock.hold.end=released: 1"}},
		"redlock.hold.remaining":   {"s", []string{"redlock.hold.end=released: 1"}},
		"redlock.extend.duration":  {"s", []string{"redlock.extend.renewal=false: 1"}},
		"redlock.release.duration": {"s", []string{": 1"}},
		"redlock.lock.losses":      {"{lock}", []string{"error.type=gone: 1"}},
		"redlock.lock.held":        {"{lock}", []string{"redlock.cluster=test: 0"}},
		"redlock.acquire.active":   {"{call}", []string{"redlock.cluster=test: 0"}},
		"redlock.acquire.calls": {"{call}", []string{
			"redlock.acquire.result=acquired,redlock.cluster=test: 2", "redlock.acquire.result=cancelled,redlock.cluster=test: 0",
			"redlock.acquire.result=misconfigured,redlock.cluster=test: 0", "redlock.acquire.result=no_quorum,redlock.cluster=test: 0",
			"redlock.acquire.result=not_acquired,redlock.cluster=test: 1", "redlock.acquire.result=reentered,redlock.cluster=test: 0",
		}},
		"redlock.hold.ends": {"{lock}", []string{
			"redlock.cluster=test,redlock.hold.end=clock_stepped: 0", "redlock.cluster=test,redlock.hold.end=gone: 1", "redlock.cluster=test,redlock.hold.end=lapsed: 0",
			"redlock.cluster=test,redlock.hold.end=max_hold: 0", "redlock.cluster=test,redlock.hold.end=released: 1",
		}},
		"redlock.release.calls": {"{release}", []string{
			"redlock.cluster=test,redlock.release.confirmed=false: 0", "redlock.cluster=test,redlock.release.confirmed=true: 1",
		}},
		"redlock.event.dropped":         {"{event}", []string{"redlock.cluster=test: 0"}},
		"redlock.attempt.second_rounds": {"{attempt}", nil},
		"redlock.node.up": {"{node}", []string{
			"redlock.cluster=test,redlock.node.name=node-0: 1", "redlock.cluster=test,redlock.node.name=node-1: 1", "redlock.cluster=test,redlock.node.name=node-2: 1",
		}},
		"redlock.node.calls":  {"{call}", nil},
		"redlock.node.errors": {"{call}", nil},
		"redlock.node.time":   {"s", nil},
		"redlock.node.votes":  {"{vote}", nil},
	} {
		m, ok := got[name]
		if !ok || m.Unit != want.unit || m.Description == "" {
			t.Errorf("%s: got unit %q, description %q; want unit %q, and one", name, m.Unit, m.Description, want.unit)
			continue
		}
		if p := points(m); want.points != nil && !slices.Equal(p, want.points) {
			t.Errorf("%s: got %q; want %q", name, p, want.points)
		}
	}
	for name, m := range got {
		for _, p := range points(m) {
			if strings.Contains(p, "orders") {
				t.Errorf("%s has %q; want no resource in any label", name, p)
			}
		}
	}
}

func TestTheDocListsEveryMetric(t *testing.T) {
	whole, broken := newRig(t), newRig(t)
	whole.play(t.Context(), t)
	for _, n := range broken.nodes.Nodes() {
		n.Stop()
	}
	if _, err := broken.locker.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNoQuorum) {
		t.Fatalf("TryAcquire: got %v; want no quorum", err)
	}
	testkit.Must(t, broken.locker.Close())
	page, err := os.ReadFile("doc.go")
	testkit.Must(t, err)
	names := whole.metrics(t)
	maps.Copy(names, broken.metrics(t))
	for name := range names {
		if !strings.Contains(string(page), "\t"+name+" ") {
			t.Errorf("doc.go does not list %s; want every metric", name)
		}
	}
	if want := strings.Count(string(page), "\tredlock."); len(names) != want {
		t.Errorf("got %d metrics; want the %d that doc.go lists", len(names), want)
	}
}

func TestTheScopeOfMetricsAndSpansHasAVersion(t *testing.T) {
	r := newRig(t)
	r.play(t.Context(), t)
	var all metricdata.ResourceMetrics
	testkit.Must(t, r.reader.Collect(t.Context(), &all))
	if len(all.ScopeMetrics) != 1 {
		t.Fatalf("got %d scopes; want one", len(all.ScopeMetrics))
	}
	const name = "github.com/quorumkit/redlock/redlockotel"
	scopes := []instrumentation.Scope{all.ScopeMetrics[0].Scope, r.recorder.Ended()[0].InstrumentationScope()}
	for _, s := range scopes {
		if s.Name != name || s.Version == "" {
			t.Errorf("got %q, version %q; want %q and a version", s.Name, s.Version, name)
		}
	}
}

func TestANodeThatIsDownShows(t *testing.T) {
	r := newRig(t)
	r.nodes.Node(1).Stop()
	lock, err := r.locker.Acquire(t.Context(), "orders/42")
	testkit.Must(t, err)
	deadline := time.Now().Add(10 * time.Second)
	for !r.locker.Stats().Nodes[1].Down && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	held := points(r.metrics(t)["redlock.lock.held"])
	if want := []string{"redlock.cluster=test: 1"}; !slices.Equal(held, want) {
		t.Errorf("got %q; want %q", held, want)
	}
	_ = lock.Release(t.Context())
	_ = r.locker.Close()
	got := r.metrics(t)
	if p := points(got["redlock.node.changes"]); !slices.Contains(p, "redlock.node.change=down,redlock.node.name=node-1: 1") {
		t.Errorf("got changes %q; want node-1 down", p)
	}
	if p := points(got["redlock.node.up"]); !slices.Contains(p, "redlock.cluster=test,redlock.node.name=node-1: 0") {
		t.Errorf("got %q; want node-1 not up", p)
	}
}

func TestALocksLifeBecomesSpansUnderItsCaller(t *testing.T) {
	r := newRig(t)
	ctx, caller := r.tracers.Tracer("test").Start(t.Context(), "order")
	token := r.play(ctx, t)
	caller.End()
	var names []string
	for _, s := range r.recorder.Ended() {
		if s.Name() == "order" {
			continue
		}
		names = append(names, s.Name()+" "+s.Status().Code.String())
		if s.Parent().SpanID() != caller.SpanContext().SpanID() {
			t.Errorf("%s: got parent %v; want the caller's span", s.Name(), s.Parent())
		}
		if s.StartTime().After(s.EndTime()) || s.EndTime().Sub(s.StartTime()) > time.Minute {
			t.Errorf("%s: got %v to %v; want its time", s.Name(), s.StartTime(), s.EndTime())
		}
		if text := fmt.Sprint(s.Attributes(), s.Events(), s.Status()); strings.Contains(text, "orders") {
			t.Errorf("%s: got %s; want no resource", s.Name(), text)
		}
	}
	want := []string{
		"redlock.acquire Unset", "redlock.acquire Unset", "redlock.extend Unset", "redlock.hold Unset", "redlock.release Unset",
		"redlock.acquire Unset", "redlock.hold Error",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("got %q; want %q", names, want)
	}
	first := attribute.NewSet(r.recorder.Ended()[0].Attributes()...)
	if v, ok := first.Value("redlock.token"); !ok || uint64(v.AsInt64()) != uint64(token) {
		t.Errorf("got token %v; want %v", v.String(), token)
	}
}

func TestResourceNamesAreAnOptionOfSpans(t *testing.T) {
	r := newRig(t, redlockotel.WithResourceNames())
	r.play(t.Context(), t)
	for _, s := range r.recorder.Ended() {
		set := attribute.NewSet(s.Attributes()...)
		if v, ok := set.Value("redlock.resource"); !ok || !strings.HasPrefix(v.AsString(), "orders/") {
			t.Errorf("%s: got %v; want the resource", s.Name(), s.Attributes())
		}
		if s.Status().Code == codes.Error && len(s.Events()) != 1 {
			t.Errorf("%s: got %d events; want the error", s.Name(), len(s.Events()))
		}
	}
	for name, m := range r.metrics(t) {
		if text := fmt.Sprint(points(m)); strings.Contains(text, "orders") {
			t.Errorf("%s: got %s; want no resource in a metric, no matter the option", name, text)
		}
	}
}

func TestStopEndsTheReadingOfStats(t *testing.T) {
	reader := metric.NewManualReader()
	o, err := redlockotel.New(redlockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	testkit.Must(t, err)
	nodes := redlocktest.Start(t, 1)
	l, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
	testkit.Must(t, err)
	defer l.Close()
	stop, err := o.Watch(l)
	testkit.Must(t, err)
	r := &rig{reader: reader}
	if len(r.metrics(t)) == 0 {
		t.Error("while it watches: got no metrics; want some")
	}
	testkit.Must(t, stop())
	if got := r.metrics(t); len(got) != 0 {
		t.Errorf("after stop: got %v; want none", got)
	}
}

func TestFaultyArgumentsAreRefused(t *testing.T) {
	for what, opt := range map[string]redlockotel.Option{
		"a nil option": nil, "no meters": redlockotel.WithMeterProvider(nil), "no tracers": redlockotel.WithTracerProvider(nil),
	} {
		if _, err := redlockotel.New(opt); err == nil {
			t.Errorf("%s: got no error; want one", what)
		}
	}
	o, err := redlockotel.New()
	testkit.Must(t, err)
	if _, err := o.Watch(nil); err == nil {
		t.Error("Watch(nil): got no error; want one")
	}
}

// The global providers take what is made, unless options say otherwise.
func ExampleNew() {
	nodes, err := redlocktest.Run(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	reader := metric.NewManualReader() // in production, an exporter's
	o, err := redlockotel.New(redlockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		redlockotel.WithTracerProvider(sdktrace.NewTracerProvider()), redlockotel.WithResourceNames()) // in spans only
	if err != nil {
		log.Fatal(err)
	}
	locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithObserver(o.Observe))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	stop, err := o.Watch(locker)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = stop() }()

	ctx := context.Background()
	if _, err := locker.Acquire(ctx, "orders/42"); err != nil {
		log.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "redlock.lock.held" {
			fmt.Println(m.Name, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
		}
	}
	// Output: redlock.lock.held 1
}
