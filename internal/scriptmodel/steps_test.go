package scriptmodel_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/quorumkit/redlock/internal/scriptmodel"
)

func anyName(rnd *rand.Rand) uint8 { return uint8(rnd.IntN(scriptmodel.Names)) }

func anyOwner(rnd *rand.Rand) scriptmodel.Owner {
	return scriptmodel.Owner(1 + rnd.IntN(scriptmodel.Owners))
}

func anyLife(rnd *rand.Rand) scriptmodel.Tick { return scriptmodel.Tick(1 + rnd.IntN(5)) }

// anyInstall is mostly ours, seldom another, or none.
func anyInstall(rnd *rand.Rand) scriptmodel.Epoch {
	return [...]scriptmodel.Epoch{0, ours, ours, ours, ours, ours, ours, ours + 1}[rnd.IntN(8)]
}

// anyEpoch is ours, and seldom another.
func anyEpoch(rnd *rand.Rand) scriptmodel.Epoch {
	return ours + scriptmodel.Epoch(rnd.IntN(16)/15)
}

// anyNumber is one that small numbers never outgrow, or, at the top, also the last.
func (s *server) anyNumber(rnd *rand.Rand) scriptmodel.Number {
	if s.offset != 0 && rnd.IntN(8) == 0 {
		return scriptmodel.Last - scriptmodel.Number(rnd.IntN(5))
	}
	return scriptmodel.Number(1 + rnd.IntN(40))
}

func (s *server) anyAcquire(rnd *rand.Rand) scriptmodel.Acquire {
	name := anyName(rnd)
	return scriptmodel.Acquire{
		Name: name, Owner: anyOwner(rnd), Life: anyLife(rnd), Stripe: stripeOf(name), Epoch: anyEpoch(rnd),
		Hint: scriptmodel.Number(rnd.IntN(2)) * s.anyNumber(rnd),
	}
}

func acquire(s *server, rnd *rand.Rand) (what string, got, want []int) {
	a := s.anyAcquire(rnd)
	replies := s.run("acquire", []string{resource(a.Name), "redlock:node"},
		value(a.Owner), millis(a.Life), s.hint(a.Hint), a.Stripe, int(a.Epoch))
	return fmt.Sprintf("acquire %+v", a), []int{s.reply(replies[0])}, []int{s.model.Acquire(s.now, a, 0)}
}

// acquireBatch: no attempt is in a batch twice, and a name that is somebody's
// data is in it once (twice, the second one is told taken without a count, which
// is a hole less).
func acquireBatch(s *server, rnd *rand.Rand) (what string, got, want []int) {
	epoch, once := anyEpoch(rnd), map[any]bool{}
	var items []scriptmodel.Acquire
	for range 1 + rnd.IntN(5) {
		a := s.anyAcquire(rnd)
		a.Epoch = epoch
		var id any = a.Owner
		if s.model.Holds(a.Name, scriptmodel.Alien) {
			id = a.Name
		}
		if !once[id] && !once[a.Owner] {
			once[id], once[a.Owner] = true, true
			items = append(items, a)
		}
	}
	keys, args := []string{"redlock:node"}, make([]any, 2+4*len(items))
	args[0], args[1] = int(epoch), "1"
	stripes := map[any]bool{}
	for i, a := range items {
		if stripes[a.Stripe] {
			args[1] = ""
		}
		stripes[a.Stripe] = true
		keys = append(keys, resource(a.Name))
		for j, arg := range []any{a.Stripe, value(a.Owner), millis(a.Life), s.hint(a.Hint)} {
			args[2+j*len(items)+i] = arg
		}
		want = append(want, s.model.Acquire(s.now, a, 0))
	}
	for _, r := range s.run("acquire_batch", keys, args...) {
		got = append(got, s.reply(r))
	}
	return fmt.Sprintf("acquire_batch %+v", items), got, want
}

func raise(s *server, rnd *rand.Rand) (what string, got, want []int) {
	name := anyName(rnd)
	r := scriptmodel.Raise{
		Name: name, Owner: s.likelyOwner(rnd, name), Stripe: stripeOf(name), Token: s.anyNumber(rnd), Epoch: anyEpoch(rnd),
	}
	replies := s.run("raise", []string{resource(r.Name), "redlock:node"},
		value(r.Owner), r.Stripe, s.number(r.Token), int(r.Epoch))
	reply := int(replies[0])
	if reply > scriptmodel.Done { // what the stripe has
		reply = s.reply(replies[0])
	}
	return fmt.Sprintf("raise %+v", r), []int{reply}, []int{s.model.Raise(r, 0)}
}

// likelyOwner is often the one that has the key.
func (s *server) likelyOwner(rnd *rand.Rand, name uint8) scriptmodel.Owner {
	if o := s.model.Keys[name].Owner; o != scriptmodel.Nobody && o <= scriptmodel.Owners && rnd.IntN(2) == 0 {
		return o
	}
	return anyOwner(rnd)
}

func extend(s *server, rnd *rand.Rand) (what string, got, want []int) {
	n, epoch := 1+rnd.IntN(4), anyEpoch(rnd)
	keys, args := []string{"redlock:node"}, make([]any, 1+2*n)
	args[0] = int(epoch)
	for i := range n {
		name := anyName(rnd)
		e := scriptmodel.Extend{Name: name, Owner: s.likelyOwner(rnd, name), Life: anyLife(rnd), Epoch: epoch}
		keys = append(keys, resource(e.Name))
		args[1+i], args[1+n+i] = value(e.Owner), millis(e.Life)
		want = append(want, s.model.Extend(s.now, e))
	}
	return fmt.Sprintf("extend %q %v", keys, args), ints(s.run("extend", keys, args...)), want
}

func (s *server) anyRelease(rnd *rand.Rand) scriptmodel.Release {
	name := anyName(rnd)
	return scriptmodel.Release{
		Name: name, Owner: s.likelyOwner(rnd, name), Tombstone: scriptmodel.Tick(rnd.IntN(2)) * anyLife(rnd),
	}
}

func release(s *server, rnd *rand.Rand) (what string, got, want []int) {
	r := s.anyRelease(rnd)
	keys, args := []string{resource(r.Name)}, []any{value(r.Owner)}
	if r.Tombstone != 0 {
		keys, args = append(keys, tombstone(r.Owner)), append(args, millis(r.Tombstone))
	}
	return fmt.Sprintf("release %+v", r), ints(s.run("release", keys, args...)), []int{s.model.Release(s.now, r)}
}

// releaseBatch: the reply is how many were deleted.
func releaseBatch(s *server, rnd *rand.Rand) (what string, got, want []int) {
	n, gone := 1+rnd.IntN(4), 0
	var names, dead []string
	args, lives := []any{n}, []any(nil)
	for range n {
		r := s.anyRelease(rnd)
		names, args = append(names, resource(r.Name)), append(args, value(r.Owner))
		if r.Tombstone != 0 {
			dead, lives = append(dead, tombstone(r.Owner)), append(lives, millis(r.Tombstone))
		}
		gone += s.model.Release(s.now, r)
	}
	replies := s.run("release_batch", append(names, dead...), append(args, lives...)...)
	return fmt.Sprintf("release_batch %q %q %v %v", names, dead, args, lives), ints(replies), []int{gone}
}

// reseed: no lock is in a call twice.
func reseed(s *server, rnd *rand.Rand) (what string, got, want []int) {
	epoch, once := anyEpoch(rnd), map[scriptmodel.Owner]bool{}
	var items []scriptmodel.Reseed
	for range 1 + rnd.IntN(4) {
		name := anyName(rnd)
		r := scriptmodel.Reseed{
			Name: name, Owner: s.likelyOwner(rnd, name), Life: anyLife(rnd), Stripe: stripeOf(name), Token: s.anyNumber(rnd), Epoch: epoch,
		}
		if !once[r.Owner] {
			once[r.Owner] = true
			items = append(items, r)
		}
	}
	keys, args := []string{"redlock:node"}, make([]any, 1+4*len(items))
	args[0] = int(epoch)
	for i, r := range items {
		keys = append(keys, resource(r.Name))
		for j, arg := range []any{r.Stripe, value(r.Owner), millis(r.Life), s.number(r.Token)} {
			args[1+j*len(items)+i] = arg
		}
		want = append(want, s.model.Reseed(s.now, r, 0))
	}
	for _, r := range items {
		keys = append(keys, tombstone(r.Owner))
	}
	return fmt.Sprintf("reseed %+v", items), ints(s.run("reseed", keys, args...)), want
}

// disturb does what is nobody's script: keys and tombstones go, a name is used for
// data of another type, or set without an end.
func disturb(s *server, rnd *rand.Rand) (what string, got, want []int) {
	ctx, name := s.t.Context(), anyName(rnd)
	owner := anyOwner(rnd)
	what = fmt.Sprintf("disturb name %d, owner %d", name, owner)
	switch rnd.IntN(5) {
	case 0:
		s.do(s.c.Del(ctx, tombstone(owner)).Err())
		s.model.DropDead(owner)
		return what + ": no tombstone", nil, nil
	case 1:
		s.do(s.c.Del(ctx, resource(name)).Err())
		s.do(s.c.RPush(ctx, resource(name), "data").Err())
		s.model.Keys[name] = scriptmodel.Key{Owner: scriptmodel.Alien, Until: scriptmodel.Forever}
		return what + ": data", nil, nil
	case 2:
		s.do(s.c.Set(ctx, resource(name), value(owner), 0).Err())
		s.model.Keys[name] = scriptmodel.Key{Owner: owner, Until: scriptmodel.Forever}
		return what + ": without an end", nil, nil
	default:
		s.do(s.c.Del(ctx, resource(name)).Err())
		s.model.Drop(name)
		return what + ": gone", nil, nil
	}
}

func ints(list []int64) (out []int) {
	for _, n := range list {
		out = append(out, int(n))
	}
	return out
}
