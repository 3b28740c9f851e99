package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock/internal/node"
)

// slowestDial is how long a node's writer may be busy with one connection, or
// node.DialShare node timeouts, if that is more. The node can't vote meanwhile, though
// it be back.
const slowestDial = 2 * time.Second

var (
	aboutDial = diagnosis{
		FindingDial,
		"A node that is cut off without a refusal keeps its writer dialling that long, so it stays silent as long after it is back; the other nodes are not delayed",
		"Set DialTimeout to about a second and DialerRetries to 1, or use Open, which does",
	}
	aboutPool = diagnosis{
		FindingPool,
		"Votes, inspections and the application's own commands take turns on it, and a command that waits for it is not bounded by the node timeout",
		"Set PoolSize to 4 or more and MaxActiveConns to 0, or use Open, which does",
	}
	aboutLimiter = diagnosis{
		FindingLimiter,
		"A circuit breaker or rate limiter that refuses a command takes this node's vote away, and its rollbacks too",
		"Give redlock a client of its own without a Limiter; it keeps its own bounds on nodes that are down",
	}
	aboutMaintenance = diagnosis{
		FindingMaintenance,
		"While the server announces maintenance, the client's timeouts are stretched to RelaxedTimeout, beyond the node timeout; each timeout then closes a connection",
		"Set MaintNotificationsConfig to ModeDisabled, or use Open, which does",
	}
	aboutOptions = diagnosis{
		FindingClient,
		"redlock bounds its own commands by the node timeout, and sends each of them once; the options still act on the application's commands",
		"Nothing; Open sets them all",
	}
	aboutUnseenClient = diagnosis{
		FindingClient,
		"Only a *redis.Client lets its options be seen and its reads be bounded: with another, a hung node costs what that client's own timeouts are",
		"Give New a *redis.Client for each node, or use Open",
	}
)

// client judges the options of one node's client. What redlock bounds by itself
// is worth a word; what it can't is a warning.
func (d *doctor) client(i int) {
	o := d.exams[i].options
	if o == nil {
		d.find(SeverityUnknown, i, aboutUnseenClient, "the client is not a *redis.Client")
		return
	}
	if dial, bounded := longestDial(o); !bounded {
		d.find(SeverityWarning, i, aboutDial, "a connection may take for ever: DialTimeout is %v", o.DialTimeout)
	} else if dial > max(slowestDial, node.DialShare*d.cfg.NodeTimeout) {
		d.find(SeverityWarning, i, aboutDial, "a connection may take %v: DialTimeout %v, DialerRetries %d", dial, o.DialTimeout, o.DialerRetries)
	}
	if o.PoolSize == 1 || o.MaxActiveConns == 1 {
		d.find(SeverityWarning, i, aboutPool, "the client has one connection, and waits %v for it: PoolSize %d, MaxActiveConns %d",
			o.PoolTimeout, o.PoolSize, o.MaxActiveConns)
	}
	if o.Limiter != nil {
		d.find(SeverityWarning, i, aboutLimiter, "the client has a Limiter")
	}
	if m := o.MaintNotificationsConfig; m != nil && m.Mode == maintnotifications.ModeEnabled {
		d.find(SeverityWarning, i, aboutMaintenance, "MaintNotificationsConfig is enabled, with RelaxedTimeout %v", m.RelaxedTimeout)
	}
	if soft := d.softOptions(o); len(soft) > 0 {
		d.find(SeverityInfo, i, aboutOptions, "%s", strings.Join(soft, ", "))
	}
}

// longestDial is how long one connection may take to fail, and whether anything
// bounds it.
func longestDial(o *redis.Options) (time.Duration, bool) {
	if o.DialTimeout <= 0 {
		return 0, false
	}
	total := time.Duration(o.DialerRetries) * o.DialTimeout
	for attempt := range o.DialerRetries - 1 {
		if o.DialerRetryBackoff != nil {
			total += o.DialerRetryBackoff(attempt)
		} else {
			total += o.DialerRetryTimeout
		}
	}
	return total, true
}

// softOptions are those that would defeat the timeouts of a caller who does not
// bring bounds of his own, as redlock does. A timeout of 0 is none.
func (d *doctor) softOptions(o *redis.Options) []string {
	var out []string
	note := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	note(o.ReadTimeout <= 0, "no ReadTimeout")
	note(o.ReadTimeout > d.cfg.TTL, "ReadTimeout %v is above the TTL", o.ReadTimeout)
	note(o.WriteTimeout <= 0, "no WriteTimeout")
	note(o.WriteTimeout > d.cfg.TTL, "WriteTimeout %v is above the TTL", o.WriteTimeout)
	note(o.MaxRetries > 0, "MaxRetries %d", o.MaxRetries)
	note(!o.ContextTimeoutEnabled, "ContextTimeoutEnabled is off")
	m := o.MaintNotificationsConfig
	note(m != nil && m.Mode == maintnotifications.ModeAuto, "MaintNotificationsConfig is auto")
	return out
}
