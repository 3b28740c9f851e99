package redlock_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestMastersFarAwayServeAsNearOnesOnRealServers(t *testing.T) {
	testkit.Full(t)
	const away, ttl = 180 * time.Millisecond, 2 * time.Second
	machine := testkit.WatchMachine(t)
	servers := needMasters(t, 3, redisserver.Config{})
	proxies := behind(t, servers)
	var urls []string
	for _, p := range proxies {
		urls = append(urls, p.Addr())
	}
	l, err := redlock.Open(t.Context(), urls, redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	warm(t, l)
	for _, p := range proxies {
		p.Delay(tcpproxy.Replies, away)
	}
	held := holdAll(t, l, 4)
	const tries = 10
	if got := tryAll(t, l, tries, 713*time.Millisecond); got < tries { // some 10 s
		machine.Excuse(t, redlock.DefaultNodeTimeout-away)
		t.Errorf("got %d of %d free names; want all", got, tries)
	}
	for i, err := range held {
		if err := err(); err != nil {
			machine.Excuse(t, redlock.DefaultNodeTimeout-away)
			t.Errorf("hold %d was lost: %v", i, err)
		}
	}
}
