package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/quorumkit/redlock"
)

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
		fmt.Println(failed.Op, failed.Resource, "needs", failed.Quorum, "of", len(failed.Nodes))
		for _, n := range failed.Nodes[:3] {
			fmt.Println(n.Name, n.Outcome)
		}
	}
	// Output:
	// acquire orders/42 needs 3 of 5
	// node-0 failed
	// node-1 failed
	// node-2 failed
}

// The message has all of it in one line.
func ExampleQuorumError_Error() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	for i := range nodes.Len() {
		nodes.Node(i).Stop()
	}
	_, err := locker.TryAcquire(context.Background(), "orders/42")
	fmt.Println(strings.SplitAfter(err.Error(), ";")[0])
	// Output: redlock: acquire orders/42: no quorum: 0/5 granted, quorum 3;
}

// It unwraps to its sentinel and to every node's cause.
func ExampleQuorumError_Unwrap() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	for i := range nodes.Len() {
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
	fmt.Println(redlock.Granted, redlock.Taken, redlock.Abstained, redlock.Unknown, redlock.Failed, redlock.Pending)
	// Output: granted taken abstained unknown failed pending
}

func ExampleEventKind_String() {
	fmt.Println(redlock.NodeDown, "|", redlock.LockLost)
	// Output: node down | lock lost
}

// An Event says what happened, to which node or lock, and why.
func ExampleEvent() {
	e := redlock.Event{Kind: redlock.LockLost, Node: -1, Resource: "orders/42", Token: 7, Err: redlock.ErrLost}
	if e.Kind == redlock.LockLost {
		fmt.Printf("%s: %s, token %v: %v\n", e.Kind, e.Resource, e.Token, e.Err)
	}
	// Output: lock lost: orders/42, token 7: redlock: lost
}

func ExampleNodeState_String() {
	fmt.Println(redlock.NodeUnreachable, "|", redlock.NodeMember)
	// Output: unreachable | member
}
