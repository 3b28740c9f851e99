package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// The cluster is the nodes' side of a Locker.
func ExampleLocker_Cluster() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	report, err := locker.Cluster().Check(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Answered, "of", report.Nodes, "answered; a quorum is", report.Quorum)
	// Output: 5 of 5 answered; a quorum is 3
}

// Check says what would weaken the lock, and what to do about it.
func ExampleCluster_Check() {
	nodes := fiveNodes()
	defer nodes.Close()
	nodes.Node(4).Stop()
	locker := lockerOn(nodes)
	defer locker.Close()

	report, err := locker.Cluster().Check(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Code == redlock.FindingUnreachable {
			fmt.Println(f.Name, "is", f.Code)
		}
	}
	// Output: node-4 is unreachable
}

// What is at least an error is worth a red light.
func ExampleReport_AtLeast() {
	report := redlock.Report{Findings: []redlock.Finding{
		{Severity: redlock.SeverityError, Name: "node-4", What: "it does not answer"},
		{Severity: redlock.SeverityInfo, Name: "node-0", What: "it is idle"},
	}}
	for _, f := range report.AtLeast(redlock.SeverityError) {
		fmt.Println(f.Name + ": " + f.What)
	}
	// Output: node-4: it does not answer
}

func ExampleReport_Worst() {
	report := redlock.Report{Findings: []redlock.Finding{
		{Severity: redlock.SeverityInfo}, {Severity: redlock.SeverityError},
	}}
	fmt.Println(report.Worst())
	// Output: error
}

// A finding says what was seen, why it matters, and what to do.
func ExampleFinding_String() {
	fmt.Println(redlock.Finding{
		Severity: redlock.SeverityError, Code: redlock.FindingUnreachable, Node: 4, Name: "node-4",
		What: "It does not answer", Why: "One node more and there is no quorum", Remedy: "Start it",
	})
	// Output: error unreachable: node 4 (node-4): It does not answer. One node more and there is no quorum. Start it.
}

func ExampleSeverity_String() {
	fmt.Println(redlock.SeverityInfo, redlock.SeverityError)
	// Output: info error
}

// newNodes starts servers on which nobody has ever locked anything.
func newNodes(n int) *redlocktest.Cluster {
	nodes, err := redlocktest.Run(n, redlocktest.WithoutFounding())
	if err != nil {
		log.Fatal(err)
	}
	return nodes
}

// Status says which nodes vote, and why the others do not.
func ExampleCluster_Status() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	nodes.Node(1).Restart() // it comes back with nothing
	nodes.Node(4).Stop()

	status, err := locker.Cluster().Status(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range status.Nodes {
		fmt.Println(n.Name, n.State)
	}
	// Output:
	// node-0 member
	// node-1 joining
	// node-2 member
	// node-3 member
	// node-4 unreachable
}

// Before a quorum votes there are no locks.
func ExampleClusterStatus_Votes() {
	nodes := newNodes(3)
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	before, err := locker.Cluster().Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := locker.Cluster().Admit(ctx); err != nil {
		log.Fatal(err)
	}
	after, err := locker.Cluster().Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d votes, then %d; a quorum is %d\n", before.Votes(), after.Votes(), after.Quorum)
	// Output: 0 votes, then 3; a quorum is 2
}

// A program that would end before the wait of a new cluster is over has to ask
// for it.
func ExampleCluster_Join() {
	nodes := newNodes(3)
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithTTL(600*time.Millisecond), redlock.WithMaxTTL(700*time.Millisecond),
		redlock.WithNodeTimeout(500*time.Millisecond))
	defer locker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	start := time.Now()
	err := locker.Cluster().Join(ctx)
	fmt.Println(err, time.Since(start) >= 700*time.Millisecond)
	// Output: <nil> true
}

// On new servers no lock can be held: the operator says so, and nobody waits.
func ExampleCluster_Admit() {
	nodes := newNodes(5)
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	_, err := locker.TryAcquire(ctx, "orders/42")
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	fmt.Println(locker.Cluster().Admit(ctx))
	_, err = locker.TryAcquire(ctx, "orders/42")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
	// <nil>
}

// Under strict recovery nobody but an operator founds a cluster, or brings back
// one whose majority lost its memory: tokens then never lean on a clock.
func ExampleWithStrictRecovery() {
	nodes := newNodes(3)
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithStrictRecovery(), redlock.WithTTL(600*time.Millisecond),
		redlock.WithMaxTTL(700*time.Millisecond), redlock.WithNodeTimeout(500*time.Millisecond))
	defer locker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond) // more than MaxTTL
	defer cancel()
	err := locker.Cluster().Join(ctx)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	fmt.Println(locker.Cluster().Admit(context.Background()))
	// Output:
	// true
	// <nil>
}

// A pinned client locks in one cluster only, and founds none.
func ExampleWithCluster() {
	nodes := newNodes(3)
	defer nodes.Close()
	first := lockerOn(nodes)
	defer first.Close()
	status, err := first.Cluster().Status(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	pinned, other := lockerOn(nodes, redlock.WithCluster(status.ID)), lockerOn(nodes, redlock.WithCluster("another"))
	defer pinned.Close()
	defer other.Close()

	fmt.Println(acquire(pinned, "orders/42").Release(context.Background()))
	_, err = other.TryAcquire(context.Background(), "orders/42")
	fmt.Println(errors.Is(err, redlock.ErrMisconfigured))
	// Output:
	// <nil>
	// true
}

// Without membership a server that has just lost its memory votes, and so a lock
// that is held is given to somebody else.
func ExampleWithoutMembership() {
	nodes := newNodes(3)
	defer nodes.Close()
	holder := lockerOn(nodes, redlock.WithoutMembership())
	defer holder.Close()
	other := lockerOn(nodes, redlock.WithoutMembership())
	defer other.Close()

	first := acquire(holder, "orders/42")
	for _, n := range []int{0, 1} { // Acquire does not wait for the last node
		for !nodes.Node(n).Miniredis().Exists("orders/42") {
			runtime.Gosched()
		}
		nodes.Node(n).Restart()
	}
	second := acquire(other, "orders/42")
	fmt.Println(first.Err() == nil, second.Err() == nil)
	// Output: true true
}

// Run Check when a service starts, or from an operator's command. Here one
// server stands in the list under two names, so that a quorum of five entries may
// be two servers.
func ExampleCluster_Check_oneServerTwice() {
	nodes := fiveNodes()
	defer nodes.Close()
	clients := nodes.NewClients()
	clients[4] = redis.NewClient(nodes.Node(0).Options())
	locker, err := redlock.New(clients,
		redlock.WithNodeNames(nodes.Names()...), redlock.WithNodeTimeout(enough))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	report, err := locker.Cluster().Check(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d nodes answered; the worst finding: %v\n", report.Answered, report.Nodes, report.Worst())
	for _, f := range report.AtLeast(redlock.SeverityWarning) {
		if f.Code == redlock.FindingPersistence {
			continue // in-process nodes keep nothing on disk
		}
		fmt.Printf("%v, node %d: %s\n", f.Severity, f.Node, f.Code)
	}
	// Output:
	// 5 of 5 nodes answered; the worst finding: error
	// error, node 4: same-server
}

// A service that would rather not start than run with a fault decides by
// severity and code: what is an error always counts, and some warnings are known.
func ExampleReport_AtLeast_atStart() {
	report := redlock.Report{Findings: []redlock.Finding{
		{Severity: redlock.SeverityError, Code: redlock.FindingEviction, Node: 1, Name: "green"},
		{Severity: redlock.SeverityWarning, Code: redlock.FindingPersistence, Node: 0, Name: "red"},
		{Severity: redlock.SeverityUnknown, Code: redlock.FindingACL, Node: 2, Name: "blue"},
	}}
	known := []redlock.FindingCode{redlock.FindingPersistence}
	for _, f := range report.AtLeast(redlock.SeverityWarning) {
		if !slices.Contains(known, f.Code) {
			fmt.Println("not starting:", f.Name, f.Code)
		}
	}
	// Output: not starting: green eviction
}

// A dry run tells the steps, and changes nothing. A node may go dead or alive, and a shorter
// MaxTTL counts once a second step has closed the first.
func ExampleCluster_Change() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	nodes.Node(4).Stop()

	err := locker.Cluster().Change(context.Background(), redlock.Wanted{Remove: []string{"node-4"}, MaxTTL: 20 * time.Second},
		redlock.ChangeOptions{DryRun: true, Progress: func(p redlock.ChangeProgress) {
			fmt.Printf("%d of %d waits %v: %s\n", p.Step, p.Steps, p.Left, p.Words)
		}})
	fmt.Println(err)
	// Output:
	// 1 of 2 waits 30s: remove node-4, MaxTTL 20s
	// 2 of 2 waits 30s: close
	// <nil>
}

// An operator may go at any time: another runs it again.
func ExampleCluster_Change_again() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := locker.Cluster().Change(ctx, redlock.Wanted{MaxTTL: time.Hour}, redlock.ChangeOptions{Progress: func(p redlock.ChangeProgress) {
		fmt.Printf("%s: %d of %d\n", p.Stage, p.Done, p.Of)
		cancel()
	}})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// waiting for the longest lease: 5 of 3
	// true
}
