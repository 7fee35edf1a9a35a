package engine

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/sync/runs"
)

// TestMovedStateStopsBuying: the state folder is moved away for nine hours, and for some of them there is
// another one in its place. Meanwhile nothing is bought. When it is back, the run that was due buys its page
// within minutes.
func TestMovedStateStopsBuying(t *testing.T) {
	t.Parallel()
	bare(t, dailyFile, func(w *workshop) {
		back := time.Now().Add(29 * time.Hour)
		folder, aside := filepath.Join(w.data(), "state"), filepath.Join(w.data(), "aside")
		do := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		before := -1
		go func() {
			time.Sleep(20 * time.Hour)
			do(os.Rename(folder, aside))
			before = int(w.service.Books().Total.Spent())
			time.Sleep(6 * time.Hour)
			do(os.Mkdir(folder, 0o700))
			do(os.WriteFile(filepath.Join(folder, "state.db"), nil, 0o600))
			time.Sleep(time.Until(back) - time.Minute)
			if now := int(w.service.Books().Total.Spent()); now != before {
				t.Errorf("%d credits were spent while the state was moved", now-before)
			}
			do(os.RemoveAll(folder))
			do(os.Rename(aside, folder))
		}()
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		rows := w.serve(30 * time.Hour)
		if len(rows) == 0 {
			t.Fatal("no run, want one that waited for the state")
		}
		last := rows[len(rows)-1]
		if last.Status != runs.OK || last.Ended.Before(back.Add(-time.Minute)) || last.Ended.After(back.Add(maxPause+time.Minute)) {
			t.Errorf("the run is %s (%s) and ended %s; want ok within minutes of %s",
				last.Status, last.Error, last.Ended, back)
		}
		if tries := strings.Count(log.String(), "state.db was moved, deleted or replaced"); tries == 0 || tries > 80 {
			t.Errorf("%d lines say that the state was moved, want one each eight minutes", tries)
		}
		for _, r := range rows {
			if r.Status == runs.Failed {
				t.Errorf("the run due %s failed: %s", r.Due, r.Error)
			}
		}
	})
}
