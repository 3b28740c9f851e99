package redlock_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What a program is told that gives a wrong address, by Open, and by the first attempt of New's
// and those behind it.
func TestTheFirstContactNamesWhatIsWrongWithAnAddress(t *testing.T) {
	t.Parallel()
	s := testserver.NeedOne(t, redisserver.Config{})
	_, secure, _ := needTLS(t, newAuthority(t))
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	settings := &tls.Config{RootCAs: newAuthority(t).pool(), MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		addr  string
		tls   bool
		first string // in what the first attempt says
		words string // in what Open says, and a later attempt
	}{
		"TLS to a port without":    {s.Addr(), true, "not up yet", "that port speaks no TLS: give redis://"},
		"no TLS to a port with it": {strings.TrimPrefix(secure, "rediss://"), false, "", "TLS"},
		"another CA":               {strings.TrimPrefix(secure, "rediss://"), true, "TLS failed", "TLS failed"},
		"nobody listens":           {"127.0.0.1:1", false, "connection refused", "connection refused"},
		"nobody listens, TLS":      {"127.0.0.1:1", true, "connection refused", "connection refused"},
		"a silent port":            {silent.Addr().String(), false, "not up yet", "not reached in time: "},
		"a name of nobody":         {"no-such-host.invalid:6379", false, "lookup no-such-host.invalid", "lookup no-such-host.invalid"},
		"a web server":             {strings.TrimPrefix(web.URL, "http://"), false, "HTTP", "HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, opts, scheme := &redis.Options{Addr: c.addr}, []redlock.Option(nil), "redis://"
			if c.tls {
				o.TLSConfig, opts, scheme = settings, []redlock.Option{redlock.WithTLS(settings)}, "rediss://"
			}
			_, err := redlock.Open(t.Context(), []string{scheme + c.addr}, opts...)
			wantText(t, "Open", errorText(err), c.words)
			client := redis.NewClient(o)
			t.Cleanup(func() { _ = client.Close() })
			l := lockerWith(t, []redis.UniversalClient{client}, redlock.WithNodeNames("a"))
			_, err = l.TryAcquire(t.Context(), "orders/42")
			wantText(t, "the first TryAcquire", errorText(err), c.first)
			pollUntil(t, 5*time.Second, "a later TryAcquire names it", func() bool {
				_, err = l.TryAcquire(t.Context(), "orders/42")
				return err != nil && strings.Contains(err.Error(), c.words)
			})
		})
	}
}
