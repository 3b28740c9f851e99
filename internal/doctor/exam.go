package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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

// exam is what one node, and its client, showed.
type exam struct {
	err     error          // it told nothing: why
	options *redis.Options // nil: not a *redis.Client
	info    map[string]string
	infoErr error
	run     string
	record  []any // redlock:node, in the order of membership.RecordFields
	recErr  error
	config  map[string]string // what CONFIG GET told
	confErr error
	user    string
	denied  []denial    // rights that are missing
	unknown []right     // whose commands the server does not know
	aclErr  error       // why ACL DRYRUN told nothing
	replay  string      // why the default user may not write the record; "OK": it may; empty: not told
	faults  []failedUse // what it refused when it was proved
	hidden  error       // why a script there can't learn which server it runs on
	trips   []trip
	later   trip // a second look at its clock; zero: none
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
	who := ask(ctx, "ACL", "WHOAMI")
	run := ask(ctx, "EVALSHA", strings.Repeat("0", 40), 1, lua.NodeKey) // NOSCRIPT: the right is there
	replay := ask(ctx, "ACL", "DRYRUN", "default", "HSET", lua.NodeKey, "a", "b")
	all := []question{info, rec, who, run, replay}
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
	_, err := n.Calls.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, q := range questions {
			_ = p.Process(ctx, q) // queued only
		}
		return nil
	})
	for _, q := range questions {
		// A client that fails before it sends may leave the commands as they were.
		if q.Err() == nil && q.Val() == nil {
			q.SetErr(errors.Join(node.ErrNoReply, err))
		}
	}
}

// told returns why the node told nothing, or nil if it answered any question,
// were it with a refusal. One error for all questions is the connection's: it
// could not be made, or not be set up.
func told(questions []question) error {
	for _, q := range questions {
		if isRefused(q.Err()) {
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

// isRefused tells whether the server refuses the client's credentials.
func isRefused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && node.HasAnyPrefix(reply.Error(), "NOAUTH", "WRONGPASS", "ERR AUTH")
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
	err := n.Calls.Process(ctx, cmd)
	return cmd.Val(), err
}
