package notify

import (
	"bytes"
	"context"
	"os/exec"

	"outlierd/internal/subprocess"
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
	return subprocess.Run(ctx, timeout, t.Command, func(c *exec.Cmd) {
		c.Dir, c.Stdin, c.Env = s.Dir, bytes.NewReader(input), []string{}
		for _, name := range passedOn {
			if value, ok := s.Env(name); ok {
				c.Env = append(c.Env, name+"="+value)
			}
		}
		c.Env = append(c.Env, "OUTLIERD_EVENT="+string(e.Kind), "OUTLIERD_EVENT_ID="+e.ID,
			"OUTLIERD_JOB="+e.Job, "OUTLIERD_TITLE="+e.Title)
	})
}
