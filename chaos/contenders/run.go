package contenders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// result is what a run has of one contender.
type result struct {
	Spec     spec
	Version  string // of its servers
	Memory   int64
	Took     time.Duration
	Missing  string // why it was not played
	err      error  // the same
	Outcomes []*outcome
}

// run is what is played.
type run struct {
	contenders []spec
	scenarios  []scenario
	parallel   int // contenders at a time
	log        io.Writer

	mu sync.Mutex // guards log
}

func (r *run) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.log, format+"\n", args...)
}

// all plays everything, and returns the results in the order of the contenders.
func (r *run) all(ctx context.Context) []*result {
	results := make([]*result, len(r.contenders))
	slots := make(chan struct{}, max(r.parallel, 1))
	var wait sync.WaitGroup
	for i, s := range r.contenders {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			results[i] = r.one(ctx, s)
		})
	}
	wait.Wait()
	return results
}

// one plays all scenarios with one contender, over one start of its servers.
func (r *run) one(ctx context.Context, s spec) *result {
	res := &result{Spec: s}
	system, err := s.start(ctx)
	if err != nil {
		res.Missing, res.err = oneLine(err), err
		if !errors.Is(err, errNotInstalled) {
			res.Missing = err.Error()
		}
		r.say("%s: %s", s.name, res.Missing)
		return res
	}
	defer system.close()
	res.Version, res.Memory, res.Took = system.version, system.memory, system.took
	for i, sc := range r.scenarios {
		o := playOne(ctx, s, system, sc, fmt.Sprintf("resource-%d", i))
		res.Outcomes = append(res.Outcomes, o)
		r.say("%s, %s: %s", s.name, sc.name, o)
		if ctx.Err() != nil {
			break
		}
	}
	return res
}

// playOne plays one scenario, and lets the servers come to rest after it.
func playOne(ctx context.Context, s spec, system *system, sc scenario, name string) *outcome {
	o := &outcome{Contender: s.name, Scenario: sc.name, Optimistic: s.optimistic}
	p := newPlay(s, system, name)
	err := sc.play(ctx, p, o)
	p.leave()
	o.records = p.trace()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		o.Skipped = strings.TrimSuffix(oneLine(err), ": "+errors.ErrUnsupported.Error())
	case err != nil:
		o.Failed = oneLine(err)
	}
	if o.Skipped == "" {
		settle(ctx)
	}
	return o
}
