package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// found is what a test compares of a finding.
type found struct {
	severity redlock.Severity
	code     redlock.FindingCode
	node     int
}

func (f found) String() string { return fmt.Sprintf("%s %s at %d", f.severity, f.code, f.node) }

// foundAtLeast are the findings of that severity and worse, sorted.
func foundAtLeast(r redlock.Report, s redlock.Severity) []string {
	var out []string
	for _, f := range r.AtLeast(s) {
		out = append(out, found{f.Severity, f.Code, f.Node}.String())
	}
	slices.Sort(out)
	return out
}

// wantFound compares all findings of that severity and worse.
func wantFound(t *testing.T, r redlock.Report, s redlock.Severity, want ...found) {
	t.Helper()
	texts := []string{}
	for _, f := range want {
		texts = append(texts, f.String())
	}
	slices.Sort(texts)
	if got := foundAtLeast(r, s); !slices.Equal(got, texts) {
		t.Errorf("got  %q\nwant %q", got, texts)
		for _, f := range r.AtLeast(s) {
			t.Log(f)
		}
	}
}

func letters(n int) []string { return strings.Split("abcdefghijklmnopqrstuvwxyz"[:n], "") }

func TestCheckInventsNothingOnAClusterThatWasFounded(t *testing.T) {
	var urls []string
	for _, s := range testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways}) {
		urls = append(urls, s.URL())
	}
	l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(patient))
	must(t, err)
	defer l.Close()
	must(t, l.Cluster().Admit(t.Context()))
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	wantFound(t, r, faultInfo)
	if r.Nodes != 5 || r.Answered != 5 || r.Quorum != 3 || len(r.Servers) != 5 || slices.Contains(r.Servers, "") {
		t.Errorf("got %+v; want five nodes that answered, each with its server, and a quorum of 3", r)
	}
}

const (
	faultInfo    = redlock.SeverityInfo
	faultUnknown = redlock.SeverityUnknown
	faultWarning = redlock.SeverityWarning
	faultError   = redlock.SeverityError
)

// codesIn are the codes that a file declares, each with its constant, in its order.
func codesIn(t *testing.T, file string) (codes []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\s+(\w+) +FindingCode += ("[a-z-]+")`).FindAllStringSubmatch(string(source), -1) {
		codes = append(codes, m[1]+" "+m[2])
	}
	if declared := strings.Count(string(source), " = \""); len(codes) < 12 || len(codes) != declared {
		t.Fatalf("%s shows %d codes of %d", file, len(codes), declared)
	}
	return codes
}

// Check hands the doctor's codes on as they are, so each must be a public one.
func TestThePublicCodesAreTheDoctors(t *testing.T) {
	if got, want := codesIn(t, "check.go"), codesIn(t, "internal/doctor/doctor.go"); !slices.Equal(got, want) {
		t.Errorf("check.go has %v\nthe doctor has %v", got, want)
	}
}

// What doctor warns of is so: a quorum whose clocks run a twelfth too fast grants
// nothing, and within the drift factor it does.
func TestAQuorumThatIsSlewedBeyondTheDriftStopsLocking(t *testing.T) {
	for rate, stops := range map[string]bool{"1.0833": true, "1.002": false} {
		t.Run(rate, func(t *testing.T) {
			var clients []redis.UniversalClient
			for i, s := range testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways, FakeClock: true}) {
				if i > 1 {
					must(t, s.SetClock("+0 x"+rate))
				}
				clients = append(clients, clientOf(t, s))
			}
			l, err := redlock.New(clients, redlock.WithNodeNames(letters(5)...), redlock.WithNodeTimeout(patient))
			must(t, err)
			defer l.Close()
			must(t, l.Cluster().Admit(t.Context()))
			refused := func() error {
				lock, err := l.TryAcquire(t.Context(), "orders/42")
				if err == nil {
					_ = lock.Release(t.Context())
				}
				return err
			}
			if stops {
				eventually(t, patient*5, func() bool { return strings.Contains(errorText(refused()), "stepped") })
				for range 10 {
					wantError(t, "TryAcquire", refused(), redlock.ErrNoQuorum)
				}
				return
			}
			for i := range 300 {
				if err := refused(); err != nil {
					t.Fatalf("refused after %d tries: %v; want a rate within the drift factor to be no step", i, err)
				}
			}
		})
	}
}

// A cluster that was founded, and filled up: what operators see of it.
func TestNodesThatRefuseWritesAreSeenEverywhere(t *testing.T) {
	for _, fault := range []struct{ setting, value, says string }{
		{"maxmemory", "1", "OOM"}, {"min-replicas-to-write", "1", "NOREPLICAS"},
	} {
		t.Run(fault.says, func(t *testing.T) {
			servers := testserver.Need(t, 3, redisserver.Config{AOF: redisserver.FsyncAlways})
			var urls []string
			for _, s := range servers {
				urls = append(urls, s.URL())
			}
			told := &events{}
			l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(patient), redlock.WithTTL(4*patient), told.option())
			must(t, err)
			defer l.Close()
			must(t, l.Cluster().Admit(t.Context()))
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			set := func(value string) {
				for _, s := range servers[1:] {
					must(t, s.Client().ConfigSet(t.Context(), fault.setting, value).Err())
				}
			}
			set(fault.value)
			report, err := l.Cluster().Check(t.Context())
			must(t, err)
			refused := 0
			for _, f := range report.Findings {
				if f.Code == redlock.FindingRefuses && f.Severity == redlock.SeverityError && strings.Contains(f.What, "take a lock: "+fault.says) {
					refused++
				}
			}
			if refused != 2 {
				t.Errorf("Check: got %v; want that two nodes refuse to take a lock", report.Findings)
			}
			status, err := l.Cluster().Status(t.Context())
			must(t, err)
			if status.Votes() != 1 || status.Nodes[0].Refusal != "" || !strings.Contains(status.Nodes[2].Refusal, fault.says) {
				t.Errorf("Status: got %+v; want one vote, and why", status)
			}
			for i := range 3 {
				_, err = l.TryAcquire(t.Context(), "orders/42")
				wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
				if n := len(told.of(redlock.EventNodeRefusesWrites)); i == 2 && n != 2 {
					t.Errorf("got %d events; want one of each node", n)
				}
			}
			set("0")
			status, err = l.Cluster().Status(t.Context())
			must(t, err)
			if status.Votes() != 3 {
				t.Errorf("Status after it was mended: got %+v; want three votes", status)
			}
			eventually(t, 10*time.Second, func() bool { return len(told.of(redlock.EventNodeTakesWrites)) == 2 })
			mustRelease(t, mustAcquire(t, l, "orders/42"))
		})
	}
}

// The doctor judges by the Locker's own options.
func TestCheckJudgesByTheLockersOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithoutMembership(), redlock.WithNodeTimeout(4*time.Second), redlock.WithMaxTTL(time.Hour))
		must(t, nodes.Clients()[0].HSet(t.Context(), "redlock:node", "format", "9").Err()) // which matters to members alone
		r, err := l.Cluster().Check(t.Context())
		must(t, err)
		r.Findings = slices.DeleteFunc(r.Findings, func(f redlock.Finding) bool { return f.Node >= 0 && f.Code != redlock.FindingRecord })
		wantFound(t, r, faultInfo, found{faultWarning, redlock.FindingNodeTimeout, -1}) // without records nobody waits MaxTTL
	})
}

// A longer lease than the cluster's MaxTTL gets no vote, also as an extension, and the doctor
// says so. Once MaxTTL was changed the operator's Locker takes it at once, and others soon.
func TestALeaseAboveTheClustersMaxTTLIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		operator, nodes := newLocker(t, 3, redlock.WithTTL(time.Minute), redlock.WithMaxTTL(time.Hour))
		l := lockerOver(t, nodes, redlock.WithTTL(time.Minute), redlock.WithMaxTTL(time.Hour))
		r, err := l.Cluster().Check(t.Context())
		must(t, err)
		r.Findings = slices.DeleteFunc(r.Findings, func(f redlock.Finding) bool { return f.Node >= 0 })
		wantFound(t, r, faultInfo, found{faultError, redlock.FindingMaxTTL, -1})
		lock := mustAcquire(t, l, "orders/42", redlock.WithTTL(redlock.DefaultMaxTTL), redlock.WithFixedLease())
		for what, err := range map[string]error{"TryAcquire": failure(l.TryAcquire(t.Context(), "orders/1")), "Extend": lock.Extend(t.Context(), time.Minute)} {
			wantError(t, what, err, redlock.ErrMisconfigured)
			wantText(t, what, fmt.Sprint(err), "a lease of 1m0s is above the cluster's MaxTTL, 30s: take less (WithTTL), or raise it: Cluster.Change (redlock nodes change --max-ttl 1m0s)")
		}
		must(t, lock.Err())
		mustRelease(t, lock)
		must(t, operator.Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: time.Minute}, redlock.ChangeOptions{}))
		mustRelease(t, mustAcquire(t, operator, "orders/42"))
		_, _ = l.TryAcquire(t.Context(), "orders/1") // it may have to learn of it
		mustRelease(t, mustAcquire(t, l, "orders/42"))
	})
}

func TestCheckNamesTwoEntriesThatAreOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		clients[2] = nodes.NewClients()[0]
		l, err := redlock.New(clients, redlock.WithNodeNames(nodes.Names()...))
		must(t, err)
		defer l.Close()
		for range 2 { // the order is the same every time
			r, err := l.Cluster().Check(t.Context())
			must(t, err)
			if f := r.Findings[0]; f.Code != redlock.FindingSameServer || f.Node != 2 || f.Name != "node-2" || !strings.Contains(f.What, "node 0 (node-0)") {
				t.Errorf("the first finding is %v; want node 2 as node 0", f)
			}
			if r.Worst() != faultError {
				t.Errorf("the worst is %v; want error", r.Worst())
			}
		}
	})
}

func TestCheckFailsWhenNothingCanBeLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := l.Cluster().Check(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("when ctx ends: got %v; want its error", err)
		}
		if _, err := l.Cluster().Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a ctx that is done: got %v; want its error", err)
		}
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("Check returned %v after its ctx had ended", took-10*time.Millisecond)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
			n.Stop()
		}
		r, err := l.Cluster().Check(t.Context())
		var none *redlock.QuorumError
		if !errors.Is(err, redlock.ErrNoQuorum) || !errors.As(err, &none) || len(none.Nodes) != 3 {
			t.Errorf("when no node answers: got %v; want *QuorumError with ErrNoQuorum", err)
		}
		wantFound(t, r, faultUnknown, found{faultError, redlock.FindingNoQuorum, -1}, found{faultError, redlock.FindingUnreachable, 0},
			found{faultError, redlock.FindingUnreachable, 1}, found{faultError, redlock.FindingUnreachable, 2})
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
		if _, err := l.Cluster().Check(t.Context()); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("after Close: got %v; want ErrClosed", err)
		}
	})
}

func TestOpensOwnClientsHaveNoFault(t *testing.T) {
	nodes := redlocktest.Start(t, 3, redlocktest.WithTCP())
	l, err := redlock.Open(t.Context(), nodes.URLs(), redlock.WithNodeTimeout(2*time.Second), redlock.WithTTL(8*time.Second))
	must(t, err)
	defer l.Close()
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	for _, f := range r.Findings {
		if strings.HasPrefix(string(f.Code), "client") {
			t.Errorf("got %v; want nothing about a client", f)
		}
	}
}

// wrapped hides what a client is.
type wrapped struct{ redis.UniversalClient }
