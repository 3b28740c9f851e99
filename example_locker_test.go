package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// enough is the node timeout of the examples that do not show one: they must not
// fail on a busy machine.
const enough = 3 * time.Second

// fiveNodes starts five masters inside the process, which the examples share.
func fiveNodes() *redlocktest.Cluster {
	nodes, err := redlocktest.Run(5)
	if err != nil {
		log.Fatal(err)
	}
	return nodes
}

// lockerOn makes a Locker over nodes, with clients of its own, as another process
// would have them. The nodes may share a busy machine, so they have time to
// answer.
func lockerOn(nodes *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	opts = append([]redlock.Option{
		redlock.WithNodeNames(nodes.Names()...), redlock.WithNodeTimeout(enough),
	}, opts...)
	locker, err := redlock.New(nodes.NewClients(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

// acquire takes a lock that nobody holds.
func acquire(locker *redlock.Locker, resource string, opts ...redlock.AcquireOption) *redlock.Lock {
	lock, err := locker.Acquire(context.Background(), resource, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return lock
}

// A Locker over clients that the program has anyway. They may have go-redis's
// default options, and stay the caller's to close.
func ExampleNew() {
	nodes, err := redlocktest.Run(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	var clients []redis.UniversalClient
	for i := range 3 {
		client := redis.NewClient(&redis.Options{
			Addr:   nodes.Node(i).Name(),           // in production: "10.0.0.1:6379"
			Dialer: nodes.Node(i).Options().Dialer, // in production: left out
		})
		defer client.Close()
		clients = append(clients, client)
	}

	locker, err := redlock.New(clients, redlock.WithTTL(15*time.Second), redlock.WithNodeTimeout(enough))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	lock, err := locker.Acquire(context.Background(), "reports/daily")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lock.Resource())
	fmt.Println(lock.Release(context.Background()))
	// Output:
	// holding reports/daily
	// <nil>
}

// All faults of the arguments come at once.
func ExampleNew_invalid() {
	_, err := redlock.New(nil, redlock.WithTTL(time.Minute), redlock.WithDriftFactor(2))
	fmt.Println(errors.Is(err, redlock.ErrInvalidNode))
	fmt.Println(errors.Is(err, redlock.ErrInvalidTTL))
	fmt.Println(errors.Is(err, redlock.ErrInvalidOption))
	// Output:
	// true
	// true
	// true
}

func ExampleOpen() {
	nodes, err := redlocktest.Run(5, redlocktest.WithTCP())
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	nodes.Node(4).Stop() // one of five may be gone

	down := make(chan string, 1)
	tell := func(e redlock.Event) {
		if e.Kind == redlock.EventNodeDown {
			select {
			case down <- e.Name:
			default: // never block
			}
		}
	}
	locker, err := redlock.Open(context.Background(), nodes.URLs(),
		redlock.WithNodeTimeout(500*time.Millisecond), redlock.WithObserver(tell))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	fmt.Println("open, without the last node:", <-down == nodes.Node(4).Name())
	// Output: open, without the last node: true
}

// Without a quorum, Open says what each node did, and never shows a password.
func ExampleOpen_noQuorum() {
	_, err := redlock.Open(context.Background(), []string{"redis://:secret@127.0.0.1:1", "redis://:secret@127.0.0.1:2"})
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	fmt.Println(strings.Contains(err.Error(), "127.0.0.1:1"), strings.Contains(err.Error(), "secret"))
	// Output:
	// true
	// true false
}

// Acquire waits for the holder. Its ctx bounds the wait, not the hold.
func ExampleLocker_Acquire() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	lock, err := locker.Acquire(ctx, "orders/42", redlock.WithTTL(5*time.Second))
	cancel()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held after ctx ended:", lock.Err() == nil)
	fmt.Println("released:", lock.Release(context.Background()) == nil)
	// Output:
	// held after ctx ended: true
	// released: true
}

// A ctx that ends while another holds: its error, and why the lock was not to be
// had.
func ExampleLocker_Acquire_timeout() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()
	acquire(other, "orders/42")
	acquire(locker, "orders/41") // it has connected to the nodes

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := locker.Acquire(ctx, "orders/42")
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, redlock.ErrNotAcquired))
	// Output: true true
}

// TryAcquire makes one attempt. The two reasons why it may fail call for
// different reactions.
func ExampleLocker_TryAcquire() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()

	try := func() {
		lock, err := locker.TryAcquire(context.Background(), "orders/42")
		switch {
		case err == nil:
			fmt.Println("held")
			_ = lock.Release(context.Background()) // an error here is an Event, too
		case errors.Is(err, redlock.ErrNotAcquired):
			fmt.Println("another holds it: leave the work to it")
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println("nobody can say: raise an alarm")
		}
	}
	try()
	acquire(other, "orders/42")
	try()
	for i := range 3 {
		nodes.Node(i).Stop()
	}
	try()
	// Output:
	// held
	// another holds it: leave the work to it
	// nobody can say: raise an alarm
}

// TryDo does the work, or leaves it to another who does.
func ExampleLocker_TryDo() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()

	report := func(context.Context, *redlock.Lock) error {
		fmt.Println("working")
		return nil
	}
	fmt.Println(locker.TryDo(context.Background(), "nightly-report", report))
	acquire(other, "nightly-report")
	err := locker.TryDo(context.Background(), "nightly-report", report)
	fmt.Println("left out:", errors.Is(err, redlock.ErrNotAcquired))
	// Output:
	// working
	// <nil>
	// left out: true
}

// Do acquires, runs the function and releases, also after an error or a panic.
func ExampleLocker_Do() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	err := locker.Do(context.Background(), "orders/42", func(ctx context.Context, lock *redlock.Lock) error {
		fmt.Println("working on", lock.Resource())
		return errors.New("the printer is out of paper")
	})
	fmt.Println(err)
	_, err = locker.TryAcquire(context.Background(), "orders/42")
	fmt.Println("free again:", err == nil)
	// Output:
	// working on orders/42
	// the printer is out of paper
	// free again: true
}

// Inspect shows what each node has, in its own words.
func ExampleLocker_Inspect() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithHolder("host-7"))
	defer locker.Close()
	nodes.Node(4).Stop()
	acquire(locker, "orders/42")

	seen, err := locker.Inspect(context.Background(), "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	owner, held := seen.Holder()
	fmt.Println(held, strings.HasPrefix(owner, "host-7/"))
	fmt.Println(seen.Nodes[4].Name, "answered:", seen.Nodes[4].Err == nil)
	// Output:
	// true true
	// node-4 answered: false
}

// A holder is who holds it on a quorum of the nodes.
func ExampleInspection_Holder() {
	seen := redlock.Inspection{Quorum: 2, Nodes: []redlock.NodeInspection{
		{Name: "a", Owner: "left over"}, {Name: "b", Owner: "the holder"}, {Name: "c", Owner: "the holder"},
	}}
	fmt.Println(seen.Holder())
	// Output: the holder true
}

// Close releases what is held, and ends what waits.
func ExampleLocker_Close() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	lock := acquire(locker, "orders/42")

	if err := locker.Close(); err != nil {
		log.Fatal(err)
	}
	<-lock.Done()
	fmt.Println(lock.Err())
	_, err := locker.Acquire(context.Background(), "orders/42")
	fmt.Println(errors.Is(err, redlock.ErrClosed))
	// Output:
	// redlock: closed
	// true
}

// What a round did is in the QuorumError, node by node.
func ExampleQuorumError() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	for i := range 3 {
		nodes.Node(i).Stop()
	}
	_, err := locker.TryAcquire(context.Background(), "orders/42")
	var failed *redlock.QuorumError
	if errors.As(err, &failed) {
		granted := 0
		for _, n := range failed.Nodes { // each has its name, outcome and cause
			if n.Outcome == redlock.OutcomeGranted {
				granted++
			}
		}
		fmt.Println(failed.Op, failed.Resource, "needs", failed.Quorum, "of", len(failed.Nodes), "and has", granted)
	}
	// Output: acquire orders/42 needs 3 of 5 and has 0
}

// The message has all of it in one line.
func ExampleQuorumError_Error() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	for i := range nodes.Nodes() {
		nodes.Node(i).Stop()
	}
	_, err := locker.TryAcquire(context.Background(), "orders/42")
	fmt.Println(strings.SplitAfter(err.Error(), "failed:")[0])
	// Output: redlock: acquire orders/42: no quorum: 3 of 5 nodes failed:
}

// It unwraps to its sentinel and to every node's cause.
func ExampleQuorumError_Unwrap() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	for i := range nodes.Nodes() {
		nodes.Node(i).Stop()
	}
	_, err := locker.TryAcquire(context.Background(), "orders/42")
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	fmt.Println(errors.Is(err, redlock.ErrNotAcquired))
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	// Output:
	// true
	// false
	// true
}

// The sentinels are for branching: the cause of an end is one of four.
func Example_errors() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	lock := acquire(locker, "orders/42")
	_ = lock.Release(ctx)
	switch err := lock.Err(); {
	case errors.Is(err, redlock.ErrLost):
		fmt.Println("lost: what was done under it may need to be undone")
	case errors.Is(err, redlock.ErrReleased):
		fmt.Println("released, by this program")
	case errors.Is(err, redlock.ErrMaxHold), errors.Is(err, redlock.ErrClosed):
		fmt.Println("ended by this program's own bounds")
	}
	_, err := locker.Acquire(ctx, "")
	fmt.Println(errors.Is(err, redlock.ErrInvalidResource))
	// Output:
	// released, by this program
	// true
}

// Unknown and failed differ in what may still happen on the node.
func ExampleOutcome_String() {
	fmt.Println(redlock.OutcomeGranted, redlock.OutcomeTaken, redlock.OutcomeAbstained, redlock.OutcomeUnknown, redlock.OutcomeFailed, redlock.OutcomePending)
	// Output: granted taken abstained unknown failed pending
}

func ExampleEventKind_String() {
	fmt.Println(redlock.EventNodeDown, "|", redlock.EventLockLost)
	// Output: node down | lock lost
}

// An Event says what happened, to which node or lock, and why.
func ExampleEvent() {
	e := redlock.Event{Kind: redlock.EventLockLost, Node: -1, Resource: "orders/42", Token: 7, Err: redlock.ErrLost}
	if e.Kind == redlock.EventLockLost {
		fmt.Printf("%s: %s, token %v: %v\n", e.Kind, e.Resource, e.Token, e.Err)
	}
	// Output: lock lost: orders/42, token 7: redlock: lost
}

func ExampleNodeState_String() {
	fmt.Println(redlock.NodeUnreachable, "|", redlock.NodeMember)
	// Output: unreachable | member
}

// Stats are counted whether anybody observes or not.
func ExampleLocker_Stats() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	if _, err := locker.TryAcquire(context.Background(), "orders/42"); err == nil {
		log.Fatal("taken twice")
	}
	s := locker.Stats()
	fmt.Println("held:", s.Held, "acquired:", s.Acquired, "refused:", s.NotAcquired)
	if err := lock.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
	s = locker.Stats()
	fmt.Println("held:", s.Held, "released:", s.Released, "lost:", s.Lost)
	// Output:
	// held: 1 acquired: 1 refused: 1
	// held: 0 released: 1 lost: 0
}

// Reasons and turns read as the labels of metrics.
func ExampleReason_String() {
	fmt.Println(redlock.ReasonNoQuorum, redlock.ReasonLapsed)
	// Output: no_quorum lapsed
}

func ExampleTurn_String() {
	fmt.Println(redlock.TurnFirst, redlock.TurnHandedOver)
	// Output: first handed_over
}
