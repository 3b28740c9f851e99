package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestParseURLTakesFourForms(t *testing.T) {
	for u, want := range map[string]struct {
		addr, network, user, password string
		tls                           bool
	}{
		"10.0.0.1:6379":                     {addr: "10.0.0.1:6379"},
		"[::1]:6379":                        {addr: "[::1]:6379"},
		"redis://10.0.0.1":                  {addr: "10.0.0.1:6379", network: "tcp"},
		"redis://a:p%40%2F%3F%2C%25@h:7000": {addr: "h:7000", network: "tcp", user: "a", password: "p@/?,%"}, // as the error has it
		"redis://a:s%23cret@h:7000":         {addr: "h:7000", network: "tcp", user: "a", password: "s#cret"},
		"rediss://:secret@h:7000":           {addr: "h:7000", network: "tcp", password: "secret", tls: true},
		"unix://a:secret@/run/redis/one":    {addr: "/run/redis/one", network: "unix", user: "a", password: "secret"},
	} {
		o, err := node.ParseURL(u)
		if err != nil {
			t.Errorf("%q: %v", u, err)
			continue
		}
		if o.Addr != want.addr || o.Network != want.network || o.Username != want.user || o.Password != want.password || (o.TLSConfig != nil) != want.tls {
			t.Errorf("%q: got %s %s as %q, %q, TLS %v; want %+v", u, o.Network, o.Addr, o.Username, o.Password, o.TLSConfig != nil, want)
		}
	}
}

func TestNoPartOfABadURLIsShown(t *testing.T) {
	for _, u := range []string{
		"", "secret", ":77", "secret@h:77", "redis://:secret@h:port", "redis://:secret/77@h", "redis://:77#secret@h", "http://secret:77",
		"redis://h:6379?secret=77", "unix://secret:77@", "redis://u:sec/77@h", "redis://u:100%secret77@h", "h:77777", "redis://:secret@h:77777",
	} {
		o, err := node.ParseURL(u)
		if err == nil {
			t.Errorf("%q: got %+v; want an error", u, o)
			continue
		}
		for _, part := range []string{"secret", "77"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error shows %q: %v", u, part, err)
			}
		}
	}
}

func TestHardenBoundsEveryCallAndSendsNothingTwice(t *testing.T) {
	const timeout = 100 * time.Millisecond
	o, err := node.ParseURL("redis://h?max_retries=5&read_timeout=9&pool_size=1000&pipeline_pool_size=50")
	testkit.Must(t, err)
	node.Harden(o, timeout)
	if o.MaxRetries != -1 || o.DialerRetries != 1 {
		t.Errorf("got %d retries and %d dials; want none, and one", o.MaxRetries, o.DialerRetries)
	}
	if o.ReadTimeout != timeout || o.WriteTimeout != timeout || o.PoolTimeout != timeout || !o.ContextTimeoutEnabled {
		t.Errorf("got %v, %v and %v; want %v for each, and contexts minded", o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, timeout)
	}
	if o.DialTimeout != node.DialShare*timeout {
		t.Errorf("got a dial timeout of %v; want %v", o.DialTimeout, node.DialShare*timeout)
	}
	if o.ConnMaxIdleTime <= 0 || o.ConnMaxIdleTime >= 4*time.Minute {
		t.Errorf("got idle connections of %v; want less than a network keeps", o.ConnMaxIdleTime)
	}
	if o.PoolSize != node.PoolSize || o.PipelinePoolSize >= 0 {
		t.Errorf("got pools of %d and %d; want %d, and none for pipelines", o.PoolSize, o.PipelinePoolSize, node.PoolSize)
	}
}
