//go:build !linux

package redlock

import "time"

// suspendedSinceBoot can't be told here.
func suspendedSinceBoot() time.Duration { return 0 }
