package redlocktest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// A program that is not a test starts its nodes by Run, and closes them.
func ExampleRun() {
	nodes, err := redlocktest.Run(5, redlocktest.WithoutFounding())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	ctx := context.Background()

	nodes.Node(0).Stop()
	for i, client := range nodes.Clients() {
		_, err := client.SetNX(ctx, "report", "me", 10*time.Second).Result()
		fmt.Println(nodes.Node(i).Name(), err == nil)
	}
	// Output:
	// node-0 false
	// node-1 true
	// node-2 true
	// node-3 true
	// node-4 true
}

// A restart gives a node what a new process has: another run_id and no scripts.
func ExampleNode_RestartKeepingData() {
	nodes, err := redlocktest.Run(1, redlocktest.WithoutFounding())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	ctx := context.Background()
	node, client := nodes.Node(0), nodes.Clients()[0]

	client.Set(ctx, "report", "me", 0)
	sha := client.ScriptLoad(ctx, "return 1").Val()
	before := node.RunID()
	node.RestartKeepingData()

	fmt.Println(node.Keys())
	fmt.Println(client.EvalSha(ctx, sha, nil).Err())
	fmt.Println(node.RunID() == before)
	// Output:
	// [report]
	// NOSCRIPT No matching script. Please use EVAL.
	// false
}

// The reply to one command gets lost after its effect.
func ExampleNode_Intercept() {
	nodes, err := redlocktest.Run(1, redlocktest.WithoutFounding())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	ctx := context.Background()
	node, client := nodes.Node(0), nodes.Clients()[0]

	node.Intercept(func(args []string) redlocktest.Verdict {
		if args[0] == "SET" {
			return redlocktest.BreakAfter()
		}
		return redlocktest.Pass()
	})
	fmt.Println(client.Set(ctx, "report", "me", 0).Err())
	fmt.Println(client.Get(ctx, "report").Val())
	// Output:
	// EOF
	// me
}

// What becomes of a command, and what its sender learns.
func ExampleVerdict() {
	nodes, err := redlocktest.Run(1, redlocktest.WithoutFounding())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	node := nodes.Node(0)
	for _, v := range []struct {
		name    string
		verdict redlocktest.Verdict
	}{
		{"ReplyError", redlocktest.ReplyError("READONLY You can't write against a read only replica.")},
		{"BreakBefore", redlocktest.BreakBefore()},
		{"LoseRequest", redlocktest.LoseRequest()},
		{"LoseReply", redlocktest.LoseReply()},
	} {
		node.Intercept(func(args []string) redlocktest.Verdict {
			if args[0] == "SET" {
				return v.verdict
			}
			return redlocktest.Pass()
		})
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		err := nodes.NewClients()[0].Set(ctx, v.name, "me", 0).Err()
		cancel()
		fmt.Println(v.name, "failed:", err != nil, "written:", node.Miniredis().Exists(v.name))
	}
	// Output:
	// ReplyError failed: true written: false
	// BreakBefore failed: true written: false
	// LoseRequest failed: true written: false
	// LoseReply failed: true written: true
}

// With addresses, other processes reach the nodes as well.
func ExampleWithTCP() {
	nodes, err := redlocktest.Run(3, redlocktest.WithTCP())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	locker, err := redlock.Open(context.Background(), nodes.URLs(), redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(locker.Close())
	// Output: <nil>
}
