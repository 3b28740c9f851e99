package doctor

// A node that takes another server's data over is seen to have forgotten by its
// replication id (internal/node, identity.go). What makes the id another without need, and what
// puts old data under the same id.

var (
	aboutBacklog = diagnosis{
		FindingBacklog,
		"Some time after its last replica has left it takes another replication id, as a node does that took over other data, and so abstains for MaxTTL; every node that lost its replicas at the same time does so at once",
		"CONFIG SET repl-backlog-ttl 0, and write it into its configuration; attach replicas to one node at a time, for its first one has the same effect",
	}
	aboutDebug = diagnosis{
		FindingDebug,
		"DEBUG RELOAD NOSAVE and DEBUG LOADAOF put old data under the same process and the same replication id: nothing tells that the node forgot, and a second holder may get a lock",
		"Set enable-debug-command no, the default, and restart the server",
	}
)

// history judges what may befall a node's data while its process lives.
func (d *doctor) history(i int) {
	e := &d.exams[i]
	if ttl := e.config["repl-backlog-ttl"]; e.info["role"] == "master" && e.info["repl_backlog_active"] == "1" && ttl != "" && ttl != "0" {
		d.find(SeverityWarning, i, aboutBacklog, "it has or had replicas, and repl-backlog-ttl is %s seconds", ttl)
	}
	if debug := e.config["enable-debug-command"]; debug == "yes" || debug == "local" {
		d.find(SeverityWarning, i, aboutDebug, "enable-debug-command is %s", debug)
	}
}
