package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// server answers, in memory, what a node's writer sends, which runs in the test: flush. Each
// script has one answer: a number, numbers, or an error; TIME tells the time.
type server struct {
	*Node
	answers map[string]any
	sent    []string // the names of the scripts, and other commands
	told    told
}

// told is what a node's observer hears.
type told struct {
	Observer

	down, refuses error
}

func (*told) Called(int, time.Duration)        {}
func (*told) Erred(int)                        {}
func (o *told) Down(_ int, cause error)        { o.down = cause }
func (o *told) RefusesWrites(_ int, why error) { o.refuses = why }

func newServer(t *testing.T, cfg Config) *server {
	t.Helper()
	s := &server{answers: map[string]any{}}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", PipelinePoolSize: -1})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(s)
	c, names := clock.New(), []string{"a", "b", "c"}
	cfg.Unprotected, cfg.Timeout, cfg.Busy = true, time.Second, func() bool { return true }
	cfg.Untold = func([]*round.Round) []Poll { return nil }
	cfg.Recorded = func(string, bool) bool { return false }
	tracker := membership.NewTracker(membership.NewConfig(names, time.Minute, false), "", c)
	s.Node = New(0, "a", client, cfg, c, NewSiblings(names, 0, new(round.Hints)), tracker, &s.told)
	s.writer.conn.keeps, s.writer.conn.calls = false, client // what is made of it has no hooks
	s.writer.loaded, s.writer.epoch, s.writer.due = true, "epoch", false
	return s
}

func (s *server) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *server) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { s.answer(cmd); return cmd.Err() }
}

func (s *server) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.answer(cmd)
		}
		return nil
	}
}

func (s *server) answer(cmd redis.Cmder) {
	name := cmd.Name()
	if name == "evalsha" {
		hash, ok := cmd.Args()[1].(string)
		if !ok {
			hash = *cmd.Args()[1].(*string)
		}
		for _, script := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
			if script.Hash == hash {
				name = script.Name
			}
		}
	}
	s.sent = append(s.sent, name)
	switch said := s.answers[name].(type) {
	case error:
		cmd.SetErr(said)
	case int:
		if pass, ok := cmd.(intsCall); ok {
			pass.SetVal(readBehind(int64(said)))
			return
		}
		cmd.(intCall).SetVal(int64(said))
	case []int64:
		cmd.(intsCall).SetVal(readBehind(said...))
	case noReading:
		cmd.(intsCall).SetVal(said)
	case nil:
		if c, ok := cmd.(TimeCall); ok {
			c.SetVal(time.Now())
		}
	}
}

// noReading is a reply of a script that could not read the clock.
type noReading []int64

// readBehind is a reply with the clock's reading behind it.
func readBehind(said ...int64) []int64 {
	now := time.Now()
	return append(slices.Clone(said), now.Unix(), int64(now.Nanosecond())/1000)
}

// flush sends what waits for the node, and takes in what it says.
func (s *server) flush() {
	s.writer.take(s.Clock.Early())
	s.writer.send()
}

// claim is an attempt to hold a name.
func (s *server) claim(key string) *round.Claim {
	return &round.Claim{Key: key, Owner: "me", Dead: "redlock:dead:me", TTL: 10_000, Marks: make([]quorum.Mark, 3)}
}

// round is one of a claim to three nodes.
func (s *server) round(c *round.Claim) *round.Round {
	return round.New(c, 3, s.Clock.Early(), round.NewSleeper(s.Clock))
}

// release is the release of a claim that may be there, and the round that waits for it.
func (s *server) release(c *round.Claim) Release {
	c.Marks[0] = quorum.Present
	return Release{Claim: c, Until: s.Clock.Early().Add(time.Minute), Round: s.round(c)}
}

const (
	errFull     = refusal("OOM command not allowed when used memory > 'maxmemory'.")
	errDenied   = refusal("NOPERM this user has no permissions")
	errNoScript = refusal("NOSCRIPT No matching script.")
	errStrange  = refusal("ERR no word of what happened")
)

var errBroke = errors.New("connection reset by peer")

// then is what becomes of the node, and of the call, besides the vote.
func (s *server) then() string {
	switch {
	case s.told.refuses != nil:
		return "it refuses writes"
	case s.told.down != nil:
		return "it is down"
	case len(s.queue.acquires) > 0 && s.writer.epoch == "":
		return "it is verified, and asked again"
	case s.writer.epoch == "":
		return "it is verified"
	}
	return ""
}

// What each kind of call makes of each kind of reply: the vote, what the node may hold of the
// claim, and what becomes of the node.
func TestEachReplyHasItsOutcome(t *testing.T) {
	const refuses, down, verified, again = "it refuses writes", "it is down", "it is verified", "it is verified, and asked again"
	type reply struct {
		says any
		want quorum.Outcome
		mark quorum.Mark
		then string
	}
	failures := []reply{ // of a call that may put the claim there
		{errFull, quorum.Failed, quorum.Absent, refuses},
		{errDenied, quorum.Failed, quorum.Absent, ""},
		{errStrange, quorum.Unknown, quorum.Unsure, down},
		{errBroke, quorum.Unknown, quorum.Unsure, down},
		{errNoScript, quorum.Pending, quorum.Absent, again},
	}
	for script, of := range map[string]struct {
		submit  func(s *server, r *round.Round)
		replies []reply
	}{
		"acquire": {(*server).SubmitAcquire, append([]reply{
			{42, quorum.Granted, quorum.Present, ""},
			{0, quorum.Pending, quorum.Absent, again}, // another epoch
			{-1, quorum.Failed, quorum.Absent, ""},    // a tombstone
			{-3, quorum.Taken, quorum.Absent, ""},     // kept for who waits
			{-510, quorum.Taken, quorum.Absent, ""},   // another's, for half a second
			{-5, quorum.Unknown, quorum.Unsure, ""},   // no script says so
		}, failures...)},
		"ask": {func(s *server, r *round.Round) {
			r.Asks = &round.Asks{Position: 7, Heard: make([]quorum.Hearing, 3)}
			s.SubmitAcquire(r)
		}, append([]reply{
			{[]int64{42, 0}, quorum.Granted, quorum.Present, ""},
			{[]int64{0, 0}, quorum.Pending, quorum.Absent, again},
			{[]int64{-3, 1}, quorum.Taken, quorum.Absent, ""},
			{[]int64{-3}, quorum.Unknown, quorum.Unsure, ""}, // half a reply
		}, failures...)},
		"share": {func(s *server, r *round.Round) { r.Claim.Share(quorum.NoTicket); s.SubmitAcquire(r) }, append([]reply{
			{[]int64{42, 0}, quorum.Granted, quorum.Present, ""},
			{[]int64{-510, 0}, quorum.Taken, quorum.Absent, ""},
		}, failures...)},
		"raise": {func(s *server, r *round.Round) { r.Raise = 50; s.SubmitRaise(r) }, []reply{
			{1, quorum.Granted, quorum.Absent, ""},
			{60, quorum.Taken, quorum.Absent, ""}, // the counter is above
			{0, quorum.Taken, quorum.Absent, ""},  // the key is not ours
			{-1, quorum.Abstained, quorum.Absent, verified},
			{errFull, quorum.Failed, quorum.Absent, refuses},
			{errBroke, quorum.Unknown, quorum.Absent, down},
		}},
	} {
		for _, reply := range of.replies {
			t.Run(fmt.Sprintf("%s says %v", script, reply.says), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(t, Config{TrustClocks: true})
					s.answers[script] = reply.says
					c := s.claim("orders/42")
					r := s.round(c)
					of.submit(s, r)
					s.flush()
					if got := r.SoFar()[0]; got.Outcome != reply.want || c.Marks[0] != reply.mark || got.Outcome == quorum.Granted && got.Token == 0 {
						t.Errorf("got %v, mark %d; want %v, mark %d, and a token with a grant", got, c.Marks[0], reply.want, reply.mark)
					}
					if got := s.then(); got != reply.then || s.writer.loaded == (reply.says == errNoScript) {
						t.Errorf("then %q, scripts there: %t; want %q", got, s.writer.loaded, reply.then)
					}
				})
			})
		}
	}
}

// What was asked for a second time because the node was another counts as it is answered then.
func TestWhatGoesAgainOnceGoesNoThirdTime(t *testing.T) {
	for said, want := range map[any]quorum.Outcome{0: quorum.Abstained, errNoScript: quorum.Failed} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{TrustClocks: true})
			s.answers["acquire"] = said
			r := s.round(s.claim("orders/42"))
			s.SubmitAcquire(r)
			for range 2 {
				s.flush()
				s.writer.epoch = "epoch" // as verified
			}
			if got := r.SoFar()[0].Outcome; got != want || len(s.queue.acquires) > 0 {
				t.Errorf("twice %v: got %v, and %d to go again; want %v", said, got, len(s.queue.acquires), want)
			}
		})
	}
}

// A release is confirmed by an answer alone. Where the node refuses it, it goes again after a
// pause, and keeps acquires of its name back; where only the script was missing, at once.
func TestAReleaseIsConfirmedByAnAnswerAlone(t *testing.T) {
	for _, tt := range []struct {
		says      any
		confirmed bool
		held      bool
		atOnce    bool
	}{
		{1, true, false, false},
		{0, true, false, false},
		{errFull, false, true, false},
		{errDenied, false, true, false},
		{errBroke, false, true, false},
		{errNoScript, false, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{TrustClocks: true})
			s.answers["release"] = tt.says
			release := s.release(s.claim("orders/42"))
			s.Release(release)
			s.flush()
			if got := release.Round.SoFar()[0].Outcome == quorum.Granted; got != tt.confirmed || got != (release.Claim.Marks[0] == quorum.Absent) {
				t.Errorf("it says %v: confirmed %t, mark %d; want %t", tt.says, got, release.Claim.Marks[0], tt.confirmed)
			}
			if held := s.queue.heldBack("orders/42") != nil; held != tt.held || s.queue.heldBack("orders/43") != nil || len(s.queue.releases) == 1 != tt.atOnce {
				t.Errorf("it says %v: held back %t, %d to go at once; want %t, %t", tt.says, held, len(s.queue.releases), tt.held, tt.atOnce)
			}
		})
	}
}

// A hand-over ends the old claim on a node that made it, or that has no such claim. Any other
// is sent the old claim's release, and the new one's behind it.
func TestAHandOverThatDidNotHappenReleasesTheOldClaim(t *testing.T) {
	for _, tt := range []struct {
		says any
		want quorum.Outcome
		gone bool
	}{
		{42, quorum.Granted, true}, {-4, quorum.Taken, true}, {0, quorum.Abstained, false}, {errFull, quorum.Failed, false}, {errBroke, quorum.Unknown, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{TrustClocks: true})
			s.answers["pass"] = tt.says
			old, r := s.release(s.claim("orders/42")), s.round(s.claim("orders/42"))
			s.SubmitPass(&Handover{Old: old, Round: r})
			s.flush()
			if got := r.SoFar()[0].Outcome; got != tt.want {
				t.Errorf("it says %v: the new claim got %v; want %v", tt.says, got, tt.want)
			}
			if gone := old.Claim.Marks[0] == quorum.Absent; gone != tt.gone || gone != (old.Round.SoFar()[0].Outcome == quorum.Granted) || len(s.queue.releases) == 0 != tt.gone {
				t.Errorf("it says %v: old claim gone %t, %d releases to go; want gone %t, or its release", tt.says, gone, len(s.queue.releases), tt.gone)
			}
			if behind := r.Claim.Marks[0]&quorum.Behind != 0; behind == tt.gone {
				t.Errorf("it says %v: the new claim stands behind the old one: %t; want %t", tt.says, behind, !tt.gone)
			}
		})
	}
}

// Of the extensions of one call, those to a longer lease than the node votes for are refused
// here; the others go.
func TestAnExtensionAboveMaxTTLIsRefusedAloneOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{TrustClocks: true})
		s.writer.longest, s.answers["extend"] = 5*time.Second, []int64{1}
		e := Extend([]*Node{s.Node}, 0, []*round.Claim{s.claim("orders/1"), s.claim("orders/2"), s.claim("orders/3")}, []int64{5000, 5001, 3000}, s.Clock.Early())
		s.flush()
		for i, want := range []quorum.Outcome{quorum.Granted, quorum.Abstained, quorum.Granted} {
			votes, causes := e.Result(i)
			if refused := errors.Is(causes[0], fault.ErrMisconfigured); votes[0].Outcome != want || refused != (want == quorum.Abstained) {
				t.Errorf("extension %d: got %v, %v; want %v", i, votes[0].Outcome, causes[0], want)
			}
		}
	})
}

// A grant counts with a reading of the clock behind it. Where the user may not read it, the
// node abstains for good, and says with what it would not.
func TestAGrantCountsWithTheClockReadBehindIt(t *testing.T) {
	for _, tt := range []struct {
		says  any // to TIME
		trust bool
		want  quorum.Outcome
		wrong error
	}{
		{nil, false, quorum.Granted, nil},
		{errStrange, false, quorum.Abstained, nil},
		{errDenied, false, quorum.Abstained, fault.ErrMisconfigured},
		{errDenied, true, quorum.Granted, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{TrustClocks: tt.trust})
			s.answers["time"], s.answers["acquire"] = tt.says, 42
			r := s.round(s.claim("orders/42"))
			s.SubmitAcquire(r)
			s.flush()
			r.Close()
			if got := r.Votes[0].Outcome; got != tt.want || tt.wrong != nil && !errors.Is(r.Cause(0), tt.wrong) {
				t.Errorf("TIME says %v, trusted: %t: got %v, %v; want %v, %v", tt.says, tt.trust, got, r.Cause(0), tt.want, tt.wrong)
			}
			if silent := s.writer.silence() != nil; silent != (tt.wrong != nil) {
				t.Errorf("TIME says %v: it gives no vote from then on: %t; want %t", tt.says, silent, tt.wrong != nil)
			}
		})
	}
}

// A script that grants reads the clock behind it. Where it could not, the grant does not count,
// and TIME goes behind the next, which says why.
func TestAGrantWhoseScriptReadNoClockDoesNotCount(t *testing.T) {
	for script, submit := range map[string]func(s *server, r *round.Round){
		"pass": func(s *server, r *round.Round) {
			s.SubmitPass(&Handover{Old: s.release(s.claim("orders/42")), Round: r})
		},
		"ask": func(s *server, r *round.Round) {
			r.Asks = &round.Asks{Heard: make([]quorum.Hearing, 3)}
			s.SubmitAcquire(r)
		},
		"share": func(s *server, r *round.Round) {
			r.Claim.Share(quorum.NoTicket)
			s.SubmitAcquire(r)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{})
			var reply noReading
			for range map[string]int{"pass": 1, "ask": 2, "share": 2}[script] {
				reply = append(reply, 42)
			}
			for _, want := range [][]string{{script}, {script, "time"}} {
				s.answers[script] = reply
				r := s.round(s.claim("orders/42"))
				submit(s, r)
				s.sent, s.queue.releases = nil, nil
				s.flush()
				if got := r.SoFar()[0].Outcome; got != quorum.Abstained && len(want) == 1 || got != quorum.Granted && len(want) == 2 || !slices.Equal(s.sent, want) {
					t.Errorf("sent %q, and got %v; want %q, of which the first does not count", s.sent, got, want)
				}
			}
		})
	}
}

// One forbidden name has a call for many refused: each goes alone, and the others are granted.
func TestACallRefusedForOneNameGoesInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{TrustClocks: true})
		s.answers["acquire_batch"], s.answers["acquire"] = errDenied, 42
		var rounds []*round.Round
		for _, key := range []string{"a", "b", "c"} {
			rounds = append(rounds, s.round(s.claim(key)))
		}
		s.SubmitAcquires(rounds)
		s.flush()
		if rounds[0].SoFar()[0].Outcome != quorum.Pending {
			t.Fatal("the refusal of a call for many is the vote on each; want each to go alone")
		}
		s.sent = nil
		s.flush()
		if want := []string{"acquire", "acquire", "acquire"}; !slices.Equal(s.sent, want) || rounds[2].SoFar()[0].Outcome != quorum.Granted {
			t.Errorf("sent %q; want %q", s.sent, want)
		}
	})
}

// Where no two names of a batch share a counter, its script looks for none that do.
func TestABatchTellsOfSharedStripes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		for want, stripes := range map[string][]int64{"1": {0, 63, 64, 4095}, "": {7, 4095, 4095}} {
			var rounds []*round.Round
			for _, stripe := range stripes {
				c := s.claim("a")
				c.Stripe = stripe
				rounds = append(rounds, s.round(c))
			}
			if got := (&batch{}).acquireBatch(rounds).Args()[5+len(stripes)]; got != want {
				t.Errorf("a batch of the stripes %v says %q; want %q", stripes, got, want)
			}
		}
	})
}

// What a batch has goes in one order: releases first, those that may grant last of them, and
// hand-overs before what is asked of the claims that they bring. What is granted is followed by the clock.
func TestABatchHasItsOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		put  func(s *server)
		want []string
	}{
		{"one of each", func(s *server) {
			s.SubmitAcquire(s.round(s.claim("f")))
			s.SubmitPass(&Handover{Old: s.release(s.claim("e")), Round: s.round(s.claim("e"))})
			hand, shared, slot := s.release(s.claim("d")), s.release(s.claim("b")), s.release(s.claim("a"))
			hand.Hint = 1
			shared.Claim.Share(0)
			slot.Claim.TakeSlot(&round.Slot{Name: "a", Line: "a"})
			for _, r := range []Release{hand, s.release(s.claim("c")), shared, slot} {
				s.Release(r)
			}
		}, []string{"release", "release_slot", "release_shared", "hand_one", "pass", "acquire", "time"}},
		{"two of a kind", func(s *server) {
			s.SubmitAcquires([]*round.Round{s.round(s.claim("c")), s.round(s.claim("d"))})
			s.Release(s.release(s.claim("a")))
			s.Release(s.release(s.claim("b")))
		}, []string{"release_batch", "acquire_batch", "time"}},
		{"a release of what is not there", func(s *server) {
			r := s.release(s.claim("a"))
			s.Release(r)
			r.Claim.Marks[0] = quorum.Absent // since then
		}, nil},
		{"a hand of what may still come", func(s *server) {
			r := s.release(s.claim("a"))
			r.Hint, r.Claim.Marks[0] = 1, quorum.Unsure
			s.Release(r)
		}, []string{"release_batch", "time"}},
		{"an acquire that nobody wants any more", func(s *server) {
			r := s.round(s.claim("a"))
			s.SubmitAcquire(r)
			r.Claim.Abandoned.Store(true)
		}, nil},
		{"an acquire of a node that gives no vote", func(s *server) {
			s.writer.epoch, s.writer.abstains = "", errEpoch
			s.SubmitAcquire(s.round(s.claim("a")))
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Config{})
				tt.put(s)
				s.flush()
				if !slices.Equal(s.sent, tt.want) {
					t.Errorf("sent %q; want %q", s.sent, tt.want)
				}
			})
		})
	}
}
