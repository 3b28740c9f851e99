package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlockotel"
	"github.com/quorumkit/redlock/redlocktest"
)

// alarm is a row of docs/OBSERVING.md: what it is for, and its expressions for the
// collector and for OpenTelemetry.
type alarm struct {
	of          string
	expressions [2]string
}

// alarms reads the page's table.
func alarms(t *testing.T) []alarm {
	t.Helper()
	page, err := os.ReadFile("../../docs/OBSERVING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Alarms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var found []alarm
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|`]+) \\| `(.*)` \\| `(.*)` \\|$").FindAllStringSubmatch(section, -1) {
		plain := strings.NewReplacer(`\|`, "|")
		found = append(found, alarm{row[1], [2]string{plain.Replace(row[2]), plain.Replace(row[3])}})
	}
	return found
}

// selector finds what an expression reads: a name, and matchers of labels.
var selector = regexp.MustCompile(`(redlock_\w+)(?:\{(\w+)(=~?|!~)"([^"]*)"\})?`)

// sum adds up the series of a scrape that a selector takes, and counts them.
func sum(scrape, selected string) (total float64, series int) {
	m := selector.FindStringSubmatch(selected)
	line := regexp.MustCompile(`^` + m[1] + `(?:\{(.*)\})? `)
	pattern := regexp.MustCompile(`^(?:` + m[4] + `)$`)
	for l := range strings.Lines(scrape) {
		got := line.FindStringSubmatch(l)
		if got == nil {
			continue
		}
		if m[2] != "" {
			label := regexp.MustCompile(`(?:^|,)` + m[2] + `="([^"]*)"`).FindStringSubmatch(got[1])
			if label == nil || pattern.MatchString(label[1]) == (m[3] == "!~") {
				continue
			}
		}
		series++
		total += value(l, strings.TrimSuffix(got[0], " "))
	}
	return total, series
}

// scraped is a Locker whose metrics go both ways.
type scraped struct {
	nodes     *redlocktest.Cluster
	locker    *redlock.Locker
	registers [2]*prometheus.Registry
}

func newScraped(t *testing.T) *scraped {
	t.Helper()
	s := &scraped{nodes: redlocktest.Start(t, 5), registers: [2]*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewRegistry()}}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registers[1]))
	if err != nil {
		t.Fatal(err)
	}
	observer, err := redlockotel.New(redlockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter))))
	if err != nil {
		t.Fatal(err)
	}
	s.locker, err = redlock.New(s.nodes.Clients(), redlock.WithNodeNames(s.nodes.Names()...), redlock.WithObserver(observer.Observe))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.registers[0].Register(collector{s.locker}); err != nil {
		t.Fatal(err)
	}
	if _, err := observer.Watch(s.locker); err != nil {
		t.Fatal(err)
	}
	return s
}

// scrape is the two pages that Prometheus would get.
func (s *scraped) scrape(t *testing.T) (pages [2]string) {
	t.Helper()
	for i, r := range s.registers {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		if w.Code != http.StatusOK {
			t.Fatalf("got %d: %s", w.Code, w.Body)
		}
		pages[i] = w.Body.String()
	}
	return pages
}

// harm does to the Locker what the alarms are for, but a slow observer.
func (s *scraped) harm(ctx context.Context, t *testing.T) {
	t.Helper()
	acquire := func(name string, opts ...redlock.AcquireOption) *redlock.Lock {
		lock, err := s.locker.Acquire(ctx, name, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	forgotten := acquire("orders/1", redlock.WithMaxHold(time.Second))
	<-forgotten.Done()

	gone := acquire("orders/2")
	for _, n := range s.nodes.Nodes() {
		if err := n.Miniredis().Set("orders/2", "somebody else's"); err != nil {
			t.Fatal(err)
		}
	}
	if err := gone.Extend(ctx, 20*time.Second); !errors.Is(err, redlock.ErrLost) {
		t.Fatalf("got %v; want the lock lost", err)
	}

	unreleased := acquire("orders/3")
	synctest.Wait() // each node was sent it: on one that was not, there is nothing to release
	for _, n := range s.nodes.Nodes()[:3] {
		n.Stop()
	}
	_ = unreleased.Release(ctx) // no quorum confirms it
	if _, err := s.locker.TryAcquire(ctx, "orders/4"); !errors.Is(err, redlock.ErrNoQuorum) {
		t.Fatalf("got %v; want no quorum", err)
	}
	time.Sleep(time.Minute) // of the bubble: until the last word on the release
	synctest.Wait()
}

// An increase over time does not see the first of a series that begins with it: so
// each of them has to be there before, with 0.
func TestEveryAlarmOfThePageSoundsInBothScrapes(t *testing.T) {
	rows := alarms(t)
	if len(rows) != 9 {
		t.Fatalf("got %d alarms on the page; want nine", len(rows))
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScraped(t)
		before := s.scrape(t)
		s.harm(t.Context(), t)
		after := s.scrape(t)
		for _, row := range rows {
			for i, by := range []string{"examples/prometheus", "OpenTelemetry"} {
				for _, selected := range selector.FindAllString(row.expressions[i], -1) {
					quiet, there := sum(before[i], selected)
					loud, series := sum(after[i], selected)
					counts := strings.HasPrefix(row.expressions[i], "increase(")
					switch {
					case series == 0:
						t.Errorf("%s, %s: got no series %s in\n%s", row.of, by, selected, after[i])
					case counts && (there == 0 || quiet != 0):
						t.Errorf("%s, %s: before, got %s %v in %d series; want 0 in some", row.of, by, selected, quiet, there)
					case counts && loud == 0 && row.of != "the observer is too slow":
						t.Errorf("%s, %s: after, got %s 0; want more", row.of, by, selected)
					case strings.Contains(row.expressions[i], "_node_up") && (quiet != 5 || loud != 2):
						t.Errorf("%s, %s: got %s %v, then %v; want 5 nodes, then 2", row.of, by, selected, quiet, loud)
					}
				}
			}
		}
		if err := s.locker.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
}
