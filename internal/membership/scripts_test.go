package membership_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

const nodeKey = "redlock:node"

// scripted is a node that is spoken to through the keeping scripts only.
type scripted struct {
	t       *testing.T
	c       redis.UniversalClient
	restart func(keep bool)
}

func (s *scripted) run(name string, args ...any) any {
	s.t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "lua", name+".lua"))
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := s.c.Eval(s.t.Context(), string(body), []string{nodeKey}, args...).Result()
	if err != nil {
		s.t.Fatalf("%s %v: %v", name, args, err)
	}
	return got
}

func (s *scripted) read() membership.Observation {
	s.t.Helper()
	return membership.ParseObservation(s.run("read", 1).([]any), 0, 0)
}

// record is the record that the node shows, if it shows one.
func (s *scripted) record() (membership.Record, bool) {
	s.t.Helper()
	seen := s.read()
	return seen.Record, seen.Recorded
}

// onBothKinds runs f on an in-process node and on a real server.
func onBothKinds(t *testing.T, f func(t *testing.T, s *scripted)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		cluster := redlocktest.Start(t, 1)
		cluster.Node(0).FlushAll() // it comes as a member
		f(t, &scripted{t, cluster.Clients()[0], func(keep bool) {
			if keep {
				cluster.Node(0).RestartKeepingData()
			} else {
				cluster.Node(0).Restart()
			}
		}})
	})
	t.Run("real server", func(t *testing.T) {
		server := testserver.NeedOne(t, redisserver.Config{AOF: redisserver.FsyncAlways})
		c := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		f(t, &scripted{t, c, func(keep bool) {
			restart := server.RestartEmpty
			if keep {
				restart = server.Restart
			}
			testkit.Must(t, restart())
		}})
	})
}

// TestMembershipModelIsTheScripts holds the model that the search uses and the
// scripts together: notice, install and read, over restarts and flushes.
func TestMembershipModelIsTheScripts(t *testing.T) {
	testkit.Unraced(t)
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		sys := &memberSystem{nodes: 3, life: 1}
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 4))
			s.restart(false)
			model, runs := server{process: 1}, map[uint8]string{1: s.read().Run}
			for step := range 40 {
				what := disturbMembership(s, rnd, sys, &model, runs)
				want := sys.glimpse(&model)
				if got := s.glimpse(runs); got != want {
					t.Fatalf("seed %d, step %d, %s: got %+v; want %+v", seed, step, what, got, want)
				}
			}
		}
	})
}

// disturbMembership does one random thing to the node and to its model.
func disturbMembership(s *scripted, rnd *rand.Rand, sys *memberSystem, model *server, runs map[uint8]string) string {
	s.t.Helper()
	switch kind := rnd.IntN(40); {
	case kind < 3:
		keep := rnd.IntN(4) > 0
		s.restart(keep)
		model.process++
		runs[model.process] = s.read().Run
		if !keep {
			model.data = data{}
		}
		return fmt.Sprintf("restart, data kept: %t", keep)
	case kind < 6:
		s.c.FlushAll(s.t.Context())
		model.data = data{}
		return "flush"
	case kind < 12:
		n := scriptmodel.Number(rnd.IntN(100))
		s.c.HSet(s.t.Context(), nodeKey, "0", int(n))
		model.node.Stripes[0] = n
		return "a stripe"
	case kind < 24:
		fresh := model.nonces + 1
		got := s.run("notice", word('n', fresh), "", "")
		if model.nonce == 0 || model.onRun != model.process {
			model.nonces, model.nonce, model.onRun = fresh, fresh, model.process
		}
		if want := []any{word('n', model.nonce), runs[model.process]}; !reflect.DeepEqual(got, want) {
			s.t.Fatalf("notice: got %v; want %v", got, want)
		}
		return "notice"
	default:
		o := order{nonce: model.nonces, run: model.process, cluster: 1 + uint8(rnd.IntN(3)), base: scriptmodel.Number(rnd.IntN(100)), strict: rnd.IntN(2) == 0}
		if rnd.IntN(4) == 0 {
			o.nonce--
		}
		if rnd.IntN(2) == 0 {
			o.run--
		}
		before := *model
		sys.install(model, o)
		rec := recordOf(word('e', 1), word('c', o.cluster), "", nodeNames[:3], time.Second, quorum.Token(o.base))
		rec.Strict = o.strict
		got := s.run("install", rec.InstallArgs(noticeOf(word('n', o.nonce), runs[o.run]), "")...)
		if want := *model != before; (got == int64(1)) != want {
			s.t.Fatalf("install %+v on %+v: got %v; want installed %t", o, before, got, want)
		}
		return fmt.Sprintf("install %+v", o)
	}
}

// glimpse is what the node shows, in the model's terms.
func (s *scripted) glimpse(runs map[uint8]string) (g glimpse) {
	s.t.Helper()
	seen := s.read()
	if cause, refused := seen.Cause, seen.Refused; refused {
		s.t.Fatalf("the record is refused: %s", cause)
	}
	run := func(id string) uint8 {
		for k, v := range runs {
			if v == id {
				return k
			}
		}
		return 0
	}
	number := func(w string) (n uint8) {
		for i := 1; i < len(w); i++ {
			n = n*10 + w[i] - '0'
		}
		return n
	}
	g = glimpse{answered: true, process: run(seen.Run), largest: scriptmodel.Number(seen.Largest)}
	if rec := seen.Record; seen.Recorded {
		g.cluster, g.run, g.epoch = number(rec.Cluster), run(rec.Run), min(number(rec.Epoch), 1)
		g.strict = rec.Strict
	}
	n, _ := seen.StandingNotice()
	g.nonce, g.onRun = number(n.Nonce), run(n.Run)
	return g
}

func (s *scripted) install(rec membership.Record) {
	s.t.Helper()
	n := s.run("notice", "n", "", "").([]any)
	if got := s.run("install", rec.InstallArgs(noticeOf(n[0].(string), n[1].(string)), "")...); got != int64(1) {
		s.t.Fatalf("install: got %v; want 1", got)
	}
}

func TestRecordComesBackAsItWasInstalled(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		run := s.read().Run
		want := recordOf("e1", "c1", run, []string{"10.0.0.1:6379", "unix:/var/run/a b", "ü"}, 30*time.Second, 1<<53-2)
		s.install(want)
		got, ok := s.record()
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %t; want %+v", got, ok, want)
		}
		if largest := s.read().Largest; largest != 1<<53-2 {
			t.Errorf("got %d; want the base, exactly", largest)
		}
		again := asStrict(recordOf("e2", "c1", run, []string{"a", "b", "c"}, time.Second, 7))
		s.c.HSet(t.Context(), nodeKey, "4095", 9)
		s.install(again)
		if rec := s.read().Record; rec.Base != 1<<53-2 || rec.Epoch != "e2" || !rec.Strict {
			t.Errorf("got %+v; want the larger base kept, the new epoch, and strict", rec)
		}
		s.install(want)
		if rec := s.read().Record; rec.Strict {
			t.Error("got a strict record; want it not strict after an install that is not")
		}
		if got := s.c.HGet(t.Context(), nodeKey, "4095").Val(); got != "9" {
			t.Errorf("got stripe %q after the second install; want 9", got)
		}
	})
}
