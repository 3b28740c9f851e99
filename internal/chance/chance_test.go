package chance_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/chance"
)

func TestASownSourceFollowsFromItsSeed(t *testing.T) {
	draw := func(seed uint64) (names []string, share float64) {
		client := new(redis.Client)
		chance.Sow(client, seed)
		defer chance.Reap(client)
		s := chance.Of(client)
		for range 1000 {
			names = append(names, s.Name())
		}
		return names, s.Share(17, "a")
	}
	first, share := draw(1)
	again, same := draw(1)
	other, another := draw(2)
	seen := map[string]bool{}
	for i, name := range first {
		if id, err := uuid.Parse(name); err != nil || id.Version() != 4 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("got %q, %v; want a UUID of version 4", name, err)
		}
		if name != again[i] || seen[name] || seen[other[i]] || name == other[i] {
			t.Fatalf("name %d: got %q, then %q, and %q of another seed; want the same from one seed, and no two equal", i, name, again[i], other[i])
		}
		seen[name], seen[other[i]] = true, true
	}
	if share != same || share == another || share < 0 || share >= 1 {
		t.Errorf("got the shares %v, %v, and %v of another seed", share, same, another)
	}
}

// What goroutines decide at one moment does not depend on which is first.
func TestASharesMomentAndSubjectDecide(t *testing.T) {
	client := new(redis.Client)
	chance.Sow(client, 1)
	defer chance.Reap(client)
	one, two := chance.Of(client), chance.Of(client)
	a, b := one.Share(1, "a"), one.Share(1, "b")
	if late, early := two.Share(1, "b"), two.Share(1, "a"); late != b || early != a {
		t.Errorf("got %v and %v, in the other order %v and %v", a, b, early, late)
	}
	if x, y := one.Name(), two.Name(); x == y {
		t.Errorf("got the name %s of two sources of one client", x)
	}
	if a == b || a == one.Share(2, "a") {
		t.Error("got one share of two subjects, or moments")
	}
	sum := 0.0
	for at := range int64(10_000) {
		sum += one.Share(at, "a")
	}
	if mean := sum / 10_000; mean < 0.48 || mean > 0.52 {
		t.Errorf("got a mean of %v; want about a half", mean)
	}
}

func TestASourceOfNoSeedIsTheSystems(t *testing.T) {
	client := new(redis.Client)
	chance.Sow(client, 1)
	chance.Reap(client)
	s := chance.Of(client)
	if s != nil {
		t.Fatal("a client that was reaped has a seed")
	}
	if a, b := s.Name(), s.Name(); a == b {
		t.Errorf("got %q twice", a)
	}
	if a, b := s.Share(1, "a"), s.Share(1, "a"); a == b || a < 0 || a >= 1 {
		t.Errorf("got %v, %v; want two shares", a, b)
	}
}
