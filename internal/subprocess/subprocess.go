// Package subprocess runs programs that people name in the job file.
package subprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode"

	"outlierd/internal/excerpt"
)

// Run runs a program without a shell until it ends. After a time it is killed, together with the programs that it has
// started. prepare sets what the program gets and where its standard output goes. The error has the first line of its
// standard error. On Linux the program is killed, too, when this process is.
func Run(ctx context.Context, most time.Duration, words []string, prepare func(*exec.Cmd)) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	said := &FirstBytes{Most: 4 << 10}
	c.Stderr = said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child processes end with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	prepare(c)
	endWithParent(c.SysProcAttr)
	runtime.LockOSThread() // Linux takes the end of the thread that started the program for that of the process
	err := c.Run()
	runtime.UnlockOSThread()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left another program running
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: killed after %d s", words[0], int(most.Seconds()))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(said.Text.String(), "")), "\n")
	if line = excerpt.Runes(strings.Map(replaceInvisible, line), 200); line != "" {
		line = ": " + line
	}
	return fmt.Errorf("%s: %w%s", words[0], err, line)
}

func replaceInvisible(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return ' '
}

// FirstBytes keeps the beginning of what is written to it.
type FirstBytes struct {
	Text bytes.Buffer
	Most int
}

func (f *FirstBytes) Write(p []byte) (int, error) {
	f.Text.Write(p[:min(len(p), f.Most-f.Text.Len())]) // a buffer has no errors
	return len(p), nil
}
