package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
)

// TestWatchdogFollowsTheSchedule: it is notified while the schedule makes progress, and not while the schedule is
// stuck, whatever the rest of the process does.
func TestWatchdogFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	const stopping = "STOPPING=1\nSTATUS=Stopping; a call in progress may finish"
	for name, c := range map[string]struct {
		stuck time.Duration
		env   map[string]string
		want  string
	}{
		"goes on":         {0, nil, "WATCHDOG=1\n" + statusRunning},
		"stuck":           {time.Hour, nil, "STATUS=The schedule has been stuck for 1h0m0s"},
		"another's":       {0, map[string]string{watchdogPIDVariable: "1"}, stopping},
		"no watchdog":     {0, map[string]string{watchdogVariable: ""}, stopping},
		"not a number":    {0, map[string]string{watchdogVariable: "10min"}, stopping},
		"of this process": {0, map[string]string{watchdogPIDVariable: strconv.Itoa(os.Getpid())}, "WATCHDOG=1\n" + statusRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := filepath.Join(t.TempDir(), "notify")
			manager := programtest.ListenAsSystemd(t, address)
			s := newSystemd(func(name string) (string, bool) {
				value, set := c.env[name]
				if !set {
					value, set = map[string]string{notifyVariable: address, watchdogVariable: "20000"}[name]
				}
				return value, set
			}, slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(t.Context())
			var serving sync.WaitGroup
			serving.Go(func() { s.serve(ctx, func() time.Duration { return c.stuck }) })
			manager.Want("READY=1", "STATUS=Running the schedules")
			if c.want == stopping {
				stop()
			}
			manager.Want(strings.Split(c.want, "\n")...)
			stop()
			serving.Wait()
		})
	}
}
