package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

// How many processes and goroutines acquire fresh names at once.
const (
	tokenProcesses  = 4
	tokenGoroutines = 128
)

// childArg makes this program a child of the tokens workload: what follows are
// its number, its time and the masters' addresses.
const childArg = "-tokens-child"

// childCount is what a child tells its parent.
type childCount struct {
	Pairs    int   `json:"pairs"`
	Failures int   `json:"failures"`
	Raises   int64 `json:"raises"`  // scripts sent to raise a token, over all nodes
	Scripts  int64 `json:"scripts"` // of all kinds: proof that the count sees them
}

// tokens counts the second round trips that tokens need when several processes
// acquire fresh names at once. A second round trip sends a raise to at least one node,
// so the raises that were sent are at least as many as the second round trips.
func (r *run) tokens(ctx context.Context) error {
	const name = "tokens"
	d := time.Duration(r.scale(10000, 1500)) * time.Millisecond
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	// One Locker first: the scripts are loaded, and the nodes verified, before the
	// children come.
	c, err := openRedlock(ctx, r.env())
	if err != nil {
		return err
	}
	if err := errors.Join(pair(ctx, c, "first"), c.close()); err != nil {
		return err
	}
	total, err := r.children(ctx, d)
	if err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	if total.Pairs == 0 || total.Scripts == 0 {
		return fmt.Errorf("%d pairs, %d scripts seen; want some", total.Pairs, total.Scripts)
	}
	rate := 100 * float64(total.Raises) / float64(total.Pairs)
	r.add(section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("%d processes of %d goroutines on fresh names, %v", tokenProcesses, tokenGoroutines, d),
		Header: []string{"contender", "pairs", "pairs/s", "scripts seen", "raises sent", "raises per 100 pairs", "failed"},
		Rows: [][]string{{
			nameRedlock, strconv.Itoa(total.Pairs), number3(float64(total.Pairs) / d.Seconds()),
			strconv.FormatInt(total.Scripts, 10), strconv.FormatInt(total.Raises, 10), number3(rate), strconv.Itoa(total.Failures),
		}},
	},
		demand(name, "raises per 100 acquisitions", rate, atMost, 0.5, ""),
		demand(name, "failed pairs", float64(total.Failures), atMost, 0, ""))
	return nil
}

// children runs the processes and sums up what they counted.
func (r *run) children(ctx context.Context, d time.Duration) (total childCount, err error) {
	self, err := os.Executable()
	if err != nil {
		return total, err
	}
	type result struct {
		out []byte
		err error
	}
	results := make(chan result, tokenProcesses)
	for i := range tokenProcesses {
		args := append([]string{childArg, strconv.Itoa(i), d.String(), r.scripts.raise}, r.servers.addrs()...)
		cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // this program itself
		cmd.Stderr = os.Stderr
		go func() {
			out, err := cmd.Output()
			results <- result{out, err}
		}()
	}
	for range tokenProcesses {
		res := <-results
		var one childCount
		err = errors.Join(err, res.err)
		if res.err == nil {
			err = errors.Join(err, json.Unmarshal(res.out, &one))
		}
		total.Pairs += one.Pairs
		total.Failures += one.Failures
		total.Raises += one.Raises
		total.Scripts += one.Scripts
	}
	return total, err
}

// tokensChild is one of those processes.
func tokensChild(ctx context.Context, args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("%s: got %q; want number, time, script and addresses", childArg, args)
	}
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	count := &raiseCount{sha: []byte(args[2])}
	var clients []redis.UniversalClient
	for _, addr := range args[3:] {
		c := redis.NewClient(&redis.Options{Addr: addr, Dialer: count.dial})
		defer c.Close()
		clients = append(clients, c)
	}
	l, err := redlock.New(clients) //nolint:contextcheck // a Locker lives until it is closed
	if err != nil {
		return err
	}
	c := &redlockLocks{locker: l}
	results := make(chan childCount, tokenGoroutines)
	until := time.Now().Add(d)
	for g := range tokenGoroutines {
		go func() { results <- freshNames(ctx, c, args[0]+":"+strconv.Itoa(g)+":", until) }()
	}
	total := childCount{}
	for range tokenGoroutines {
		one := <-results
		total.Pairs += one.Pairs
		total.Failures += one.Failures
	}
	total.Raises, total.Scripts = count.raises.Load(), count.scripts.Load()
	return errors.Join(json.NewEncoder(os.Stdout).Encode(total), c.close()) //nolint:contextcheck // Close is bounded by itself
}

func freshNames(ctx context.Context, c contender, prefix string, until time.Time) (n childCount) {
	for i := 0; time.Now().Before(until); i++ {
		if err := pair(ctx, c, prefix+strconv.Itoa(i)); err != nil {
			n.Failures++
			continue
		}
		n.Pairs++
	}
	return n
}

// raiseCount counts scripts, and one of them by itself, in what connections
// send: no matter what way a command takes through the client, it ends there.
type raiseCount struct {
	sha             []byte
	raises, scripts atomic.Int64
}

func (c *raiseCount) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, count: c}, nil
}

// countedConn is a connection whose requests are looked through.
type countedConn struct {
	net.Conn
	count *raiseCount
	seen  []byte // the end of what went before, in case a word was split
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.count.scripts.Add(c.added(b, []byte("EVALSHA")))
	c.count.raises.Add(c.added(b, c.count.sha))
	c.seen = append(c.seen, b[max(0, len(b)-len(c.count.sha)):]...)
	c.seen = c.seen[max(0, len(c.seen)-len(c.count.sha)):]
	return c.Conn.Write(b)
}

// added is how often the word ends in b, begun there or in what went before.
func (c *countedConn) added(b, word []byte) int64 {
	before := c.seen[max(0, len(c.seen)-len(word)+1):]
	return int64(bytes.Count(append(slices.Clip(before), b...), word))
}
