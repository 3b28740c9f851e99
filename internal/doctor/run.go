package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// A test of the command runs each remedy below as it is printed, against its fault on real servers.

// commands are the remedies that a server is told, by the diagnosis.
var commands = map[diagnosis]string{
	aboutBacklog:        "CONFIG SET repl-backlog-ttl 0",
	aboutEviction:       "CONFIG SET maxmemory-policy noeviction",
	aboutImportMode:     "CONFIG SET import-mode no",
	aboutMinReplicas:    "CONFIG SET min-replicas-to-write 0",
	aboutCrash:          "CONFIG SET appendonly yes",
	aboutNoFsync:        "CONFIG SET appendfsync everysec",
	aboutNoRewriteFsync: "CONFIG SET no-appendfsync-on-rewrite no",
	aboutReplay:         "ACL SETUSER default off '~*' '&*' +@all",
}

// lines are the remedy for a finding about a node, or about the cluster (-1), as a shell takes
// them; nil if it is none that can be run.
func (d *doctor) lines(i int, g diagnosis) []string {
	switch g {
	case aboutBlank, aboutForgot:
		return []string{"redlock nodes join --wait"}
	case aboutLax:
		return []string{"redlock nodes change --strict on"}
	case aboutOtherMaxTTL:
		return []string{fmt.Sprintf("redlock nodes change --max-ttl %v", d.cfg.TTL)}
	case aboutChange:
		if again := d.view().Again(); again != "" {
			return []string{"redlock nodes change" + again}
		}
	}
	command := commands[g]
	if command == "" || d.exams[i].options == nil {
		return nil
	}
	out := []string{command}
	switch e := d.exams[i]; { // else the next start forgets it
	case strings.HasPrefix(command, "ACL") && e.config["aclfile"] != "":
		out = append(out, "ACL SAVE")
	case e.info["config_file"] != "":
		out = append(out, "CONFIG REWRITE")
	}
	for k := range out {
		out[k] = d.shell(i) + " " + out[k]
	}
	if len(out) == 1 {
		out = append(out, "# it has no file of settings: start it with that one, or it is forgotten")
	}
	return out
}

// shell is redis-cli for node i.
func (d *doctor) shell(i int) string {
	o := d.exams[i].options
	args := []string{"redis-cli", "-s", o.Addr}
	if host, port, err := net.SplitHostPort(o.Addr); err == nil && o.Network != "unix" {
		args = []string{"redis-cli", "-h", host, "-p", port}
	}
	if o.Username != "" {
		args = append(args, "--user", o.Username)
	}
	if o.TLSConfig != nil {
		args = append(args, "--tls")
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.ContainsAny(a, " '\"$`\\;&|<>()*?#") }) {
		for k, a := range args {
			args[k] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(args, " ")
}
