package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

const nodes = 5

// farDelay is a proxy's delay each way to a master that is far away.
const farDelay = 5 * time.Millisecond

// server is one real master without persistence, and a client for commands that are not
// measured.
type server struct {
	*redisserver.Server
	control *redis.Client
}

type cluster []*server

// startCluster starts n masters. The caller stops them.
func startCluster(ctx context.Context, n int) (cluster, error) {
	started, err := redisserver.StartAll(n, redisserver.Config{ //nolint:contextcheck // a start is bounded by chaos itself
		Args: []string{"--maxclients", "20000", "--latency-tracking", "no"},
	})
	if err != nil {
		return nil, err
	}
	return clusterOf(ctx, started)
}

// clusterOf makes new masters a cluster that votes at once: they have just been started,
// so nobody holds anything.
func clusterOf(ctx context.Context, started []*redisserver.Server, opts ...redlock.Option) (c cluster, err error) {
	for _, s := range started {
		c = append(c, &server{s, s.Client()})
	}
	l, err := redlock.Open(ctx, c.addrs(), append(opts, redlock.WithNodeTimeout(time.Second))...)
	if err != nil {
		return c, err
	}
	return c, errors.Join(l.Cluster().Admit(ctx), l.Close()) //nolint:contextcheck // Close is bounded by itself
}

func (c cluster) stop() error {
	var started []*redisserver.Server
	for _, s := range c {
		started = append(started, s.Server)
	}
	return redisserver.CloseAll(started)
}

func (c cluster) addrs() []string {
	var out []string
	for _, s := range c {
		out = append(out, s.Addr())
	}
	return out
}

// far puts a proxy before each master that delays both ways.
func (c cluster) far() (addrs []string, end func(), err error) {
	var proxies []*tcpproxy.Proxy
	end = func() {
		for _, p := range proxies {
			p.Close()
		}
	}
	for _, s := range c {
		p, err := tcpproxy.New(s.Addr())
		if err != nil {
			end()
			return nil, nil, err
		}
		p.Delay(tcpproxy.Both, farDelay)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	return addrs, end, nil
}

// usage is the resources used by each side, since some beginning.
type usage struct {
	at            time.Time
	self, machine time.Duration    // processors: this process and its ended children; all that ran
	servers       []time.Duration  // processors, by master
	calls, micros map[string]int64 // of a command, at all masters together; a script's include those it calls
	version       string           // of the last master
}

// usage reads the counters of now. A master must not be stopped meanwhile.
func (c cluster) usage(ctx context.Context) (usage, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	u := usage{at: time.Now(), self: ownCPU(), machine: machineCPU(), calls: map[string]int64{}, micros: map[string]int64{}}
	for _, s := range c {
		text, err := s.control.Info(ctx, "server", "cpu", "commandstats").Result()
		if err != nil {
			return u, err
		}
		var sys, user float64
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			var err error
			switch key {
			case "redis_version":
				u.version = "redis-server " + value
			case "valkey_version": // it calls itself Redis 7.2 in the other field, before
				u.version = "valkey-server " + value
			case "used_cpu_sys":
				sys, err = strconv.ParseFloat(value, 64)
			case "used_cpu_user":
				user, err = strconv.ParseFloat(value, 64)
			default:
				if name, ok := strings.CutPrefix(key, "cmdstat_"); ok {
					var calls, micros int64
					_, err = fmt.Sscanf(value, "calls=%d,usec=%d,", &calls, &micros)
					u.calls[name], u.micros[name] = u.calls[name]+calls, u.micros[name]+micros
				}
			}
			if err != nil {
				return u, fmt.Errorf("INFO of %s: %q: %w", s.Addr(), line, err)
			}
		}
		u.servers = append(u.servers, time.Duration((sys+user)*float64(time.Second)))
	}
	return u, nil
}

func total(counters map[string]int64, commands []string) (n int64) {
	for _, name := range commands {
		n += counters[name]
	}
	return n
}

func ownCPU() (total time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err == nil {
			total += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return total
}

// machineCPU is the time used by all processes, steal included: we lose it as
// well.
func machineCPU() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	const ticks = 100 // USER_HZ, which Linux fixes for the figures that it shows programs
	return time.Duration(user+nice+system+irq+softirq+steal) * time.Second / ticks
}

// sentByRedlock is all that a Locker sends once the scripts are loaded. Commands that
// scripts call are not among it: PUBLISH is part of a release's script.
// Scripts of those who wait call TIME: where they are counted, sentToLines leaves it out.
var sentByRedlock = []string{"evalsha", "time", "info", "subscribe", "ping"}

// sentToLines is sentByRedlock without TIME, which is sent alone behind a plain acquire only.
var sentToLines = []string{"evalsha", "info", "subscribe", "ping"}

// load is the load between two readings: the mean number of processors in use, and the
// commands that this library sent.
type load struct {
	Self    float64
	Servers float64
	Others  float64
	Cores   int

	busiest  float64 // server's part of Servers
	commands float64 // a second, at all masters together
}

func (u usage) since(v usage) load {
	wall := float64(u.at.Sub(v.at))
	l := load{Self: float64(u.self-v.self) / wall, Cores: runtime.NumCPU()}
	for i := range u.servers {
		one := float64(u.servers[i]-v.servers[i]) / wall
		l.Servers, l.busiest = l.Servers+one, max(l.busiest, one)
	}
	l.Others = max(float64(u.machine-v.machine)/wall-l.Self-l.Servers, 0)
	l.commands = float64(total(u.calls, sentByRedlock)-total(v.calls, sentByRedlock)) / u.at.Sub(v.at).Seconds()
	return l
}

// quiet tells whether nobody else used much of the machine: below a tenth of a
// core, two readings of the same thing agree within a few per cent.
func (l load) quiet() bool { return l.Others < 0.1 }

func (l load) String() string {
	return fmt.Sprintf("of %d cores the client used %.2f, the servers %.2f, everything else %.2f",
		l.Cores, l.Self, l.Servers, l.Others)
}

func (c cluster) during(ctx context.Context, do func() error) (load, error) {
	from, err := c.usage(ctx)
	if err == nil {
		err = do()
	}
	if err != nil {
		return load{}, err
	}
	to, err := c.usage(ctx)
	return to.since(from), err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
