// Package redlock holds one lock across N independent Redis masters (Redlock),
// with a fencing token for every lock and a holder that learns in time that it
// no longer holds.
//
// # Using it
//
//	locker, err := redlock.Open(ctx, []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"})
//	...
//	err = locker.Do(ctx, "orders/42", func(ctx context.Context, lock *redlock.Lock) error {
//		// ctx is done when the lock is lost; send lock.Token() with each write
//		return nil
//	})
//
// Twelve names matter first:
//
//   - [Open] makes a [Locker] from the masters' URLs, one for each list of masters.
//     [New] takes clients that are there already.
//   - [Locker.Do] runs a function while the lock is held. It is the form to prefer:
//     it releases in every case, and its context is done when the lock is lost.
//   - [Locker.Acquire] waits for the lock.
//   - [Locker.TryAcquire] makes one attempt.
//   - [Lock.Context] is done when the lock is no longer held.
//   - [Lock.Err] is nil while the lock is held; then it says why it ended.
//   - [Lock.Token] goes along with each write, for the resource to check.
//   - [Lock.Release] gives the lock back.
//   - [Locker.Close] releases all locks, and ends what waits.
//   - [ErrNotAcquired]: a quorum answered, and somebody else holds the resource.
//   - [ErrNoQuorum]: too few nodes answered, so nobody can say. A [QuorumError] says
//     what each node did.
//   - [ErrLost]: the lock ended before it was released.
//
// The rest, in the order of use:
//
//   - More of a hold: [Lock.Remaining], [Lock.Extend], [Lock.Done], [Lock.Slot],
//     [Lock.Shared].
//   - Other holds: [WithShared], [WithLimit], [WithReentry], and several names at once
//     with [Locker.DoAll], [Locker.AcquireAll] and [MultiLock].
//   - Options: an [Option] is for [Open] and [New], an [AcquireOption] for one
//     acquisition, a [LockOption] for both. [WithTTL], [WithWait] and [WithMaxHold] are
//     the first to know. [Open] and [New] repair nothing: they return every fault at once.
//   - Elections: [Locker.Campaign], [Locker.Observe], [Leader].
//   - To ask a holder for its lock: [WithRevocation], [Lock.Revoked], [Locker.Revoke].
//   - Who holds a name: [Locker.Inspect], [Inspection], [NodeInspection], [Sharer],
//     [SlotHolder].
//   - What a Locker does: [WithObserver], [WithLogger], [Event], [EventKind], [Reason],
//     [Turn], and counted [Locker.Stats], [Stats], [NodeStats].
//   - What nodes did in a round that failed: [QuorumError], [NodeResult], [Outcome].
//   - For operators: [Locker.Cluster], [Cluster], [ClusterStatus], [NodeStatus], [Wanted], [ChangeOptions], [ChangeProgress],
//     [Straggler], [NodeState], and what [Cluster.Check] finds: [Report], [Finding], [FindingCode],
//     [Severity].
//
// A node is one independent master: no replica, no Cluster, no Sentinel group. Use
// three, or five; two of five may then be down. One is a start: it may not be down.
// Redis 7 or newer, or Valkey 7.2 or newer, and none that lets scripts touch only keys that
// they are given (KEYS), as Dragonfly does by default. New nodes vote after [WithMaxTTL], or
// after [Cluster.Admit]: they can't be told from nodes that forgot.
//
// docs/CHEATSHEET.md has the calls on one page.
//
// # What it does not guarantee
//
// It does not guarantee that only one process acts on the resource at a time. No
// lock over a network can: a holder may be paused between its last look at the
// lock and its write. With a TTL of 10 s a lock may be trusted for 9.898 s from
// the moment its acquisition was sent (see below). A process that sees
// Remaining() == 5 s, is then stopped for 12 s by its virtual machine and goes on
// with a write has written 7 s after its lock ended, perhaps in the middle of the
// next holder's work. What stops that write is the resource: it must remember the
// largest [Token] it has seen, and refuse a smaller one. Package fencing has such
// guards. A resource that cannot check a token has a lock that nearly always
// excludes.
//
// # What it guarantees
//
// With any network, among clients of this package with one list of nodes,
// as long as the nodes' clocks run at the rate of ours to within the drift factor
// and do not step where the clock watch can't see it:
//
//   - Two locks of one resource are never both valid at one moment: the later
//     one is granted only after the earlier one's Err() is not nil.
//   - Tokens of one resource are unique and grow from lock to lock. No clock's
//     reading is in this argument, but for one step after a majority of the nodes
//     lost its memory (none by itself, with [WithStrictRecovery]).
//   - A lock that was lost never comes back, and one that was released leaves
//     nothing behind that outlasts a lease.
//
// A node that forgot what it granted, by a restart, a flush or a restored backup,
// does not vote until every lease that it may have forgotten is over. It comes
// back by itself, [WithMaxTTL] after the first client noticed.
//
// docs/SAFETY.md has each guarantee, the assumptions behind it, what happens when
// one of them fails, and the test that shows it.
//
// # The trust window
//
// A lock is trusted for
//
//	sent + TTL - (TTL × drift factor + 2 ms)
//
// where sent is read from the holder's own monotonic clock before anything goes
// to a node. No node can have begun the lease earlier, so none gives the resource
// away before the holder's own deadline, which depends on no reply. With the
// defaults that is 10 s - 102 ms = 9.898 s from the sending. A renewal, at a
// third of the TTL, opens the next window from its own sending, if a quorum
// confirms it before the old window ends:
//
//	           sent                        validity ends
//	holder     |============ held =========|
//	a node       |----------- the key is there ----------|
//	renewal            |============ held =========|
//
//	          Acquire          validity ended, or the nodes lost it
//	  (free) ---------> held -------------------------------------> ErrLost
//	                    ^  |    Release
//	            renewed |  |--------------------------------------> ErrReleased
//	                    +--|    WithMaxHold's bound passed
//	                       |--------------------------------------> ErrMaxHold
//	                       |    Locker.Close
//	                       +--------------------------------------> ErrClosed
//
// A lock ends once. A confirmation that arrives after the validity has ended
// counts for nothing, since by then another may have held the resource.
package redlock
