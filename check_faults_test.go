package redlock_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// redisVersion is the version of a Redis, or what a Valkey says in its place.
const redisVersion = `redis_version:\S+(\s+server_name:valkey\s+valkey_version:\S+)?`

func serverFaults() []planted {
	return []planted{
		{
			"a server that is down",
			func(s *set) []redlock.Option {
				server := testserver.NeedOne(s.T, redisserver.Config{})
				if err := server.Kill(); err != nil {
					s.Fatal(err)
				}
				s.clients[4] = clientOf(s.T, server)
				return nil
			},
			[]found{at4(faultError, redlock.FindingUnreachable)},
		},
		{
			"a password that is missing",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Password: "secret"}, func(o *redis.Options) { o.Password = "" }),
			[]found{at4(faultError, redlock.FindingCredentials)},
		},
		{
			"a password that is wrong",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Password: "secret"}, func(o *redis.Options) { o.Password = "wrong" }),
			[]found{at4(faultError, redlock.FindingCredentials)},
		},
		{
			"two addresses that are one server",
			func(s *set) []redlock.Option {
				p, err := tcpproxy.New(s.clients[1].(*redis.Client).Options().Addr)
				if err != nil {
					s.Fatal(err)
				}
				s.Cleanup(p.Close)
				withClient(func(o *redis.Options) { o.Addr = p.Addr() })(s)
				return nil
			},
			[]found{at4(faultError, redlock.FindingSameServer)},
		},
		{
			"a replica of another node",
			func(s *set) []redlock.Option {
				master := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways})
				replica := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways, ReplicaOf: master.Addr()})
				s.clients[3], s.clients[4] = clientOf(s.T, master), clientOf(s.T, replica)
				awaitInfo(s.T, s.clients[3], "connected_slaves:1")
				awaitInfo(s.T, s.clients[4], "master_link_status:up") // no longer loading
				return nil
			},
			[]found{at4(faultError, redlock.FindingReplica), at4(faultError, redlock.FindingRefuses), {faultWarning, redlock.FindingHasReplicas, 3}, {faultWarning, redlock.FindingBacklog, 3}},
		},
		{
			"DEBUG is enabled",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--enable-debug-command", "local"}}),
			[]found{at4(faultWarning, redlock.FindingDebug)},
		},
		{
			"DEBUG is enabled for all",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--enable-debug-command", "yes"}}),
			[]found{at4(faultWarning, redlock.FindingDebug)},
		},
		{
			"data are imported", // on a Redis, by what its client hears
			importing,
			[]found{at4(faultWarning, redlock.FindingImportMode)},
		},
		{
			"it had a replica",
			func(s *set) []redlock.Option {
				master := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways})
				follow(s.T, testserver.NeedOne(s.T, redisserver.Config{}), master)
				must(s.T, master.Client().ConfigSet(s.T.Context(), "repl-backlog-ttl", "0").Err())
				s.clients[4] = clientOf(s.T, master)
				return nil
			},
			[]found{at4(faultWarning, redlock.FindingHasReplicas)},
		},
		{
			"cluster mode",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--cluster-enabled", "yes"}}),
			[]found{at4(faultError, redlock.FindingMode), at4(faultError, redlock.FindingRefuses), at4(faultUnknown, redlock.FindingRecord)},
		},
		{"an old Redis", infoSays(redisVersion, "redis_version:6.2.1"), []found{at4(faultError, redlock.FindingVersion)}},
		{"an old Valkey", infoSays(`redis_git_sha1:\S+`, "valkey_version:7.1.9"), []found{at4(faultError, redlock.FindingVersion)}},
		{"a new Valkey", infoSays(`redis_git_sha1:\S+`, "valkey_version:8.1.0"), nil},
		{"a version that can't be read", infoSays(redisVersion, "redis_version:next"), []found{at4(faultUnknown, redlock.FindingVersion)}},
		{"no run_id", infoSays(`run_id:\S+`, "not_told:"), []found{at4(faultError, redlock.FindingRunID)}},
		{
			"keys that may be evicted",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}}),
			[]found{at4(faultError, redlock.FindingEviction)},
		},
		{
			"keys that may be evicted once there is a limit",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--maxmemory-policy", "allkeys-lru"}}),
			[]found{at4(faultWarning, redlock.FindingEviction)},
		},
		{
			"a limit, and nothing evicted",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--maxmemory", "100mb"}}), nil,
		},
	}
}

// awaitInfo waits until INFO has the text.
func awaitInfo(t *testing.T, c redis.UniversalClient, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		info, err := c.Info(t.Context()).Result()
		if strings.Contains(info, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in INFO (%v)", text, err)
		}
	}
}

func diskFaults() []planted {
	return []planted{
		{
			"an append-only file that is never forced to the disk",
			instead(redisserver.Config{AOF: redisserver.FsyncEverysec, Args: []string{"--appendfsync", "no"}}),
			[]found{at4(faultWarning, redlock.FindingPersistence)},
		},
		{
			"an append-only file that is not forced while it is rewritten",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Args: []string{"--no-appendfsync-on-rewrite", "yes"}}),
			[]found{at4(faultWarning, redlock.FindingPersistence)},
		},
		{
			"an append-only file that the default user may not write again",
			instead(redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"lock on >secret &* ~* +@all", "default on nopass resetkeys -@all +ping +info"}},
				func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }),
			[]found{at4(faultWarning, redlock.FindingReplay)},
		},
		{"nothing on disk", instead(redisserver.Config{}), []found{at4(faultWarning, redlock.FindingPersistence)}},
		{
			"snapshots only", instead(redisserver.Config{Args: []string{"--save", "3600 1"}}),
			[]found{at4(faultWarning, redlock.FindingPersistence)},
		},
		{
			"an append-only file that is forced to the disk each second",
			instead(redisserver.Config{AOF: redisserver.FsyncEverysec}),
			[]found{at4(faultInfo, redlock.FindingPersistence)},
		},
		{
			"CONFIG refused",
			instead(redisserver.Config{AOF: redisserver.FsyncEverysec, Args: []string{"--rename-command", "CONFIG", ""}}),
			[]found{at4(faultUnknown, redlock.FindingPersistence)},
		},
		{"a snapshot that failed", failedSnapshot("yes"), []found{at4(faultError, redlock.FindingRefuses), at4(faultError, redlock.FindingWritesFailed)}},
		{"a snapshot that failed, of no consequence", failedSnapshot("no"), []found{at4(faultWarning, redlock.FindingWritesFailed)}},
		{
			"an append-only file that can't be written", infoSays(`aof_last_write_status:ok`, "aof_last_write_status:ko"),
			[]found{at4(faultError, redlock.FindingWritesFailed)},
		},
	}
}

// failedSnapshot is a server whose directory has gone.
func failedSnapshot(stopWrites string) plant {
	return func(s *set) []redlock.Option {
		server := testserver.NeedOne(s.T, redisserver.Config{
			AOF: redisserver.FsyncAlways, Args: []string{"--save", "3600 1", "--stop-writes-on-bgsave-error", stopWrites},
		})
		if err := os.RemoveAll(filepath.Join(server.Dir(), "data")); err != nil {
			s.Fatal(err)
		}
		s.clients[4] = clientOf(s.T, server)
		_ = s.clients[4].BgSave(s.Context()).Err() // that it fails is the point
		awaitInfo(s.T, s.clients[4], "rdb_last_bgsave_status:err")
		return nil
	}
}

func rightFaults() []planted {
	const needed = "+evalsha +script|load +info +time +hmget +hset +hgetall +hdel +mget +set +pttl +pexpire +exists +del +zadd +zrange +zrem +zscore +pexpireat +publish +subscribe &redlock:wake:* +multi +exec"
	const doctor = " +acl|dryrun +acl|whoami +config|get"
	return []planted{
		{"all rights that are needed", asUser("resetchannels ~* " + needed + doctor), nil},
		{"no right to load scripts", asUser("~* +@all -script|load"), []found{at4(faultError, redlock.FindingACL)}},
		{"no right to a script's command", asUser("~* +@all -pexpire"), []found{at4(faultError, redlock.FindingACL)}},
		{"no right to wait in line", asUser("~* +@all -zadd"), []found{at4(faultError, redlock.FindingACL)}},
		{"no right to wake", asUser("~* +@all -publish"), []found{at4(faultWarning, redlock.FindingACL)}},
		{"no right to the channels", asUser("resetchannels ~* +@all"), []found{at4(faultWarning, redlock.FindingACL)}},
		{"no right to share", asUser("~* +@all -zscore"), []found{at4(faultWarning, redlock.FindingACL)}},
		{"no right to inspect", asUser("~* +@all -multi"), []found{at4(faultWarning, redlock.FindingACL)}},
		{
			"no right to INFO", asUser("~* +@all -info"),
			[]found{at4(faultError, redlock.FindingACL), at4(faultUnknown, redlock.FindingVersion)},
		},
		{
			"no right to TIME", asUser("~* +@all -time"),
			[]found{at4(faultError, redlock.FindingACL), at4(faultUnknown, redlock.FindingClock)},
		},
		{
			"no right to the library's keys", asUser("~redlock-check +@all"),
			[]found{at4(faultError, redlock.FindingACL), at4(faultUnknown, redlock.FindingRecord)},
		},
		{
			"no right to tombstones", asUser("~redlock:node ~redlock-check +@all"),
			[]found{at4(faultError, redlock.FindingACL)},
		},
		{"a right to some names", asUser("~redlock:* ~orders/* +@all"), []found{at4(faultInfo, redlock.FindingACLNames)}},
		{
			"a right to the names in use",
			func(s *set) []redlock.Option {
				asUser("~redlock:* ~orders/* +@all")(s)
				return []redlock.Option{redlock.WithPrefix("orders/")}
			}, nil,
		},
		{"ACL refused", asUser("~* +@all -acl"), []found{at4(faultUnknown, redlock.FindingACL)}},
		{
			"ACL refused, and scripts too", asUser("~* +@all -acl -evalsha"),
			[]found{at4(faultUnknown, redlock.FindingACL), at4(faultError, redlock.FindingACL)},
		},
	}
}

func timeFaults() []planted {
	clock := func(offset string) plant {
		return func(s *set) []redlock.Option {
			server := testserver.NeedOne(s.T, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true})
			if err := server.SetClock(offset); err != nil {
				s.Fatal(err)
			}
			s.clients[4] = clientOf(s.T, server)
			return nil
		}
	}
	slow := func(each time.Duration, opts ...redlock.Option) plant {
		return func(s *set) []redlock.Option {
			p, err := tcpproxy.New(s.clients[4].(*redis.Client).Options().Addr)
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(p.Close)
			p.Delay(tcpproxy.Requests, each)
			withClient(func(o *redis.Options) { o.Addr = p.Addr() })(s)
			return opts
		}
	}
	return []planted{
		{"a clock ahead", clock("+20"), []found{at4(faultWarning, redlock.FindingClock)}},
		{"a clock behind", clock("-20"), []found{at4(faultWarning, redlock.FindingClock)}},
		{
			"this client's own clock",
			func(s *set) []redlock.Option {
				for i, server := range testserver.Need(s.T, 5, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true}) {
					if err := server.SetClock("+120"); err != nil {
						s.Fatal(err)
					}
					s.clients[i] = clientOf(s.T, server)
				}
				return nil
			},
			[]found{inAll(faultInfo, redlock.FindingClock)},
		},
		{
			"round trips beside the node timeout",
			slow(700*time.Millisecond, redlock.WithNodeTimeout(1300*time.Millisecond)), // above half of it, and far from the whole
			[]found{at4(faultWarning, redlock.FindingRoundTrip)},
		},
		{
			"round trips beyond the node timeout",
			slow(1200*time.Millisecond, redlock.WithNodeTimeout(800*time.Millisecond)),
			[]found{at4(faultError, redlock.FindingUnreachable)},
		},
		{
			"round trips beside the TTL",
			slow(700*time.Millisecond, redlock.WithTTL(6*time.Second), redlock.WithNodeTimeout(2*time.Second)),
			[]found{at4(faultWarning, redlock.FindingTTLRound)},
		},
		{
			"a node timeout beside the TTL", withOptions(redlock.WithNodeTimeout(4 * time.Second)),
			[]found{inAll(faultWarning, redlock.FindingNodeTimeout)},
		},
		{
			"a MaxTTL far above the TTL", withOptions(redlock.WithMaxTTL(time.Hour)),
			[]found{inAll(faultInfo, redlock.FindingMaxTTL)},
		},
	}
}

func clusterFaults() []planted {
	return []planted{
		{
			"another cluster's node", withRecords("cluster", "z", "names", "v\nw\nx\ny\nz"),
			[]found{at4(faultError, redlock.FindingForeign)},
		},
		{
			"another number of nodes", withRecords("n", "3", "names", "a\nb\ne"),
			[]found{at4(faultError, redlock.FindingOtherNodes)},
		},
		{"a record of another format", withRecords("format", "2"), []found{at4(faultError, redlock.FindingRecord)}},
		{
			"lists of two clusters mixed", func(s *set) []redlock.Option {
				plantRecord(s.T, s.clients[:4], 5, "names", "a\nb\nc\nd\nz")
				plantRecord(s.T, s.clients[4:], 5, "cluster", "z", "names", "e\nv\nw\nx\ny")
				return nil
			},
			[]found{at4(faultError, redlock.FindingForeign)},
		},
		{
			"lists of two clusters mixed, and no quorum", func(s *set) []redlock.Option {
				plantRecord(s.T, s.clients[3:4], 5, "names", "d\nq\nr\ns\nt")
				plantRecord(s.T, s.clients[4:], 5, "cluster", "z", "names", "e\nv\nw\nx\ny")
				return nil
			},
			[]found{inAll(faultError, redlock.FindingNoCluster), {faultError, redlock.FindingForeign, 3}, at4(faultError, redlock.FindingForeign)},
		},
		{"a damaged record", withRecords("maxttl", "soon"), []found{at4(faultError, redlock.FindingRecord)}},
		{
			"another program's key",
			func(s *set) []redlock.Option {
				if err := s.clients[4].Set(s.Context(), "redlock:node", "mine", 0).Err(); err != nil {
					s.Fatal(err)
				}
				s.Cleanup(func() { s.clients[4].Del(context.Background(), "redlock:node") })
				return nil
			},
			[]found{at4(faultError, redlock.FindingRecord)},
		},
		{"names that differ", withRecords("names", "a\nb\nc\nd\nelsewhere"), []found{at4(faultWarning, redlock.FindingNames)}},
		{"a retired node", withRecords("gone", "1"), []found{at4(faultWarning, redlock.FindingRetired)}},
		{"a node that restarted", withRecords("run", "another"), []found{at4(faultInfo, redlock.FindingBlank)}},
		{"a MaxTTL that another client raised", withRecords("maxttl", "60000"), []found{at4(faultWarning, redlock.FindingMaxTTL)}},
		{"a MaxTTL that this client raises", withRecords("maxttl", "20000"), []found{at4(faultInfo, redlock.FindingMaxTTL)}},
		{
			"two lists found at once",
			func(s *set) []redlock.Option {
				plantRecord(s.T, s.clients[:2], 5, "cluster", "y")
				plantRecord(s.T, s.clients[2:4], 5, "cluster", "z")
				return nil
			},
			[]found{inAll(faultError, redlock.FindingNoCluster)},
		},
	}
}

// closedLimiter is a Limiter that lets everything through.
type closedLimiter struct{}

func (closedLimiter) Allow() error       { return nil }
func (closedLimiter) ReportResult(error) {}

// wrapped hides what a client is.
type wrapped struct{ redis.UniversalClient }

func clientFaults() []planted {
	return []planted{
		{
			"go-redis's own defaults",
			withClient(func(o *redis.Options) {
				*o = redis.Options{Addr: o.Addr}
			}),
			[]found{at4(faultWarning, redlock.FindingDial), at4(faultInfo, redlock.FindingClient)},
		},
		{"a dial that takes long", withClient(func(o *redis.Options) { o.DialTimeout = 20 * time.Second }), []found{at4(faultWarning, redlock.FindingDial)}},
		{
			"a dial that nothing bounds", withClient(func(o *redis.Options) {
				o.DialTimeout, o.Dialer = -1, func(ctx context.Context, network, addr string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, addr)
				}
			}),
			[]found{at4(faultWarning, redlock.FindingDial)},
		},
		{
			"a dial that is tried often", withClient(func(o *redis.Options) {
				o.DialerRetries, o.DialerRetryBackoff = 2, func(int) time.Duration { return 20 * time.Second }
			}), []found{at4(faultWarning, redlock.FindingDial)},
		},
		{"one connection", withClient(func(o *redis.Options) { o.PoolSize = 1 }), []found{at4(faultWarning, redlock.FindingPool)}},
		{"RESP2", withClient(func(o *redis.Options) { o.Protocol = 2 }), nil},
		{"RESP3", withClient(func(o *redis.Options) { o.Protocol = 3 }), nil},
		{"a limiter", withClient(func(o *redis.Options) { o.Limiter = closedLimiter{} }), []found{at4(faultWarning, redlock.FindingLimiter)}},
		{
			"maintenance notifications", // which Redis itself refuses to send
			withClient(func(o *redis.Options) {
				o.Protocol, o.MaintNotificationsConfig = 3, &maintnotifications.Config{Mode: maintnotifications.ModeEnabled}
			}),
			[]found{at4(faultWarning, redlock.FindingMaintenance), at4(faultError, redlock.FindingUnreachable)},
		},
		{
			"no read timeout", withClient(func(o *redis.Options) { o.ReadTimeout = -1 }),
			[]found{at4(faultInfo, redlock.FindingClient)},
		},
		{
			"retries", withClient(func(o *redis.Options) { o.MaxRetries = 3 }),
			[]found{at4(faultInfo, redlock.FindingClient)},
		},
		{
			"a client of another kind",
			func(s *set) []redlock.Option {
				s.clients[4] = wrapped{s.clients[4]}
				return nil
			},
			[]found{at4(faultUnknown, redlock.FindingClient)},
		},
	}
}
