package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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

// alarm is an alert of rules.yml: its name, and its expressions for the collector and for
// OpenTelemetry.
type alarm struct {
	of          string
	expressions [2]string
}

// alarms reads the file.
func alarms(t *testing.T) []alarm {
	t.Helper()
	file, err := os.ReadFile("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var found []alarm
	for _, rule := range regexp.MustCompile(`(?m)^ +- alert: (\w+).*\n +expr: \|\n +(.*)\n(?: +or (.*)\n)?`).FindAllStringSubmatch(string(file), -1) {
		found = append(found, alarm{rule[1], [2]string{rule[2], cmp.Or(rule[3], rule[2])}})
	}
	if n := strings.Count(string(file), "alert:"); n != 10 || len(found) != n {
		t.Fatalf("got %d of %d alerts; want ten", len(found), n)
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
func TestEveryAlarmSoundsInBothScrapes(t *testing.T) {
	rows := alarms(t)
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
					case counts && loud == 0 && row.of != "RedlockObserverSlow":
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

// sounding are series for an alert, of the collector and of OpenTelemetry: what promtool is
// given for an hour, a value a minute, where the alert fires and where it does not.
type sounding struct{ loud, quiet [2][]string }

// counted are series of which one more is an alarm.
func counted(collector, otel string) sounding {
	of := func(values string) [2][]string { return [2][]string{{collector + " " + values}, {otel + " " + values}} }
	return sounding{of("0+1x60"), of("3x60")}
}

// average are series of which the first grows by so much in a minute, and the second by ten.
func average(loud, quiet string, series [2][2]string) sounding {
	of := func(values string) (all [2][]string) {
		for i, s := range series {
			all[i] = []string{s[0] + " 0+" + values + "x60", s[1] + " 0+10x60"}
		}
		return all
	}
	return sounding{of(loud), of(quiet)}
}

// fiveNodes are nodes, which both scrapes show by one name.
func fiveNodes(loud, quiet string) sounding {
	of := func(values string) (all [2][]string) {
		for i, v := range strings.Fields(values) {
			for way := range all {
				all[way] = append(all[way], fmt.Sprintf(`redlock_node_up{instance="a",node="%d"} %s`, i, v))
			}
		}
		return all
	}
	return sounding{of(loud), of(quiet)}
}

// soundings are for each alert. Zero of zero is no number, and no alarm.
var soundings = map[string]sounding{
	"RedlockLockLost":            counted(`redlock_holds_total{end="gone"}`, `redlock_hold_ends_total{redlock_hold_end="gone"}`),
	"RedlockNoQuorum":            fiveNodes("0x60 0x60 0x60 1x60 1x60", "0x60 0x60 1x60 1x60 1x60"),
	"RedlockCallsFail":           counted(`redlock_acquires_total{result="no_quorum"}`, `redlock_acquire_calls_total{redlock_acquire_result="no_quorum"}`),
	"RedlockNodeDoesNotVote":     fiveNodes("0x60 1x60 1x60 1x60 1x60", "1x58_0x1 1x60 1x60 1x60 1x60"),
	"RedlockReleasesUnconfirmed": counted(`redlock_releases_total{confirmed="false"}`, `redlock_release_calls_total{redlock_release_confirmed="false"}`),
	"RedlockLeasesShort": average("32", "34", [2][2]string{
		{"redlock_hold_validity_left_seconds_total", "redlock_hold_seconds_count"}, {"redlock_hold_remaining_seconds_sum", "redlock_hold_remaining_seconds_count"},
	}),
	"RedlockMaxHold": counted(`redlock_holds_total{end="max_hold"}`, `redlock_hold_ends_total{redlock_hold_end="max_hold"}`),
	"RedlockWaitsLong": average("101", "99", [2][2]string{
		{"redlock_acquire_wait_seconds_total", "redlock_acquire_seconds_count"}, {"redlock_acquire_wait_seconds_sum", "redlock_acquire_wait_seconds_count"},
	}),
	"RedlockNodeSlow": average("1.3", "1.2", [2][2]string{
		{"redlock_node_call_seconds_sum", "redlock_node_call_seconds_count"}, {"redlock_node_time_seconds_total", "redlock_node_calls_total"},
	}),
	"RedlockObserverSlow": counted("redlock_events_dropped_total", "redlock_event_dropped_total"),
}

// promtool reads rules.yml, and says when each alert fires: by either names, above its
// threshold and not below it, nor where there is nothing to divide.
func TestEveryAlertFiresAboveItsThreshold(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	rules, err := filepath.Abs("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	fmt.Fprintf(&tests, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n", rules)
	play := func(name string, series []string, fires string) {
		tests.WriteString("  - interval: 1m\n    input_series:\n")
		for _, s := range series {
			at := strings.LastIndex(s, " ")
			fmt.Fprintf(&tests, "      - {series: '%s', values: '%s'}\n", s[:at], strings.ReplaceAll(s[at+1:], "_", " "))
		}
		fmt.Fprintf(&tests, "    promql_expr_test:\n      - {expr: 'count by (alertname) (ALERTS{alertname=\"%s\",alertstate=\"firing\"}) > bool 0', eval_time: 1h, exp_samples: [%s]}\n", name, fires)
	}
	for _, row := range alarms(t) {
		s, known := soundings[row.of]
		if !known {
			t.Errorf("%s: say when it fires", row.of)
		}
		for way := range s.loud {
			play(row.of, s.loud[way], fmt.Sprintf(`{labels: '{alertname="%s"}', value: 1}`, row.of))
			play(row.of, s.quiet[way], "")
			var still []string
			for _, series := range s.quiet[way] {
				still = append(still, series[:strings.LastIndex(series, " ")+1]+"1x60")
			}
			play(row.of, still, "")
		}
	}
	file := filepath.Join(t.TempDir(), "tests.yml")
	if err := os.WriteFile(file, []byte(tests.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// docs/OPERATIONS.md names each alert beside what it means, and no other.
func TestThePageNamesEveryAlert(t *testing.T) {
	page, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`(Redlock[A-Z]\\w+)`").FindAllStringSubmatch(string(page), -1) {
		named[name[1]] = true
	}
	for _, row := range alarms(t) {
		if !named[row.of] {
			t.Errorf("docs/OPERATIONS.md does not say what %s means", row.of)
		}
		delete(named, row.of)
	}
	for name := range named {
		t.Errorf("docs/OPERATIONS.md names %s: rules.yml has none", name)
	}
}
