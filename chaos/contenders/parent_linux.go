package contenders

import "syscall"

// dieWithParent lets the kernel kill the process when this program is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
