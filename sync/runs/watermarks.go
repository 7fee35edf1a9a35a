package runs

import (
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/store"
)

// Watermarks is the record of what the searches of jobs have covered.
type Watermarks struct {
	db    *store.Store
	clock *ledger.Clock
}

// Watermark is the time up to which a job's searches with one key are covered. The key consists of
// operation, queries or seeds, and the for_each value: if one of them changes, the search starts from
// the beginning; if another filter changes, it does not.
type Watermark struct {
	Job string    `json:"job"`
	Key string    `json:"key"`
	At  time.Time `json:"at"`               // service time at which page one of the last successful search was requested
	Run string    `json:"set_by,omitempty"` // the run of that search; "" if the watermark was set by hand
	Set time.Time `json:"set_at"`           // when it was recorded
}

func (w *Watermark) columns() store.Columns {
	return store.Columns{
		"job": &w.Job, "key": &w.Key, "at": store.Time(&w.At), "run": &w.Run, "set_at": store.Time(&w.Set),
	}
}

// replaceWatermark is what [store.Insert] does with a watermark that exists.
const replaceWatermark = `ON CONFLICT DO UPDATE SET at = excluded.at, run = excluded.run, set_at = excluded.set_at`

// MoveWatermark moves a watermark forward to w.At for w.Run. It never moves it back, because runs may
// end in another order than they began.
func MoveWatermark(tx *store.Tx, w Watermark) error {
	if w.Run == "" {
		return fmt.Errorf("move watermark %q of job %s: a run moves it, or it is set by hand", w.Key, w.Job)
	}
	w.Set = tx.Now()
	return store.Insert(tx, "watermarks", w.columns(), replaceWatermark+` WHERE excluded.at > at`)
}

// At returns the time up to which a job has covered key; zero if it never has.
func (ws *Watermarks) At(job, key string) (time.Time, error) {
	return store.ValueTime(ws.db, `SELECT at FROM watermarks WHERE job = ? AND key = ?`, job, key)
}

// lastSearched is the query of [Watermarks.LastSearched]. It reads the steps with the watermark's key from
// the latest to the first one of the job.
const lastSearched = `SELECT began FROM steps CROSS JOIN runs USING (run)
	WHERE runs.job = ?1 AND steps.watermark = ?2 AND steps.pages > 0 AND steps.began <= ?3
	AND NOT runs.overridden ORDER BY began DESC LIMIT 1`

// LastSearched returns the service time at which a job last requested page one of a search with a
// watermark's key, whether or not the search succeeded; zero if it never did. Manually overridden runs
// and times in the future do not count.
func (ws *Watermarks) LastSearched(job, key string) (time.Time, error) {
	return store.ValueTime(ws.db, lastSearched, job, key, store.Micros(ws.clock.Now().Add(ledger.Skew)))
}

// Searched is a search that has received pages.
type Searched struct {
	Query outlier.Query
	Stop  string
	Began time.Time
	Plan  *plan.Stored // of its run, if that was manually overridden
}

// Searched returns the searches of a job with a watermark's key, including those under former names.
func (ws *Watermarks) Searched(job, key string) ([]Searched, error) {
	return store.Select(ws.db, func(s *Searched) store.Columns {
		return store.Columns{
			"steps.op": opOf{&s.Query}, "steps.params": paramsOf{&s.Query},
			"steps.stop": &s.Stop, "steps.began": store.Time(&s.Began),
			"CASE WHEN runs.overridden THEN runs.plan ELSE 'null' END": store.JSON(&s.Plan),
		}
	}, searched, job, key)
}

// searched is the query of [Watermarks.Searched].
const searched = `FROM steps CROSS JOIN runs USING (run)
	WHERE steps.watermark = ?2 AND steps.pages > 0 AND (runs.job = ?1 OR runs.job IN (SELECT old
	FROM renames WHERE new = ?1))`

// Visits returns the searches of a job, under all of its names, that began after a time and whose newest hits came
// first: what `schedule: auto` learns from, by watermark. Searches of past dates, and those that continue others, do
// not count.
func (ws *Watermarks) Visits(job string, after time.Time) (map[string][]plan.Visit, error) {
	steps, err := store.Select(ws.db, func(s *Step) store.Columns {
		return store.Columns{
			"steps.op": opOf{&s.Query}, "steps.params": paramsOf{&s.Query}, "steps.watermark": &s.Watermark,
			"steps.began": store.Time(&s.Began), "steps.pages": &s.Pages, "steps.reused": &s.Reused, "steps.seen": &s.Seen,
			"steps.new_hits": &s.NewHits, "steps.total": &s.Total, "steps.stop": &s.Stop, "steps.oldest": store.Time(&s.Oldest),
		}
	}, visits, job, store.Micros(after))
	all := map[string][]plan.Visit{}
	for _, s := range steps {
		from, to := s.Query.Published()
		if order := s.Query.Params(); order.Get("sortBy") != "publishedAt" || order.Get("sortOrder") == "asc" ||
			from.IsZero() || !to.IsZero() {
			continue
		}
		all[s.Watermark] = append(all[s.Watermark], plan.Visit{
			At: s.Began, Since: from, Oldest: s.Oldest, Pages: s.Pages - s.Reused, New: s.NewHits, Seen: s.Seen,
			Total: s.Total, Whole: s.Stop == StopShort || s.Stop == StopEmpty,
		})
	}
	return all, err
}

// visits is the query of [Watermarks.Visits].
const visits = `FROM runs CROSS JOIN steps USING (run)
	WHERE (runs.job = ?1 OR runs.job IN (SELECT old FROM renames WHERE new = ?1)) AND runs.started > ?2
	AND steps.op = 'search' AND steps.pages > 0 AND steps.began > ?2 AND steps.origin IS NULL ORDER BY steps.began`

// List returns the watermarks of a job, or of all jobs if job is "", by job and key.
func (ws *Watermarks) List(job string) ([]Watermark, error) {
	return store.Select(ws.db, (*Watermark).columns, `FROM watermarks WHERE (job = ?1 OR ?1 = '') ORDER BY job, key`, job)
}

// Set sets a watermark by hand, forward or back. An empty key means every key of the job.
func (ws *Watermarks) Set(job, key string, at time.Time) error {
	w := Watermark{Job: job, Key: key, At: at, Set: time.Now()}
	switch {
	case at.IsZero():
		return fmt.Errorf("a watermark of job %s needs a time", job)
	case key == "":
		return store.Set(ws.db, "watermarks", "job", job, store.Columns{"at": store.Time(&at), "run": "", "set_at": store.Time(&w.Set)})
	}
	return store.Insert(ws.db, "watermarks", w.columns(), replaceWatermark)
}

// Reset removes the watermarks of a job and returns their number. The job's next run starts
// as if it were the first.
func (ws *Watermarks) Reset(job string) (n int, err error) {
	gone, err := ws.db.Change(`DELETE FROM watermarks WHERE job = ?`, job)
	return int(gone), err
}

// CorrectWatermarks moves watermarks that are later than now back to when they were recorded. A search
// ignores videos published before its watermark, so a watermark in the future would lose those
// published until then, and afterwards nothing would show that it was wrong.
func CorrectWatermarks(tx *store.Tx, now time.Time) error {
	ahead, err := store.Select(tx, (*Watermark).columns, `FROM watermarks WHERE at > ?`,
		store.Micros(now.Add(ledger.Skew)))
	for _, w := range ahead {
		// A trigger refuses to move the watermark of a run back.
		if w.At = w.Set; now.Before(w.At) {
			w.At = now
		}
		err = errors.Join(err, tx.Exec(`DELETE FROM watermarks WHERE job = ? AND key = ?`, w.Job, w.Key))
		err = errors.Join(err, store.Insert(tx, "watermarks", w.columns(), ""))
	}
	return err
}
