package redlocktest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// version is what a node says it is. It is the oldest that redlock accepts and
// that both Redis and Valkey have.
const version = "7.2.0"

// infoSections are in the order in which a server prints them.
var infoSections = []string{"server", "clients", "persistence", "stats", "replication", "cluster"}

// info answers INFO with the sections that args name, or all that there are.
func (n *Node) info(args []string) string {
	var out strings.Builder
	for _, section := range infoSections {
		if len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool { return names(a, section) }) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "# %s%s\r\n", strings.ToUpper(section[:1]), section[1:])
		for _, field := range n.infoFields(section) {
			out.WriteString(field + "\r\n")
		}
	}
	return out.String()
}

// names reports whether the argument of an INFO asks for the section.
func names(arg, section string) bool {
	switch arg = strings.ToLower(arg); arg {
	case "all", "default", "everything":
		return true
	default:
		return arg == section
	}
}

func (n *Node) infoFields(section string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch section {
	case "server":
		port := "0"
		if _, p, err := net.SplitHostPort(n.name); err == nil {
			port = p
		}
		return []string{
			"redis_version:" + version,
			"redis_mode:standalone",
			"os:in process (redlocktest)",
			"redlocktest_node:" + n.name,
			"run_id:" + n.runID,
			"tcp_port:" + port,
			fmt.Sprintf("uptime_in_seconds:%d", int(time.Since(n.born).Seconds())),
		}
	case "clients":
		return []string{fmt.Sprintf("connected_clients:%d", len(n.conns))}
	case "persistence":
		return []string{"loading:0", "aof_enabled:0"}
	case "stats":
		total := 0
		for _, calls := range n.calls {
			total += calls
		}
		return []string{fmt.Sprintf("total_commands_processed:%d", total)}
	case "replication":
		return []string{"role:master", "connected_slaves:0", "master_replid:" + n.replID}
	case "cluster":
		return []string{"cluster_enabled:0"}
	}
	return nil
}
