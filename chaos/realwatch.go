package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/simnode"
)

// lookFor bounds a look at what a server stores.
const lookFor = 200 * time.Millisecond

// answers listens at the server's end of every link: see [tap].
func (n *realNode) answers(f func(args [][]byte)) {
	if f == nil {
		n.hears.Store(nil)
		return
	}
	n.hears.Store(&f)
}

// answered is told by the taps.
func (n *realNode) answered(args [][]byte) {
	if f := n.hears.Load(); f != nil {
		(*f)(args)
	}
}

// stores asks the server itself, past all links. While something is done to the
// node, or it does not run, it says nothing.
func (n *realNode) stores() (keys []simnode.Key, memory int, ok bool) {
	if !n.mu.TryLock() {
		return nil, 0, false
	}
	opts, memory, runs := n.server.Options(), n.memory, n.downs == 0 && n.stalls == 0
	n.mu.Unlock()
	if !runs {
		return nil, 0, false
	}
	client := redis.NewClient(opts)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	keys, err := stored(ctx, client)
	if err != nil || !n.mu.TryLock() {
		return nil, 0, false
	}
	defer n.mu.Unlock()
	return keys, memory, memory == n.memory
}

// stored is the strings of a server that are not the library's own, and the keys that
// are shared.
func stored(ctx context.Context, client *redis.Client) ([]simnode.Key, error) {
	names, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	var keys []simnode.Key
	for _, name := range names {
		if strings.HasPrefix(name, "redlock:") {
			continue
		}
		pipe := client.TxPipeline() // a shared key and its end are of one moment
		value, members := pipe.Get(ctx, name), pipe.ZRangeWithScores(ctx, name, 0, -1)
		end, now := pipe.PExpireTime(ctx, name), pipe.Time(ctx)
		_, _ = pipe.Exec(ctx) // each says it for itself: a key may be gone by now, or of one type
		if end.Err() != nil || now.Err() != nil {
			continue
		}
		key := simnode.Key{Name: name, Type: "string", Left: end.Val()}
		if key.Left >= 0 {
			if key.Left -= time.Duration(now.Val().UnixMilli()) * time.Millisecond; key.Left < 0 {
				continue // it ends as we look
			}
		}
		switch {
		case value.Err() == nil:
			key.Value = value.Val()
		case members.Err() == nil && len(members.Val()) > 0 && members.Val()[0].Member == "redlock:shared":
			key.Type = "zset"
			for _, m := range members.Val()[1:] {
				left := time.Duration(int64(m.Score)-now.Val().UnixMilli()) * time.Millisecond
				key.Sharers = append(key.Sharers, simnode.Sharer{Owner: fmt.Sprint(m.Member), Left: left})
			}
		default:
			continue
		}
		keys = append(keys, key)
	}
	return keys, ctx.Err()
}
