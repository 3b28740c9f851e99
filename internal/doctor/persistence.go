package doctor

// What a server keeps over a restart is not what lets it vote again: a node that
// restarted abstains until MaxTTL has passed, no matter what it remembers, and gets the
// largest numbers from the others. Persistence is for the day on which more nodes
// restart than the others can make up for: then numbers, marks of retired nodes
// and a raised MaxTTL are what the disks still know.

var (
	aboutCrash = diagnosis{
		FindingPersistence,
		"After any restart it waits MaxTTL and is rebuilt from the others; when a majority restarts at once, the record of retired nodes and a raised MaxTTL are lost or old, and fencing tokens lean on clocks for one step",
		"Set appendonly yes; appendfsync everysec will do where the nodes do not lose power together",
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
		"A server reads its append-only file as the default user, and leaves out what that user may not do: after a restart the record, the counters of tokens and the list of retired nodes are gone, and only its log says so",
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

// persistence judges what the node would forget.
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
