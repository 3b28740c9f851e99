package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
	"github.com/quorumkit/redlock/redlockotel"
)

// The collector's configuration: OTLP over HTTP in, text out.
const pipelines = `yaml:
receivers: {otlp: {protocols: {http: {endpoint: %[1]q}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}, logs: {encoding: console, output_paths: [%[2]q], error_output_paths: [%[2]q]}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [debug]}
    traces: {receivers: [otlp], exporters: [debug]}
`

// collect runs a collector until the test ends, and returns its address and the file of
// its text.
func collect(t *testing.T) (address, text string) {
	t.Helper()
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	testkit.Must(t, err)
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](debugexporter.NewFactory())
	testkit.Must(t, err)
	port, err := loopback.Port()
	testkit.Must(t, err)
	address, text = fmt.Sprintf("127.0.0.1:%d", port), filepath.Join(t.TempDir(), "text")
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(), DisableGracefulShutdown: true,
		Factories: func() (otelcol.Factories, error) {
			return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, nil
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{fmt.Sprintf(pipelines, address, text)}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-ended)
	})
	testkit.Eventually(t, "the collector runs", func() bool { return c.GetState() == otelcol.StateRunning })
	return address, text
}

// Two processes want one name. What a collector writes of them tells who has it.
func TestACollectorWritesWhoHasTheLock(t *testing.T) {
	servers := locktest.NeedMasters(t, 3, redisserver.Config{})
	address, text := collect(t)
	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(address), otlptracehttp.WithInsecure())
	testkit.Must(t, err)
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	points, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpoint(address), otlpmetrichttp.WithInsecure())
	testkit.Must(t, err)
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(points, metric.WithInterval(time.Hour))))
	o, err := redlockotel.New(redlockotel.WithMeterProvider(meters), redlockotel.WithTracerProvider(tracers))
	testkit.Must(t, err)
	first := locktest.OpenServers(t, servers)
	second := locktest.OpenServers(t, servers, redlock.WithObserver(o.Observe))
	stop, err := o.Watch(second)
	testkit.Must(t, err)

	lock := locktest.MustAcquire(t, first, "orders/42")
	locktest.WantTaken(t, "while the first holds", second)
	locktest.MustRelease(t, lock)
	lock = locktest.MustAcquire(t, second, "orders/42")
	testkit.Must(t, meters.ForceFlush(t.Context()))
	for name, want := range map[string]string{
		"the second holds one lock":    `Name: redlock\.lock\.held\n(.*\n){1,16}?Value: 1\n`,
		"its first attempt was taken":  `result: Str\(not_acquired\)\n(.*\n){1,4}?Value: 1\n`,
		"its second brought the lock":  `result: Str\(acquired\)\n(.*\n){1,4}?Value: 1\n`,
		"a span is the second attempt": fmt.Sprintf(`redlock\.token: Int\(%d\)\n`, lock.Token()),
	} {
		testkit.Eventually(t, name, func() bool {
			b, err := os.ReadFile(text)
			testkit.Must(t, err)
			found := regexp.MustCompile(want).MatchString(strings.ReplaceAll(string(b), "     -> ", ""))
			return found
		})
	}
	testkit.Must(t, lock.Release(t.Context()), stop(), tracers.Shutdown(t.Context()), meters.Shutdown(t.Context()))
}
