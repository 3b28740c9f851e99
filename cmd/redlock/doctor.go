package main

// doctor prints the library's report (Cluster.Check) for a person or for monitoring. Its exit
// status is the convention of monitoring plug-ins (Nagios, Icinga), so that it can be run as a
// check without a wrapper: 0 OK, 1 warning, 2 critical, 3 unknown. A fault that keeps the report
// from being made at all has the statuses of every command: 64, 69 if no node answered, 78.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

// The exit statuses of a report. doctorWarning is cli.ExitFailure too: a monitor takes a
// failure of doctor itself for a warning, which somebody will look at.
const (
	doctorWarning = 1
	doctorError   = 2
	doctorUnknown = 3
)

func doctorCommand(a *app) cli.Command {
	return cli.Command{
		Name: "doctor", Synopsis: "[flags]", Summary: "look for what would weaken the lock",
		About: `Looks at every node, at the rights of its user (give it that of your programs) and at the
options, and says what would weaken the lock, why, and what to do; what a shell can do is
printed as lines for it (redis-cli takes the password from REDISCLI_AUTH). Each node is proved: a
member takes, extends and releases a lock of a reserved name (redlock:probe:...), any other
stores a key that ends within a millisecond. Nothing of it stays, and no lock is delayed by it.
That masters have no cluster yet, or all forgot it, is an info: redlock nodes fails meanwhile.

Exit status: 0 nothing above an info, 1 a warning, 2 an error, 3 something could not be
looked at (and nothing worse was found), 69 no node answered.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			ttl := cli.NewDuration(fs, "ttl", redlock.DefaultTTL, "the lease that your programs use, a `DURATION`")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				if err := cli.Positive("--ttl", *ttl); err != nil {
					return err
				}
				return a.withSession(ctx, a.doctor, redlock.WithTTL(*ttl))
			}
		},
	}
}

// reportShows is the report, as --json shows it.
type reportShows struct {
	Nodes    int            `json:"nodes"`
	Answered int            `json:"answered"`
	Votes    int            `json:"votes"`
	Quorum   int            `json:"quorum"`
	Servers  []string       `json:"servers"`
	Worst    string         `json:"worst,omitempty"`
	Findings []findingShows `json:"findings"`
}

type findingShows struct {
	Severity string              `json:"severity"`
	Code     redlock.FindingCode `json:"code"`
	Node     string              `json:"node,omitempty"`
	What     string              `json:"what"`
	Why      string              `json:"why"`
	Remedy   string              `json:"remedy"`
	Run      []string            `json:"run,omitempty"`
}

func (a *app) doctor(ctx context.Context, s *session) error {
	r, err := s.locker.Cluster().Check(ctx)
	// Even with no node there is a report: it says why each does not answer.
	if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	if a.JSON {
		err = errors.Join(a.Answer(a.reportOf(r)), err)
	} else {
		err = errors.Join(a.showReport(r), err)
	}
	if err != nil {
		return err
	}
	return cli.Quietly(severityStatus(r.Worst()))
}

// severityStatus is the exit status that tells the worst finding. An info is no reason to
// wake anybody.
func severityStatus(s redlock.Severity) int {
	switch s {
	case redlock.SeverityError:
		return doctorError
	case redlock.SeverityWarning:
		return doctorWarning
	case redlock.SeverityUnknown:
		return doctorUnknown
	case redlock.SeverityInfo:
	}
	return cli.ExitOK
}

func (a *app) reportOf(r redlock.Report) reportShows {
	out := reportShows{Nodes: r.Nodes, Answered: r.Answered, Votes: r.Votes, Quorum: r.Quorum, Servers: r.Servers, Findings: []findingShows{}}
	if w := r.Worst(); w != 0 {
		out.Worst = w.String()
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, findingShows{f.Severity.String(), f.Code, f.Name, redact(f.What), advice(f.Why), advice(f.Remedy), a.shell(f.Run...)})
	}
	return out
}

// showReport prints the findings as a table, then the reason and the remedy of
// each kind once: a fault that all nodes share would repeat them.
func (a *app) showReport(r redlock.Report) error {
	p := a.NewPage()
	rows := [][]cli.Cell{cli.Row("", "CODE", "NODE", "WHAT")}
	of := map[string]int{} // how many nodes have the same finding
	for _, f := range r.Findings {
		of[sameOf(f)]++
	}
	for _, f := range r.Findings {
		at := f.Name
		if same := of[sameOf(f)]; f.Node < 0 {
			at = "cluster"
		} else if same == 0 {
			continue
		} else if same == r.Nodes && same > 1 {
			at, of[sameOf(f)] = "all nodes", 0
		}
		line := cli.Row(f.Severity.String(), string(f.Code), at, redact(f.What))
		line[0].In = severityColor(f.Severity)
		rows = append(rows, line)
	}
	p.Printf("%d of %d nodes answered, %d vote, quorum %d: %s\n", r.Answered, r.Nodes, r.Votes, r.Quorum, plural(len(rows)-1, "finding"))
	if r.Votes < r.Quorum {
		p.WriteString(p.In(cli.Red, "nothing can be locked") + fmt.Sprintf(" by this client until %d vote\n", r.Quorum))
	}
	if text := serversOf(r); text != "" {
		p.WriteString(cli.Note("servers: " + text))
	}
	if len(r.Findings) == 0 {
		return a.Flush(p)
	}
	p.Table(rows)
	told := map[string]bool{}
	for _, f := range r.Findings {
		text := advice(fmt.Sprintf("%s. %s.", f.Why, f.Remedy))
		if told[string(f.Code)+text] {
			continue
		}
		told[string(f.Code)+text] = true
		p.WriteString("\n" + cli.Note(string(f.Code)+": "+text))
		for _, line := range a.linesOf(r, f) {
			p.WriteString("  " + line + "\n")
		}
	}
	return a.Flush(p)
}

// linesOf are the lines for a shell of all findings with the remedy of this one, each once.
func (a *app) linesOf(r redlock.Report, f redlock.Finding) (out []string) {
	for _, same := range r.Findings {
		for _, line := range a.shell(same.Run...) {
			if same.Code == f.Code && same.Why == f.Why && same.Remedy == f.Remedy && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out
}

// shell gives the lines the flags of the connection that they need. A list with a password is left
// to REDLOCK_NODES.
func (a *app) shell(lines ...string) []string {
	c := &a.connection
	flags := func(given ...[2]string) (out string) {
		for _, f := range given {
			if f[1] != "" && redact(f[1]) == f[1] {
				out += fmt.Sprintf(" --%s '%s'", f[0], strings.ReplaceAll(f[1], "'", `'\''`))
			}
		}
		return out
	}
	tls := flags([2]string{"cacert", c.certificates.authorities}, [2]string{"cert", c.certificates.own}, [2]string{"key", c.certificates.key})
	own := flags([2]string{"nodes", c.nodes}, [2]string{"nodes-file", c.nodesFile}, [2]string{"user", c.user}, [2]string{"password-file", c.passwordFile}, [2]string{"node-names", c.names}) + tls
	out := slices.Clone(lines)
	for i, line := range out {
		if rest, ok := strings.CutPrefix(line, "redlock "); ok {
			out[i] = "redlock" + own + " " + rest
			continue
		}
		out[i] = strings.Replace(line, " --tls", " --tls"+tls, 1)
		if rest, ok := strings.CutPrefix(out[i], "redis-cli "); ok && !strings.Contains(rest, " --user ") {
			out[i] = "redis-cli" + flags([2]string{"user", cmp.Or(c.user, a.Getenv(userVariable))}) + " " + rest
		}
	}
	return out
}

// sameOf is equal for findings that differ by their node alone.
func sameOf(f redlock.Finding) string { return fmt.Sprint(f.Severity, f.Code, f.What) }

// serversOf is the nodes' servers, each program once, with the number of its nodes.
func serversOf(r redlock.Report) string {
	nodes := map[string]int{}
	for _, s := range r.Servers {
		if s != "" {
			nodes[s]++
		}
	}
	var out []string
	for _, s := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, fmt.Sprintf("%s on %s", s, plural(nodes[s], "node")))
	}
	return redact(strings.Join(out, ", "))
}

func severityColor(s redlock.Severity) cli.Paint {
	switch s {
	case redlock.SeverityError:
		return cli.Red
	case redlock.SeverityWarning, redlock.SeverityUnknown:
		return cli.Yellow
	case redlock.SeverityInfo:
	}
	return cli.Plain
}
