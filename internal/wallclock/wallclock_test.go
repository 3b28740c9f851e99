package wallclock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/wallclock"
)

func TestAWallClockIsOneClients(t *testing.T) {
	ann, bob := new(redis.Client), new(redis.Client)
	wallclock.Step(ann, time.Hour) // nobody keeps it
	if wallclock.Of(ann) != nil {
		t.Error("a client that nobody keeps has a clock of its own")
	}
	wallclock.Keep(ann)
	wallclock.Keep(bob)
	anns, bobs := wallclock.Of(ann), wallclock.Of(bob)
	wallclock.Step(ann, time.Hour)
	wallclock.Step(ann, -2*time.Hour)
	wallclock.Drop(ann)
	if a, b := anns(), bobs(); a != -time.Hour || b != 0 || wallclock.Of(ann) != nil {
		t.Errorf("got %v and %v; want an hour back, and nothing", a, b)
	}
	wallclock.Drop(bob)
}
