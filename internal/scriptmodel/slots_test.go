package scriptmodel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// slotted is a real node of which a name with slots is waited for, and the model.
type slotted struct{ *queued }

func slotKey(slot uint8) string { return lua.SlotKey("name", int(slot)) }

func newSlotted(t *testing.T, addr string) slotted {
	t.Helper()
	q := newQueued(t, addr)
	q.load("ask_slot", "release_slot")
	q.names, q.line = slotKey, lua.SlotsKey("name")
	return slotted{q}
}

// told is who was called since the last time, and with which slot.
func (q slotted) told() (who scriptmodel.Waiter, slot uint8) {
	q.t.Helper()
	q.do(q.c.Publish(q.t.Context(), "mark", "").Err())
	who, slot = scriptmodel.NoWaiter, scriptmodel.NoSlot
	for {
		m, err := q.hints.ReceiveMessage(q.t.Context())
		q.do(err)
		if m.Channel == "mark" {
			return who, slot
		}
		name, i, ok := lua.SlotOf(m.Payload)
		if !ok || name != "name" || who != scriptmodel.NoWaiter {
			q.t.Fatalf("a hint %v after one for %d\nafter %q", m, who, q.log)
		}
		slot = uint8(i)
		_, err = fmt.Sscanf(m.Channel, "redlock:wake:waiter-%d", &who)
		q.do(err)
	}
}

func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// step does one thing to both; got and want are replies.
func (q slotted) step(rnd *rand.Rand) (what string, got, want []int) {
	w := scriptmodel.Waiter(rnd.IntN(scriptmodel.Waiters))
	limit := uint8(1 + rnd.IntN(scriptmodel.Names))
	slot := uint8(rnd.IntN(int(limit)))
	ctx := q.t.Context()
	switch rnd.IntN(10) {
	default:
		return q.ask(rnd, w, slot, limit)
	case 5, 6:
		return q.releaseSlot(rnd, w, slot, limit)
	case 7:
		place := scriptmodel.Number(1 + rnd.IntN(40))
		r := q.run("look", []string{q.line}, waiterID(w), "", int(place))
		return fmt.Sprintf("look %d %d", w, place), []int{int(r[0])}, []int{q.node.LookAt(w, place)}
	case 8:
		q.do(q.c.Del(ctx, "redlock:live:"+waiterID(w)).Err())
		q.node.Live &^= 1 << w
		q.node.Called &^= 1 << w
		return fmt.Sprintf("%d's sign of life ends", w), nil, nil
	case 9:
		q.do(q.c.Del(ctx, slotKey(slot)).Err())
		q.node.Drop(slot)
		if rnd.IntN(3) > 0 {
			return fmt.Sprintf("slot %d ends", slot), nil, nil
		}
		q.do(q.c.RPush(ctx, slotKey(slot), "x").Err())
		q.node.Keys[slot] = scriptmodel.Key{Owner: scriptmodel.Alien, Until: scriptmodel.Forever}
		return fmt.Sprintf("slot %d gets another's data", slot), nil, nil
	}
}

func (q slotted) ask(rnd *rand.Rand, w scriptmodel.Waiter, slot, limit uint8) (what string, got, want []int) {
	a := scriptmodel.AskSlot{Limit: limit, Ask: scriptmodel.Ask{Waiter: w, Place: scriptmodel.Number(rnd.IntN(40)), Acquire: scriptmodel.Acquire{
		Name: slot, Owner: anyOwner(rnd), Life: anyLife(rnd), Epoch: anyEpoch(rnd), Hint: scriptmodel.Number(rnd.IntN(40)), Stripe: slot % scriptmodel.Stripes,
	}}}
	place := int(a.Place)
	if a.Barging = rnd.IntN(8) == 0; a.Barging {
		place = -1
	} else if rnd.IntN(3) == 0 {
		a.Place, place = 0, 0
	}
	r := q.run("ask_slot", []string{"redlock:node", slotKey(slot), longTombstone(a.Owner)},
		int(a.Epoch), waiterID(w), 77, a.Stripe, longValue(a.Owner), millis(a.Life), int64(a.Hint), place, "name", limit)
	said := q.node.AskSlot(0, a, 0)
	ends := int(r[4])
	if ends > 0 {
		ends = ticks(r[4])
	}
	return fmt.Sprintf("ask %+v", a), []int{q.reply(r[0]), int(r[1]), int(r[2]), int(r[3]), ends},
		[]int{said.Vote, said.Ticket, flag(said.First), int(said.Free), said.Ends}
}

func (q slotted) releaseSlot(rnd *rand.Rand, w scriptmodel.Waiter, slot, limit uint8) (what string, got, want []int) {
	r := scriptmodel.Release{Name: slot, Owner: anyOwner(rnd)}
	if held := q.node.Keys[slot].Owner; held != 0 && held != scriptmodel.Alien && rnd.IntN(2) == 0 {
		r.Owner = held
	}
	key, entry := slotKey(slot), uint8(rnd.IntN(3))
	if entry == scriptmodel.EntryGoes && rnd.IntN(2) == 0 {
		r.Name, key = scriptmodel.NoSlot, q.line
	}
	place := scriptmodel.Number(rnd.IntN(40))
	keys, args := []string{key}, []any{longValue(r.Owner), "name", limit, int(entry), waiterID(w), int(place)}
	if rnd.IntN(4) == 0 {
		r.Tombstone = anyLife(rnd)
		keys, args = append(keys, longTombstone(r.Owner)), append(args, millis(r.Tombstone))
	}
	reply := q.run("release_slot", keys, args...)
	gone, woken, free := q.node.ReleaseSlot(0, scriptmodel.EndSlot{Release: r, Waiter: w, Entry: entry, Place: place, Limit: limit})
	who, told := q.told()
	return fmt.Sprintf("release %+v of %d, entry %d at %d, limit %d", r, w, entry, place, limit), []int{int(reply[0]), int(who), int(told)}, []int{gone, int(woken), int(free)}
}

func TestModelOfSlotsIsTheScriptsOnAServer(t *testing.T) {
	q := newSlotted(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
	q.sameAs(t, testkit.Of(uint64(25), 100), q.step)
}
