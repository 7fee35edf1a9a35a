package backup

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// TestDailyBackupsSurviveAnOutage plays three days without the target's disk, restarts, and an edit of the job file.
func TestDailyBackupsSurviveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "copies")
		s, err := state.Open(t.Context(), from, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		config := &job.Config{Backup: &job.Backup{To: to, Every: 24 * time.Hour, Keep: 3}}
		tries := 0
		serve := func(ctx context.Context, d time.Duration) {
			ctx, stop := context.WithTimeout(ctx, d)
			defer stop()
			(&Daily{State: s, Config: func() *job.Config { return config }, Log: slog.New(slog.DiscardHandler),
				Write: func(ctx context.Context, c *job.Config, known bool) (Backup, error) {
					tries++
					return Write(ctx, from, Folder(c.Backup.To), Options{Keep: c.Backup.Keep, Known: known})
				}, Newest: func(ctx context.Context, c *job.Config) (time.Time, error) {
					b, err := Newest(ctx, Folder(c.Backup.To))
					return b.At, err
				}}).Serve(ctx)
		}
		expect := func(when string, tried, kept int, fails bool) {
			t.Helper()
			all, _, err := listBackups(t.Context(), Folder(config.Backup.To))
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			now, err := s.Sinks.State(runs.BackupSink)
			if err != nil || tries != tried || len(all) != kept || (now.Error != "") != fails {
				t.Errorf("%s: %d tries, %d backups, error %q (%v), want %d, %d, and an error: %t",
					when, tries, len(all), now.Error, err, tried, kept, fails)
			}
		}
		serve(t.Context(), 10*time.Hour)
		serve(t.Context(), 10*time.Hour) // a restart makes no backup
		expect("before a day", 1, 1, false)
		serve(t.Context(), 99*time.Hour) // of 119
		expect("after five days", 5, 3, false)

		away := to + ".away"
		if err := os.Rename(to, away); err != nil {
			t.Fatal(err)
		}
		serve(t.Context(), 72*time.Hour-time.Minute) // one is due in an hour
		expect("without the disk", 5+142, 0, true)
		if _, err := os.Stat(to); !os.IsNotExist(err) {
			t.Errorf("the folder was made where the disk is missing (%v)", err)
		}
		if now, err := s.Sinks.State(runs.BackupSink); err != nil || !strings.Contains(now.Error, "mount its disk") || time.Since(now.Since) < 70*time.Hour {
			t.Errorf("state %+v (%v), want that it fails since three days", now, err)
		}
		if err := os.Rename(away, to); err != nil {
			t.Fatal(err)
		}
		tries = 0
		serve(t.Context(), time.Hour)
		expect("with the disk again", 1, 3, false)

		if err := os.Rename(to, away); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			time.Sleep(10 * time.Minute)
			if err := os.Rename(away, to); err != nil {
				t.Error(err)
			}
			if _, err := Write(t.Context(), from, Folder(to), Options{}); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
			stop()
		}()
		tries = 0
		serve(ctx, time.Hour)
		expect("after a backup by hand", 2, 3, false)

		config = &job.Config{Backup: &job.Backup{To: to + ".new", Every: 24 * time.Hour, Keep: 3}}
		serve(t.Context(), time.Hour)
		expect("in another place", 3, 1, false)
	})
}
