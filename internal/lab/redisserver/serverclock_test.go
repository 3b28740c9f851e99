package redisserver_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Of 48 processes that began on a busy machine five had clocks that were off, by up
// to 53 ms, until they read another setting. A node that comes back with such a
// clock has stepped, to the one who knew it before. Many begin at once here, so that
// the machine is busy.
func TestAFakedClockIsRightFromTheStart(t *testing.T) {
	var servers [12]*redisserver.Server
	for i := range servers {
		servers[i] = testserver.NeedOne(t, redisserver.Config{FakeClock: true})
	}
	var work sync.WaitGroup
	for _, s := range servers {
		work.Go(func() {
			if err := s.Restart(); err != nil {
				t.Error(err)
				return
			}
			if least, most := aheadOf(t, s); least > time.Millisecond || most < -time.Millisecond {
				t.Errorf("got a clock that is ahead by %v to %v; want the machine's", least, most)
			}
		})
	}
	work.Wait()
}

// aheadOf is what the server's clock is ahead of ours: bounds of it.
func aheadOf(t *testing.T, s *redisserver.Server) (least, most time.Duration) {
	t.Helper()
	client := redis.NewClient(s.Options())
	defer client.Close()
	least, most = -time.Hour, time.Hour
	for range 20 {
		sent := time.Now()
		at, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		least, most = max(least, time.Until(at)), min(most, at.Sub(sent))
	}
	return least, most
}
