package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The example runs as it stands, and what it shows is asked for as Prometheus does.
func TestTheExampleShowsWhatItsLockerDoes(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func(a string) { address <- a }) }()
	var url string
	select {
	case a := <-address:
		url = "http://" + a + "/metrics"
	case err := <-ended:
		t.Fatalf("it ended before it listened: %v", err)
	}
	var page string
	for deadline := time.Now().Add(20 * time.Second); value(page, `redlock_acquires_total{result="acquired"}`) < 5; {
		if time.Now().After(deadline) {
			t.Fatalf("after 20s, got\n%s\nwant five locks acquired", page)
		}
		page = get(t, url)
	}
	for _, name := range []string{
		"redlock_locks_held", "redlock_acquiring", `redlock_acquires_total{result="no_quorum"}`, "redlock_acquire_seconds_sum", "redlock_acquire_seconds_count",
		`redlock_holds_total{end="released"}`, `redlock_holds_total{end="lapsed"}`, "redlock_hold_validity_left_seconds_total", `redlock_releases_total{confirmed="true"}`,
	} {
		if !strings.Contains(page, "\n"+name+" ") {
			t.Errorf("got no %s in\n%s", name, page)
		}
	}
	if got := len(regexp.MustCompile(`(?m)^redlock_node_up\{node="[^"]+"\} 1$`).FindAllString(page, -1)); got != 3 {
		t.Errorf("got %d nodes up; want 3:\n%s", got, page)
	}
	if acquired, ended, held := value(page, `redlock_acquires_total{result="acquired"}`), value(page, `redlock_holds_total{end="released"}`), value(page, "redlock_locks_held"); acquired != ended+held {
		t.Errorf("got %v acquired, %v released, %v held; want them to add up", acquired, ended, held)
	}
	if strings.Contains(page, "orders") {
		t.Errorf("got the name of a resource in\n%s", page)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("its end: got %v; want none", err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return string(page)
}

// value is the value of one line of the page; 0 without one.
func value(page, name string) float64 {
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err == nil {
				return f
			}
		}
	}
	return 0
}
