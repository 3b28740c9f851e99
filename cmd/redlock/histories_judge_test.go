//go:build unix

package main_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/quietredis"
)

// heldOnce is one hold of a name: times since the boot, which all processes share. The lock was valid
// at begin, and at end, which is before its release began.
type heldOnce struct {
	name              string
	token             uint64
	asked, begin, end time.Duration // asked is 0 if nobody knows
}

func (o heldOnce) String() string {
	return fmt.Sprintf("%s %d %d %d %d\n", o.name, o.token, o.asked, o.begin, o.end)
}

// judgeHolds returns each two holds of a name that overlap, or whose tokens do not rise.
func judgeHolds(holds []heldOnce) (faults []string) {
	last := map[string]heldOnce{}
	slices.SortFunc(holds, func(a, b heldOnce) int { return cmp.Compare(a.begin, b.begin) })
	for _, next := range holds {
		earlier, has := last[next.name]
		if has && next.begin < earlier.end {
			faults = append(faults, fmt.Sprintf("two hold it: %vand %v", earlier, next))
		}
		if has && next.token <= earlier.token {
			faults = append(faults, fmt.Sprintf("the tokens do not rise: %vand %v", earlier, next))
		}
		next.end = max(next.end, earlier.end)
		next.token = max(next.token, earlier.token)
		last[next.name] = next
	}
	return faults
}

// recordJudge sees whether a generation has two configurations, or there is a second cluster.
type recordJudge struct {
	seen    map[string]string // by cluster and generation
	listed  map[string]bool   // all nodes of all lists
	cluster string
	newest  int // generation
	faults  []string
}

// see takes down the record of a server; one that is blank has none.
func (j *recordJudge) see(server string, record map[string]string) {
	if record["cluster"] == "" {
		return
	}
	names := strings.Fields(record["names"])
	slices.Sort(names)
	for _, name := range names {
		j.listed[name] = true
	}
	generation := cmp.Or(record["gen"], "0")
	which := record["cluster"] + ", generation " + generation
	config := fmt.Sprintf("%q, MaxTTL %s, strict %q", names, record["maxttl"], record["strict"])
	if earlier, has := j.seen[which]; has && earlier != config {
		j.faults = append(j.faults, fmt.Sprintf("cluster %s: %s has %s; another had %s", which, server, config, earlier))
	}
	j.seen[which] = config
	if j.cluster = cmp.Or(j.cluster, record["cluster"]); j.cluster != record["cluster"] {
		j.faults = append(j.faults, fmt.Sprintf("%s has a record of cluster %s; the cluster was %s", server, record["cluster"], j.cluster))
	}
	if n, err := strconv.Atoi(generation); err == nil {
		j.newest = max(j.newest, n)
	}
}

func TestTheJudgeOfHistoriesConvicts(t *testing.T) {
	for _, c := range []struct {
		what   string
		holds  []heldOnce
		faults int
	}{
		{"one after another", []heldOnce{{"a", 1, 0, 1, 2}, {"a", 2, 0, 2, 3}}, 0},
		{"two names at once", []heldOnce{{"a", 1, 0, 1, 3}, {"b", 1, 0, 2, 4}}, 0},
		{"two at once", []heldOnce{{"a", 1, 0, 1, 3}, {"a", 2, 0, 2, 4}}, 1},
		{"two at once, one between", []heldOnce{{"a", 1, 0, 1, 9}, {"a", 2, 0, 2, 3}, {"a", 3, 0, 4, 5}}, 2},
		{"a token twice", []heldOnce{{"a", 1, 0, 1, 2}, {"a", 1, 0, 3, 4}}, 1},
		{"tokens out of order", []heldOnce{{"a", 2, 0, 3, 4}, {"a", 3, 0, 1, 2}}, 1},
	} {
		if got := judgeHolds(c.holds); len(got) != c.faults {
			t.Errorf("%s: got %q; want %d faults", c.what, got, c.faults)
		}
	}
	record := map[string]string{"cluster": "c", "gen": "1", "names": "a\nb", "maxttl": "4000"}
	for _, c := range []struct {
		field, value string
		faults       int
	}{{"names", "b\na", 0}, {"base", "7", 0}, {"gen", "2", 0}, {"names", "a\nc", 1}, {"maxttl", "3000", 1}, {"strict", "1", 1}, {"cluster", "d", 1}} {
		j := recordJudge{seen: map[string]string{}, listed: map[string]bool{}}
		j.see("one", record)
		other := map[string]string{c.field: c.value}
		for field, value := range record {
			if field != c.field {
				other[field] = value
			}
		}
		if j.see("another", other); len(j.faults) != c.faults {
			t.Errorf("%s %q: got %q; want %d faults", c.field, c.value, j.faults, c.faults)
		}
	}
}

// readHolds reads what a process wrote.
func readHolds(t *testing.T, name string) (holds []heldOnce) {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var o heldOnce
		if _, err := fmt.Sscan(line, &o.name, &o.token, &o.asked, &o.begin, &o.end); err != nil {
			t.Errorf("%s: %q: %v", name, line, err)
			return holds
		}
		holds = append(holds, o)
	}
	return holds
}

// contender is a process that locks, and writes down what it held.
type contender struct {
	l    *redlock.Locker
	seed uint64
	cut  bool // from a server

	mu  sync.Mutex // guards out
	out *bufio.Writer
}

// contend locks names in turn until it is asked to end, and writes to a file what it held. A
// process with a server to which it is cut off goes by the others.
func contend(file, nodes, seed, cutOff string) error {
	ctx, stop := signal.NotifyContext(context.Background(), sigTERM)
	defer stop()
	quietredis.On()
	urls, names := strings.Split(nodes, ","), []string(nil)
	for i, u := range urls {
		name := strings.TrimPrefix(u, "redis://")
		if names = append(names, name); name == cutOff {
			urls[i] = "redis://" + locktest.Unreachable
		}
	}
	l, err := redlock.Open(ctx, urls, redlock.WithNodeNames(names...), redlock.WithTTL(historyLease), redlock.WithMaxTTL(historyMax))
	if ctx.Err() != nil { // asked to end before it began
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	c := contender{l: l, cut: cutOff != "", out: bufio.NewWriter(f)}
	if c.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
		return err
	}
	var work sync.WaitGroup
	for i := range uint64(6) {
		work.Go(func() {
			random := rand.New(rand.NewPCG(c.seed, i))
			for ctx.Err() == nil {
				if i < 4 {
					c.once(ctx, fmt.Sprint("name-", random.IntN(historyNames)), time.Duration(random.Int64N(int64(3*time.Millisecond))))
				} else {
					c.once(ctx, fmt.Sprint(slowName, random.IntN(2)), time.Duration(random.Int64N(int64(4*time.Second))))
				}
				locktest.Pause(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			}
		})
	}
	work.Wait()
	_ = l.Close() // a server may be away
	return errors.Join(c.out.Flush(), f.Close())
}

// once holds a name once.
func (c *contender) once(ctx context.Context, name string, long time.Duration) {
	o := heldOnce{name: name, asked: sinceBoot()}
	lock, err := c.l.Acquire(ctx, name)
	if err != nil {
		if ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, sinceBoot(), err)
		}
		return
	}
	defer func() { _ = lock.Release(context.WithoutCancel(ctx)) }() // its expiry does as well
	o.token, o.begin = uint64(lock.Token()), sinceBoot()
	if lock.Err() != nil {
		return
	}
	if o.end = o.begin; c.cut {
		o.asked = 0
	}
	locktest.Pause(long)
	if end := sinceBoot(); lock.Err() == nil {
		o.end = end
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.WriteString(o.String())
}

// held adds a hold to a file: redlock exec runs it.
func held(file string) error {
	o := heldOnce{name: os.Getenv("REDLOCK_KEY"), begin: sinceBoot()}
	var err error
	if o.token, err = strconv.ParseUint(os.Getenv("REDLOCK_TOKEN"), 10, 64); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	o.end = sinceBoot()
	if _, err := f.WriteString(o.String()); err != nil {
		return err
	}
	return f.Close()
}
