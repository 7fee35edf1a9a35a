// Package runs records what jobs have done: their runs with steps and hits, the scans that they
// started, the dates that their searches have covered, and the due times whose runs have not begun.
// It owns the tables runs, run_keys, steps, seen, imported, run_hits, scans, watermarks, dues, renames and pauses.
//
// # A scan is started once
//
// The service cannot recognize a repeated request for the same scan. The intent is therefore recorded
// first, as a row of its own, to which its attempts refer. Unique indexes allow one intent at a time
// per search, for all runs, and one attempt per intent that is not refunded. Triggers update the
// state of the scan from its attempt. Once an attempt is marked as sent, the scan may exist; its
// state is unknown until an answer is read, a refund proves that it does not exist, or an operator
// settles it. A run that wants a live scan joins it, with a hold of its own for reading it.
package runs

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/store"
)

// Records are all records of jobs in one state folder.
type Records struct {
	Runs       *Runs
	Steps      *Steps
	Hits       *Hits
	Scans      *Scans
	Watermarks *Watermarks
	Schedule   *Schedule
	Sinks      *Sinks
}

// New returns the records of a database whose schema is up to date. began, if not nil, is called in
// the transaction that records the beginning of a run.
func New(db *store.Store, books ledger.Books, began func(*store.Tx, Run) error) Records {
	if began == nil {
		began = func(*store.Tx, Run) error { return nil }
	}
	return Records{
		Runs: &Runs{db, began}, Steps: &Steps{db}, Hits: &Hits{db}, Scans: &Scans{db, books.Ledger, books.Clock},
		Watermarks: &Watermarks{db, books.Clock}, Schedule: &Schedule{db}, Sinks: &Sinks{db},
	}
}

// Runs is the record of runs.
type Runs struct {
	db    *store.Store
	began func(*store.Tx, Run) error
}

// Status is the status of a run.
type Status string

// The statuses of a run. A run without hits is OKEmpty, never Failed.
const (
	Running      Status = "running"
	OK           Status = "ok"
	OKEmpty      Status = "ok_empty"
	Partial      Status = "partial"       // some items failed and stay queued
	PausedBudget Status = "paused_budget" // a cap was reached; the run can be resumed
	PausedQuota  Status = "paused_quota"  // the rate limit would delay a call for too long; likewise
	Failed       Status = "failed"
	Interrupted  Status = "interrupted" // its process was stopped or killed, or a newer run replaced it
)

// Open reports whether a run with this status is running, or was interrupted and will be resumed
// from there.
func (s Status) Open() bool { return s == Running || s == Interrupted || s == PausedQuota }

// EndedWell reports whether a run with this status has ended for good; any other may be resumed.
func (s Status) EndedWell() bool {
	switch s {
	case OK, OKEmpty, Partial:
		return true
	}
	return false
}

// Run is one run of a job, in JSON as in ops.runs.
type Run struct {
	ID         string       `json:"run_id"`
	Job        string       `json:"job"`
	Status     Status       `json:"status"`
	Trigger    string       `json:"trigger"`
	Due        time.Time    `json:"due_at,omitzero"` // zero for a manual run
	Started    time.Time    `json:"started_at"`
	Ended      time.Time    `json:"ended_at,omitzero"`   // zero while the run is open
	Plan       *plan.Stored `json:"-"`                   // fixed at the beginning; nil for a run that failed before, or if it is damaged
	Damage     error        `json:"-"`                   // why the plan cannot be read
	Request    string       `json:"-"`                   // [job.Spec.Request] of the job when the run began
	RestOf     string       `json:"rest_of,omitempty"`   // the run whose searches this one completes; "" for all others
	Overridden bool         `json:"overridden,omitzero"` // manually: the run does not count for what the job has covered

	Urgent     int64     `json:"-"` // its place among the runs that somebody waits for; 0 for the others
	ResumedFor time.Time `json:"-"` // the due time before whose run this one was resumed last
	Searched   bool      `json:"-"` // its searches have ended, and its data calls are queued
	Key        Key       `json:"-"` // of the order that begins or resumes it now; readings leave it out

	Pages    int64            `json:"pages"`
	Hits     int64            `json:"hits"`
	NewHits  int64            `json:"new_hits"`
	Requests int64            `json:"requests"`
	Missing  int64            `json:"missing"`
	Failures int64            `json:"failures"`
	Credits  outlier.Credits  `json:"credits"` // including those of unknown outcome
	Refunded outlier.Credits  `json:"refunded"`
	Waited   store.Seconds    `json:"waited_s"`
	Rows     map[string]int64 `json:"rows,omitempty"`          // per table
	Skipped  int64            `json:"skipped_fresh,omitempty"` // data calls
	Error    string           `json:"error,omitempty"`
}

// InProgress reports whether an unfinished run is in progress, even if it waits for the rate limit.
func (r *Run) InProgress() bool { return r.Ended.IsZero() }

// The triggers of runs that are treated unlike those of a schedule.
const (
	Manual = "manual" // started by hand
	After  = "after"  // follows a run of another job
)

func (r *Run) columns() store.Columns {
	all := r.progress()
	maps.Copy(all, store.Columns{
		"run": &r.ID, "job": &r.Job, "trigger": &r.Trigger, "due": store.Time(&r.Due),
		"started": store.Time(&r.Started), "plan": planOf{r}, "config": &r.Request, "rest_of": &r.RestOf,
		"overridden": &r.Overridden, "searched": &r.Searched, "row_counts": store.JSON(&r.Rows),
	})
	maps.Copy(all, r.request())
	return all
}

// planOf is the column of a run's plan. A damaged one does not prevent reading the run, and others with it.
type planOf struct{ *Run }

func (r planOf) Scan(v any) error {
	if r.Damage = store.JSON(&r.Plan).Scan(v); r.Damage != nil {
		r.Plan = nil
	}
	return nil
}

func (r planOf) Value() (driver.Value, error) { return store.JSON(&r.Plan).Value() }

// request are the columns about who wants an unfinished run.
func (r *Run) request() store.Columns {
	return store.Columns{"urgent": &r.Urgent, "resumed_for": store.Time(&r.ResumedFor)}
}

// wanted are the columns that an order for an unfinished run changes: with its plan, if that can be read, its cap.
func (r *Run) wanted() store.Columns {
	all := r.request()
	if r.Plan != nil {
		all["plan"] = planOf{r}
	}
	return all
}

// progress are the columns that change during a run.
func (r *Run) progress() store.Columns {
	return store.Columns{
		"status": &r.Status, "ended": store.Time(&r.Ended), "pages": &r.Pages, "hits": &r.Hits, "new_hits": &r.NewHits,
		"requests": &r.Requests, "missing": &r.Missing, "failures": &r.Failures, "credits": &r.Credits,
		"refunded": &r.Refunded, "waited": store.Duration(&r.Waited.Duration), "skipped": &r.Skipped, "error": &r.Error,
	}
}

// Begin records a run and its steps, to which it assigns ids; see [Steps.OfRun], and removes its due time from
// [Schedule.Dues]. The database refuses a second run for a due time.
func (rs *Runs) Begin(r Run, steps []Step) error {
	return rs.db.Update(func(tx *store.Tx) error {
		columns := r.columns()
		columns["unfinished"] = !r.Status.EndedWell()
		if err := store.Insert(tx, "runs", columns, ""); err != nil {
			if store.IsConstraint(err) {
				err = fmt.Errorf("run %s of job %s: its due time %s has a run already: %w", r.ID, r.Job, r.Due.Format(time.RFC3339), err)
			}
			return err
		}
		err := errors.Join(addKey(tx, r), DropDues(tx, []Due{{Job: r.Job, At: r.Due}}))
		if r.Trigger != After {
			err = errors.Join(err, moveNoted(tx, r.Job, r.Due))
		}
		for i, step := range steps {
			step.Run, step.Ordinal = r.ID, i
			_, failed := addStep(tx, step)
			err = errors.Join(err, failed)
		}
		return errors.Join(err, rs.began(tx, r))
	})
}

// Finish records a run's status, counts, end and error. A run that was interrupted or paused or has
// failed stays unfinished, and may be finished again.
func Finish(tx *store.Tx, r Run) error { return finishRun(tx, r, !r.Status.EndedWell()) }

// Supersede records that an unfinished run will not be continued. A running one becomes interrupted;
// any other status says why the run stopped and stays.
func Supersede(tx *store.Tx, r Run) error {
	if r.Status == Running {
		r.Status, r.Ended = Interrupted, time.Now()
	}
	return finishRun(tx, r, false)
}

func finishRun(tx *store.Tx, r Run, unfinished bool) error {
	columns := r.progress()
	maps.Copy(columns, r.request())
	columns["unfinished"] = unfinished
	err := store.Set(tx, "runs", "run", r.ID, columns)
	if !unfinished {
		err = errors.Join(err, ledger.ReleaseRun(tx, r.ID))
	}
	return err
}

// Unfinished returns the job's runs that may continue, oldest first: those that are running, and
// those that were stopped, such as by a cap or an error, and not superseded.
func (rs *Runs) Unfinished(job string) ([]Run, error) {
	return rs.listRuns(`FROM runs WHERE job = ? AND `+mayGoOn+` ORDER BY id`, job)
}

const (
	mayGoOn    = `unfinished = 1`           // the condition for runs whose row may still change
	inProgress = mayGoOn + ` AND ended = 0` // and for those in progress, even if they wait for the rate limit
)

// InProgress returns the runs in progress, without their totals: those that somebody waits for, in the order of the
// requests, then the others in the order in which they began.
func (rs *Runs) InProgress() ([]Run, error) {
	return rs.selectRuns(rs.db, `FROM runs WHERE `+inProgress+` ORDER BY urgent = 0, urgent, run`)
}

// Resume sets an unfinished run to running, and records who wants it, its number of failures, and its plan. It keeps
// its due time.
func (rs *Runs) Resume(r Run) error {
	return rs.db.Update(func(tx *store.Tx) error {
		columns := r.wanted()
		maps.Copy(columns, store.Columns{"status": Running, "ended": 0, "error": "", "failures": r.Failures})
		return errors.Join(store.Set(tx, "runs", mayGoOn+" AND run", r.ID, columns), addKey(tx, r))
	})
}

// TryAgain lets an unfinished run try again what it goes on without: open searches that have stopped.
func (rs *Runs) TryAgain(run string) error {
	return rs.db.Update(func(tx *store.Tx) error {
		return errors.Join(store.Set(tx, "runs", "run", run, store.Columns{"searched": false}),
			tx.Exec(`UPDATE steps SET problem = '', capped = 0 WHERE run = ? AND stop = '' AND problem <> ''`, run))
	})
}

// EndSearches records that the searches of a run have ended, and how many data calls were skipped as fresh.
func EndSearches(tx *store.Tx, run string, skipped int64) error {
	return store.Set(tx, "runs", "run", run, store.Columns{"searched": true, "skipped": skipped})
}

// CountCall counts a data call of a run that has failed, or that was answered with the news that there is nothing.
func CountCall(in store.Writer, run string, failed bool) error {
	return in.Exec(`UPDATE runs SET failures = failures + ?2, missing = missing + 1 - ?2 WHERE run = ?1`, run, failed)
}

// Ordered returns the unfinished runs that somebody asked a schedule for, in the order of the requests.
func (rs *Runs) Ordered() ([]Run, error) {
	return rs.listRuns(`FROM runs WHERE urgent > 0 AND ` + mayGoOn + ` ORDER BY urgent, id`)
}

// Recover closes what the last process left open: its runs are interrupted, and its scans that were
// not started yet are refused, so that a run that wants one requests it again. What it could not start is
// tried at once. The ledger must be recovered first: it records the outcome of attempts in the scans.
func Recover(tx *store.Tx) error {
	return errors.Join(tx.Exec(`UPDATE scans SET state = 'refused' WHERE state = 'intended'`),
		tx.Exec(`UPDATE dues SET not_before = 0 WHERE not_before <> 0`), interruptAll(tx))
}

// interruptAll records the runs in progress as interrupted: they belong to a process that was killed, because
// one that has just locked the folder has no runs. They end with their last attempt, and their counts
// are those of their searches and attempts.
func interruptAll(tx *store.Tx) error {
	open, err := store.Select(tx, (*Run).columns, `FROM runs WHERE `+inProgress)
	for i := 0; err == nil && i < len(open); i++ {
		err = interruptRun(tx, &open[i])
	}
	return err
}

func interruptRun(tx *store.Tx, r *Run) error {
	last, err := tally(tx, r)
	if err == nil {
		r.Missing, err = ledger.CountMissing(tx, r.ID)
	}
	if err != nil {
		return err
	}
	if r.Ended = last; last.Before(r.Started) {
		r.Ended = r.Started
	}
	r.Status, r.ResumedFor = Interrupted, time.Time{}
	return Finish(tx, *r)
}

// AddRows adds to the numbers of rows of a run, by table. Nothing happens if there is no such run.
func AddRows(tx *store.Tx, run string, more map[string]int64) error {
	row, err := store.First(tx, (*Run).rowCounts, `FROM runs WHERE run = ?`, run)
	if err != nil || row == nil {
		return err
	}
	if row.Rows == nil {
		row.Rows = map[string]int64{}
	}
	for table, n := range more {
		row.Rows[table] += n
	}
	return store.Set(tx, "runs", "run", run, row.rowCounts())
}

// rowCounts is the column that changes when answers of the run are loaded.
func (r *Run) rowCounts() store.Columns { return store.Columns{"row_counts": store.JSON(&r.Rows)} }

// Tally sets the totals of a run: requests and credits from the ledger, pages and hits from its steps, and what was
// counted in its row so far.
func (rs *Runs) Tally(r *Run) error {
	_, err := store.Read(rs.db, func(tx *store.Tx) (time.Time, error) { return tally(tx, r) })
	return err
}

// tally is [Runs.Tally]. It returns when the run's last attempt was settled.
func tally(tx *store.Tx, r *Run) (last time.Time, err error) {
	spent, last, err := ledger.Totals(tx, r.ID)
	if err != nil {
		return last, err
	}
	r.Credits, r.Refunded, r.Waited.Duration = spent.Charged+spent.Unknown, spent.Refunded, spent.Waited
	if r.Requests, err = ledger.Requests(tx, r.ID); err != nil {
		return last, err
	}
	_, err = store.Scan(tx, []any{&r.Pages, &r.Hits, &r.NewHits, &r.Missing, &r.Failures, store.JSON(&r.Rows)}, `SELECT
		coalesce(sum(s.pages), 0), coalesce(sum(s.hits), 0), coalesce(sum(s.new_hits), 0),
		r.missing, r.failures, r.row_counts FROM runs r LEFT JOIN steps s USING (run) WHERE r.run = ?1`, r.ID)
	return last, err
}

// Get returns a run of any job; nil if no run has this id.
func (rs *Runs) Get(id string) (*Run, error) {
	return first(rs.listRuns(`FROM runs WHERE run = ?`, id))
}

// ContinuingRun returns an unfinished run, without the totals of one in progress; nil if no such run has this id.
func (rs *Runs) ContinuingRun(id string) (*Run, error) {
	return first(rs.selectRuns(rs.db, `FROM runs WHERE run = ? AND `+mayGoOn, id))
}

// first returns the first of the runs that were read; nil if none was found.
func first(all []Run, err error) (*Run, error) {
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// OwnRuns returns the newest runs of the job as configured, newest first, without those that were
// manually overridden.
func (rs *Runs) OwnRuns(job string, limit int) ([]Run, error) {
	return rs.listRuns(`FROM runs WHERE job = ? AND NOT overridden ORDER BY id DESC
		LIMIT ?`, job, limit)
}

// listRuns reads runs with their totals, which the row of a run in progress does not have.
func (rs *Runs) listRuns(from string, args ...any) ([]Run, error) {
	return store.Read(rs.db, func(tx *store.Tx) ([]Run, error) {
		all, err := rs.selectRuns(tx, from, args...)
		for i := 0; err == nil && i < len(all); i++ {
			if all[i].InProgress() {
				_, err = tally(tx, &all[i])
			}
		}
		return all, err
	})
}

// selectRuns reads the rows of runs.
func (rs *Runs) selectRuns(in store.Reader, from string, args ...any) ([]Run, error) {
	all, err := store.Select(in, (*Run).columns, from, args...)
	for i := range all {
		rs.setActualStatus(&all[i])
	}
	return all, err
}

// setActualStatus sets the actual status of a run that was read. One recorded as running was interrupted if no
// process holds the folder; the next process records that, see [Recover].
func (rs *Runs) setActualStatus(r *Run) {
	if rs.db.Idle() && r.Status == Running {
		r.Status = Interrupted
	}
}

// Jobs returns the names of the jobs that have runs or watermarks.
func (rs *Runs) Jobs() ([]string, error) {
	return store.Values[string](rs.db,
		`WITH RECURSIVE names (job) AS ( -- a search of the index for each name, however many runs it has
			SELECT min(job) FROM runs WHERE job > ''
			UNION ALL SELECT (SELECT min(job) FROM runs WHERE job > names.job) FROM names WHERE job IS NOT NULL)
		SELECT job FROM names WHERE job IS NOT NULL UNION SELECT job FROM watermarks ORDER BY job`)
}

// LastSuccess returns when a run of the job last ended as ok or ok_empty; zero if none did. Its cost is
// proportional to the number of runs since.
func (rs *Runs) LastSuccess(job string) (time.Time, error) {
	return store.ValueTime(rs.db, `SELECT ended FROM runs
		WHERE job = ? AND status IN ('ok', 'ok_empty') ORDER BY id DESC LIMIT 1`, job)
}
