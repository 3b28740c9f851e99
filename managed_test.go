package redlock_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
)

// told is what a server says of itself in INFO: the lines of each section. A section
// that it refuses is not there.
type told map[string][]string

// who is the least that redlock needs: which process, whose data, which role.
func who(i int) told {
	digits := strings.Repeat(string(rune('a'+i)), 40)
	return told{"server": {"run_id:" + digits}, "replication": {"role:master", "master_replid:" + digits}}
}

// telling starts servers of which the i-th tells what info(i) has, and no more, to
// clients, and to scripts unless a refusal is given.
func telling(t *testing.T, n int, refusal string, info func(i int) told) (clients []redis.UniversalClient) {
	t.Helper()
	for i := range n {
		m, lines := miniredis.RunT(t), info(i)
		m.ClockTTL(true)
		var outside sync.Map // connections; what a script calls comes by a peer of its own
		m.Server().SetPreHook(func(peer *peers.Peer, command string, args ...string) bool {
			if peer.Ctx == nil {
				outside.Store(peer, true)
			}
			_, client := outside.Load(peer)
			switch {
			case command != "INFO":
				return false
			case !client && refusal != "":
				peer.WriteError(refusal)
				return true
			}
			var text strings.Builder
			for _, section := range []string{"server", "replication"} {
				if len(args) == 0 || slices.Contains(args, section) {
					text.WriteString("# " + section + "\r\n" + strings.Join(append(lines[section], ""), "\r\n"))
				}
			}
			m.Server().Dispatch(peer, []string{"ECHO", text.String()})
			return true
		})
		c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// Services leave fields of INFO out. Three are needed; without all others a lock is
// taken and waited for, and the doctor says what it could not see.
func TestThreeFieldsOfINFOAreEnough(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	clients := telling(t, 3, "", who)
	l, other := lockerWith(t, clients, redlock.WithNodeTimeout(patient)), lockerWith(t, clients, redlock.WithNodeTimeout(patient))
	admitted(t, l)
	warm(t, l)
	warm(t, other)
	lock := mustAcquire(t, l, "orders/42")
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	next := make(chan error, 1)
	go func() {
		lock, err := other.Acquire(t.Context(), "orders/42")
		if err == nil {
			err = lock.Release(t.Context())
		}
		next <- err
	}()
	pollUntil(t, 20*time.Second, "the other stands in line", func() bool {
		s, err := l.Inspect(t.Context(), "orders/42")
		return err == nil && len(s.Nodes) == 3 && clients[0].Exists(t.Context(), "redlock:queue:orders/42").Val() == 1
	})
	mustRelease(t, lock)
	must(t, <-next)
	wantVotes(t, "without the other fields", l, 3)
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	var unseen []found
	for i := range clients {
		for _, code := range []redlock.FindingCode{redlock.FindingACL, redlock.FindingEviction, redlock.FindingPersistence, redlock.FindingVersion} {
			unseen = append(unseen, found{faultUnknown, code, i})
		}
	}
	wantFound(t, r, faultUnknown, unseen...)
}

// Without one of the three, or where scripts may not ask, no node votes; the error and
// the doctor say why.
func TestWithoutAFieldOfINFOThatIsNeededNoNodeVotes(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		refusal string
		change  func(told)
	}{
		"no run_id":           {"", func(t told) { t["server"] = nil }},
		"no master_replid":    {"", func(t told) { t["replication"] = t["replication"][:1] }},
		"no role":             {"", func(t told) { t["replication"] = t["replication"][1:] }},
		"no word to scripts":  {"ERR This Redis command is not allowed from script", func(told) {}},
		"unknown to a script": {"ERR Unknown Redis command called from script", func(told) {}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			clients := telling(t, 3, tt.refusal, func(i int) told { w := who(i); tt.change(w); return w })
			l := lockerWith(t, clients, redlock.WithNodeTimeout(patient))
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
			if err == nil || !strings.Contains(err.Error(), "INFO tells no run_id") {
				t.Errorf("got %v; want what INFO does not tell", err)
			}
			r, err := l.Cluster().Check(t.Context())
			must(t, err)
			for i := range clients {
				if !slices.ContainsFunc(r.AtLeast(faultError), func(f redlock.Finding) bool { return f.Node == i && strings.Contains(f.String(), "INFO tells no") }) {
					t.Errorf("node %d: got %v; want what INFO does not tell", i, r.AtLeast(faultWarning))
				}
			}
		})
	}
}
