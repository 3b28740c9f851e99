package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// DieWithParent lets the kernel kill the process when this one is gone, even
// if it was killed and could not clean up. (Strictly, when the thread that
// started it is gone; the Go runtime ends a thread only for a goroutine that
// was locked to it.)
func DieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// stopped reports whether the process is stopped, by the third field of
// /proc/PID/stat, behind a name in parentheses that may contain anything.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone
	}
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && i+2 < len(stat) && stat[i+2] == 'T'
}
