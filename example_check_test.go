package redlock_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

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
