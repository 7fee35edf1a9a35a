package serve

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"outlierd/internal/excerpt"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/forgotten"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/marks"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// Change is a small change of the state, with its result. If there is a daemon, a command sends it there ([Send]);
// otherwise it makes the change itself. Its path in the interface is its name.
type Change[R any] interface {
	// Do makes the change in the process that has locked the state folder.
	Do(context.Context, *engine.Engine) (R, error)
}

func pathOf(change any) string { return "/v1/" + reflect.TypeOf(change).Name() }

// Nothing is the result of a change without a result.
type Nothing struct{}

// SetCursors sets the cursors of a job.
type SetCursors struct {
	Job  string    `json:"job"`
	Keys []string  `json:"keys"`
	At   time.Time `json:"at"`
}

// Do implements [Change].
func (c SetCursors) Do(_ context.Context, e *engine.Engine) (Nothing, error) {
	for _, key := range c.Keys {
		if err := e.Store.Watermarks.Set(c.Job, key, c.At); err != nil {
			return Nothing{}, err
		}
	}
	return Nothing{}, nil
}

// ResetCursors deletes the cursors of a job.
type ResetCursors struct {
	Job string `json:"job"`
}

// Do implements [Change]. It returns the number of cursors that the job had.
func (c ResetCursors) Do(_ context.Context, e *engine.Engine) (int, error) {
	return e.Store.Watermarks.Reset(c.Job)
}

// Adjust records credits that were spent or bought outside outlierd.
type Adjust struct {
	Credits outlier.Credits `json:"credits"`
	Why     string          `json:"why"`
}

// Do implements [Change].
func (c Adjust) Do(_ context.Context, e *engine.Engine) (Nothing, error) {
	if err := job.CheckCredits(max(int64(c.Credits), -int64(c.Credits))); err != nil { // the form of the page takes any
		return Nothing{}, requestMistake("adjust the budget by %d credits: the amount %v", c.Credits, err)
	}
	return Nothing{}, e.Store.Ledger.Adjust(c.Credits, c.Why)
}

// Lift lifts the blocks of the key with which the process makes its calls, and that of the clock.
type Lift struct{}

// Lifted lists the blocks that were in force.
type Lifted struct {
	Blocks []ledger.Block `json:"lifted"`
}

// Do implements [Change].
func (Lift) Do(_ context.Context, e *engine.Engine) (lifted Lifted, err error) {
	key := e.Client.Key.Fingerprint()
	all, err := e.Store.Blocks.Liftable(key)
	if err != nil || len(all) == 0 {
		return lifted, err
	}
	lifted.Blocks = all
	if err := e.Store.DB.Update(func(tx *store.Tx) error { return ledger.Lift(tx, key) }); err != nil {
		return Lifted{}, fmt.Errorf("lift the blocks of calls: %w", err)
	}
	return lifted, nil
}

// ClearQueue cancels the queued calls of a job.
type ClearQueue struct {
	Job string `json:"job"`
}

// Cleared is the number of calls that were cancelled, and that stay for other jobs.
type Cleared struct {
	Dropped int `json:"dropped"`
	Kept    int `json:"kept"`
}

// Do implements [Change].
func (c ClearQueue) Do(ctx context.Context, e *engine.Engine) (done Cleared, err error) {
	done.Dropped, done.Kept, err = e.Store.Queue.Cancel(c.Job)
	return done, err
}

// PauseJobs pauses the schedules of jobs.
type PauseJobs struct {
	Pauses []runs.Pause `json:"pauses"`
}

// Do implements [Change].
func (c PauseJobs) Do(_ context.Context, e *engine.Engine) (Nothing, error) {
	for _, p := range c.Pauses {
		if e.Config.Job(p.Job) == nil {
			return Nothing{}, requestMistake("pause jobs: %s has no job %q; an edit of the file counts once 'outlierd up' has read it",
				e.Config.Path, p.Job)
		}
	}
	return Nothing{}, e.Store.Schedule.Pause(c.Pauses)
}

// ResumeJobs ends the pauses of jobs.
type ResumeJobs struct {
	Jobs []string `json:"jobs"`
}

// Do implements [Change].
func (c ResumeJobs) Do(_ context.Context, e *engine.Engine) (Nothing, error) {
	return Nothing{}, e.Store.Schedule.Unpause(c.Jobs)
}

// PollScan asks the service for the status of a scan, which is free.
type PollScan struct {
	Scan string `json:"scan_id"`
}

// Do implements [Change].
func (c PollScan) Do(ctx context.Context, e *engine.Engine) (outlier.Scan, error) {
	return e.PollScan(ctx, c.Scan)
}

// AdoptScan links a start that was not confirmed to a scan of the service.
type AdoptScan struct {
	Scan   string `json:"scan_id"`
	Intent int64  `json:"intent,omitempty"` // 0 for the only one that matches
}

// Do implements [Change]. It returns the intent that the scan was linked to.
func (c AdoptScan) Do(ctx context.Context, e *engine.Engine) (intent int64, err error) {
	scan, err := e.AdoptScan(ctx, c.Scan, c.Intent)
	if err != nil {
		return 0, err
	}
	return scan.Intent, nil
}

// ResolveScan records that a start that was not confirmed has created no scan.
type ResolveScan struct {
	Intent int64 `json:"intent"`
}

// Do implements [Change]. It returns what is refunded for the start.
func (c ResolveScan) Do(_ context.Context, e *engine.Engine) (outlier.Credits, error) {
	return e.Store.Scans.Settle(c.Intent, runs.Scan{State: runs.ScanNotCreated})
}

// EditMarks changes the marks of videos. Unlike other changes it needs no turn of the schedule: several
// goroutines may call Do, also while a call is in progress.
type EditMarks struct {
	marks.Edit
}

// Do implements [Change]. It returns the marks of the videos as they are now, in the same order.
func (c EditMarks) Do(_ context.Context, e *engine.Engine) (all []marks.Mark, err error) {
	for _, video := range c.Videos {
		switch id, err := outlier.ParseVideoID(video); {
		case err != nil:
			return nil, requestMistake("mark a video: %w", err)
		case id != video:
			return nil, requestMistake("mark a video: %s is an address, not an id", video)
		case e.Store.Forgotten.Has(forgotten.ID{Kind: forgotten.Video, ID: video}):
			return nil, requestMistake("video %s was erased ('outlierd forget'), so it cannot be marked", video)
		}
	}
	err = e.Store.DB.Update(func(tx *store.Tx) (err error) {
		all, err = marks.Apply(tx, c.Edit)
		return err
	})
	if invalid, is := errors.AsType[*marks.InvalidError](err); is {
		return nil, requestMistake("%w", invalid)
	}
	if err == nil {
		e.PublishSoon()
	}
	return all, err
}

// ImportVideos records videos that were seen before, by other means.
type ImportVideos struct {
	Origin string          `json:"origin"` // name of the file
	Videos []runs.Imported `json:"videos"`
}

// Imported counts the videos of an import.
type Imported struct {
	Imported  int `json:"imported"`
	Known     int `json:"known"`     // imported before
	Forgotten int `json:"forgotten"` // erased by a person, and not imported
}

// Add adds the counts of another part.
func (i *Imported) Add(part Imported) {
	i.Imported, i.Known, i.Forgotten = i.Imported+part.Imported, i.Known+part.Known, i.Forgotten+part.Forgotten
}

// Do implements [Change].
func (c ImportVideos) Do(_ context.Context, e *engine.Engine) (done Imported, err error) {
	var videos []runs.Imported
	for _, v := range c.Videos {
		switch id, err := outlier.ParseVideoID(v.Video); {
		case err != nil:
			return done, requestMistake("import a video: %w", err)
		case id != v.Video:
			return done, requestMistake("import a video: %s is an address, not an id", v.Video)
		case v.FirstSeen.IsZero() || v.FirstSeen.After(time.Now()):
			return done, requestMistake("import video %s: first_seen_at must be a time that is not in the future", v.Video)
		case e.Store.Forgotten.Has(forgotten.ID{Kind: forgotten.Video, ID: id}):
			done.Forgotten++
			continue
		}
		videos = append(videos, v)
	}
	err = e.Store.DB.Update(func(tx *store.Tx) (err error) {
		done.Imported, err = runs.Import(tx, excerpt.Runes(c.Origin, maxOrigin), videos)
		return err
	})
	if err != nil {
		return Imported{}, fmt.Errorf("import %d videos: %w", len(videos), err)
	}
	done.Known = len(videos) - done.Imported
	e.PublishSoon()
	return done, nil
}

// maxOrigin limits the name of an imported file, in characters.
const maxOrigin = 200
