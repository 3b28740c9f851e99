package scriptmodel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// queued is a real node whose name 0 is waited for, and the model that must do
// the same. The last waiter hears no hints.
type queued struct {
	*server
	hints *redis.PubSub
	node  scriptmodel.Waiting
	line  string // the name that is waited for
}

const waited = "name-0"

func waiterID(w scriptmodel.Waiter) string { return fmt.Sprintf("waiter-%d", w) }

// value of an owner, in the form of redlock's own: another would be foreign.
func longValue(o scriptmodel.Owner) string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", o)
}

func longTombstone(o scriptmodel.Owner) string { return "redlock:dead:" + longValue(o) }

func newQueued(t *testing.T, addr string) *queued {
	t.Helper()
	q := &queued{server: newServer(t, addr, 0), line: waited}
	q.load("ask", "pass", "look")
	var channels []string
	for w := range scriptmodel.Waiter(scriptmodel.Waiters - 1) {
		channels = append(channels, "redlock:wake:"+waiterID(w))
	}
	q.hints = q.c.Subscribe(t.Context(), append(channels, "mark")...)
	t.Cleanup(func() { _ = q.hints.Close() })
	for range len(channels) + 1 {
		if _, err := q.hints.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// woken is who was called since the last time.
func (q *queued) woken() scriptmodel.Waiter {
	q.t.Helper()
	q.do(q.c.Publish(q.t.Context(), "mark", "").Err())
	who := scriptmodel.NoWaiter
	for {
		m, err := q.hints.ReceiveMessage(q.t.Context())
		q.do(err)
		if m.Channel == "mark" {
			return who
		}
		if m.Payload != waited || who != scriptmodel.NoWaiter {
			q.t.Fatalf("a hint %v after one for %d\nafter %q", m, who, q.log)
		}
		_, err = fmt.Sscanf(m.Channel, "redlock:wake:waiter-%d", &who)
		q.do(err)
	}
}

// shortened is what a call leaves of a sign of life (release.lua).
const shortened = 700 * time.Millisecond

// keep lets no sign of life end by itself: each is given anew, as long as it was.
func (q *queued) keep() {
	q.do(q.c.PExpire(q.t.Context(), "redlock:waiting", time.Hour).Err())
	for w := range scriptmodel.Waiter(scriptmodel.Waiters) {
		life := time.Hour
		if q.node.Called&(1<<w) != 0 {
			life = shortened
		}
		if q.node.Lives(w) {
			q.do(q.c.Set(q.t.Context(), "redlock:live:"+waiterID(w), 1, life).Err())
		}
	}
}

// queue reads what the node keeps of who waits.
func (q *queued) queue() (n scriptmodel.Waiting) {
	ctx := q.t.Context()
	n.Node = q.stored()
	n.Deaf = q.node.Deaf
	for i := range n.Dead {
		n.Dead[i] = q.until(q.c.PTTL(ctx, longTombstone(scriptmodel.Owner(i+1))).Val())
	}
	for w := range scriptmodel.Waiter(scriptmodel.Waiters) {
		if score, err := q.c.ZScore(ctx, "redlock:queue:"+q.line, waiterID(w)).Result(); err == nil {
			n.Places[w] = scriptmodel.Number(score)
		}
		if left := q.c.PTTL(ctx, "redlock:live:"+waiterID(w)).Val(); left > 0 {
			n.Live |= 1 << w
			if left <= shortened {
				n.Called |= 1 << w
			}
		}
	}
	n.Waited = q.c.Exists(ctx, "redlock:waiting").Val() == 1
	return n
}

// step does one thing to both; got and want are replies.
func (q *queued) step(rnd *rand.Rand) (what string, got, want []int) {
	w := scriptmodel.Waiter(rnd.IntN(scriptmodel.Waiters))
	a := scriptmodel.Acquire{Owner: anyOwner(rnd), Life: anyLife(rnd), Epoch: anyEpoch(rnd), Hint: scriptmodel.Number(rnd.IntN(40))}
	ctx := q.t.Context()
	switch rnd.IntN(10) {
	default:
		ask := scriptmodel.Ask{Acquire: a, Waiter: w, Place: scriptmodel.Number(rnd.IntN(40))}
		place := int(ask.Place)
		if ask.Barging = rnd.IntN(8) == 0; ask.Barging {
			place = -1
		} else if rnd.IntN(3) == 0 {
			ask.Place, place = 0, 0
		}
		r := q.run("ask", []string{"redlock:node", waited, longTombstone(a.Owner)}, int(a.Epoch), waiterID(w), 0, longValue(a.Owner), millis(a.Life), int64(a.Hint), place)
		reply, more := q.node.Ask(0, ask)
		return fmt.Sprintf("ask %+v", ask), []int{q.reply(r[0]), int(r[1])}, []int{reply, more}
	case 4:
		r := q.run("acquire", []string{waited, "redlock:node"}, longValue(a.Owner), millis(a.Life), int64(a.Hint), 0, int(a.Epoch))
		return fmt.Sprintf("acquire %+v", a), []int{q.reply(r[0])}, []int{q.node.AcquireKept(0, a, 0)}
	case 5, 6:
		return q.release(rnd, w)
	case 7:
		p := scriptmodel.Pass{Acquire: a, Old: anyOwner(rnd)}
		r := q.run("pass", []string{waited, "redlock:node", longTombstone(a.Owner)}, longValue(p.Old), longValue(a.Owner), millis(a.Life), int64(a.Hint), 0, int(a.Epoch))
		return fmt.Sprintf("pass %+v", p), []int{q.reply(r[0])}, []int{q.node.Pass(0, p)}
	case 8:
		place := scriptmodel.Number(1 + rnd.IntN(40))
		r := q.run("look", []string{waited}, waiterID(w), "", int(place))
		return fmt.Sprintf("look %d %d", w, place), []int{int(r[0])}, []int{q.node.LookAt(w, place)}
	case 9:
		q.do(q.c.Del(ctx, "redlock:live:"+waiterID(w)).Err())
		q.node.Live &^= 1 << w
		q.node.Called &^= 1 << w
		return fmt.Sprintf("%d's sign of life ends", w), nil, nil
	}
}

// release is release.lua or release_batch.lua, with and without an entry.
func (q *queued) release(rnd *rand.Rand, w scriptmodel.Waiter) (what string, got, want []int) {
	r := scriptmodel.Release{Owner: anyOwner(rnd)}
	if held := q.node.Keys[0].Owner; held != 0 && rnd.IntN(2) == 0 {
		r.Owner = held
	}
	keys := []string{waited}
	if rnd.IntN(4) == 0 {
		r.Tombstone = anyLife(rnd)
		keys = append(keys, longTombstone(r.Owner))
	}
	entry := uint8(rnd.IntN(4))
	script, args := "release_batch", []any{1, longValue(r.Owner)}
	if entry == 3 {
		entry, script, args, w = scriptmodel.EntryUnknown, "release", args[1:], scriptmodel.NoWaiter
	}
	if r.Tombstone != 0 {
		args = append(args, millis(r.Tombstone))
	}
	if script == "release_batch" {
		args = append(args, waiterID(w), int(entry))
	}
	reply := q.run(script, keys, args...)
	gone, woken := q.node.ReleaseFrom(0, r, w, entry)
	return fmt.Sprintf("%s %+v of %d, entry %d", script, r, w, entry), []int{int(reply[0]), int(q.woken())}, []int{gone, int(woken)}
}

// sameAs runs steps on the server and the model, and wants the same of both.
func (q *queued) sameAs(t *testing.T, seeds uint64, step func(*rand.Rand) (what string, got, want []int)) {
	t.Helper()
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 0))
		q.install(ours, 0)
		q.node = scriptmodel.Waiting{Node: q.model, Deaf: 1 << (scriptmodel.Waiters - 1)}
		for range 60 {
			kept := time.Now()
			q.keep()
			what, got, want := step(rnd)
			q.log = append(q.log, what)
			on := q.queue()
			if time.Since(kept) > shortened/2 { // on a busy machine signs of life end by themselves
				t.Logf("seed %d ends after %d steps: this one took %v", seed, len(q.log), time.Since(kept))
				break
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d: the node says %v; want %v\nafter %q", seed, got, want, q.log)
			}
			if on != q.node {
				t.Fatalf("seed %d: the node has %+v; want %+v\nafter %q", seed, on, q.node, q.log)
			}
		}
	}
}

func TestModelOfTheQueueIsTheScriptsOnAServer(t *testing.T) {
	q := newQueued(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
	q.sameAs(t, testkit.Of(uint64(25), 60), q.step)
}

// ownerFormat is how an owner's number is read from its value.
func ownerFormat(value string) string {
	if value[0] == 'o' {
		return "owner-%d"
	}
	return "00000000-0000-4000-8000-%d"
}
