package command

import (
	"context"
	"testing"
)

// TestStopBeforeUpHasStarted: the job file is still being checked. The exit code is 0, so that
// a service manager does not take it for a failure.
func TestStopBeforeUpHasStarted(t *testing.T) {
	t.Parallel()
	bubble(t, "version: 1\nservice: {url: \"sim://\"}\njobs:\n  one: {every: 1d, search: {query: [espresso]}}\n", func(p *person) {
		ctx, stop := context.WithCancel(p.Context())
		stop()
		if _, stderr, code := p.do(ctx, "up"); code != exitDone {
			t.Errorf("exit code %d, want %d\n%s", code, exitDone, stderr)
		}
	})
}
