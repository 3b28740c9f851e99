package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
)

// electionArg makes this program one process that stands for an election.
const electionArg = "-election-child"

const (
	// electionTTL is how long a leader counts that gives no sign of life.
	electionTTL = 5 * time.Second
	// electionSettle is how long those who wait are given to stand in line.
	electionSettle = 500 * time.Millisecond
	// electionBound is after how long a round without a next leader is a failure.
	electionBound = 6 * electionTTL
	// electionFollowers is how many wait.
	electionFollowers = 2
	// nameEtcd is etcd's concurrency.Election.
	nameEtcd = "etcd concurrency.Election"
)

// The ways in which a lead ends.
const (
	endKilled  = "killed"
	endStopped = "stopped"
	endResigns = "resigns"
)

// candidate stands for an election in one process.
type candidate interface {
	// lead blocks until it leads, calls elected, waits for resign, and resigns. It returns
	// when it began to.
	lead(ctx context.Context, name string, elected func() error, resign func()) (from time.Time, err error)
}

// electionChild stands for the election that the part names, says when it leads, and
// resigns when it is told to.
func electionChild(ctx context.Context, args []string) error {
	p := &part{}
	if err := json.Unmarshal([]byte(strings.Join(args, " ")), p); err != nil {
		return err
	}
	open := openRedlockCandidate
	if p.Library == nameEtcd {
		open = openEtcdCandidate
	}
	c, err := open(ctx, p.Addrs)
	if err != nil {
		return err
	}
	s := &stage{bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)}
	if err := s.out.Encode("ready"); err != nil {
		return err
	}
	from, err := c.lead(ctx, p.Name,
		func() error { return s.out.Encode(time.Now().UnixNano()) },
		func() { s.cue() })
	if err != nil {
		return err
	}
	return s.out.Encode(from.UnixNano())
}

// redlockCandidate stands for elections of this library.
type redlockCandidate struct{ locker *redlock.Locker }

func openRedlockCandidate(ctx context.Context, addrs []string) (candidate, error) {
	l, err := redlock.Open(ctx, addrs, redlock.WithTTL(electionTTL))
	if err != nil {
		return nil, err
	}
	return redlockCandidate{l}, nil
}

func (c redlockCandidate) lead(ctx context.Context, name string, elected func() error, resign func()) (from time.Time, err error) {
	err = c.locker.Campaign(ctx, name, func(context.Context, *redlock.Lock) error {
		if err := elected(); err != nil {
			return err
		}
		resign()
		from = time.Now()
		return nil
	})
	return from, err
}

// electionRunner is one library in this workload.
type electionRunner struct {
	library string
	addrs   []string
	took    map[string][]time.Duration // until the next lead, by how the last one ended
}

// election measures how long after the end of one lead the next one begins: where the
// leader is killed, where it is stopped, and where it resigns. All masters, and the
// servers of etcd, are 5 ms away each way.
func (r *run) election(ctx context.Context) (err error) {
	far, end, err := r.farAway() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return err
	}
	defer end()
	field := []*electionRunner{{library: nameRedlock, addrs: far, took: map[string][]time.Duration{}}}
	note, stop, err := r.besideEtcd(ctx, &field)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	for round := range r.rounds {
		for _, how := range []string{endKilled, endStopped, endResigns} {
			for _, t := range field {
				took, err := r.succession(ctx, t, how)
				if err != nil {
					return fmt.Errorf("%s, its leader %s: %w", t.library, how, err)
				}
				t.took[how] = append(t.took[how], took)
				r.progress("election %d: %s, %s: the next leads after %v", round, t.library, how, took)
			}
		}
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	r.tellElection(field, note, to.since(from))
	return nil
}

// besideEtcd adds etcd to the field, where it can be had.
func (r *run) besideEtcd(ctx context.Context, field *[]*electionRunner) (note string, stop func() error, err error) {
	servers, err := startEtcd(ctx)
	if errors.Is(err, errNoEtcd) {
		return "etcd is not measured: " + err.Error() + ".", func() error { return nil }, nil
	}
	if err != nil {
		return "", nil, err
	}
	*field = append(*field, &electionRunner{library: nameEtcd, addrs: servers.far, took: map[string][]time.Duration{}})
	return "etcd is " + servers.version + ", three servers with their data in a temporary directory.", servers.stop, nil
}

// succession has three processes stand for one election, ends the first lead, and returns
// how long it was until the next.
func (r *run) succession(ctx context.Context, t *electionRunner, how string) (took time.Duration, err error) {
	r.serial++
	p := part{Library: t.library, Addrs: t.addrs, Name: "election:" + strconv.Itoa(r.serial)}
	leader, err := startChild(ctx, electionArg, p)
	if err != nil {
		return 0, err
	}
	defer leader.kill()
	var elected int64
	if err := leader.hear(&elected); err != nil {
		return 0, err
	}
	followers, err := startChildren(ctx, electionArg, electionFollowers, p)
	if err != nil {
		return 0, err
	}
	next := make(chan int64, len(followers))
	for _, f := range followers {
		defer f.kill()
		go func() {
			var at int64
			if f.hear(&at) == nil {
				next <- at
			}
		}()
	}
	if err := wait(ctx, electionSettle+rand.N(electionTTL/3)); err != nil { // wherever the leader is between two renewals
		return 0, err
	}
	from, err := leader.endLead(how)
	if err != nil {
		return 0, err
	}
	select {
	case at := <-next:
		return time.Duration(at - from), nil
	case <-time.After(electionBound):
		return 0, fmt.Errorf("nobody leads after %v", electionBound)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// endLead ends the child's lead, and returns when, in ns of the machine's clock.
func (c *child) endLead(how string) (from int64, err error) {
	from = time.Now().UnixNano()
	switch how {
	case endKilled:
		return from, c.cmd.Process.Kill()
	case endStopped:
		return from, c.cmd.Process.Signal(syscall.SIGSTOP)
	default:
		return from, errors.Join(c.say("resign"), c.hear(&from))
	}
}

// kill ends a child, no matter what it does.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()         // it was killed
}

func (r *run) tellElection(field []*electionRunner, note string, l load) {
	const name = "election"
	table := section{
		Workload: name, Title: fmt.Sprintf("from the end of one lead to the next, TTL %v, two wait, servers 5 ms away each way", electionTTL), Load: l,
		Header: []string{"library", "the leader", "median ms", "longest ms", "rounds"}, Notes: []string{note},
	}
	for _, how := range []string{endKilled, endStopped, endResigns} {
		for _, t := range field {
			table.Rows = append(table.Rows, []string{
				t.library, how, number3(micros(percentile(t.took[how], 0.5)) / 1000), number3(micros(slices.Max(t.took[how])) / 1000), strconv.Itoa(len(t.took[how])),
			})
		}
	}
	took := field[0].took
	r.add(table,
		demand(name, "longest until the next lead, in TTLs, leader killed", over(slices.Max(took[endKilled]).Seconds(), electionTTL.Seconds()), atMost, 1, ""),
		demand(name, "longest until the next lead, in TTLs, leader stopped", over(slices.Max(took[endStopped]).Seconds(), electionTTL.Seconds()), atMost, 1, ""),
		demand(name, "median until the next lead, in round trips, leader resigns",
			over(micros(percentile(took[endResigns], 0.5)), micros(2*wakeDelay)), atMost, 3, ""))
}

// wait blocks for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
