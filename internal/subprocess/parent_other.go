//go:build !linux

package subprocess

import "syscall"

// endWithParent does nothing: only Linux can do it. A program ends by itself after a kill of this process.
func endWithParent(*syscall.SysProcAttr) {}
