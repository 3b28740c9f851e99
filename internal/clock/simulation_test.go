package clock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
)

func TestAWallClockIsOneClients(t *testing.T) {
	ann, bob := new(redis.Client), new(redis.Client)
	clock.StepWall(ann, time.Hour) // nobody keeps it
	if clock.WallOf(ann) != nil {
		t.Error("a client that nobody keeps has a clock of its own")
	}
	clock.KeepWall(ann)
	clock.KeepWall(bob)
	anns, bobs := clock.WallOf(ann), clock.WallOf(bob)
	clock.StepWall(ann, time.Hour)
	clock.StepWall(ann, -2*time.Hour)
	clock.DropWall(ann)
	if a, b := anns(), bobs(); a != -time.Hour || b != 0 || clock.WallOf(ann) != nil {
		t.Errorf("got %v and %v; want an hour back, and nothing", a, b)
	}
	clock.DropWall(bob)
}
