package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
)

const (
	// pings is how many round trips the doctor takes of each node: enough to meet a
	// second's hiccups, too few to bother anyone. With so few, the largest stands
	// for the 99th percentile.
	pings     = 20
	fewPings  = 3 // so many at least, of a slow node
	pingsCost = 2 // then no longer than so many node timeouts
	lostPings = 2 // a node that lost so many has shown enough
)

type wallTime = time.Time

// exam is the answers of one node, and the options of its client.
type exam struct {
	err     error          // it told nothing: why
	options *redis.Options // nil: not a *redis.Client
	info    map[string]string
	infoErr error
	run     string
	record  []any // redlock:node, in the order of membership.RecordFields
	recErr  error
	signs   []any             // of stragglers
	config  map[string]string // the answers of CONFIG GET
	confErr error
	user    string
	denied  []denial    // rights that are missing
	unknown []right     // those with commands that the server does not know
	aclErr  error       // why ACL DRYRUN told nothing
	replay  string      // why the default user may not write the record; "OK" if it may, empty if not told
	faults  []failedUse // the commands that it refused when it was proved
	hidden  error       // why a script there can't learn which server it runs on
	trips   []trip
	later   trip // a second look at its clock; zero if none
	lost    int  // pings without a reply
	timeErr error
}

// trip is one round trip, and the node's clock read on it.
type trip struct {
	took   time.Duration
	at     clock.Instant // in its middle
	offset wallTime      // the node's wall clock at our Clock's origin, by this reading
}

// question is a command that is sent once, no matter the client's MaxRetries: a
// doctor's load must not multiply on a node that is ill.
type question struct{ *redis.Cmd }

func (question) NoRetry() bool { return true }

func ask(ctx context.Context, args ...any) question {
	return question{redis.NewCmd(ctx, args...)}
}

// configs are the settings that the doctor asks for, one command each: before version
// 7, CONFIG GET takes a single name.
var configs = []string{
	"appendfsync", "save", "stop-writes-on-bgsave-error", "no-appendfsync-on-rewrite", "min-replicas-to-write",
	"repl-backlog-ttl", "enable-debug-command",
	"aclfile",
	"import-mode", // Valkey's
}

// examineNode asks one node everything, and changes nothing there.
func examineNode(ctx context.Context, n *node.Node, prefix string) exam {
	e := exam{config: map[string]string{}}
	if c, ok := n.Client.(*redis.Client); ok {
		e.options = c.Options()
	}
	// One pipeline is one connection, so the record belongs to the process whose
	// run_id stands beside it.
	info := ask(ctx, "INFO")
	fields := []any{"HMGET", lua.NodeKey}
	for _, f := range membership.RecordFields {
		fields = append(fields, f)
	}
	rec := ask(ctx, fields...)
	signs := ask(ctx, node.SignsCommand()...)
	who := ask(ctx, "ACL", "WHOAMI")
	run := ask(ctx, "EVALSHA", strings.Repeat("0", 40), 1, lua.NodeKey) // NOSCRIPT: the right is there
	replay := ask(ctx, "ACL", "DRYRUN", "default", "HSET", lua.NodeKey, "a", "b")
	all := []question{info, rec, who, run, replay, signs}
	for _, name := range configs {
		all = append(all, ask(ctx, "CONFIG", "GET", name))
	}
	putQuestions(ctx, n, node.DialShare*n.Timeout, all)
	if e.err = told(all); e.err != nil {
		e.err = n.Misdialled(ctx, partingWords(ctx, n, node.Explain(e.err)))
		return e
	}
	e.readInfo(info)
	e.record, e.recErr = rec.Slice()
	e.signs, _ = signs.Slice()  // refused as the record is
	e.replay, _ = replay.Text() // refused: readRights tells
	for i, name := range configs {
		e.readConfig(name, all[len(all)-len(configs)+i])
	}
	e.readRights(ctx, n, prefix, who, map[string]question{"INFO": info, "HMGET": rec, "EVALSHA": run})
	e.time(ctx, n)
	return e
}

// putQuestions sends questions in one pipeline; each holds its own reply or error.
func putQuestions(ctx context.Context, n *node.Node, bound time.Duration, questions []question) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	_, err := n.Brief.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, q := range questions {
			_ = p.Process(ctx, q) // queued only
		}
		return nil
	})
	for _, q := range questions {
		// A client that fails before it sends may leave the commands as they were.
		if q.Err() == nil && q.Val() == nil {
			q.SetErr(cmp.Or(err, node.ErrNoReply))
		}
	}
}

// told returns why the node told nothing, or nil if it answered any question,
// were it with a refusal. One error for all questions is the connection's: it
// could not be made, or not be set up.
func told(questions []question) error {
	for _, q := range questions {
		if node.RefusesLogin(q.Err()) {
			return q.Err()
		}
	}
	first := questions[0].Err()
	if first == nil {
		return nil
	}
	for _, q := range questions {
		var reply redis.Error
		switch err := q.Err(); {
		case err == nil:
			return nil
		case errors.As(err, &reply) && err.Error() != first.Error():
			return nil
		}
	}
	return first
}

func (e *exam) readInfo(q question) {
	text, err := q.Text()
	e.infoErr = err
	e.info = map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			e.info[name] = value
		}
	}
	e.run = e.info["run_id"]
}

// readConfig reads a reply of CONFIG GET: pairs, as a list or as a map. A server
// that does not know the name replies with none.
func (e *exam) readConfig(name string, q question) {
	switch v := q.Val().(type) {
	case []any:
		if len(v) == 2 {
			e.config[name] = fmt.Sprint(v[1])
		}
	case map[any]any:
		if value, ok := v[name]; ok {
			e.config[name] = fmt.Sprint(value)
		}
	}
	if err := q.Err(); err != nil {
		e.confErr = err
	}
}

// time takes round trips, each with a reading of the node's clock.
func (e *exam) time(ctx context.Context, n *node.Node) {
	begin := n.Clock.Early()
	for i := range 1 + pings {
		if i > fewPings && n.Clock.Early().Sub(begin) > pingsCost*n.Timeout || e.lost >= lostPings || ctx.Err() != nil {
			return
		}
		bound := n.Timeout
		if i == 0 {
			bound *= node.DialShare // it may have to connect, and does not count
		}
		t, err := takeTrip(ctx, n, bound)
		var reply redis.Error
		switch {
		case errors.As(err, &reply):
			e.timeErr = err
			return
		case err != nil:
			e.lost++
			e.timeErr = err
		case i > 0:
			e.trips = append(e.trips, t)
		}
	}
}

// takeTrip takes one round trip.
func takeTrip(ctx context.Context, n *node.Node, bound time.Duration) (trip, error) {
	sent := n.Clock.Early()
	server, err := readTime(ctx, n, bound)
	took := n.Clock.Early().Sub(sent)
	middle := sent.Add(took / 2)
	return trip{took: took, at: middle, offset: server.Add(-middle.Sub(0))}, err
}

func readTime(ctx context.Context, n *node.Node, bound time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := node.TimeCall{TimeCmd: redis.NewTimeCmd(ctx, "TIME")}
	err := n.Brief.Process(ctx, cmd)
	return cmd.Val(), err
}

// A node that takes another server's data over is seen to have forgotten by its
// replication id (internal/node, identity.go). The checks below look for two faults: settings
// that change the id without need, and settings that put old data under the same id.

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

// history judges the settings by which a node's data may change while its process lives.
func (d *doctor) history(i int) {
	e := &d.exams[i]
	if ttl := e.config["repl-backlog-ttl"]; e.info["role"] == "master" && e.info["repl_backlog_active"] == "1" && ttl != "" && ttl != "0" {
		d.find(SeverityWarning, i, aboutBacklog, "it has or had replicas, and repl-backlog-ttl is %s seconds", ttl)
	}
	if debug := e.config["enable-debug-command"]; debug == "yes" || debug == "local" {
		d.find(SeverityWarning, i, aboutDebug, "enable-debug-command is %s", debug)
	}
}

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

// client judges the options of one node's client. An option that redlock bounds by itself
// is an info; one that it can't bound is a warning.
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

// softOptions are the options that would defeat the timeouts of a caller without bounds of
// its own; redlock brings some. A timeout of 0 means no timeout.
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
