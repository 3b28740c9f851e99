//go:build !linux

package clock

import "time"

// suspendedSinceBoot can't be told here.
func suspendedSinceBoot() time.Duration { return 0 }
