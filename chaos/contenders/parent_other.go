//go:build !linux

package contenders

import "syscall"

// dieWithParent has no counterpart here.
func dieWithParent(*syscall.SysProcAttr) {}
