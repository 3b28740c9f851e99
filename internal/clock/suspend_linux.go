package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspendedSinceBoot is BOOTTIME - MONOTONIC. BOOTTIME is read first, so that a
// scheduling gap between the two makes the result smaller, never larger; the
// Clock keeps the largest.
func suspendedSinceBoot() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
