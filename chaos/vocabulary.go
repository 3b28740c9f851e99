package chaos

import (
	"io"

	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Break is a kind of fault: a string.
type Break = trace.Break

// The kinds. A plan's JSON has each as a string, as [Plan.String] shows it. A fault of a link
// is between one client and one node, or all of
// either; what it holds back arrives when it is mended.
const (
	// Crash ends a node's process; mended, it is back with its data.
	Crash = trace.Crash
	// Forget ends a node's process; mended, it is back without its data.
	Forget = trace.Forget
	// Stall stops a node's process; mended, it goes on and runs what came meanwhile.
	Stall = trace.Stall
	// Cut holds back both ways of a link.
	Cut = trace.Cut
	// CutRequests holds back what goes to the node.
	CutRequests = trace.CutRequests
	// CutReplies holds back what comes from the node: commands take effect.
	CutReplies = trace.CutReplies
	// LoseRequests loses what goes to the node.
	LoseRequests = trace.LoseRequests
	// LoseReplies loses what comes from the node, after the effect.
	LoseReplies = trace.LoseReplies
	// LoseCalls loses what comes from the node unasked: the calls of those who wait.
	LoseCalls = trace.LoseCalls
	// Slow makes both ways of a link late by Delay.
	Slow = trace.Slow
	// Jitter makes both ways of a link late by up to Delay, each message by
	// another time. A connection keeps its order.
	Jitter = trace.Jitter
	// Reorder makes every other message to the node late by Delay, as it happens.
	// A connection keeps its order; of two connections, the later command may be
	// the first to arrive.
	Reorder = trace.Reorder
	// Twice delivers each message to the node, and Delay later once more, as a retry on
	// the way does: on a connection of its own, whose replies nobody reads. It leaves out
	// what belongs to its connection: greetings, subscriptions and transactions.
	Twice = trace.Twice
	// Reset breaks a link's connections; there is nothing to mend.
	Reset = trace.Reset
	// HalfOpen ends a link's connections at the node, and the client is not told:
	// its ends stay open, take everything and say nothing, as after the power cut of
	// a machine. New ones work; there is nothing to mend.
	HalfOpen = trace.HalfOpen
	// Refuse lets no new connection of a link in; those that there are go on.
	Refuse = trace.Refuse
	// OtherList makes the client's list of nodes name node To in the place of Node:
	// the connections break, and new ones lead there. Mended, they lead to Node
	// again. Two such faults of one client and Node do not add up: the later holds.
	OtherList = trace.OtherList
	// Flush removes a node's keys, all of them; there is nothing to mend.
	Flush = trace.Flush
	// Delete removes Key from a node, as an operator does; there is nothing to
	// mend.
	Delete = trace.Delete
	// Old copies a node's data while the node runs on; mended, its process has
	// crashed and is back with the copy: For is how old the data are.
	Old = trace.Old
	// Failover makes a node's replica fall behind while the node runs on; mended, the
	// node is gone and the replica, another process, has its address: For is how
	// far it lags.
	Failover = trace.Failover
	// Evict removes Key from a node, as a server short of memory does; without a
	// Key, the one that would expire first. There is nothing to mend.
	Evict = trace.Evict
	// Step moves a node's clock by Delay, which may be negative; mended, it is
	// right again.
	Step = trace.Step
	// Drift makes a node's clock gain Delay a second, or lose it if negative;
	// mended, it is right again, at once.
	Drift = trace.Drift
	// Pause stops a client's own code, as a garbage collection does, at the step
	// that Where names; mended, it goes on. Its leases run on.
	Pause = trace.Pause
	// Suspend stops a client's process, library and all: nothing goes out, and
	// nothing is taken in; mended, it goes on. Its leases run on.
	Suspend = trace.Suspend
	// WallClock sets a client's wall clock by Delay, which may be negative, and nothing else
	// of its time; mended, it is right again. Nothing that redlock decides may follow from
	// that, but which tokens it suggests. Another library reads the machine's.
	WallClock = trace.WallClock
	// ListChange has an operator change the cluster's configuration: it adds Node to the list of
	// nodes or, if it is there, takes it out, and sets MaxTTL and Strict, if they are given. With
	// Everything no node comes or goes; with nothing else either it is a close. It dies as it
	// sends the step that Where names, if any; For later another one does what is left. In a plan, those that begin within MaxTTL of each other are at work
	// at once; others follow each other. Plans and scenarios have it, stages do not.
	ListChange = trace.ListChange
)

// Moment is a step of a client at which a [Pause] stops it: a string.
type Moment = trace.Moment

// The moments.
const (
	// AtAsk is before an attempt to get the lock.
	AtAsk = trace.AtAsk
	// AtReplies is when the requests of an operation have been sent: what comes back
	// is read when the client goes on. It is the one moment that is inside the
	// library, so that the links see to it.
	AtReplies = trace.AtReplies
	// AtHeld is when the library has granted the lock, and before anything is done
	// with it.
	AtHeld = trace.AtHeld
	// AtWrite is between the look at the lock and the write.
	AtWrite = trace.AtWrite
	// AtExtend is between the look at the lock and its extension.
	AtExtend = trace.AtExtend
	// AtRelease is before the release.
	AtRelease = trace.AtRelease
	// AtSettle is the first step of a [ListChange].
	AtSettle = trace.AtSettle
	// AtAccept is the second.
	AtAccept = trace.AtAccept
	// AtForce is the third.
	AtForce = trace.AtForce
	// AtInstall is the last: the new node is taken in.
	AtInstall = trace.AtInstall
)

// Rule is something that a trace must keep: a string.
type Rule = trace.Rule

// The rules. Judge is what [Plan.Judge] and [Scenario.Judge] return: a field of it is a bound,
// and where it is 0 its rule is not judged.
const (
	// TwoHolders: two clients believed at one moment that they hold a resource,
	// each by its own validity, and not both share it.
	TwoHolders = trace.TwoHolders
	// TooMany: more clients than the largest of their limits believed at one moment that
	// they hold a slot of a resource. Two of one slot are TwoHolders; tokens and writes are
	// judged by slot.
	TooMany = trace.TooMany
	// TokenRepeated: two locks of one resource have the same token, and not both share it.
	TokenRepeated = trace.TokenRepeated
	// TokenOrder: a lock whose attempt began after another lock was there has the
	// smaller token.
	TokenOrder = trace.TokenOrder
	// StaleWrite: the resource accepted a write of a holder after one of a later
	// holder that excludes it: by their tokens or, where there are none, by when they
	// got the lock.
	StaleWrite = trace.StaleWrite
	// Litter: a node shows an owner after it executed that owner's release, or
	// keeps a key for longer than a lease.
	Litter = trace.Litter
	// KeyEnd: a key that several share does not end on a node with the last of their
	// leases: it would keep others out for longer, or let one in beside those who are left.
	KeyEnd = trace.KeyEnd
	// AllOrNothing: a set of resources is held, or used, of which one is not held.
	AllOrNothing = trace.AllOrNothing
	// NoProgress: a healthy quorum, clients that ask, nobody who keeps them out, for
	// longer than Judge.Progress: no holder or, of those who ask to share, none that is
	// exclusive, nor one who waits to be; of those who ask for a slot, one is free.
	NoProgress = trace.NoProgress
	// Starved: one client asked a healthy quorum for longer than Judge.Patience.
	Starved = trace.Starved
	// Overtaken: a process was served before another one that had stood in line
	// since before it first asked; or more than Judge.Turns times in a row before one
	// that stood in line meanwhile. Who shares does not overtake who waits to share.
	Overtaken = trace.Overtaken
	// Stale: an observer is told who holds, and nobody asked or held with that value in the
	// last Judge.Seen; or another one, or nobody, though one held and a quorum was healthy all
	// that time; or a token that no hold of that value had.
	Stale = trace.Stale
	// Orphan: a node that answers its client has a key for an attempt that ended more than
	// Judge.Orphan ago.
	Orphan = trace.Orphan
	// LateNotice: a lock ended that its client had not given up, and its library told it so
	// more than Judge.Notice later, or never. Not of one whose [Hold] has no Lost.
	LateNotice = trace.LateNotice
	// NeedlessLoss: a lock that the library renews was lost, though a quorum was healthy, and
	// nothing was wrong with its client or a node, for Judge.Renewed up to then.
	NeedlessLoss = trace.NeedlessLoss
	// SlowAttempt: an attempt that waits for nobody took longer than Judge.Attempt, though a
	// quorum was healthy, and nothing was wrong with its client, all that time.
	SlowAttempt = trace.SlowAttempt
	// WrongList: nodes have two configurations of one generation, or one that no operator of a
	// [ListChange] wanted; or what an operator was told is done is not in the latest. Not of
	// generation 0: several clusters may have been founded, but none in the place of a strict one.
	WrongList = trace.WrongList
	// LongLease: a lock was taken or lengthened for longer than the MaxTTL of the latest
	// configuration that a node has, and of the generation before it.
	LongLease = trace.LongLease
	// Malformed: the trace contradicts itself, and can't be judged.
	Malformed = trace.Malformed
)

// Everything stands for all nodes in a fault of links, and for none in a [ListChange].
const Everything = trace.Everything

// Fault is something that is broken at a time and mended later. Its fields are Kind, a
// [Break]; At, since the run began, and For, how long until it is mended; Node, an int, the
// index of the node or of the link's, from 0, or [Everything]; Client, of the link, Pause,
// Suspend or WallClock, "client-0" and on in a plan, empty for all clients, those that connect
// before it is mended too; Key, of Delete and Evict; Delay, of Slow, Jitter, Reorder, Twice, Step, WallClock and, a second, Drift; To, of
// OtherList, an index too; Where, a [Moment], of Pause, AtWrite if empty; and of ListChange
// MaxTTL, 10 ms to 24 h in whole milliseconds, and Strict, "on" or "off": as it is if empty.
type Fault = trace.Fault

// Record is one thing that happened: At, since the trace began; Kind; and what that kind needs
// of the fields below. JSON has them by these names in lower case, times in nanoseconds, and
// leaves out what is zero, but for at and kind.
//
//   - asked, failed, quit: an attempt begins, brings no lock, or is not made again (Client,
//     Resource, Hold: the number of the attempt, and of the lock that comes of it).
//   - held, extended: the client believes that it holds (Client, Resource, Hold), up to Until.
//   - released, lost, told: it gives the lock up, learns that it holds no longer, or is told
//     so unasked (Hold).
//   - wrote, refused: the resource took a write, or refused it as stale (Resource, Hold, Token).
//   - broke, mended: a fault begins or ends (Fault; Node; Text says it in words).
//   - stored, turned, listed, shown, cleaned, granted: what a node has, is, has as its
//     configuration, shows, has executed or grants (Node, and Resource, Client, Owner, Token, Until, Value
//     or Text).
//   - saw: an observer was told who holds (Value). queued, unqueued: in line, or no longer
//     (Since). sick, well: whether the cluster must make progress. began: a run (About).
//     noted: a line (Text).
//
// Shared, Set, Limit, Slot, Barging, Ends and Untold say of which kind the hold is.
type Record = trace.Record

// Run is one play of something on a stage: what it was (About: Scenario, Claim, Lesson,
// Contender, Guarded, Backend, Seed, the names of the Nodes, and the Judge), its trace
// (Records), and what the judge made of it (Verdict). A page names a run by its About:
// [PlayVirtual] and [PlayScenario] fill it in.
type Run = trace.Run

// Verdict is what a run's judge found: Violations, in the order of time; how many attempts
// ended (Rounds) and brought a lock (Won); Writes, accepted, and Refused ones; Overlap, how
// long there were two holders, and LongestWait. Count and Broken tell which rules were broken,
// String says all of it.
type Verdict = trace.Verdict

// Violation is one rule broken once: Rule, At, Resource and Text.
type Violation = trace.Violation

// WritePage writes one self-contained HTML page about the runs, which should be
// of one scenario: for each a picture with the clients' beliefs, the nodes' keys
// and states, the writes, and what was broken. It needs no network, and shows
// what the runs say as text, never as markup. It returns w's error.
func WritePage(w io.Writer, runs ...Run) error { return page.Write(w, runs...) }

// WriteTrace writes records as lines of JSON, times in nanoseconds. It returns w's error.
func WriteTrace(w io.Writer, records []Record) error { return trace.Write(w, records) }
