package redlock

// FindingCode names a kind of Finding. Codes keep their meaning over versions;
// new ones may come.
type FindingCode string

// The codes, by what they are about: reaching the node, the server, its memory,
// its rights, time, the cluster, the client.
const (
	FindingUnreachable FindingCode = "unreachable" // it does not answer
	FindingCredentials FindingCode = "credentials" // it refuses the password or the user
	FindingTLS         FindingCode = "tls"         // a certificate is not accepted, or one side speaks no TLS
	FindingBusy        FindingCode = "busy"        // a script or function runs there, and nothing else

	FindingVersion      FindingCode = "version"       // the server is too old
	FindingRunID        FindingCode = "run-id"        // the server does not say which process it is
	FindingSameServer   FindingCode = "same-server"   // two entries are one server
	FindingReplica      FindingCode = "replica"       // it follows a master
	FindingHasReplicas  FindingCode = "has-replicas"  // replicas follow it
	FindingBacklog      FindingCode = "repl-backlog"  // it will take another replication id without need
	FindingDebug        FindingCode = "debug-command" // DEBUG may have it forget unseen
	FindingMode         FindingCode = "mode"          // cluster mode, or a Sentinel
	FindingEviction     FindingCode = "eviction"      // it may drop keys when memory is short
	FindingMemory       FindingCode = "memory"        // its memory is nearly full, and it evicts nothing
	FindingImportMode   FindingCode = "import-mode"   // it keeps what has ended (Valkey)
	FindingMaxClients   FindingCode = "max-clients"   // it has nearly as many connections as it takes
	FindingMinReplicas  FindingCode = "min-replicas"  // it writes only while replicas follow it
	FindingPersistence  FindingCode = "persistence"   // what it forgets when it restarts
	FindingWritesFailed FindingCode = "writes-failed" // its last write to the disk failed
	FindingRefuses      FindingCode = "refuses"       // it refuses what a lock needs, in its own words
	FindingCommand      FindingCode = "command"       // the server does not know a command
	FindingACL          FindingCode = "acl"           // the user lacks a right
	FindingACLNames     FindingCode = "acl-names"     // the user may not lock every name

	FindingClock       FindingCode = "clock"         // clocks are apart
	FindingClockRate   FindingCode = "clock-rate"    // a clock runs faster or slower than the drift factor allows for
	FindingRoundTrip   FindingCode = "round-trip"    // round trips are long beside the node timeout
	FindingTTLRound    FindingCode = "ttl-roundtrip" // the TTL is short beside the round trip
	FindingNodeTimeout FindingCode = "node-timeout"  // the node timeout is long beside the TTL
	FindingMaxTTL      FindingCode = "max-ttl"       // MaxTTL is long beside the TTL, or clients differ in it

	FindingEvenNodes   FindingCode = "even-nodes"    // one node more than is of use
	FindingFewNodes    FindingCode = "few-nodes"     // no node may fail
	FindingOtherNodes  FindingCode = "other-n"       // its record has another number of nodes
	FindingForeign     FindingCode = "other-cluster" // it belongs to another cluster
	FindingRecord      FindingCode = "record"        // its membership record can't be read
	FindingNames       FindingCode = "node-names"    // the record knows the nodes by other names
	FindingRetired     FindingCode = "retired"       // it abstains for ever
	FindingBlank       FindingCode = "blank"         // it has not joined yet
	FindingNoCluster   FindingCode = "no-cluster"    // no cluster has a quorum of these nodes
	FindingDial        FindingCode = "client-dial"   // a cut-off node blocks its writer
	FindingPool        FindingCode = "client-pool"   // one connection for everything
	FindingLimiter     FindingCode = "client-limiter"
	FindingMaintenance FindingCode = "client-maintenance" // the server may stretch the client's timeouts
	FindingClient      FindingCode = "client"             // options that redlock makes up for, or can't see
)
