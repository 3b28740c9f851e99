//go:build !unix

package chaos_test

import (
	"context"
	"errors"
)

// playFrozen is a client in a process that can be stopped, which takes signals.
func playFrozen(context.Context, string) error { return errors.ErrUnsupported }
