package redlock_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// What the tests that break nodes share.

// events collects what a Locker tells.
type events struct{ locktest.Events }

func (e *events) option() redlock.Option                 { return e.Option() }
func (e *events) of(k redlock.EventKind) []redlock.Event { return e.Of(k) }

// cable is the network between one process and the nodes. While it is cut, what
// is sent in either direction vanishes, and no connection breaks; what a client
// sent may be delivered later.
type cable struct {
	cut atomic.Bool

	mu   sync.Mutex // guards the field below
	held []segment
}

// segment is what was sent to a node while the cable was cut.
type segment struct {
	node  *redlocktest.Node
	bytes []byte
}

// deliver makes the nodes execute what was sent while the cable was cut, as a
// server does that was stopped, or a router with a long queue.
func (c *cable) deliver(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	held := c.held
	c.held = nil
	c.mu.Unlock()
	for _, p := range held {
		conn, err := p.node.Dial(t.Context())
		must(t, err)
		_, err = conn.Write(p.bytes)
		must(t, err)
		_, err = conn.Read(make([]byte, 1024)) // it has been executed
		must(t, err)
		must(t, conn.Close())
	}
}

// clients are clients of all nodes by this cable.
func (c *cable) clients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(nodes.Nodes()))
	for i, n := range nodes.Nodes() {
		o := n.Options()
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := n.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return cabled{conn, c, n}, nil
		}
		client := redis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
		clients[i] = client
	}
	return clients
}

type cabled struct {
	net.Conn
	cable *cable
	node  *redlocktest.Node
}

func (c cabled) Write(p []byte) (int, error) {
	if !c.cable.cut.Load() {
		return c.Conn.Write(p)
	}
	c.cable.mu.Lock()
	defer c.cable.mu.Unlock()
	c.cable.held = append(c.cable.held, segment{c.node, slices.Clone(p)})
	return len(p), nil
}

func (c cabled) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.cable.cut.Load() {
			return n, err
		}
	}
}

// What internal/testkit/locktest has for all tests of whole Lockers, under short names.
const (
	lives     = locktest.Lives
	noRight   = locktest.NoRight
	patient   = locktest.Patient
	shortMax  = locktest.ShortMax
	shortened = locktest.Shortened
)

type gained = locktest.Gained

var (
	addresses       = locktest.Addresses
	admitted        = locktest.Admit
	ahead           = locktest.AdvanceClocks
	besideServers   = locktest.BesideServers
	calls           = locktest.CallWaiters
	causesWith      = locktest.CausesWith
	clientOf        = locktest.ClientOf
	closeAll        = locktest.CloseAll
	defaultClients  = locktest.DefaultClients
	errorText       = locktest.ErrorText
	fakeClockLocker = locktest.FakeClockLocker
	firstOnScripts  = locktest.FirstOnScripts
	follow          = locktest.Replicate
	foundedAs       = locktest.FoundedAs
	freed           = locktest.FreeName
	ghost           = locktest.Ghost
	got             = locktest.Got
	holders         = locktest.Holders
	infoOf          = locktest.InfoOf
	keyOn           = locktest.KeyOn
	keysOn          = locktest.KeysOn
	lockerOver      = locktest.LockerOver
	lockerWith      = locktest.LockerWith
	locksOn         = locktest.LocksOn
	members         = locktest.Members
	must            = testkit.Must
	mustAcquire     = locktest.MustAcquire
	mustRelease     = locktest.MustRelease
	needMasters     = locktest.NeedMasters
	newLocker       = locktest.NewLocker
	occupy          = locktest.Occupy
	onScripts       = locktest.OnScripts
	openServers     = locktest.OpenServers
	openWithout     = locktest.OpenWithout
	pause           = locktest.Pause
	pollUntil       = locktest.PollUntil
	processes       = locktest.Processes
	queueKeys       = locktest.QueueKeys
	refusing        = locktest.Refusing
	remove          = locktest.DeleteName
	sampled         = locktest.SampleClocks
	scriptCalls     = locktest.ScriptCalls
	scriptOf        = locktest.ScriptOf
	secondChannel   = locktest.SecondChannel
	sent            = locktest.CountSent
	separateLocker  = locktest.SeparateLocker
	setClocks       = locktest.SetClocks
	shares          = locktest.Shares
	short           = locktest.ShortLeases
	slotKeys        = locktest.SlotKeys
	slowly          = locktest.Slowly
	stand           = locktest.Promote
	status          = locktest.Status
	stranger        = locktest.Stranger
	votes           = locktest.Votes
	wantError       = locktest.WantError
	wantNoLocks     = locktest.WantNoLocks
	wantOnlyRecords = locktest.WantOnlyRecords
	wantTaken       = locktest.WantTaken
	wantText        = locktest.WantText
	wantVotes       = locktest.WantVotes
	wantWaiting     = locktest.WantWaiting
	wants           = locktest.Wants
	warm            = locktest.Warm
)
