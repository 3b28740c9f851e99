package redlock

// The keys and channels that the library has on a node.
const (
	nodeKey      = "redlock:node"
	tombstoneKey = "redlock:dead:"
	queueKey     = "redlock:queue:" // and the name: who waits for it
	liveKey      = "redlock:live:"  // and a Locker's id: its sign of life
	waitingKey   = "redlock:waiting"
	ownPrefix    = "redlock:"           // of every key that is the library's own
	probeKey     = ownPrefix + "probe:" // begins the names that nodes are proved with
	wakeChannel  = ownPrefix + "wake:"  // and the Locker's id
)

// stripes is how many counters of tokens a node has: names share them.
const stripes = 4096

// stripeOf is FNV-1a 64 of the final key, mod 4096: part of the wire format.
func stripeOf(key string) int64 { return int64(hashOf(key) % stripes) }

// hashOf is FNV-1a 64.
func hashOf(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}
