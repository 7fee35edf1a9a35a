package engine

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"outlierd/sync/runs"
)

const dailyFile = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  daily: {every: 1d, search: {query: [home espresso]}}
`

// TestScheduledPagesWaitForDiskSpace: a run that is due while the disk is full does not fail until the
// next day. It buys its page within minutes after space was freed, and the log has exactly one line per
// attempt.
func TestScheduledPagesWaitForDiskSpace(t *testing.T) {
	t.Parallel()
	bare(t, dailyFile, func(w *workshop) {
		full := time.Now().Add(20 * time.Hour)
		emptied := full.Add(9 * time.Hour)
		w.free = func(string) (uint64, error) {
			if now := time.Now(); now.After(full) && now.Before(emptied) {
				return 0, nil
			}
			return 1 << 40, nil
		}
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		rows := w.serve(30 * time.Hour)
		if len(rows) == 0 {
			t.Fatal("no run, want one that waited for room")
		}
		last := rows[len(rows)-1]
		if last.Status != runs.OK || last.Ended.Before(emptied) || last.Ended.After(emptied.Add(maxPause+time.Minute)) {
			t.Errorf("the run is %s (%s) and ended %s; want ok within minutes of %s",
				last.Status, last.Error, last.Ended, emptied)
		}
		if tries := strings.Count(log.String(), "queue paused"); tries == 0 || tries > 80 {
			t.Errorf("%d lines about the queue that is paused for nine hours, want one each eight minutes", tries)
		}
		for _, r := range rows {
			if r.Status == runs.Failed {
				t.Errorf("the run due %s failed: %s", r.Due, r.Error)
			}
		}
	})
}
