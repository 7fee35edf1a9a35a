// Package runs records what jobs have done: their runs with steps and hits, the scans that they
// started, the dates that their searches have covered, and the follow-up runs that are still due.
// It owns the tables runs, steps, seen, run_hits, scans, watermarks, owed, renames and pauses.
//
// # A scan is started once
//
// The service cannot know that a second request for a scan means the first one. So
// the intent comes first, as a row of its own, and the attempts that carry it out refer
// to it: unique indexes allow one intent at a time for what a scan looks for, whichever run
// wants it, and one attempt for the intent that is not refunded. Triggers let the state of
// the scan follow its attempt. From the moment an attempt is marked as sent the scan may
// exist; it is unknown until an answer is read, a refund proves that there is none, or an
// operator says what there is. A run that wants a live scan joins it, with a hold of
// its own for reading it.
package runs

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Runs is the record of runs in one state folder.
type Runs struct {
	db     *store.Store
	ledger *ledger.Ledger
	began  func(*store.Tx, Run) error
}

// New is the record in a file whose schema is up to date. began is called in the unit of work
// that records the beginning of a run; nil calls nothing.
func New(db *store.Store, l *ledger.Ledger, began func(*store.Tx, Run) error) *Runs {
	if began == nil {
		began = func(*store.Tx, Run) error { return nil }
	}
	return &Runs{db: db, ledger: l, began: began}
}

// Status is the status of a run.
type Status string

// The statuses. Empty is never confused with failed.
const (
	Running      Status = "running"
	OK           Status = "ok"
	OKEmpty      Status = "ok_empty"
	Partial      Status = "partial"       // some items failed and stay queued
	PausedBudget Status = "paused_budget" // a cap was reached; the run keeps its place
	PausedQuota  Status = "paused_quota"  // the rate limit has no room for longer than a call may wait; likewise
	Failed       Status = "failed"
	Interrupted  Status = "interrupted" // its process was stopped or killed, or a newer run took its place
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

// Run is one run of a job.
type Run struct {
	ID, Job, Trigger string
	Due              time.Time // zero for a manual run
	Started, Ended   time.Time // Ended is zero while the run is open
	Status           Status
	Plan             []byte // JSON that the engine froze at the beginning
	Config           string // hash of the job as configured
	RestOf           string // the run whose searches this one completes; "" for all others
	Overridden       bool   // by a person: the run says nothing about what the job has covered

	Pages, Hits, NewHits        int64
	Requests, Missing, Failures int64
	Credits, Refunded           outlier.Credits // Credits includes the unknown
	Waited                      time.Duration
	Rows                        map[string]int64 // per table
	Error                       string
}

// Manual is the trigger of a run that a person began.
const Manual = "manual"

const runColumns = `run, job, cause, due, started, ended, status, plan, config, rest_of, overridden, pages,
	hits, new_hits,
	requests, missing, failures, credits, refunded, waited, row_counts, error`

// runRow is a row of the table runs.
type runRow struct {
	Run
	due, started, ended, waited int64
	rows                        string
}

func (r *runRow) columns() []any {
	return []any{&r.ID, &r.Job, &r.Trigger, &r.due, &r.started, &r.ended, &r.Status, &r.Plan, &r.Config,
		&r.RestOf, &r.Overridden, &r.Pages, &r.Hits, &r.NewHits,
		&r.Requests, &r.Missing, &r.Failures, &r.Credits, &r.Refunded, &r.waited, &r.rows, &r.Error}
}

func (r *runRow) run() (Run, error) {
	r.Due, r.Started, r.Ended = store.Instant(r.due), store.Instant(r.started), store.Instant(r.ended)
	r.Waited = time.Duration(r.waited) * time.Microsecond
	if err := json.Unmarshal([]byte(r.rows), &r.Rows); err != nil {
		return r.Run, fmt.Errorf("read the row counts of run %s: %w", r.ID, err)
	}
	return r.Run, nil
}

// Begin records a run with its steps, whose ids it assigns; see [Runs.Steps]. A run
// of a due instant that has one is refused with a [*DuplicateRunError]; otherwise the
// instant is no longer one of [Runs.FollowUps].
func (rs *Runs) Begin(r Run, steps []Step) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		if err := unique(tx, r); err != nil {
			return err
		}
		values := append([]any{r.ID, r.Job, r.Trigger,
			store.Micros(r.Due), store.Micros(r.Started), store.Micros(r.Ended), string(r.Status),
			r.Plan, r.Config, r.RestOf, r.Overridden}, r.counts()...)
		_, err := tx.Exec(`INSERT INTO runs (`+runColumns+`, unfinished)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			append(values, !r.Status.EndedWell())...)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM owed WHERE job = ? AND due = ?`,
			r.Job, store.Micros(r.Due)); err != nil {
			return err
		}
		for i, step := range steps {
			step.Run, step.Ordinal = r.ID, i
			if _, err := addStep(tx, step); err != nil {
				return err
			}
		}
		return rs.began(tx, r)
	})
	if err != nil {
		return fmt.Errorf("start run %s of job %s: %w", r.ID, r.Job, err)
	}
	return nil
}

// unique names the run that performed r's due instant before, if there is one. The
// database refuses a second one in any case.
func unique(tx *store.Tx, r Run) error {
	if r.Due.IsZero() {
		return nil
	}
	var before string
	err := tx.Row(`SELECT run FROM runs WHERE job = ? AND due = ? AND due <> 0`,
		r.Job, store.Micros(r.Due)).Scan(&before)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &DuplicateRunError{Job: r.Job, Due: r.Due, Run: before}
}

// DuplicateRunError says that a due instant was performed before.
type DuplicateRunError struct {
	Job string
	Due time.Time
	Run string // the run that performed it
}

func (e *DuplicateRunError) Error() string {
	return fmt.Sprintf("job %s, due at %s, was already started as run %s", e.Job,
		e.Due.Format(time.RFC3339), e.Run)
}

// counts are the columns that change as a run goes on, in the order of runColumns.
func (r *Run) counts() []any {
	rows, _ := json.Marshal(r.Rows) // a map of numbers always can be
	return []any{r.Pages, r.Hits, r.NewHits, r.Requests, r.Missing, r.Failures,
		int64(r.Credits), int64(r.Refunded), r.Waited.Microseconds(), string(rows), r.Error}
}

// Finish records how a run stands: its status, counts, end and error. A run that
// was interrupted or paused or has failed stays unfinished, and may be finished again.
func Finish(tx *store.Tx, r Run) error { return finish(tx, r, !r.Status.EndedWell()) }

// Supersede records that an unfinished run is not continued any more. One that was cut
// short while it was under way is interrupted; a status that says why the run stopped stays.
func Supersede(tx *store.Tx, r Run) error {
	if r.Status == Running {
		r.Status, r.Ended = Interrupted, time.Now()
	}
	return finish(tx, r, false)
}

func finish(tx *store.Tx, r Run, unfinished bool) error {
	result, err := tx.Exec(`UPDATE runs
		SET status = ?, ended = ?, unfinished = ?, pages = ?, hits = ?, new_hits = ?,
		requests = ?, missing = ?, failures = ?, credits = ?, refunded = ?, waited = ?, row_counts = ?,
		error = ?
		WHERE run = ?`,
		append(append([]any{string(r.Status), store.Micros(r.Ended), unfinished}, r.counts()...), r.ID)...)
	err = store.Found(result, err)
	if err == nil && !unfinished {
		var intents []int64
		if intents, err = unconfirmed(tx); err == nil {
			err = ledger.ReleaseRun(tx, r.ID, intents)
		}
	}
	if err != nil {
		return fmt.Errorf("finish run %s: %w", r.ID, err)
	}
	return nil
}

// Unfinished are the job's runs that may go on, oldest first: those that are running,
// and those that a cap or an error stopped and that were not superseded.
func (rs *Runs) Unfinished(job string) ([]Run, error) {
	return rs.runs(`SELECT `+runColumns+` FROM runs WHERE job = ? AND `+mayGoOn+` ORDER BY id`, job)
}

// mayGoOn holds for runs whose row may still change.
const mayGoOn = `unfinished = 1`

// Resume puts a run that may go on back to running. It keeps its due instant.
func (rs *Runs) Resume(run string) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		return store.Found(tx.Exec(`UPDATE runs SET status = 'running', ended = 0, error = '' WHERE run = ?
			AND `+mayGoOn, run))
	})
	if err != nil {
		return fmt.Errorf("resume run %s: %w", run, err)
	}
	return nil
}

// Recover records what the last process left open: its runs are interrupted, and of its
// scans those that still waited to be started were not, so the run that wants one asks
// anew. The ledger, which has to be recovered before, has recorded in the scans what became
// of their attempts.
func Recover(tx *store.Tx) error {
	if _, err := tx.Exec(`UPDATE scans SET state = 'refused' WHERE state = 'intended'`); err != nil {
		return err
	}
	return interruptAll(tx)
}

// interruptAll records the runs of a process that was killed as interrupted: a process that
// has just locked the folder works on none. They end with the last that is known of them,
// and their counts are those of their searches and attempts. How many rows they brought is
// not known, which null says.
func interruptAll(tx *store.Tx) error {
	open, err := store.List(tx, (*runRow).columns, `SELECT `+runColumns+` FROM runs WHERE `+mayGoOn+`
		AND status = 'running'`)
	for i := 0; err == nil && i < len(open); i++ {
		err = interrupt(tx, &open[i])
	}
	if err != nil {
		return fmt.Errorf("record interrupted runs: %w", err)
	}
	return nil
}

func interrupt(tx *store.Tx, r *runRow) error {
	spent, last, err := ledger.Totals(tx, r.ID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE runs SET status = 'interrupted', row_counts = 'null', ended = ?2,
		requests = ?3, credits = ?4, refunded = ?5, waited = ?6,
		(pages, hits, new_hits) = (SELECT coalesce(sum(pages), 0), coalesce(sum(hits), 0),
		coalesce(sum(new_hits), 0)
			FROM steps WHERE run = runs.run)
		WHERE run = ?1`,
		r.ID, max(r.started, store.Micros(last)), max(r.Requests, spent.Requests),
		int64(spent.Charged+spent.Unknown), int64(spent.Refunded), spent.Waited.Microseconds())
	return err
}

// FirstSeen is when a job was first asked about, which is now if it never was. A
// schedule owes nothing for the time before.
func (rs *Runs) FirstSeen(job string, now time.Time) (first time.Time, err error) {
	key := firstSeen + job
	err = rs.db.Update(func(tx *store.Tx) error {
		text, err := tx.Meta(key)
		if err != nil {
			return err
		}
		if text == "" {
			first = now
			return tx.SetMeta(key, now.UTC().Format(time.RFC3339Nano))
		}
		first, err = time.Parse(time.RFC3339Nano, text)
		return err
	})
	if err != nil {
		return first, fmt.Errorf("read when job %s was first seen: %w", job, err)
	}
	return first, nil
}

// firstSeen precedes a job's name where meta keeps when it was first seen.
const firstSeen = "first seen: "

// Get returns a run of any job; nil if it is not on record.
func (rs *Runs) Get(id string) (*Run, error) {
	runs, err := rs.runs(`SELECT `+runColumns+` FROM runs WHERE run = ?`, id)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return &runs[0], nil
}

// OwnRuns are the newest runs of the job that did what its file said, newest first: not
// those that a person has overridden.
func (rs *Runs) OwnRuns(job string, limit int) ([]Run, error) {
	return rs.runs(`SELECT `+runColumns+` FROM runs WHERE job = ? AND NOT overridden ORDER BY id DESC
		LIMIT ?`, job, limit)
}

func (rs *Runs) runs(query string, args ...any) ([]Run, error) {
	var runs []Run
	err := rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*runRow).columns, query, args...)
		for i := 0; err == nil && i < len(rows); i++ {
			var r Run
			r, err = rows[i].run()
			runs = append(runs, rs.asShown(r))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	return runs, nil
}

// asShown is a run as it stands by now. One on record as running was interrupted if no process
// holds the folder; the next one records it, see [Recover].
func (rs *Runs) asShown(r Run) Run {
	if rs.db.Idle() && r.Status == Running {
		r.Status = Interrupted
	}
	return r
}

// Jobs are the names of jobs that have runs or watermarks.
func (rs *Runs) Jobs() (names []string, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		names, err = store.List(tx, func(name *string) []any { return []any{name} },
			`SELECT job FROM runs WHERE job <> '' UNION SELECT job FROM watermarks ORDER BY job`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the jobs on record: %w", err)
	}
	return names, nil
}

// Performed reports whether a run of the job is on record for a due instant.
func (rs *Runs) Performed(job string, due time.Time) (done bool, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT EXISTS (SELECT 1 FROM runs WHERE job = ? AND due = ? AND due <> 0)`,
			job, store.Micros(due)).Scan(&done)
	})
	if err != nil {
		return false, fmt.Errorf("read whether job %s ran for %s: %w", job, due, err)
	}
	return done, nil
}

// LastDue is the latest due instant at which a run of the job was begun, under this
// name or a former one; zero if there is none.
func (rs *Runs) LastDue(job string) (time.Time, error) {
	var due int64
	err := rs.db.View(func(tx *store.Tx) (err error) {
		due, err = lastDue(tx, job)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read when job %s was last due: %w", job, err)
	}
	return store.Instant(due), nil
}

func lastDue(tx *store.Tx, job string) (due int64, err error) {
	former, err := ledger.FormerOf(tx, job)
	if err != nil {
		return 0, err
	}
	err = tx.Row(`SELECT coalesce(max(due), 0) FROM runs WHERE job = ?1 AND due <> 0 AND id > ?2`,
		job, former.AfterRun).Scan(&due)
	return max(due, store.Micros(former.LastDue)), err
}

// LastSuccess is when a run of the job last ended well and whole; zero if none did. It looks
// through the runs since.
func (rs *Runs) LastSuccess(job string) (time.Time, error) {
	var ended int64
	err := rs.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce((SELECT ended FROM runs WHERE job = ? AND status IN ('ok', 'ok_empty')
			ORDER BY id DESC LIMIT 1), 0)`, job).Scan(&ended)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read when job %s last succeeded: %w", job, err)
	}
	return store.Instant(ended), nil
}
