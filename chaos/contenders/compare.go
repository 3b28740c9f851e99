// Package contenders plays the same failures to redlock and to the locks of other
// systems, on servers that it starts and kills itself. These are etcd, ZooKeeper,
// PostgreSQL, MariaDB, memcached, and other clients of Redis; one is a row with a
// version, which locks nobody out. It writes one table, and a page of pictures for each
// failure.
//
// Holders are processes of their own: the program runs itself again. They write what
// they believe as JSON lines, by the clock that all processes of a machine share, so
// that SIGSTOP stops a holder with its timers, its library and its connections. Command
// redlock-compare is the program.
package contenders

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

// lease is every contender's: short, so that a run of all of them takes minutes. It is
// the shortest that etcd grants with an election timeout of two seconds.
const lease = 3 * time.Second

// countedLease is what a holder counts itself: one in a hundred less, for drift.
const countedLease = lease * 99 / 100

type spec struct {
	name    string
	module  string // of the client library; empty: written here, by its documents
	servers kind
	fence   string // the number that a resource can compare, in words
	notice  string // who tells a holder of its loss
	// prepare makes what it needs on its servers, or beside them; nil: nothing.
	prepare func(ctx context.Context, s *system) error
	open    opener
	// plain opens it with library and client as they come; nil: open does.
	plain opener
	// optimistic: it locks nobody out. A hold is work that was begun, a release is the write
	// of it, and the write that comes late is refused.
	optimistic bool
	// holder is the program of its holders, with its arguments; nil: this one.
	holder func(s *system) []string
}

// field is all contenders, in the order of the table.
var field = []spec{
	{
		name: ours, module: "github.com/quorumkit/redlock", servers: redisMasters,
		fence: "token", notice: "library: `Lock.Done`, `Lock.Context`, before the lease ends",
		prepare: admitAll, open: openRedlock,
	},
	{
		name: "redsync", module: "github.com/go-redsync/redsync/v4", servers: redisMasters,
		fence: "none", notice: "nobody; `Until` can be looked at, `Extend` called",
		open: openRedsync(goRedis, redsync.WithExpiry(lease)), plain: openRedsync(plainRedis),
	},
	{
		name: "node-redlock", servers: redisMasters,
		fence: "none", notice: "library: the signal of `using` is aborted",
		prepare: fetchNode, holder: func(s *system) []string { return []string{"node", filepath.Join(s.dir, nodeHolderName)} },
	},
	{
		name: "rueidislock", module: "github.com/redis/rueidis", servers: redisMaster,
		fence: "none", notice: "library: the lock's context ends", open: openRueidis,
	},
	{
		name: "bsm/redislock", module: "github.com/bsm/redislock", servers: redisMaster,
		fence: "none", notice: "nobody; `TTL` and `Refresh` can be called", open: openBSM,
	},
	{
		name: "Redisson RLock, by its scripts", servers: redisMaster,
		fence: "none (RFencedLock has one)", notice: "nobody; `isHeldByCurrentThread` can be called", open: openRedisson,
	},
	{
		name: "etcd", module: "go.etcd.io/etcd/client/v3", servers: etcdServers,
		fence: "create revision", notice: "library: `Session.Done`", open: openEtcd(etcdPings), plain: openEtcd(0),
	},
	{
		name: "ZooKeeper", module: "github.com/go-zookeeper/zk", servers: zookeeperServers,
		fence: "czxid of the lock's node", notice: "library: an event of the connection, not of the lock", open: openZooKeeper,
	},
	{
		name: "PostgreSQL advisory lock", module: pgx, servers: postgres,
		fence: "none", notice: "nobody; the session's next query fails", open: openAdvisory,
	},
	{
		name: "PostgreSQL FOR UPDATE", module: pgx, servers: postgres,
		fence: "the transaction itself, for what is written in it", notice: "nobody; the transaction's next query fails", open: openForUpdate,
	},
	{
		name: "PostgreSQL row with expiry", module: pgx, servers: postgres,
		fence: "a column that counts", notice: "nobody; the next UPDATE finds no row", open: openRow,
	},
	{
		name: "PostgreSQL optimistic version", module: pgx, servers: postgres,
		fence: "the row's version; no lock", notice: "nobody; a late write finds no row", open: openVersions, optimistic: true,
	},
	{
		name: "MariaDB GET_LOCK", module: "github.com/go-sql-driver/mysql", servers: mariadb,
		fence: "none", notice: "nobody; the session's next query fails", open: openMariaDB,
	},
	{
		name: "memcached, add with expiry", module: "github.com/bradfitz/gomemcache", servers: memcachedServer,
		fence: "CAS id, until the server restarts", notice: "nobody; a `get` can be sent", open: openMemcached,
	},
}

const (
	ours = "redlock"
	pgx  = "github.com/jackc/pgx/v5"
)

// Main is the command redlock-compare, or a holder of it, and returns the exit status.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logging.Disable() // go-redis writes each refused connection to standard error
	var err error
	if text := os.Getenv(holderEnv); text != "" {
		err = playHolder(ctx, text, os.Stdin, os.Stdout)
	} else {
		err = compare(ctx, os.Args[1:], os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "redlock-compare:", err)
		return 1
	}
	return 0
}

func compare(ctx context.Context, args []string, out io.Writer) error {
	r := &run{log: log.New(out, "", 0), parallel: 2}
	flags := flag.NewFlagSet("redlock-compare", flag.ContinueOnError)
	flags.SetOutput(out)
	contenders := flags.String("contenders", "", "play only these, by name, with commas between (default: all)")
	scenarios := flags.String("scenarios", "", "play only these (default: all)")
	dir := flags.String("out", "comparison", "the folder for the table, the pages and the traces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := r.choose(*contenders, *scenarios); err != nil {
		return err
	}
	results := r.all(ctx)
	return errors.Join(write(*dir, results, r.scenarios), convicted(results), ctx.Err())
}

// convicted is the error of a run in which redlock broke what it promises, or has no
// result: the others may, and the table says so.
func convicted(results []*result) error {
	var errs []error
	for _, r := range results {
		for _, o := range r.outcomes {
			if r.spec.name == ours && (o.Two > 0 || o.Failed != "" || len(o.Fences) > 1 && !o.Rising) {
				errs = append(errs, fmt.Errorf("redlock, %s: %s; tokens %v", o.Scenario, o, o.Fences))
			}
		}
	}
	return errors.Join(errs...)
}

type run struct {
	contenders []spec
	scenarios  []scenario
	parallel   int // contenders at a time
	log        *log.Logger
}

func (r *run) choose(contenders, names string) (err error) {
	if r.contenders, err = chosen("contender", field, contenders, func(s spec) string { return s.name }); err != nil {
		return err
	}
	r.scenarios, err = chosen("scenario", scenarios, names, func(s scenario) string { return s.name })
	return err
}

// chosen finds each name of a list, or what stands before its comma.
func chosen[T any](what string, all []T, list string, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var found []T
	for want := range strings.SplitSeq(list, ",") {
		want, before := strings.TrimSpace(want), len(found)
		var words []string
		for _, one := range all {
			word, _, _ := strings.Cut(name(one), ",")
			if words = append(words, word); word == want {
				found = append(found, one)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("no %s %q: there are %s", what, want, strings.Join(words, ", "))
		}
	}
	return found, nil
}

type result struct {
	spec     spec
	servers  system // what they were
	missing  error  // why it was not played
	outcomes []*outcome
}

func (r *run) all(ctx context.Context) []*result {
	results := make([]*result, len(r.contenders))
	slots := make(chan struct{}, r.parallel)
	var wait sync.WaitGroup
	for i, s := range r.contenders {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			results[i] = r.one(ctx, s)
		})
	}
	wait.Wait()
	return results
}

func (r *run) one(ctx context.Context, s spec) *result {
	system, err := s.servers.start(ctx)
	if err == nil {
		defer system.close()
		if s.prepare != nil {
			err = s.prepare(ctx, system)
		}
	}
	if err != nil {
		r.log.Printf("%s: %v", s.name, err)
		return &result{spec: s, missing: err}
	}
	res := &result{spec: s, servers: *system}
	for i, sc := range r.scenarios {
		o := playOne(ctx, s, system, sc, fmt.Sprint("resource-", i))
		res.outcomes = append(res.outcomes, o)
		r.log.Printf("%s, %s: %s", s.name, sc.name, o)
		if ctx.Err() != nil {
			break
		}
	}
	return res
}

// playOne plays one scenario, and lets the servers come to rest after it. A play that
// failed shows nothing.
func playOne(ctx context.Context, s spec, system *system, sc scenario, name string) *outcome {
	was := outcome{Contender: s.name, Scenario: sc.name, Optimistic: s.optimistic}
	o := was
	p := &play{ctx: ctx, spec: s, system: system, name: name, o: &o, before: map[*node][]*tcpproxy.Proxy{}, heard: make(chan struct{})}
	if err := p.run(sc.play); errors.Is(err, errors.ErrUnsupported) {
		was.Skipped = strings.TrimSuffix(oneLine(err), ": "+errors.ErrUnsupported.Error())
		return &was
	} else if err != nil {
		was.zero, was.Failed = o.zero, oneLine(err)
		o = was
	}
	o.Records = p.trace()
	_ = wait(ctx, settleFor) // the caller looks whether ctx is done
	return &o
}
