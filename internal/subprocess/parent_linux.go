package subprocess

import "syscall"

// endWithParent has a program killed when this process is. Programs that it has started, and those that run as another
// user, are not.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
