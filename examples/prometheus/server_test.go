package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

// A Prometheus scrapes the example over its masters, and answers what is asked of it. Its
// three workers have two names, so more than two locks at once would be one too many. It
// also knows every expression of the alarms.
func TestAPrometheusScrapesTheExample(t *testing.T) {
	testkit.Full(t)
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	t.Setenv("REDLOCK_NODES", "")
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func(a string) { address <- a }) }()
	t.Cleanup(func() { stop(); testkit.Must(t, <-ended) })
	port, err := loopback.Port()
	testkit.Must(t, err)
	dir, listen := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", port)
	config := "scrape_configs: [{job_name: redlock, scrape_interval: 100ms, scrape_timeout: 100ms, static_configs: [{targets: [%q]}]}]\n"
	select {
	case a := <-address:
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "yml"), fmt.Appendf(nil, config, a), 0o600))
	case <-time.After(time.Minute):
		t.Fatal("the example does not listen within a minute")
	}
	server := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "yml"), "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+listen)
	server.Stderr = t.Output()
	testkit.Must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })

	// ask returns the values of an expression.
	ask := func(expression string) (values []float64) {
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		testkit.Must(t, json.Unmarshal([]byte(get(t, "http://"+listen+"/api/v1/query?query="+url.QueryEscape(expression))), &answer))
		for _, r := range answer.Data.Result {
			text, _ := r.Value[1].(string)
			v, err := strconv.ParseFloat(text, 64)
			testkit.Must(t, err)
			values = append(values, v)
		}
		return values
	}
	ready, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listen+"/-/ready", http.NoBody)
	testkit.Must(t, err)
	testkit.Eventually(t, "it is ready", func() bool {
		response, err := http.DefaultClient.Do(ready)
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
	testkit.Eventually(t, "it has scraped ten times, and locks were acquired meanwhile", func() bool {
		return slices.Equal(ask(`count_over_time(up{job="redlock"}[1m]) >= bool 10`), []float64{1}) &&
			slices.Equal(ask(`increase(redlock_acquires_total{result="acquired"}[1m]) > bool 5`), []float64{1})
	})
	for expression, want := range map[string]float64{
		"min_over_time(up[1m])":                           1,
		"sum(redlock_node_up)":                            3,
		"max_over_time(redlock_locks_held[1m]) <= bool 2": 1,
		"sum(increase(redlock_holds_total{end=~\"lapsed|gone|clock_stepped\"}[1m]))": 0,
	} {
		if got := ask(expression); !slices.Equal(got, []float64{want}) {
			t.Errorf("%s: got %v; want %v", expression, got, want)
		}
	}
	for _, row := range alarms(t) {
		ask(row.expressions[0])
		ask(row.expressions[1])
	}
}
