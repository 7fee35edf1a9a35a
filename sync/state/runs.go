package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
)

// Status is how a run stands, or how it ended.
type Status string

// The statuses. Empty is never confused with failed.
const (
	Running      Status = "running"
	OK           Status = "ok"
	OKEmpty      Status = "ok_empty"
	Partial      Status = "partial"       // some items failed and stay queued
	PausedBudget Status = "paused_budget" // a cap was reached; the run keeps its place
	PausedQuota  Status = "paused_quota"  // the rate limit leaves no room for longer than a call may wait; the run keeps its place
	Failed       Status = "failed"
	Interrupted  Status = "interrupted" // its process was stopped or killed, or a newer run took its place
)

// Open reports whether a run with this status is under way, or was cut short where it stood
// and goes on from there.
func (s Status) Open() bool { return s == Running || s == Interrupted || s == PausedQuota }

// over reports whether a run with this status has come to its end for good; any other
// may go on.
func (s Status) over() bool {
	switch s {
	case OK, OKEmpty, Partial:
		return true
	}
	return false
}

// Run is one performance of a job.
type Run struct {
	ID, Job, Trigger string
	Due              time.Time // zero for a manual run
	Started, Ended   time.Time // Ended is zero while the run is open
	Status           Status
	Plan             []byte // JSON that the engine froze at the beginning
	Config           string // hash of the job as configured
	RestOf           string // the run whose searches this one completes; "" for all others
	Overridden       bool   // a person ran the job in another way: the run says nothing about what the job has covered

	Pages, Hits, NewHits        int64
	Requests, Missing, Failures int64
	Credits, Refunded           outlier.Credits // Credits includes the unknown
	Waited                      time.Duration
	Rows                        map[string]int64 // per table
	Error                       string
}

const runColumns = `run, job, cause, due, started, ended, status, plan, config, rest_of, overridden, pages, hits, new_hits,
	requests, missing, failures, credits, refunded, waited, row_counts, error`

// runRow is a run on its way out of the database.
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
	r.Due, r.Started, r.Ended = instant(r.due), instant(r.started), instant(r.ended)
	r.Waited = time.Duration(r.waited) * time.Microsecond
	if err := json.Unmarshal([]byte(r.rows), &r.Rows); err != nil {
		return r.Run, fmt.Errorf("read the row counts of run %s: %w", r.ID, err)
	}
	return r.Run, nil
}

// Begin records a run with its steps, whose ids it assigns; see [Store.Steps]. A run
// of a due instant that has one is refused with a [*DuplicateRunError]; otherwise the
// instant is no longer owed.
func (s *Store) Begin(r Run, steps []Step) error {
	err := s.Update(func(tx *Tx) error {
		if err := tx.unique(r); err != nil {
			return err
		}
		values := append([]any{r.ID, r.Job, r.Trigger, micros(r.Due), micros(r.Started), micros(r.Ended), string(r.Status),
			r.Plan, r.Config, r.RestOf, r.Overridden}, r.counts()...)
		_, err := tx.exec(`INSERT INTO runs (`+runColumns+`, unfinished)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(values, !r.Status.over())...)
		if err != nil {
			return err
		}
		if _, err := tx.exec(`DELETE FROM owed WHERE job = ? AND due = ?`, r.Job, micros(r.Due)); err != nil {
			return err
		}
		for i, step := range steps {
			step.Run, step.Ordinal = r.ID, i
			if _, err := tx.addStep(step); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("begin run %s of job %s: %w", r.ID, r.Job, err)
	}
	return nil
}

// unique names the run that performed r's due instant before, if there is one. The
// database refuses a second one in any case.
func (t *Tx) unique(r Run) error {
	if r.Due.IsZero() {
		return nil
	}
	var before string
	err := t.row(`SELECT run FROM runs WHERE job = ? AND due = ? AND due <> 0`, r.Job, micros(r.Due)).Scan(&before)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &DuplicateRunError{Job: r.Job, Due: r.Due, Run: before}
}

// counts are the columns that change as a run goes on, in the order of runColumns.
func (r *Run) counts() []any {
	rows, _ := json.Marshal(r.Rows) // a map of numbers always can be
	return []any{r.Pages, r.Hits, r.NewHits, r.Requests, r.Missing, r.Failures,
		int64(r.Credits), int64(r.Refunded), r.Waited.Microseconds(), string(rows), r.Error}
}

// Finish records how a run stands: its status, counts, end and error. A run that
// was interrupted or paused or has failed stays unfinished, and may be finished again.
func (s *Store) Finish(r Run) error { return s.finish(r, !r.Status.over()) }

// Supersede records that an unfinished run is not continued any more. One that was cut
// short while it was under way is interrupted; a status that says why the run stopped stays.
func (s *Store) Supersede(r Run) error {
	if r.Status == Running {
		r.Status, r.Ended = Interrupted, time.Now()
	}
	return s.finish(r, false)
}

func (s *Store) finish(r Run, unfinished bool) error {
	err := s.Update(func(tx *Tx) error {
		result, err := tx.exec(`UPDATE runs SET status = ?, ended = ?, unfinished = ?, pages = ?, hits = ?, new_hits = ?, requests = ?,
			missing = ?, failures = ?, credits = ?, refunded = ?, waited = ?, row_counts = ?, error = ? WHERE run = ?`,
			append(append([]any{string(r.Status), micros(r.Ended), unfinished}, r.counts()...), r.ID)...)
		if err := found(result, err); err != nil {
			return err
		}
		if !unfinished {
			if err := tx.releaseRun(r.ID); err != nil {
				return err
			}
		}
		return tx.expire()
	})
	if err != nil {
		return fmt.Errorf("finish run %s: %w", r.ID, err)
	}
	return nil
}

// found turns an update that met no row into an error.
func found(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errors.New("there is no such record")
	}
	return err
}

// Unfinished are the job's runs that may go on, oldest first: those that are running,
// and those that a cap or an error stopped and that were not superseded.
func (s *Store) Unfinished(job string) ([]Run, error) {
	return s.runs(`SELECT `+runColumns+` FROM runs WHERE job = ? AND `+mayGoOn+` ORDER BY id`, job)
}

// mayGoOn holds for runs whose row may still change.
const mayGoOn = `unfinished = 1`

// Resume puts a run that may go on back to running. It keeps its due instant.
func (s *Store) Resume(run string) error {
	err := s.Update(func(tx *Tx) error {
		return found(tx.exec(`UPDATE runs SET status = 'running', ended = 0, error = '' WHERE run = ? AND `+mayGoOn, run))
	})
	if err != nil {
		return fmt.Errorf("resume run %s: %w", run, err)
	}
	return nil
}

// interruptRuns records the runs of a process that was killed as interrupted: a process that
// has just locked the folder works on none. They end with the last that is known of them,
// and their counts are those of their searches and attempts. How many rows they brought is
// not known, which null says.
func (t *Tx) interruptRuns() error {
	_, err := t.exec(`UPDATE runs SET status = 'interrupted', row_counts = 'null',
		ended = (SELECT max(runs.started, coalesce(max(settled_at), 0)) FROM attempts WHERE run = runs.run),
		(pages, hits, new_hits) = (SELECT coalesce(sum(pages), 0), coalesce(sum(hits), 0), coalesce(sum(new_hits), 0)
			FROM steps WHERE run = runs.run),
		(requests, credits, refunded, waited) = (SELECT max(runs.requests, count(*) FILTER (WHERE sent_at <> 0)),
			coalesce(sum(price) FILTER (WHERE state IN ('charged', 'unknown')), 0),
			coalesce(sum(price) FILTER (WHERE state = 'refunded'), 0), coalesce(sum(waited), 0)
			FROM attempts WHERE run = runs.run)
		WHERE ` + mayGoOn + ` AND status = 'running'`)
	if err != nil {
		return fmt.Errorf("record interrupted runs: %w", err)
	}
	return nil
}

// Debt is a due instant of a job with `after` at which it has to run: that of a run of its
// parent whose searches have ended.
type Debt struct {
	Job   string
	Due   time.Time
	Noted time.Time // when its searches had ended
}

// Owe notes what jobs have to run for, unless they have.
func (t *Tx) Owe(debts []Debt) error {
	for _, d := range debts {
		_, err := t.exec(`INSERT INTO owed (job, due, noted) SELECT ?1, ?2, ?3
			WHERE NOT EXISTS (SELECT 1 FROM runs WHERE job = ?1 AND due = ?2 AND due <> 0) ON CONFLICT DO NOTHING`,
			d.Job, micros(d.Due), micros(t.now))
		if err != nil {
			return fmt.Errorf("note that job %s is due at %s: %w", d.Job, d.Due, err)
		}
	}
	return nil
}

// Forgive drops what jobs have to run for.
func (t *Tx) Forgive(debts []Debt) error {
	for _, d := range debts {
		if _, err := t.exec(`DELETE FROM owed WHERE job = ? AND due = ?`, d.Job, micros(d.Due)); err != nil {
			return fmt.Errorf("drop the run of job %s due at %s: %w", d.Job, d.Due, err)
		}
	}
	return nil
}

// Owed are the runs that jobs with `after` have to make, by due instant.
func (s *Store) Owed() (all []Debt, err error) {
	type row struct {
		job        string
		due, noted int64
	}
	err = s.view(func() error {
		rows, err := list(s, func(r *row) []any { return []any{&r.job, &r.due, &r.noted} },
			`SELECT job, due, noted FROM owed ORDER BY due, job`)
		for _, r := range rows {
			all = append(all, Debt{r.job, instant(r.due), instant(r.noted)})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for runs that are owed: %w", err)
	}
	return all, nil
}

// firstSeen precedes a job's name where meta keeps when it was first seen.
const firstSeen = "first seen: "

// FirstSeen is when a job was first asked about, which is now if it never was. A
// schedule owes nothing for the time before.
func (s *Store) FirstSeen(job string, now time.Time) (first time.Time, err error) {
	key := firstSeen + job
	err = s.Update(func(tx *Tx) error {
		text, err := tx.meta(key)
		if err != nil {
			return err
		}
		if text == "" {
			first = now
			return tx.setMeta(key, now.UTC().Format(time.RFC3339Nano))
		}
		first, err = time.Parse(time.RFC3339Nano, text)
		return err
	})
	if err != nil {
		return first, fmt.Errorf("when was job %s first seen: %w", job, err)
	}
	return first, nil
}

// Runs are the newest runs of the job, or of all jobs if job is "", newest first.
// A limit of 0 or less means all.
func (s *Store) Runs(job string, limit int) ([]Run, error) {
	if limit <= 0 {
		limit = -1
	}
	return s.runs(`SELECT `+runColumns+` FROM runs WHERE (job = ?1 OR ?1 = '') ORDER BY id DESC LIMIT ?2`, job, limit)
}

// Run is a run of any job; nil if it is not on record.
func (s *Store) Run(id string) (*Run, error) {
	runs, err := s.runs(`SELECT `+runColumns+` FROM runs WHERE run = ?`, id)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return &runs[0], nil
}

// OwnRuns are the newest runs of the job that did what its file said, newest first: not
// those that a person has overridden.
func (s *Store) OwnRuns(job string, limit int) ([]Run, error) {
	return s.runs(`SELECT `+runColumns+` FROM runs WHERE job = ? AND NOT overridden ORDER BY id DESC LIMIT ?`, job, limit)
}

func (s *Store) runs(query string, args ...any) ([]Run, error) {
	var runs []Run
	err := s.view(func() error {
		rows, err := list(s, (*runRow).columns, query, args...)
		for i := 0; err == nil && i < len(rows); i++ {
			var r Run
			r, err = rows[i].run()
			runs = append(runs, r)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	for i := range runs {
		if s.idle && runs[i].Status == Running { // until a process records it; see [Tx.interruptRuns]
			runs[i].Status = Interrupted
		}
	}
	return runs, nil
}

// Jobs are the names under which anything is on record: runs, watermarks, queued calls.
func (s *Store) Jobs() (names []string, err error) {
	err = s.view(func() error {
		names, err = list(s, func(name *string) []any { return []any{name} },
			`SELECT job FROM runs WHERE job <> '' UNION SELECT job FROM watermarks
				UNION SELECT job FROM queue_counts WHERE asked > 0 OR shared > 0 ORDER BY job`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the jobs on record: %w", err)
	}
	return names, nil
}

// Performed reports whether a run of the job is on record for a due instant.
func (s *Store) Performed(job string, due time.Time) (done bool, err error) {
	err = s.view(func() error {
		return s.row(`SELECT EXISTS (SELECT 1 FROM runs WHERE job = ? AND due = ? AND due <> 0)`, job, micros(due)).Scan(&done)
	})
	if err != nil {
		return false, fmt.Errorf("was job %s run for %s: %w", job, due, err)
	}
	return done, nil
}

// LastDue is the latest due instant at which a run of the job was begun, under this
// name or a former one; zero if there is none.
func (s *Store) LastDue(job string) (time.Time, error) {
	var due int64
	err := s.view(func() (err error) {
		due, err = (&Tx{s: s}).lastDue(job)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("when was job %s last due: %w", job, err)
	}
	return instant(due), nil
}

func (t *Tx) lastDue(job string) (due int64, err error) {
	err = t.row(`SELECT max(
		(SELECT coalesce(max(due), 0) FROM runs WHERE job = ?1 AND due <> 0
			AND id > coalesce((SELECT after_run FROM jobs WHERE job = ?1), 0)),
		coalesce((SELECT last_due FROM jobs WHERE job = ?1), 0))`, job).Scan(&due)
	return due, err
}
