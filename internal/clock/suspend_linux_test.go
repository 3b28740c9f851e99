package clock

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// asleepVariable tells a process that it is in a time namespace whose BOOTTIME is ahead,
// as after a suspend of that long.
const asleepVariable = "REDLOCK_TEST_ASLEEP"

// asleepFor is long beside what a machine that runs tests was suspended for.
const asleepFor = 100_000 * time.Second

// A time namespace has BOOTTIME ahead of MONOTONIC as a suspend does.
func TestASuspendIsWhatBootTimeIsAheadOfMonotonic(t *testing.T) {
	if os.Getenv(asleepVariable) != "" {
		if asleep := suspendedSinceBoot(); asleep < asleepFor-time.Second {
			t.Errorf("got %v; want the %v of the namespace", asleep, asleepFor)
		}
		return
	}
	before := suspendedSinceBoot()
	if after := suspendedSinceBoot(); before < -time.Second || after < before-time.Second || after > before+time.Second {
		t.Errorf("got %v, and then %v, while nobody slept", before, after)
	}
	if before > asleepFor/2 {
		t.Skipf("the machine was suspended for %v", before)
	}
	cmd := func(what ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "unshare", append([]string{"--user", "--map-root-user", "--time", "--boottime", "100000", "--"}, what...)...)
	}
	if out, err := cmd("true").CombinedOutput(); err != nil {
		t.Skipf("no time namespace here: %v\n%s", err, out)
	}
	inside := cmd(os.Args[0], "-test.run=^TestASuspendIsWhatBootTimeIsAheadOfMonotonic$")
	inside.Env = append(os.Environ(), asleepVariable+"=1")
	if out, err := inside.CombinedOutput(); err != nil {
		t.Errorf("in a time namespace: %v\n%s", err, out)
	}
}
