//go:build unix

package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// frozenLease is that of both clients.
const frozenLease = chaos.ScenarioLease

// elsewhere is the stage as a client in a process of its own sees it: it may connect.
type elsewhere struct{ addrs []string }

func (e elsewhere) Names() []string {
	names := make([]string, len(e.addrs))
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	return names
}

func (e elsewhere) Connect(string) ([]redis.UniversalClient, error) {
	clients := make([]redis.UniversalClient, len(e.addrs))
	for i, addr := range e.addrs {
		clients[i] = redis.NewClient(&redis.Options{Addr: addr})
	}
	return clients, nil
}

func (e elsewhere) Break(chaos.Fault) error   { return errors.ErrUnsupported }
func (e elsewhere) Mend(chaos.Fault) error    { return errors.ErrUnsupported }
func (e elsewhere) Rest(string, chaos.Moment) {}
func (e elsewhere) Close() error              { return nil }

func renewing() chaos.Kit {
	return chaos.Redlock("redlock", redlock.WithTTL(frozenLease), redlock.WithMaxTTL(frozenLease))
}

// hold is until a client holds.
func hold(ctx context.Context, a *chaos.Actor) (*chaos.Tenure, error) {
	return a.Insist(ctx, chaos.Only("report"), frozenLease, func() time.Duration { return 50 * time.Millisecond })
}

// begun is when a history began, by the machine's wall clock: the latest of a few readings,
// since a process may be held up in one.
func begun(h *chaos.History) time.Time {
	var at time.Time
	for range 20 {
		if read := time.Now().Round(0).Add(-h.Now()); read.After(at) {
			at = read
		}
	}
	return at
}

// playFrozen is a client in a process that can be stopped. It does what each line of its
// standard input says, and in the end writes when its history began, and its records.
func playFrozen(ctx context.Context, addrs string) error {
	history := chaos.NewHistory()
	ann, err := chaos.NewActor("ann", renewing(), elsewhere{strings.Split(addrs, ",")}, history, nil)
	if err != nil {
		return err
	}
	var held *chaos.Tenure
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "hold":
			held, err = hold(ctx, ann)
		case "write":
			err = held.Write(ctx)
		}
		fmt.Printf("> %v\n", err == nil)
	}
	if err := ann.Close(); err != nil {
		return err
	}
	fmt.Printf("> %d\n", begun(history).UnixNano())
	if err := trace.Write(os.Stdout, history.Records()); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

// ownProcess is a process of this binary that TestMain has play a client.
type ownProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newOwnProcess(t *testing.T, nodes []redis.UniversalClient) *ownProcess {
	t.Helper()
	var addrs []string
	for _, n := range nodes {
		one, ok := n.(*redis.Client)
		if !ok {
			t.Fatal("no client of one node")
		}
		addrs = append(addrs, one.Options().Addr)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), frozenVariable+"="+strings.Join(addrs, ",")), os.Stderr
	in, err := cmd.StdinPipe()
	testkit.Must(t, err)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return &ownProcess{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
}

// says is the next thing that it says.
func (p *ownProcess) says() string {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok {
			return s
		}
		if err != nil {
			p.t.Fatalf("the client's process: %v", err)
		}
	}
}

func (p *ownProcess) does(what string) bool {
	p.t.Helper()
	_, err := io.WriteString(p.in, what+"\n")
	testkit.Must(p.t, err)
	return p.says() == "true"
}

// freeze returns when the process has stopped, its timers with it.
func (p *ownProcess) freeze() {
	p.t.Helper()
	testkit.Must(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	testkit.Must(p.t, err)
	if !status.Stopped() {
		p.t.Fatalf("got %v; want a process that has stopped", status)
	}
}

func (p *ownProcess) thaw() {
	p.t.Helper()
	testkit.Must(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// records ends the process and takes what it recorded into the time of a history here.
func (p *ownProcess) records(h *chaos.History) []chaos.Record {
	p.t.Helper()
	testkit.Must(p.t, p.in.Close())
	var nanos int64
	_, err := fmt.Sscan(p.says(), &nanos)
	testkit.Must(p.t, err)
	var lines bytes.Buffer
	for {
		line, err := p.out.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "{") {
			break
		}
		lines.WriteString(line)
	}
	records, err := trace.Read(&lines)
	testkit.Must(p.t, err)
	for i := range records {
		r := &records[i]
		r.At += time.Unix(0, nanos).Sub(begun(h))
		if r.Hold != 0 {
			r.Hold += 1 << 32 // another history's
		}
	}
	return records
}

// A holder's process stands still, its timers too, for longer than a lease: nothing is
// renewed, the next client has the lock, and the first one learns of its loss when it goes
// on, before it writes. Were it not stopped, it would hold on.
func TestAFrozenClientProcess(t *testing.T) {
	testkit.Full(t)
	stage, err := chaos.OpenStage(t.Context(), chaos.Real, 1, 3)
	needThere(t, err)
	defer func() { testkit.Must(t, stage.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	history := chaos.NewHistory()
	bob, err := chaos.NewActor("bob", renewing(), stage, history, nil)
	testkit.Must(t, err)
	ann := newOwnProcess(t, connect(t, stage, "ann"))
	founder, err := redlock.New(connect(t, stage, "founder"), redlock.WithNodeNames(stage.Names()...), redlock.WithMaxTTL(frozenLease), redlock.WithTTL(frozenLease), redlock.WithNodeTimeout(2*time.Second))
	testkit.Must(t, err)
	testkit.Must(t, founder.Cluster().Admit(ctx), founder.Close())
	if !ann.does("hold") || !ann.does("write") {
		t.Fatal("ann does not hold, or can't write")
	}
	ann.freeze()
	froze := history.Now()
	held, err := hold(ctx, bob)
	testkit.Must(t, err)
	testkit.Must(t, held.Write(ctx))
	thawed := history.Now()
	ann.thaw()
	if ann.does("write") {
		t.Error("ann wrote after her lock was another's")
	}
	testkit.Must(t, held.Write(ctx), held.Release(ctx), bob.Close())
	own := ann.records(history)
	records := append(history.Records(), own...)
	slices.SortStableFunc(records, func(a, b chaos.Record) int { return int(a.At - b.At) })
	if v := (trace.Judge{Lease: frozenLease}).Judge(records); len(v.Violations) > 0 || v.Won != 2 {
		t.Errorf("got %d locks, %v; want two, and no rule broken", v.Won, v.Violations)
	}
	told := slices.IndexFunc(own, func(r chaos.Record) bool { return r.Kind == trace.Lost })
	if told < 0 || own[told].At < thawed {
		t.Errorf("got her records %v; want that she learns of the loss after %v", own, thawed)
	}
	for _, r := range own {
		if r.At > froze && r.At < thawed {
			t.Errorf("got %v of a process that stood still from %v to %v", r, froze, thawed)
		}
	}
}
