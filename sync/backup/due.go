package backup

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Daily makes the backups of a daemon.
type Daily struct {
	State  *state.Store
	Config func() *job.Config // the job file in use
	Log    *slog.Logger

	// Write makes a backup. known tells that earlier ones were made at the place.
	Write func(ctx context.Context, config *job.Config, known bool) (Backup, error)

	// Newest returns when the newest backup at the place was made, also by other processes.
	Newest func(ctx context.Context, config *job.Config) (time.Time, error)
}

const (
	lookEvery  = time.Minute
	retryAfter = 30 * time.Minute // after a failure
)

// Serve makes a backup whenever one is due, until ctx ends. After a failure, a backup by hand tells that it may work
// now.
func (d *Daily) Serve(ctx context.Context) {
	next := time.NewTicker(lookEvery)
	defer next.Stop()
	var tried time.Time
	var to string
	failed := false
	for {
		config := d.Config()
		if b := config.Backup; b != nil {
			if b.To != to { // an edited file is used at once
				tried, to, failed = time.Time{}, b.To, false
			}
			age := time.Since(tried)
			if age >= min(retryAfter, b.Every) || age < 0 || failed && d.hasNewer(ctx, config, tried) {
				made, err := d.makeDue(ctx, config)
				if made || err != nil {
					tried, failed = time.Now(), err != nil
				}
				if err != nil && ctx.Err() == nil {
					d.Log.Error("backup failed", "to", b.To, "err", err)
				}
			}
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// hasNewer reports whether the place has a backup that was made after a time.
func (d *Daily) hasNewer(ctx context.Context, config *job.Config, since time.Time) bool {
	newest, err := d.Newest(ctx, config)
	return err == nil && newest.After(since)
}

// makeDue makes a backup if the last good one is old enough, or of a time that has not come yet by the machine's
// clock. It records how that ended.
func (d *Daily) makeDue(ctx context.Context, config *job.Config) (made bool, err error) {
	to := config.Backup
	was, err := d.State.Sinks.State(runs.BackupSink)
	if err != nil {
		return false, err
	}
	known := slices.Contains(was.Places, to.To)
	if age := time.Since(was.Published); known && age >= 0 && age < to.Every {
		return false, nil
	}
	if _, err := d.State.NamedInstance(); err != nil {
		return false, err
	}
	b, err := d.Write(ctx, config, known)
	_, uncleared := errors.AsType[*LeftError](err)
	switch {
	case ctx.Err() != nil: // the next process makes it
		return false, ctx.Err()
	case err != nil && !uncleared:
		return false, errors.Join(err, d.State.Sinks.SetDisabled(runs.BackupSink, err))
	}
	d.Log.Info("backup made", "to", to.To, "file", b.File, "answers", b.Answers, "bytes", b.Bytes)
	failed := errors.Join(d.State.Sinks.AddPlace(runs.BackupSink, to.To), d.State.Sinks.SetPublished(runs.BackupSink, b.Answers))
	if uncleared {
		failed = errors.Join(failed, err, d.State.Sinks.SetDisabled(runs.BackupSink, err))
	}
	return true, failed
}
