package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/testkit"
)

// noon is what every good clock shows at the Clock's origin.
var noon = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// goodDoctor has seen n members that have no fault.
func goodDoctor(n int) *doctor {
	d := &doctor{
		cfg:    Config{TTL: 10 * time.Second, MaxTTL: 30 * time.Second, NodeTimeout: 250 * time.Millisecond, Drift: 0.01},
		failed: make([]error, n), waits: make([]bool, n), origin: noon,
	}
	for i := range n {
		d.names = append(d.names, string(rune('a'+i)))
	}
	for _, name := range d.names {
		d.exams = append(d.exams, exam{
			options: &redis.Options{
				DialTimeout: time.Second, DialerRetries: 1, PoolSize: 10, ReadTimeout: time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true,
			},
			run: name,
			info: map[string]string{
				"run_id": name, "master_replid": "h", "role": "master", "redis_version": "7.2.4", "redis_mode": "standalone",
				"maxmemory": "0", "maxmemory_policy": "noeviction", "aof_enabled": "1",
			},
			record: recordOf("format", "4", "epoch", "e", "cluster", "c", "names", strings.Join(d.names, "\n"),
				"maxttl", "30000", "run", name+".h", "base", "7"),
			config: map[string]string{"appendfsync": "always", "save": ""},
			user:   "default",
			trips:  []trip{{time.Millisecond, 1, noon}},
			later:  trip{time.Millisecond, 1 + clock.Instant(time.Second), noon},
		})
	}
	return d
}

// addressed gives the nodes addresses.
func addressed(addrs ...string) change {
	return func(d *doctor, _ *exam) {
		for i, addr := range addrs {
			d.exams[i].options.Addr = addr
		}
	}
}

// recordOf is a reply to HMGET of the record with these fields.
func recordOf(fields ...string) []any {
	r := make([]any, len(membership.RecordFields))
	for i := 0; i < len(fields); i += 2 {
		r[slices.Index(membership.RecordFields[:], fields[i])] = fields[i+1]
	}
	return r
}

// reply is an error that a server replied with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// change plants a fault, at node 4 of five: e is what that showed.
type change func(d *doctor, e *exam)

func info(fields ...string) change   { return func(_ *doctor, e *exam) { put(e.info, fields) } }
func config(fields ...string) change { return func(_ *doctor, e *exam) { put(e.config, fields) } }

func put(to map[string]string, fields []string) {
	for i := 0; i < len(fields); i += 2 {
		to[fields[i]] = fields[i+1]
	}
}

// setting is of the client.
func setting(set func(o *redis.Options)) change {
	return func(_ *doctor, e *exam) { set(e.options) }
}

// option is of the Locker.
func option(set func(c *Config)) change { return func(d *doctor, _ *exam) { set(&d.cfg) } }

// timeless nodes are three that refuse TIME.
func timeless(d *doctor, e *exam) {
	d.exams[0].timeErr, d.exams[1].timeErr, e.timeErr = reply("NOPERM"), reply("NOPERM"), reply("NOPERM")
}

// records changes the records of these nodes, in the order of fields.
func records(nodes string, fields ...string) change {
	return func(d *doctor, _ *exam) {
		for _, i := range nodes {
			for k, v := range recordOf(fields...) {
				if v != nil {
					d.exams[i-'0'].record[k] = v
				}
			}
		}
	}
}

// unfounded takes the records of these nodes away.
func unfounded(nodes string) change {
	return func(d *doctor, _ *exam) {
		for _, i := range nodes {
			d.exams[i-'0'].record = recordOf()
		}
	}
}

// straggles leaves these signs, by the node's clock at two minutes past the epoch.
func straggles(signs ...any) change {
	return func(_ *doctor, e *exam) { e.info["server_time_usec"], e.signs = "120000000", signs }
}

func silence(err error) change { return func(_ *doctor, e *exam) { e.err = err } }

// refused is what the node refused when it was proved.
func refused(use, text string) change {
	return func(_ *doctor, e *exam) { e.faults = append(e.faults, failedUse{use, use == "wake", reply(text)}) }
}

// late is a node that did not answer when it was proved.
func late(_ *doctor, e *exam) {
	e.faults = append(e.faults, failedUse{"take a lock", false, round.ErrTimeout})
}

func lacks(right ...denial) change { return func(_ *doctor, e *exam) { e.denied = right } }

// all are several of these.
func all(changes ...change) change {
	return func(d *doctor, e *exam) {
		for _, c := range changes {
			c(d, e)
		}
	}
}

// offClock is of clocks that are off by so much.
func offClock(nodes string, by time.Duration) change {
	return func(d *doctor, _ *exam) {
		for _, i := range nodes {
			e := &d.exams[i-'0']
			e.trips[0].offset, e.later.offset = noon.Add(by), noon.Add(by)
		}
	}
}

// fastClock is of clocks that gain so much in the second between two looks.
func fastClock(nodes string, gain time.Duration) change {
	return func(d *doctor, _ *exam) {
		for _, i := range nodes {
			d.exams[i-'0'].later.offset = noon.Add(gain)
		}
	}
}

// noFields forgets what it showed under these names.
func noFields(fields ...string) change {
	return func(_ *doctor, e *exam) {
		for _, f := range fields {
			delete(e.info, f)
			delete(e.config, f)
		}
		e.run = e.info["run_id"]
	}
}

const otherNames = "v\nw\nx\ny\nz"

// judged are exams, each with all that it is to show and no more.
var judged = []struct {
	name   string
	change change
	want   string // of WantFound
}{
	{"nothing", all(), ""},

	{"a server that is down", silence(fmt.Errorf("dial: %w", syscall.ECONNREFUSED)), "error unreachable 4: Start it, or mend the address"},
	{"a server that does not answer", silence(fmt.Errorf("%w: x", round.ErrTimeout)), "error unreachable 4: before a restart"},
	{"a server that is not reached", silence(fmt.Errorf("%w: x", node.ErrUnreached)), "error unreachable 4: before a restart"},
	{"a name that is not known", silence(&net.DNSError{Err: "no such host"}), "error unreachable 4: Mend the address"},
	{"three servers that are down", func(d *doctor, _ *exam) {
		for i := range 3 {
			d.exams[i].err = errors.New("connection refused")
		}
	}, "error no-quorum: No new lock is given until a quorum votes; error unreachable 0: while a quorum of the others does; error unreachable 1; error unreachable 2"},
	{"two servers that are down, and one that forgot", func(d *doctor, _ *exam) {
		d.exams[0].err, d.exams[1].err, d.exams[2].record = errors.New("connection refused"), errors.New("connection refused"), recordOf()
	}, "error no-quorum: until a quorum votes; error unreachable 0; error unreachable 1; info blank 2"},
	{"a server that loads", silence(reply("LOADING Redis is loading")), "error unreachable 4: Wait"},
	{"protected mode", silence(reply("DENIED Redis is running in protected mode")), "error unreachable 4: protected-mode no"},
	{"protected mode, behind TLS", silence(fmt.Errorf("x: %w", node.ErrProtected)), "error unreachable 4: protected-mode no"},
	{"a password that is missing", silence(reply("NOAUTH Authentication required.")), "error credentials 4: the user and the password"},
	{"a password that is wrong", silence(reply("WRONGPASS invalid")), "error credentials 4: then CONFIG REWRITE or ACL SAVE"},
	{"a script that does not end", silence(reply("BUSY Redis is busy running a script")), "error busy 4: SCRIPT KILL"},
	{"all connections taken", silence(reply("ERR max number of clients reached")), "error max-clients 4: Raise maxclients"},
	{"a certificate that has expired", silence(x509.CertificateInvalidError{Reason: x509.Expired}), "error tls 4: Renew the server's certificate"},
	{"a certificate of nobody known", silence(x509.UnknownAuthorityError{}), "error tls 4: Name the authority"},
	{"a certificate of another host", silence(x509.HostnameError{Certificate: &x509.Certificate{}}), "error tls 4: an address that the server's certificate is for"},
	{"a certificate that the server does not accept", silence(&net.OpError{Op: "remote error", Err: errors.New("bad certificate")}), "error tls 4: Show a certificate that the server accepts"},
	{"a certificate that is not accepted otherwise", silence(&tls.CertificateVerificationError{Err: errors.New("x")}), "error tls 4: See what the server's certificate"},
	{"TLS to a port without it", silence(tls.RecordHeaderError{Msg: "x"}), "error tls 4: tls-port"},
	{"no TLS to a port with it", silence(fmt.Errorf("x: %w", node.ErrSpeaksTLS)), "error tls 4: rediss://"},

	{"an old Redis", info("redis_version", "6.2.1"), "error version 4"},
	{"an old Valkey", info("valkey_version", "7.1.9"), "error version 4"},
	{"a new Valkey", info("valkey_version", "8.1.0"), ""},
	{"a version that can't be read", info("redis_version", "next"), "unknown version 4"},
	{"no run_id", noFields("run_id"), "error run-id 4"},
	{"no run_id, where nobody will miss it", all(noFields("run_id"), option(func(c *Config) { c.Unprotected = true })), "warning run-id 4"},
	{"no run_id for a script", func(_ *doctor, e *exam) { e.hidden = reply("ERR not allowed from script") }, "error run-id 4: scripts"},
	{"two addresses that are one server", func(d *doctor, e *exam) { e.run = d.exams[1].run }, "error same-server 4: a proxy"},
	{"a client that is pinned to another cluster", option(func(c *Config) { c.Pin = "z" }), "error other-cluster 0: the new id to pin; error other-cluster 1; error other-cluster 2; error other-cluster 3; error other-cluster 4; error no-quorum"},
	{"three nodes at one address", addressed("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.3:1"), "warning same-host: its own machine"},
	{"two nodes of five at one address", addressed("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "10.0.0.3:1", "10.0.0.4:1"), ""},
	{"all nodes at the loopback", addressed("127.0.0.1:1", "127.0.0.1:2", "localhost:3", "[::1]:4", "localhost:5"), ""},
	{"a replica", info("role", "slave"), "error replica 4: stands alone; info blank 4"},
	{"it has replicas", info("connected_slaves", "1"), "warning has-replicas 4"},
	{"it had replicas", all(info("repl_backlog_active", "1"), config("repl-backlog-ttl", "3600")), "warning repl-backlog 4: repl-backlog-ttl 0"},
	{"it had replicas, of no consequence", all(info("repl_backlog_active", "1"), config("repl-backlog-ttl", "0")), ""},
	{"DEBUG is enabled", config("enable-debug-command", "local"), "warning debug-command 4"},
	{"DEBUG is enabled for all", config("enable-debug-command", "yes"), "warning debug-command 4"},
	{"cluster mode", info("redis_mode", "cluster", "cluster_enabled", "1"), "error mode 4"},
	{"a Sentinel", info("redis_mode", "sentinel"), "error mode 4"},
	{"data are imported", config("import-mode", "yes"), "warning import-mode 4: CONFIG SET import-mode no"},
	{"keys that may be evicted", info("maxmemory", "100", "maxmemory_policy", "volatile-ttl"), "error eviction 4: noeviction"},
	{"keys that may be evicted once there is a limit", info("maxmemory_policy", "allkeys-lru"), "warning eviction 4"},
	{"a limit, and nothing evicted", info("maxmemory", "1000", "used_memory", "899"), ""},
	{"a policy that is not told", noFields("maxmemory_policy"), "unknown eviction 4"},
	{"a memory that is nearly full", info("maxmemory", "1000", "used_memory", "900"), "warning memory 4: Raise maxmemory"},
	{"a full memory", info("maxmemory", "1000", "used_memory", "1000"), "error memory 4: Raise maxmemory"},
	{"many connections", info("maxclients", "10", "connected_clients", "8"), ""},
	{"nearly all connections taken", info("maxclients", "10", "connected_clients", "9"), "warning max-clients 4: Raise maxclients"},
	{"replicas that are missing", all(info("min_slaves_good_slaves", "1"), config("min-replicas-to-write", "2")), "error min-replicas 4: min-replicas-to-write 0"},
	{"replicas that are there", all(info("min_slaves_good_slaves", "1"), config("min-replicas-to-write", "1")), "warning min-replicas 4"},
	{"replicas, of which it is not told how many", info("min_slaves_good_slaves", "1"), "warning min-replicas 4"},
	{"INFO refused", func(_ *doctor, e *exam) { e.infoErr = reply("NOPERM") }, "unknown version 4"},

	{"an append-only file that is never forced to the disk", config("appendfsync", "no"), "warning persistence 4: appendfsync everysec"},
	{"an append-only file that is not forced while it is rewritten", config("no-appendfsync-on-rewrite", "yes"), "warning persistence 4: no-appendfsync-on-rewrite no"},
	{"an append-only file that is forced each second", config("appendfsync", "everysec"), "info persistence 4"},
	{"an append-only file, and no word how", noFields("appendfsync"), "unknown persistence 4"},
	{"no word of an append-only file", noFields("aof_enabled"), "unknown persistence 4"},
	{"nothing on disk", info("aof_enabled", "0"), "warning persistence 4: appendonly yes"},
	{"snapshots only", all(info("aof_enabled", "0"), config("save", "3600 1")), "warning persistence 4: appendonly yes"},
	{"an append-only file that the default user may not write again", func(_ *doctor, e *exam) { e.replay = "no permissions" }, "warning aof-default-user 4: default off ~* &* +@all"},
	{"an append-only file that the default user may write again", func(_ *doctor, e *exam) { e.replay = "OK" }, ""},
	{"an append-only file that can't be written", info("aof_last_write_status", "err"), "error writes-failed 4: Make room"},
	{
		"a snapshot that failed", all(info("rdb_last_bgsave_status", "err"), config("save", "3600 1", "stop-writes-on-bgsave-error", "yes")),
		"error writes-failed 4: Make room",
	},
	{
		"a snapshot that failed, of no consequence", all(info("rdb_last_bgsave_status", "err"), config("save", "3600 1", "stop-writes-on-bgsave-error", "no")),
		"warning writes-failed 4",
	},

	{"no right to vote", lacks(denial{"EVALSHA", "+evalsha", "vote", SeverityError, false}), "error acl 4: ACL SETUSER default +evalsha. redlock nodes acl --for lock,wait"},
	{"no lesser right", lacks(denial{"PUBLISH", "+publish", "wake", SeverityWarning, false}), "warning acl 4: nothing else says that it is missing"},
	{"a right of another use", lacks(denial{"ZSCORE", "+zscore", "share a name", SeverityInfo, false}), "info acl 4: Nothing, unless the user does that too"},
	{"a right to some names", lacks(denial{"MGET", "+mget", "take a lock", SeverityError, true}), "info acl-names 4: WithPrefix"},
	{"rights that are not told", func(_ *doctor, e *exam) { e.aclErr = reply("NOPERM") }, "unknown acl 4: +acl|dryrun"},
	{"a command that is not known", func(_ *doctor, e *exam) { e.unknown = []right{{"x", SeverityError, []any{"EVALSHA"}}} }, "error command 4: rename-command"},

	{"memory refused", refused("take a lock", "OOM command not allowed"), "error refuses 4: Raise maxmemory"},
	{"too few replicas", refused("take a lock", "NOREPLICAS Not enough good replicas"), "error refuses 4: min-replicas-to-write 0"},
	{"a disk that failed", refused("take a lock", "MISCONF Errors writing"), "error refuses 4: Make room"},
	{"read only", refused("take a lock", "READONLY You can't write"), "error refuses 4: a master that stands alone"},
	{"no right, as it was proved", refused("wait in line", "NOPERM no permissions"), "error refuses 4: ACL SETUSER"},
	{"a command that is missing, as it was proved", refused("take a lock", "ERR unknown command 'EVALSHA'"), "error refuses 4: rename-command"},
	{"something else refused", refused("take a lock", "ERR something"), "error refuses 4: the server's log"},
	{"a refusal that its rights tell already", all(lacks(denial{"PTTL", "+pttl", "take a lock", SeverityError, false}), refused("take a lock", "NOPERM x")), "error acl 4"},
	{"a refusal that the rights to names do not tell", all(lacks(denial{"PTTL", "+pttl", "take a lock", SeverityError, true}), refused("take a lock", "NOPERM x")), "info acl-names 4; error refuses 4"},
	{"a node that is slow to take a lock", all(unfounded("4"), late), "error round-trip 4: SLOWLOG; info blank 4: redlock nodes join --wait; warning exposed 4"},
	{"a node that is slow to anything", all(late, func(_ *doctor, e *exam) { e.trips, e.lost, e.timeErr = nil, 2, node.ErrNoReply }), "error round-trip 4"},
	{"nobody is woken", refused("wake", "NOPERM x"), "warning refuses 4: wakes nobody"},

	{"a clock ahead", offClock("4", 20*time.Second), "warning clock 4: NTP"},
	{"three clocks ahead of two, and of this machine", offClock("012", 40*time.Second), "warning clock: the number of servers does not tell"},
	{"two clocks ahead of three, and of this machine", offClock("34", 40*time.Second), "warning clock: the number of servers does not tell"},
	{"two clocks off by different times", all(offClock("3", 40*time.Second), offClock("4", 80*time.Second)), "warning clock 3: NTP; warning clock 4"},
	{"a clock behind", offClock("4", -20*time.Second), "warning clock 4: NTP"},
	{"a clock that is off by less than would step", offClock("4", 128*time.Millisecond), ""},
	{"this client's own clock", offClock("01234", 2*time.Minute), "info clock: this machine"},
	{"TIME refused", func(_ *doctor, e *exam) { e.trips, e.timeErr = nil, reply("NOPERM") }, "unknown clock 4"},
	{"TIME refused by three", timeless, "error no-quorum"},
	{"TIME refused by three, where no clock is watched", all(timeless, option(func(c *Config) { c.TrustClocks = true })), ""},
	{"a clock that ntpd slews", fastClock("4", 500*time.Microsecond), ""},
	{"a clock that chronyd slews", fastClock("4", 83*time.Millisecond), "error clock-rate 4: maxslewrate"},
	{"a clock that is slewed back", fastClock("4", -83*time.Millisecond), "error clock-rate 4: maxslewrate"},
	{"this client's own rate", fastClock("01234", 83*time.Millisecond), "error clock-rate"},
	{"round trips of three quarters of the node timeout", func(_ *doctor, e *exam) { e.trips[0].took = 187 * time.Millisecond }, ""},
	{"round trips above that", func(_ *doctor, e *exam) { e.trips[0].took = 188 * time.Millisecond }, "warning round-trip 4: Put the node nearer"},
	{"a reply that was lost", func(_ *doctor, e *exam) { e.lost, e.timeErr = 1, node.ErrNoReply }, "warning round-trip 4"},
	{"replies that were lost", func(_ *doctor, e *exam) { e.trips, e.lost, e.timeErr = nil, 2, node.ErrNoReply }, "error round-trip 4"},
	{
		"round trips beside the TTL", all(option(func(c *Config) { c.TTL, c.NodeTimeout = 3*time.Second, time.Second }), func(_ *doctor, e *exam) { e.trips[0].took = 334 * time.Millisecond }),
		"warning ttl-roundtrip 4: Raise WithTTL",
	},
	{"a node timeout beside the TTL", option(func(c *Config) { c.NodeTimeout = 4 * time.Second }), "warning node-timeout: Lower WithNodeTimeout"},
	{"a MaxTTL far above the TTL", records("01234", "maxttl", "300001"), "warning max-ttl: WithMaxTTL; info max-ttl: redlock nodes change --max-ttl 30s"},
	{"one that is not too far", records("01234", "maxttl", "300000"), "warning max-ttl: WithMaxTTL"},
	{"one far above it that only this client has", option(func(c *Config) { c.MaxTTL = time.Hour }), ""},
	{"one below it", records("01234", "maxttl", "9999"), "error max-ttl: Take less (WithTTL), or raise it: Cluster.Change (redlock nodes change --max-ttl)"},

	{"no membership, and records of a list of four", all(records("01234", "gen", "1", "names", "a\nb\nc\nd"), option(func(c *Config) { c.Unprotected = true })), ""},
	{"no membership", all(unfounded("3"), records("4", "format", "9"), option(func(c *Config) { c.Unprotected = true })), ""},
	{"another cluster's node", records("4", "cluster", "z", "names", otherNames), "error other-cluster 4: Give all clients the same list"},
	{"what an old list founded", records("4", "cluster", "z", "names", "e"), "error other-cluster 4: Nothing at once"},
	{"another number of nodes", records("4", "names", "a\nb\ne"), "error other-n 4"},
	{"a record of another format", records("4", "format", "1"), "error record 4"},
	{"a damaged record", records("4", "maxttl", "soon"), "error record 4"},
	{"another program's key", func(_ *doctor, e *exam) { e.record, e.recErr = nil, reply("WRONGTYPE x") }, "error record 4"},
	{"a record that may not be read", func(_ *doctor, e *exam) { e.record, e.recErr = nil, reply("NOPERM x") }, "unknown record 4"},
	{"lists of two clusters mixed", all(records("0123", "names", "a\nb\nc\nd\nz"), records("4", "cluster", "z", "names", "e\nv\nw\nx\ny")), "error no-quorum; error other-n 0: Give all clients the same list; error other-n 1; error other-n 2; error other-n 3; error other-n 4"},
	{
		"lists of two clusters mixed, and no quorum",
		all(unfounded("012"), records("3", "names", "d\nq\nr\ns\nt"), records("4", "cluster", "z", "names", "e\nv\nw\nx\ny")),
		"error no-quorum; error other-n 3; error other-n 4; info blank 0; info blank 1; info blank 2",
	},
	{"two lists found at once", all(records("01", "cluster", "y"), records("23", "cluster", "z"), unfounded("4")), "error no-cluster: Give all clients the same list; info blank 4"},
	{"a change that has begun", records("01234", "gen", "2", "settled", "1"), "warning list-change: Run redlock nodes change with that"},
	{"a node with an earlier list", records("0123", "gen", "2"), "info list-change 4: Nothing"},
	{"an older list than the nodes'", records("01234", "gen", "2", "names", "a\nb\nc\nd\ne\nf", "before", "a\nb\nc\nd\ne", "before_maxttl", "30000"), "warning old-list: Give them the latest list"},
	{"clients with an older list", all(records("01234", "gen", "2"), straggles("2 60 host:1", "2 60 host:2", "1 60 host:3", "2 60")), "info old-list; info old-list: nodes change --close"},
	{"names that differ", records("4", "names", "a\nb\nc\nd\nelsewhere"), "error other-n 4: by the same names"},
	{"a node that restarted", records("4", "run", "another"), "warning blank 4: redlock nodes join --wait"},
	{"a node that restarted, for which this client waits", all(records("4", "run", "another"), func(d *doctor, _ *exam) { d.waits[4] = true }), "info blank 4: redlock nodes join --wait"},
	{
		"a node that forgot, and that nobody claims", unfounded("4"),
		"warning blank 4: redlock nodes join --wait; warning exposed 4: Have it claimed, Cluster.Join (redlock nodes join --wait), and pin all clients (WithCluster, REDLOCK_CLUSTER=c)",
	},
	{
		"one with the cluster's claim", all(unfounded("4"), records("4", "nonce", "n", "nonce_run", "e.h", "claim", "c\n0\n30000\n\n\n30000\n\na\nb\nc\nd\ne")),
		"warning blank 4",
	},
	{"an empty node that may have been, or is new", all(records("0123", "gen", "2", "names", "a\nb\nc\nd", "before", "a\nb\nc\nd", "before_maxttl", "30000"), unfounded("4")), "info exposed 4: Add it if it is new, else stop it; warning even-nodes"},
	{"a majority that forgot", unfounded("234"), "error no-quorum: renewals go on only where nodes are merely full; warning blank 2: redlock nodes join --wait; warning blank 3; warning blank 4"},
	{"a new cluster", unfounded("01234"), "info blank 0: cron jobs never do; info blank 1; info blank 2; info blank 3; info blank 4"},
	{
		"no strict recovery, for which this client asks", all(records("0123", "strict", "1"), option(func(c *Config) { c.StrictRecovery = true })),
		"error strict 4: redlock nodes change --strict on",
	},
	{"strict recovery, for which it does not ask", records("01234", "strict", "1"), ""},
	{
		"a node that restarted, and refuses to be taken in", all(records("4", "run", "another"), func(d *doctor, _ *exam) { d.failed[4] = reply("NOPERM x") }),
		"warning blank 4: Mend what keeps it out",
	},

	{"go-redis's own defaults", func(_ *doctor, e *exam) { e.options = redis.NewClient(&redis.Options{}).Options() }, "warning client-dial 4; info client 4"},
	{"a dial that takes long", setting(func(o *redis.Options) { o.DialTimeout = 20 * time.Second }), "warning client-dial 4"},
	{"a dial that nothing bounds", setting(func(o *redis.Options) { o.DialTimeout = -1 }), "warning client-dial 4"},
	{
		"a dial that is tried often", setting(func(o *redis.Options) {
			o.DialerRetries, o.DialerRetryBackoff = 2, func(int) time.Duration { return 20 * time.Second }
		}), "warning client-dial 4",
	},
	{"one connection", setting(func(o *redis.Options) { o.PoolSize = 1 }), "warning client-pool 4"},
	{"a limiter", setting(func(o *redis.Options) { o.Limiter = closedLimiter{} }), "warning client-limiter 4"},
	{"maintenance notifications", setting(func(o *redis.Options) {
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeEnabled}
	}), "warning client-maintenance 4"},
	{"no read timeout", setting(func(o *redis.Options) { o.ReadTimeout = -1 }), "info client 4"},
	{"retries", setting(func(o *redis.Options) { o.MaxRetries = 3 }), "info client 4"},
	{"a client of another kind", func(_ *doctor, e *exam) { e.options = nil }, "unknown client 4"},
}

// closedLimiter is a Limiter that lets everything through.
type closedLimiter struct{}

func (closedLimiter) Allow() error       { return nil }
func (closedLimiter) ReportResult(error) {}

// reportWith is the doctor's word on five good exams with a change.
func reportWith(c change) Report {
	d := goodDoctor(5)
	c(d, &d.exams[4])
	d.seen = d.readRecords()
	return d.report()
}

func TestEachExamIsJudgedAndNoOther(t *testing.T) {
	source, err := os.ReadFile("doctor.go")
	testkit.Must(t, err)
	codes := regexp.MustCompile(`FindingCode += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	tested := map[FindingCode]bool{FindingEvenNodes: true, FindingFewNodes: true} // the test below
	for _, c := range judged {
		r := reportWith(c.change)
		for _, f := range r.Findings {
			tested[f.Code] = true
		}
		t.Run(c.name, func(t *testing.T) { WantFound(t, r, SeverityInfo, c.want) })
	}
	for _, c := range codes {
		if !tested[FindingCode(c[1])] {
			t.Errorf("no exam has the code %q", c[1])
		}
	}
	if len(codes) < 12 {
		t.Errorf("doctor.go shows %d codes", len(codes))
	}
}

// Where two groups of clocks are apart, each is named, and so is the one with this machine.
func TestGroupsOfClocksAreNamed(t *testing.T) {
	for want, c := range map[string]change{
		"the clocks of d, e are 40s ahead of those of a, b, c and of this machine: one of the two is wrong": offClock("34", 40*time.Second),
		"the clocks of d, e and of this machine are 40s behind those of a, b, c: one of the two is wrong":   offClock("012", 40*time.Second),
		"the clocks of d, e are 40s behind those of a, b, c: one of the two is wrong": all(offClock("34", -40*time.Second),
			func(d *doctor, _ *exam) { d.origin = noon.Add(time.Second) }),
	} {
		if r := reportWith(c); len(r.Findings) != 1 || r.Findings[0].What != want {
			t.Errorf("got %+v; want only %q", r.Findings, want)
		}
	}
}

func TestCheckCountsTheNodes(t *testing.T) {
	for n, want := range map[int]string{1: "warning few-nodes", 2: "warning even-nodes; warning few-nodes", 3: "", 4: "warning even-nodes", 5: ""} {
		d := goodDoctor(n)
		d.seen = d.readRecords()
		WantFound(t, d.report(), SeverityInfo, want)
	}
}

// The report begins with the worst, tells who answered, and names the server of each node as
// the server does. Valkey says that it is a Redis 7.2 as well.
func TestTheReportTellsOfAllNodes(t *testing.T) {
	why := errors.New("connection refused")
	r := reportWith(all(silence(why), func(d *doctor, _ *exam) {
		d.exams[1].info["valkey_version"] = "9.0.1"
		delete(d.exams[2].info, "redis_version")
		d.exams[3].config["appendfsync"] = "no"
	}))
	WantFound(t, r, SeverityInfo, "error unreachable 4; warning persistence 3; unknown version 2")
	if !slices.IsSortedFunc(r.Findings, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) }) {
		t.Errorf("got %v; want the worst first", r.Findings)
	}
	if want := []string{"Redis 7.2.4", "Valkey 9.0.1", "", "Redis 7.2.4", ""}; !slices.Equal(r.Servers, want) {
		t.Errorf("got the servers %q; want %q", r.Servers, want)
	}
	down := reportWith(func(d *doctor, _ *exam) {
		for i := range d.exams[:3] {
			d.exams[i].err = why
		}
	})
	if down.Votes != 0 { // as redlock nodes counts
		t.Errorf("got %d votes of a minority of members; want none", down.Votes)
	}
	if r.Answered != 4 || r.Votes != 4 || !slices.Equal(r.Silent, []error{nil, nil, nil, nil, why}) {
		t.Errorf("got %d that answered, and %v; want four, and why the last did not", r.Answered, r.Silent)
	}
}

// Half of the drift factor is a node's, the other half a client's; what the looks
// can't tell is nobody's fault.
func TestARateIsWarnedOfBeyondHalfTheDriftAndAnErrorBeyondAllOfIt(t *testing.T) {
	const factor = 0.01
	for _, c := range []struct {
		by, bound float64
		want      Severity
	}{
		{0, 0, 0},
		{0.0049, 0, 0},
		{0.0051, 0, SeverityWarning},
		{0.0099, 0, SeverityWarning},
		{0.0101, 0, SeverityError},
		{0.0833, 0.005, SeverityError},
		{0.0069, 0.002, 0},
		{0.0071, 0.002, SeverityWarning},
		{0.0119, 0.002, SeverityWarning},
		{0.0121, 0.002, SeverityError},
		{0.004, 0.05, 0},
	} {
		for _, by := range []float64{c.by, -c.by} {
			if got := (rate{by: by, bound: c.bound}).severity(factor); got != c.want {
				t.Errorf("%v, give or take %v, of a drift factor of %v: got severity %v; want %v", by, c.bound, factor, got, c.want)
			}
		}
	}
}

// ACL DRYRUN's sentences are of a command, of a key of the library's own, of the name that was
// tried, or of a channel.
func TestWhatTheUserMayNotIsReadOffTheServersSentence(t *testing.T) {
	take := right{"take a lock", SeverityError, []any{"MGET", triedName, triedOwner}}
	wake := right{"wake", SeverityWarning, []any{"PUBLISH", "redlock:wake:id", triedName}}
	lead := right{"lead", SeverityInfo, []any{"PUBLISH", "redlock:leader:" + triedName, "0"}}
	for text, want := range map[string]denial{
		"User x has no permissions to access the 'redlock:leader:redlock-check' channel": {"PUBLISH on redlock:leader:*", "&redlock:leader:*", "lead", SeverityInfo, false},
		"User monkey has no permissions to run the 'mget' command":                       {"MGET", "+mget", "take a lock", SeverityError, false},
		"User x has no permissions to access the 'redlock:dead:check' key":               {"MGET on redlock:dead:*", "~redlock:*", "take a lock", SeverityError, false},
		"User x has no permissions to access the 'redlock-check' key":                    {"MGET", "+mget", "take a lock", SeverityError, true},
		"User x has no permissions to access the 'redlock:wake:id' channel":              {"PUBLISH on redlock:wake:*", "&redlock:wake:*", "wake", SeverityWarning, false},
	} {
		of := take
		switch want.use {
		case wake.use:
			of = wake
		case lead.use:
			of = lead
		}
		if got := newDenial(of, text, triedName); got != want {
			t.Errorf("%s: got %+v; want %+v", text, got, want)
		}
	}
}

// A node that answers any question has answered, were it with a refusal; one that refuses the
// client itself, or has one word for everything, told nothing.
func TestANodeHasAnsweredThatAnswersAnyQuestion(t *testing.T) {
	down := errors.New("connection refused")
	for _, c := range []struct {
		replies []error
		want    error
	}{
		{[]error{nil, nil}, nil},
		{[]error{down, down}, down},
		{[]error{reply("BUSY x"), reply("BUSY x")}, reply("BUSY x")},
		{[]error{reply("NOPERM x"), nil}, nil},
		{[]error{reply("NOPERM x"), reply("NOPERM y")}, nil},
		{[]error{nil, reply("NOAUTH x")}, reply("NOAUTH x")},
	} {
		var all []question
		for _, err := range c.replies {
			q := ask(t.Context(), "INFO")
			q.SetErr(err)
			all = append(all, q)
		}
		if got := told(all); !errors.Is(got, c.want) {
			t.Errorf("%v: got %v; want %v", c.replies, got, c.want)
		}
	}
}

// FuzzInfo: no matter what a node says to INFO and CONFIG GET, it is judged, and each finding is
// of a node that there is and says what was seen.
func FuzzInfo(f *testing.F) {
	for _, text := range []string{
		"", "run_id:x\r\nrole:slave\r\n", "redis_version:7.99999999999999999999.0\r\n", "valkey_version:-1.-1\r\nredis_mode:cluster\r\ncluster_enabled:1",
		"maxmemory:99999999999999999999999\r\nused_memory:-1\r\nmaxmemory_policy:\r\n", ":\r\n::\r\nrole:master\r\nconnected_slaves:x\r\n", "aof_enabled:0\nloading:1\nio_threads_active:\x00",
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, text, setting string) {
		r := reportWith(func(_ *doctor, e *exam) {
			q := ask(t.Context(), "INFO")
			q.SetVal(text)
			e.readInfo(q)
			for _, name := range configs {
				e.config[name] = setting
			}
		})
		for _, finding := range r.Findings {
			if finding.Node < -1 || finding.Node > 4 || finding.What == "" || finding.Code == "" {
				t.Fatalf("got %q of node %d", finding.What, finding.Node)
			}
		}
	})
}
