package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumkit/redlock"
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
