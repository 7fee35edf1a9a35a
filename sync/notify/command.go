package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"outlierd/internal/excerpt"
	"outlierd/sync/job"
)

// passedOn are the environment variables that a command inherits. Others could hold secrets, such as
// the service's key.
var passedOn = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR"}

// runCommand starts a target's program without a shell. It passes the event on standard input, and its
// main fields in the environment.
func (s *Sender) runCommand(ctx context.Context, t *job.Target, e Event) error {
	input, err := encodeEvent(e)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, t.Command[0], t.Command[1:]...)
	c.Dir, c.Stdin, c.Env = s.Dir, bytes.NewReader(input), []string{}
	for _, name := range passedOn {
		if value, ok := s.Env(name); ok {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	c.Env = append(c.Env, "OUTLIERD_EVENT="+string(e.Kind), "OUTLIERD_EVENT_ID="+e.ID,
		"OUTLIERD_JOB="+e.Job, "OUTLIERD_TITLE="+e.Title)
	said := &firstBytes{most: 4 << 10}
	c.Stderr = said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child processes end with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err = c.Run()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left another program running
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: killed after %d s", t.Command[0], int(timeout.Seconds()))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(said.text.String(), "")), "\n")
	if line = excerpt.Runes(oneLine(line), 200); line != "" {
		line = ": " + line
	}
	return fmt.Errorf("%s: %w%s", t.Command[0], err, line)
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	text bytes.Buffer
	most int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.text.Write(p[:min(len(p), f.most-f.text.Len())]) // a buffer has no errors
	return len(p), nil
}
