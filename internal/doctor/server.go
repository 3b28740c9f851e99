package doctor

import (
	"cmp"
	"strconv"
	"strings"
)

// The oldest servers whose script cache dies with the process, which is what
// keeps a restarted server from voting: before Redis 7 it came back with the AOF.
const (
	oldestRedis  = 7_00
	oldestValkey = 7_02
)

var (
	aboutVersion = diagnosis{
		FindingVersion,
		"Redis before 7 keeps its script cache over a restart, so a node that forgot would vote at once; redlock needs Redis 7 or Valkey 7.2; tried on Redis 7.0, Redis 8.0 and Valkey 8.1",
		"Upgrade the server",
	}
	aboutRunID = diagnosis{
		FindingRunID,
		"The run_id and master_replid are how a server that restarted, or took over other data, is told from one that did not: without them the node is not let vote",
		"Let the user, and scripts, run INFO; use a server that tells them (in tests: package redlocktest, not a plain miniredis)",
	}
	aboutReplica = diagnosis{
		FindingReplica,
		"A replica takes no writes, and one that is promoted lacks what its master had not sent yet: a second holder",
		"Give the address of a master that stands alone; each node is a server of its own",
	}
	aboutReplicas = diagnosis{
		FindingHasReplicas,
		"If one is promoted in this node's place it lacks the last locks, and must wait MaxTTL before it votes; a promotion behind the same address may go unnoticed by open connections",
		"Run nodes without replicas and without Sentinel: redlock replicates by itself",
	}
	aboutMode = diagnosis{
		FindingMode,
		"A node is one master that keeps its keys; a Redis Cluster moves them, and refuses scripts over several of them; a Sentinel keeps none",
		"Use independent servers with cluster-enabled no",
	}
	aboutEviction = diagnosis{
		FindingEviction,
		"A lock that is evicted is free for a second holder, and an evicted record makes the node forget",
		"Set maxmemory-policy noeviction, and share the server with no cache",
	}
	aboutMemory = diagnosis{
		FindingMemory,
		"At its limit a server that evicts nothing refuses every lock (OOM)",
		"Raise maxmemory, or find what fills it (INFO memory, redis-cli --bigkeys); the library's own share is below a megabyte, and the locks that are held",
	}
	aboutImportMode = diagnosis{
		FindingImportMode,
		"A Valkey that imports removes nothing that has ended until its name is used again, and redlock leaves names that nobody uses again (tombstones, signs of life): its memory fills, and at maxmemory it refuses every lock (OOM)",
		"CONFIG SET import-mode no, and share the server with nothing that is brought over to it",
	}
	aboutMaxClients = diagnosis{
		FindingMaxClients,
		"At its limit a server closes each new connection: a client that starts, or connects again, has no vote of this node",
		"Raise maxclients and the limit of open files, or find who opens connections (CLIENT LIST)",
	}
	aboutMinReplicas = diagnosis{
		FindingMinReplicas,
		"It refuses every lock (NOREPLICAS) while fewer replicas than that follow it, so the node depends on others",
		"Set min-replicas-to-write 0: redlock replicates by itself, and its nodes need no replicas",
	}
	aboutInfo = diagnosis{
		FindingVersion,
		"Its version, role and memory policy could not be looked at",
		"Let the user run INFO",
	}
)

// server judges one server by its INFO.
func (d *doctor) server(i int) {
	e := &d.exams[i]
	if e.infoErr != nil {
		d.find(SeverityUnknown, i, aboutInfo, "INFO was refused: %v", e.infoErr)
	}
	switch {
	case e.covers(e.infoErr):
	case e.run == "" || e.info["master_replid"] == "" || e.info["role"] == "":
		severity := SeverityError
		if d.cfg.Unprotected {
			severity = SeverityWarning // nobody will miss it
		}
		d.find(severity, i, aboutRunID, "INFO tells no run_id, no master_replid or no role")
	case e.hidden != nil && !d.cfg.Unprotected && !e.covers(e.hidden):
		d.find(SeverityError, i, aboutRunID, "INFO tells no run_id to a script: %v", e.hidden)
	}
	if e.infoErr != nil {
		return
	}
	d.version(i)
	switch e.info["role"] {
	case "slave", "replica":
		d.find(SeverityError, i, aboutReplica, "it is a replica of %s:%s", e.info["master_host"], e.info["master_port"])
	case "master":
		if n := e.info["connected_slaves"]; n != "" && n != "0" {
			d.find(SeverityWarning, i, aboutReplicas, "it is a master with %s connected replicas", n)
		}
	}
	if mode := cmp.Or(e.info["redis_mode"], e.info["server_mode"]); e.info["cluster_enabled"] == "1" || mode != "" && mode != "standalone" {
		d.find(SeverityError, i, aboutMode, "it runs in %s mode", mode)
	}
	d.eviction(i)
	d.memory(i)
	if d.exams[i].config["import-mode"] == "yes" {
		d.find(SeverityWarning, i, aboutImportMode, "import-mode is on")
	}
	d.connected(i)
	d.goodReplicas(i)
}

// program is the node's server program, by INFO. Valkey calls itself Redis 7.2 in the
// old field, for the sake of old clients.
func (d *doctor) program(i int) (name, version string) {
	info := d.exams[i].info
	if v := info["valkey_version"]; v != "" {
		return "Valkey", v
	}
	return "Redis", info["redis_version"]
}

// version compares major and minor.
func (d *doctor) version(i int) {
	name, text := d.program(i)
	oldest := oldestRedis
	if name == "Valkey" {
		oldest = oldestValkey
	}
	switch v, ok := parseVersion(text); {
	case !ok:
		d.find(SeverityUnknown, i, aboutVersion, "INFO tells no version that can be read: %q", text)
	case v < oldest:
		d.find(SeverityError, i, aboutVersion, "it is %s %s; redlock needs %d.%d", name, text, oldest/100, oldest%100)
	}
}

// parseVersion reads "7.2.4" as 702.
func parseVersion(text string) (int, bool) {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, false
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil || major < 0 || minor < 0 || minor > 99 {
		return 0, false
	}
	return major*100 + minor, true
}

// eviction: every policy but noeviction may drop a lock, since locks are among
// the keys that end by themselves.
func (d *doctor) eviction(i int) {
	info := d.exams[i].info
	policy, limit := info["maxmemory_policy"], info["maxmemory"]
	switch {
	case policy == "":
		d.find(SeverityUnknown, i, aboutEviction, "INFO tells no maxmemory_policy")
	case policy == "noeviction":
	case limit == "0":
		d.find(SeverityWarning, i, aboutEviction, "maxmemory-policy is %s; nothing is evicted yet, since maxmemory is not set", policy)
	default:
		d.find(SeverityError, i, aboutEviction, "maxmemory-policy is %s, with maxmemory %s", policy, limit)
	}
}

// nearly is the part of a limit, in percent, from which it is worth a warning.
const nearly = 90

// memory: a server that may evict has a finding of its own.
func (d *doctor) memory(i int) {
	info := d.exams[i].info
	used, limit := number(info["used_memory"]), number(info["maxmemory"])
	if limit <= 0 || info["maxmemory_policy"] != "noeviction" || used < limit/100*nearly {
		return
	}
	severity := SeverityWarning
	if used >= limit {
		severity = SeverityError
	}
	d.find(severity, i, aboutMemory, "it uses %s of its maxmemory of %s, and evicts nothing", info["used_memory_human"], info["maxmemory_human"])
}

// connected judges how near the server is to refusing connections.
func (d *doctor) connected(i int) {
	info := d.exams[i].info
	if n, limit := number(info["connected_clients"]), number(info["maxclients"]); limit > 0 && n*100 >= limit*nearly {
		d.find(SeverityWarning, i, aboutMaxClients, "%d of its maxclients of %d are connected", n, limit)
	}
}

// goodReplicas: INFO tells how many replicas are good where the server wants some.
func (d *doctor) goodReplicas(i int) {
	e := &d.exams[i]
	good, wanted := e.info["min_slaves_good_slaves"], e.config["min-replicas-to-write"]
	switch {
	case good == "" || wanted == "0":
	case wanted == "":
		d.find(SeverityWarning, i, aboutMinReplicas, "it writes only while replicas follow it, and %s do (CONFIG GET min-replicas-to-write was refused: %v)", good, e.confErr)
	case number(good) < number(wanted):
		d.find(SeverityError, i, aboutMinReplicas, "it writes only while %s replicas follow it, and %s do", wanted, good)
	default:
		d.find(SeverityWarning, i, aboutMinReplicas, "it writes only while %s replicas follow it (%s do now)", wanted, good)
	}
}

// number reads a field of INFO or CONFIG; 0 if it is no number.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// A server does not vote again because its disk kept the data: a node that restarted
// abstains until MaxTTL has passed, even if it remembers all, and gets the
// largest numbers from the others. Persistence is for the day on which more nodes
// restart than the others can make up for: then only the disks know numbers, the list
// of nodes and a raised MaxTTL.

var (
	aboutCrash = diagnosis{
		FindingPersistence,
		"After any restart it waits MaxTTL and is rebuilt from the others; when a majority restarts at once, a changed list of nodes and a raised MaxTTL are lost or old, and fencing tokens lean on clocks for one step",
		"CONFIG SET appendonly yes, then CONFIG REWRITE: with the file alone, the next start would be an empty one; appendfsync everysec will do where the nodes do not lose power together",
	}
	aboutPowerCut = diagnosis{
		FindingPersistence,
		"A crash may lose the last moment, a power cut up to about two seconds: the node waits MaxTTL and is rebuilt from the others all the same; only when a majority loses power at once do fencing tokens lean on clocks for one step",
		"Nothing, if the nodes have power supplies of their own; otherwise appendfsync always",
	}
	aboutNoFsync = diagnosis{
		FindingPersistence,
		"The operating system writes it when it likes, on Linux after half a minute: a power cut loses that much, and when a majority loses power at once, fencing tokens lean on clocks for one step",
		"Set appendfsync everysec; always, where the nodes may lose power together",
	}
	aboutNoRewriteFsync = diagnosis{
		FindingPersistence,
		"While the file is rewritten nothing is forced to the disk, no matter what appendfsync says: a power cut then loses up to half a minute",
		"Set no-appendfsync-on-rewrite no",
	}
	aboutReplay = diagnosis{
		FindingReplay,
		"A server reads its append-only file as the default user, and leaves out what that user may not do: after a restart the record and the counters of tokens are gone, and only its log says so",
		"ACL SETUSER default off ~* &* +@all, in its configuration too: it reads all, and lets nobody in",
	}
	aboutFailedWrites = diagnosis{
		FindingWritesFailed,
		"The server refuses writes until its disk works again, so the node can't grant a lock",
		"Make room on the disk, or mend its directory and rights; see the server's log",
	}
	aboutUnknownDisk = diagnosis{
		FindingPersistence,
		"What the node would forget is not known; it waits MaxTTL after a restart in any case",
		"Let the user run CONFIG GET and INFO, or ask the provider for the append-only file's setting",
	}
)

// persistence judges how much the node would forget.
func (d *doctor) persistence(i int) {
	e := &d.exams[i]
	if e.infoErr != nil {
		return // told already
	}
	d.failedWrites(i)
	if e.info["aof_enabled"] == "1" && e.config["no-appendfsync-on-rewrite"] == "yes" && e.config["appendfsync"] != "no" {
		d.find(SeverityWarning, i, aboutNoRewriteFsync, "no-appendfsync-on-rewrite is yes")
	}
	if e.info["aof_enabled"] == "1" && e.replay != "" && e.replay != "OK" {
		d.find(SeverityWarning, i, aboutReplay, "it keeps an append-only file, and its default user may not write the record: %s", e.replay)
	}
	fsync, save := e.config["appendfsync"], e.config["save"]
	_, saves := e.config["save"]
	switch aof := e.info["aof_enabled"]; {
	case aof == "1" && fsync == "always":
	case aof == "1" && fsync == "no":
		d.find(SeverityWarning, i, aboutNoFsync, "it keeps an append-only file, and never forces it to the disk: appendfsync no")
	case aof == "1" && fsync != "":
		d.find(SeverityInfo, i, aboutPowerCut, "it keeps an append-only file, with appendfsync %s", fsync)
	case aof == "1":
		d.find(SeverityUnknown, i, aboutUnknownDisk, "it keeps an append-only file; CONFIG GET appendfsync was refused: %v", e.confErr)
	case aof != "0":
		d.find(SeverityUnknown, i, aboutUnknownDisk, "INFO does not tell whether it keeps an append-only file")
	case !saves:
		d.find(SeverityWarning, i, aboutCrash, "it keeps no append-only file; whether it takes snapshots is unknown (%v)", e.confErr)
	case save == "":
		d.find(SeverityWarning, i, aboutCrash, "it keeps nothing on disk: no append-only file, no snapshots")
	default:
		d.find(SeverityWarning, i, aboutCrash, "it keeps snapshots only (save %s): a crash loses what came after the last", save)
	}
}

// failedWrites: a server whose last write to the disk failed replies MISCONF to
// every write, unless it was told to carry on after a failed snapshot.
func (d *doctor) failedWrites(i int) {
	e := &d.exams[i]
	if s := e.info["aof_last_write_status"]; e.info["aof_enabled"] == "1" && s != "" && s != "ok" {
		d.find(SeverityError, i, aboutFailedWrites, "its last write to the append-only file failed")
	}
	if s := e.info["rdb_last_bgsave_status"]; s == "" || s == "ok" || e.config["save"] == "" {
		return
	}
	switch e.config["stop-writes-on-bgsave-error"] {
	case "yes":
		d.find(SeverityError, i, aboutFailedWrites, "its last snapshot failed, and stop-writes-on-bgsave-error is yes")
	default:
		d.find(SeverityWarning, i, aboutFailedWrites, "its last snapshot failed")
	}
}
