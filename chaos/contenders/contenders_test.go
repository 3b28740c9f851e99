package contenders

import (
	"errors"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/testkit"
)

// A holder whose process stood still longer than its lease: the next one has the lock
// in every system, and redlock's holder knows at its first look.
func TestEveryContenderPassesTheLockOnWhileItsHolderStandsStill(t *testing.T) {
	t.Parallel()
	for _, res := range played(t, "", "pause") {
		t.Run(res.spec.name, func(t *testing.T) {
			t.Parallel()
			o := outcomeOf(t, res)
			if o.Next == 0 {
				t.Errorf("got nobody within %v; want the next holder", patience)
			}
			fenced := res.spec.open != nil && o.Fences[0] != 0 && !o.Optimistic
			if fenced && !o.Rising {
				t.Errorf("got the numbers %v; want them to rise", o.Fences)
			}
			if o.Optimistic && (o.Two == 0 || o.Write != writeRefused || o.Told != byWrite) {
				t.Errorf("got %s, told by %q; want two at work, and the late write refused", o, o.Told)
			}
			if res.spec.name == ours && (o.Two > 0 || o.Told == "") {
				t.Errorf("got %s; want no two holders, and a holder that knows", o)
			}
			if res.spec.name == "redsync" && (o.Told == byLibrary || o.Told == bySession) {
				t.Errorf("got %s; want nobody who tells: own code counts the lease, or renews it", o)
			}
			if res.spec.name == "Redisson RLock, by its scripts" && (o.Two == 0 || o.Told != "") {
				t.Errorf("got %s; want a holder that believes until it asks", o)
			}
		})
	}
}

// What an attempt sent to servers that stood still comes about when they go on. With
// redlock it is taken back; redsync sends one release, which never got there.
func TestAnAttemptThatWasGivenUpBlocksOnlyRedsyncsNextHolder(t *testing.T) {
	t.Parallel()
	for _, res := range played(t, "redlock,redsync", "given-up") {
		t.Run(res.spec.name, func(t *testing.T) {
			t.Parallel()
			o := outcomeOf(t, res)
			if orphan := o.Next > lease*9/10; o.Next == 0 || orphan != (res.spec.name == "redsync") {
				t.Errorf("got the next holder after %v; want it at once with redlock, after a lease with redsync", o.Next)
			}
		})
	}
}

// With one of five masters that accepts connections and does not answer, redsync as it
// comes waits five seconds for it with each call, and redlock and node-redlock go by the
// four: each of their calls is over within a second.
func TestAHungServerHoldsUpOnlyRedsync(t *testing.T) {
	t.Parallel()
	for _, res := range played(t, "redlock,redsync,node-redlock", "hung-server") {
		t.Run(res.spec.name, func(t *testing.T) {
			t.Parallel()
			o := outcomeOf(t, res)
			if res.spec.name != "redsync" {
				if o.Trip.Taken == 0 || o.Trip.Taken >= time.Second || o.Trip.Back == 0 || o.Trip.Back >= time.Second {
					t.Errorf("got %s; want the lock within a second, and given back within another", o)
				}
				return
			}
			if o.Trip.Taken == 0 || o.Plain.Taken+o.Plain.Back <= 9*time.Second {
				t.Errorf("got %s; want ten seconds of redsync's as it comes", o)
			}
		})
	}
}

// A replica that lags is promoted: what it has not seen is lost to a lock on one master,
// and is one vote of five to redlock.
func TestAFailoverToALaggingReplicaMakesTwoHoldersOnOneMaster(t *testing.T) {
	t.Parallel()
	for _, res := range played(t, "redlock,bsm/redislock,Redisson RLock", "failover") {
		t.Run(res.spec.name, func(t *testing.T) {
			t.Parallel()
			o, ours := outcomeOf(t, res), res.spec.name == ours
			if o.Kept != ours || (o.Two == 0) != ours || o.Next == 0 || ours && !o.Rising {
				t.Errorf("got %s, tokens %v; want redlock to keep its lock, and two holders of another's", o, o.Fences)
			}
		})
	}
}

// Where a system has no such servers a scenario is shown as not played.
func TestWhatASystemDoesNotHaveIsNotPlayed(t *testing.T) {
	t.Parallel()
	res := played(t, "memcached", "hung-server,majority,failover,clock-one")[0]
	if errors.Is(res.missing, errNotInstalled) {
		t.Skip(res.missing)
	}
	for _, o := range res.outcomes {
		if o.Skipped == "" || o.Failed != "" || !strings.HasPrefix(o.String(), "not played: it has ") {
			t.Errorf("%s: got %s; want it not played, and why", o.Scenario, o)
		}
	}
}

// The other failures, to redlock: no matter what it costs, nobody holds beside the holder, the
// tokens rise, and the next one comes.
func TestRedlockHasOneHolderWhateverHappensToServersAndLinks(t *testing.T) {
	t.Parallel()
	res := played(t, "redlock", "holder-cut,one-server,majority,restart,clock-one,clock")[0]
	outcomeOf(t, res) // or a skip
	for _, o := range res.outcomes {
		switch {
		case o.Skipped != "":
			t.Logf("%s was not played: %s", o.Scenario, o.Skipped)
		case o.Failed != "" || o.Two > 0 || !o.Rising || o.Next == 0:
			t.Errorf("%s: got %s, tokens %v; want one holder at a time, rising tokens and the next holder", o.Scenario, o, o.Fences)
		}
	}
	for _, o := range []*outcome{res.outcomes[1], res.outcomes[4]} {
		if o.Skipped == "" && !o.Kept {
			t.Errorf("%s: got %s; want the lock to outlive what befalls one of five masters", o.Scenario, o)
		}
	}
}

// played plays scenarios with contenders, several of these at a time.
func played(t *testing.T, contenders, scenarios string) []*result {
	t.Helper()
	var text strings.Builder
	r := &run{parallel: 4, log: log.New(&text, "", 0)}
	testkit.Must(t, r.choose(contenders, scenarios))
	results := r.all(t.Context())
	t.Log(text.String())
	return results
}

// outcomeOf is the result's only outcome; where the servers are not installed the test
// is skipped.
func outcomeOf(t *testing.T, res *result) *outcome {
	t.Helper()
	if res.missing != nil {
		if errors.Is(res.missing, errNotInstalled) && (os.Getenv("REDLOCK_REQUIRE_SERVERS") == "" || res.spec.name != ours) {
			t.Skip(res.missing)
		}
		t.Fatal(res.missing)
	}
	o := res.outcomes[0]
	if o.Failed != "" || o.Skipped != "" {
		t.Fatalf("got %s", o)
	}
	return o
}
