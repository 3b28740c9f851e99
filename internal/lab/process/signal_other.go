//go:build !unix

package process

import (
	"errors"
	"os"
)

// terminate has no gentle form here.
func terminate(p *os.Process) error { return ignoreDone(p.Kill()) }

func suspend(*os.Process) error { return errors.ErrUnsupported }
func proceed(*os.Process) error { return errors.ErrUnsupported }
