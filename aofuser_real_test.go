package redlock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// A server reads its append-only file as the default user. What that user may not do is
// left out: the doctor says so before, and the recipe of docs/OPERATIONS.md keeps it all.
func TestTheDefaultUserDecidesWhatTheAppendOnlyFileKeeps(t *testing.T) {
	t.Parallel()
	for rules, keeps := range map[string]bool{
		"off":                            false,
		"on nopass ~cache:* +get":        false,
		"off ~* &* +@all":                true, // the recipe
		"off ~redlock:* ~orders/* +@all": true,
	} {
		t.Run(rules, func(t *testing.T) {
			t.Parallel()
			s := testserver.NeedOne(t, redisserver.Config{
				AOF: redisserver.FsyncAlways, Users: []string{"admin on >secret ~* &* +@all"}, Args: []string{"--enable-debug-command", "local"},
			})
			c := clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "admin", "secret" })
			l := lockerWith(t, []redis.UniversalClient{c}, redlock.WithNodeTimeout(patient))
			admitted(t, l)
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			set := []any{"ACL", "SETUSER", "default", "reset"}
			for _, rule := range strings.Fields(rules) {
				set = append(set, rule)
			}
			must(t, c.Do(t.Context(), set...).Err())
			r, err := l.Cluster().Check(t.Context())
			must(t, err)
			found := slices.ContainsFunc(r.Findings, func(f redlock.Finding) bool { return f.Code == redlock.FindingReplay })
			if found == keeps {
				t.Errorf("the doctor has %v; want %s there: %v", r.Findings, redlock.FindingReplay, !keeps)
			}
			before := c.HLen(t.Context(), "redlock:node").Val()
			must(t, c.Do(t.Context(), "DEBUG", "LOADAOF").Err()) // as a restart does
			after := c.HLen(t.Context(), "redlock:node").Val()
			if kept := after == before; before == 0 || kept != keeps {
				t.Errorf("the record had %d fields, and has %d when the file is read again; want them kept: %v", before, after, keeps)
			}
		})
	}
}

// A restart reads the file in the same way.
func TestARestartLeavesOutWhatTheDefaultUserMayNotWrite(t *testing.T) {
	t.Parallel()
	s := testserver.NeedOne(t, redisserver.Config{
		AOF: redisserver.FsyncAlways, Users: []string{"admin on >secret ~* &* +@all", "default on nopass resetkeys -@all +ping +info"},
	})
	c := clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "admin", "secret" })
	l := lockerWith(t, []redis.UniversalClient{c}, redlock.WithNodeTimeout(patient))
	admitted(t, l)
	mustRelease(t, mustAcquire(t, l, "orders/42"))
	must(t, l.Close())
	before := c.HLen(t.Context(), "redlock:node").Val()
	must(t, s.Stop())
	must(t, s.Restart())
	if after := c.HLen(t.Context(), "redlock:node").Val(); after >= before {
		t.Errorf("the record had %d fields, and has %d after a restart: where servers keep them, %s is not needed", before, after, redlock.FindingReplay)
	}
}
