package lua

// The keys and channels that the library has on a node.
const (
	NodeKey       = "redlock:node"
	TombstoneKey  = "redlock:dead:"
	QueueKey      = "redlock:queue:"   // and the name: its waiters
	SharersKey    = "redlock:sharers:" // and the name: the waiters that want to share it
	LiveKey       = "redlock:live:"    // and a Locker's id: its sign of life
	WaitingKey    = "redlock:waiting"
	TombstonesKey = "redlock:tombstones" // while a tombstone may lie on the node
	StragglersKey = "redlock:stragglers" // signs of clients that have the list before the latest
	SharingKey    = "redlock:sharing"    // while a waiter may want to share a name
	OwnPrefix     = "redlock:"           // of every key that is the library's own
	ProbeKey      = OwnPrefix + "probe:" // begins the names that prove nodes
	WakeChannel   = OwnPrefix + "wake:"  // and the Locker's id
	// LeaderChannel and the name are the channel on which a leader tells of its hold.
	LeaderChannel = OwnPrefix + "leader:"
)

// SharedMark is the member that marks a sorted set as a shared name's.
const SharedMark = "redlock:shared"

// MaxKeyLength is the longest name of a lock, in bytes, prefix included.
const MaxKeyLength = 4096

// Stripes is how many counters of tokens a node has: names share them.
const Stripes = 4096

// StripeOf is FNV-1a 64 of the final key, mod 4096: part of the wire format.
func StripeOf(key string) int64 { return int64(HashOf(key) % Stripes) }

// HashOf is FNV-1a 64.
func HashOf(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}
