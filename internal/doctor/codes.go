package doctor

// FindingCode names a kind of Finding.
type FindingCode string

// The codes, as the public ones of the same names, which say what each means.
const (
	FindingUnreachable FindingCode = "unreachable"
	FindingCredentials FindingCode = "credentials"
	FindingTLS         FindingCode = "tls"
	FindingBusy        FindingCode = "busy"

	FindingVersion      FindingCode = "version"
	FindingRunID        FindingCode = "run-id"
	FindingSameServer   FindingCode = "same-server"
	FindingReplica      FindingCode = "replica"
	FindingHasReplicas  FindingCode = "has-replicas"
	FindingBacklog      FindingCode = "repl-backlog"
	FindingDebug        FindingCode = "debug-command"
	FindingMode         FindingCode = "mode"
	FindingEviction     FindingCode = "eviction"
	FindingMemory       FindingCode = "memory"
	FindingImportMode   FindingCode = "import-mode"
	FindingMaxClients   FindingCode = "max-clients"
	FindingMinReplicas  FindingCode = "min-replicas"
	FindingPersistence  FindingCode = "persistence"
	FindingReplay       FindingCode = "aof-default-user"
	FindingWritesFailed FindingCode = "writes-failed"
	FindingRefuses      FindingCode = "refuses"
	FindingCommand      FindingCode = "command"
	FindingACL          FindingCode = "acl"
	FindingACLNames     FindingCode = "acl-names"

	FindingClock       FindingCode = "clock"
	FindingClockRate   FindingCode = "clock-rate"
	FindingRoundTrip   FindingCode = "round-trip"
	FindingTTLRound    FindingCode = "ttl-roundtrip"
	FindingNodeTimeout FindingCode = "node-timeout"
	FindingMaxTTL      FindingCode = "max-ttl"

	FindingEvenNodes   FindingCode = "even-nodes"
	FindingFewNodes    FindingCode = "few-nodes"
	FindingOtherNodes  FindingCode = "other-n"
	FindingForeign     FindingCode = "other-cluster"
	FindingRecord      FindingCode = "record"
	FindingNames       FindingCode = "node-names"
	FindingRetired     FindingCode = "retired"
	FindingBlank       FindingCode = "blank"
	FindingNoCluster   FindingCode = "no-cluster"
	FindingDial        FindingCode = "client-dial"
	FindingPool        FindingCode = "client-pool"
	FindingLimiter     FindingCode = "client-limiter"
	FindingMaintenance FindingCode = "client-maintenance"
	FindingClient      FindingCode = "client"
)
