package main

import (
	"context"
	"testing"
)

// TestStopBeforeUpHasStarted: the job file is still being checked, and
// a service manager is told that all is well.
func TestStopBeforeUpHasStarted(t *testing.T) {
	bubble(t, "version: 1\nservice: {url: \"sim://\"}\njobs:\n  one: {every: 1d, search: {query: [espresso]}}\n", func(p *person) {
		ctx, stop := context.WithCancel(p.Context())
		stop()
		if _, complaints, code := p.do(ctx, "up"); code != exitDone {
			t.Errorf("exit code %d, want %d\n%s", code, exitDone, complaints)
		}
	})
}
