package runs

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Watermark is the time up to which a job's searches with one key are covered. The key consists of
// operation, queries or seeds, and the for_each value: if one of them changes, the search starts from
// the beginning; if another filter changes, it does not.
type Watermark struct {
	Job, Key string
	At       time.Time // service time at which page one of the last successful search was requested
	Run      string    // of that search; "" if the watermark was set by hand
	Set      time.Time // when it was recorded
}

// MoveWatermark moves a watermark forward to w.At for w.Run. It never moves it back, because runs may
// end in another order than they began.
func MoveWatermark(tx *store.Tx, w Watermark) error {
	if w.Run == "" {
		return fmt.Errorf("move watermark %q of job %s: a run moves it, or it is set by hand", w.Key, w.Job)
	}
	_, err := tx.Exec(`INSERT INTO watermarks (job, key, at, run, set_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET at = excluded.at, run = excluded.run, set_at = excluded.set_at
		WHERE excluded.at > at`,
		w.Job, w.Key, store.Micros(w.At), w.Run, store.Micros(tx.Now()))
	if err != nil {
		return fmt.Errorf("move watermark %q of job %s: %w", w.Key, w.Job, err)
	}
	return nil
}

// Watermark returns the time up to which a job has covered key; zero if it never has.
func (rs *Runs) Watermark(job, key string) (time.Time, error) {
	var at int64
	err := rs.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT at FROM watermarks WHERE job = ? AND key = ?`, job, key).Scan(&at)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look for watermark %q of job %s: %w", key, job, err)
	}
	return store.Instant(at), nil
}

// lastSearched is the query of [Runs.LastSearched]. It reads the steps with the watermark's key from
// the latest to the first one of the job.
const lastSearched = `SELECT began FROM steps CROSS JOIN runs USING (run)
	WHERE runs.job = ?1 AND steps.watermark = ?2 AND steps.pages > 0 AND steps.began <= ?3
	AND NOT runs.overridden ORDER BY began DESC LIMIT 1`

// LastSearched returns the service time at which a job last requested page one of a search with a
// watermark's key, whether or not the search succeeded; zero if it never did. Manually overridden runs
// and times in the future do not count.
func (rs *Runs) LastSearched(job, key string) (time.Time, error) {
	var began int64
	err := rs.db.View(func(tx *store.Tx) error {
		return tx.Row(lastSearched, job, key,
			store.Micros(rs.ledger.ServiceTime().Add(ledger.Skew))).Scan(&began)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read when job %s last searched for %s: %w", job, key, err)
	}
	return store.Instant(began), nil
}

// searched is the query of [Runs.Searched].
const searched = `SELECT steps.op, steps.params, steps.stop, steps.began,
	CASE WHEN runs.overridden THEN runs.plan END
	FROM steps CROSS JOIN runs USING (run)
	WHERE steps.watermark = ?2 AND steps.pages > 0 AND (runs.job = ?1 OR runs.job IN (SELECT old
	FROM renames WHERE new = ?1))`

// Searched is a search that has received pages.
type Searched struct {
	Query outlier.Query
	Stop  string
	Began time.Time
	Plan  []byte // of its run, if that was manually overridden
}

// Searched returns the searches of a job with a watermark's key, including those under former names.
func (rs *Runs) Searched(job, key string) (all []Searched, err error) {
	type row struct {
		Searched
		op     outlier.Operation
		params string
		began  int64
	}
	err = rs.db.View(func(tx *store.Tx) error {
		columns := func(r *row) []any { return []any{&r.op, &r.params, &r.Stop, &r.began, &r.Plan} }
		rows, err := store.List(tx, columns, searched, job, key)
		for _, r := range rows {
			r.Query, r.Began = outlier.UncheckedQuery(r.op, r.params), store.Instant(r.began)
			all = append(all, r.Searched)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the searches of job %s for %s: %w", job, key, err)
	}
	return all, nil
}

// watermarkRow is a row of the table watermarks.
type watermarkRow struct {
	Watermark
	at, set int64
}

func (r *watermarkRow) columns() []any {
	return []any{&r.Job, &r.Key, &r.at, &r.Run, &r.set}
}

// Watermarks returns the watermarks of a job, or of all jobs if job is "", by job and key.
func (rs *Runs) Watermarks(job string) ([]Watermark, error) {
	var all []Watermark
	err := rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*watermarkRow).columns,
			`SELECT job, key, at, run, set_at FROM watermarks WHERE (job = ?1 OR ?1 = '') ORDER BY job, key`,
			job)
		for _, r := range rows {
			r.At, r.Set = store.Instant(r.at), store.Instant(r.set)
			all = append(all, r.Watermark)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the watermarks: %w", err)
	}
	return all, nil
}

// SetWatermark sets a watermark by hand, forward or back. An empty key means every key of the job.
func (rs *Runs) SetWatermark(job, key string, at time.Time) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		if at.IsZero() {
			return errors.New("there is no time to set it to")
		}
		if key == "" {
			return store.Found(tx.Exec(`UPDATE watermarks SET at = ?, run = '', set_at = ? WHERE job = ?`,
				store.Micros(at), store.Micros(tx.Now()), job))
		}
		_, err := tx.Exec(`INSERT INTO watermarks (job, key, at, run, set_at) VALUES (?, ?, ?, '', ?)
			ON CONFLICT DO UPDATE SET at = excluded.at, run = '', set_at = excluded.set_at`,
			job, key, store.Micros(at), store.Micros(tx.Now()))
		return err
	})
	if err != nil {
		return fmt.Errorf("set the watermarks of job %s: %w", job, err)
	}
	return nil
}

// ResetWatermarks removes the watermarks of a job and returns their number. The job's next run starts
// as if it were the first.
func (rs *Runs) ResetWatermarks(job string) (n int, err error) {
	err = rs.db.Update(func(tx *store.Tx) error {
		result, err := tx.Exec(`DELETE FROM watermarks WHERE job = ?`, job)
		if err != nil {
			return err
		}
		gone, err := result.RowsAffected()
		n = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reset the watermarks of job %s: %w", job, err)
	}
	return n, nil
}

// CorrectWatermarks moves watermarks that are later than now back to when they were recorded. A search
// ignores videos published before its watermark, so a watermark in the future would lose those
// published until then, and afterwards nothing would show that it was wrong.
func CorrectWatermarks(tx *store.Tx, now time.Time) error {
	rows, err := store.List(tx, (*watermarkRow).columns,
		`SELECT job, key, at, run, set_at FROM watermarks WHERE at > ?`, store.Micros(now.Add(ledger.Skew)))
	for i := 0; err == nil && i < len(rows); i++ {
		err = correctWatermark(tx, rows[i], store.Micros(now))
	}
	return err
}

// correctWatermark replaces a watermark in the future by one at the time of its recording, at most now.
func correctWatermark(tx *store.Tx, mark watermarkRow, now int64) error {
	if _, err := tx.Exec(`DELETE FROM watermarks WHERE job = ? AND key = ?`, mark.Job, mark.Key); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO watermarks (job, key, at, run, set_at) VALUES (?, ?, ?, ?, ?)`,
		mark.Job, mark.Key, min(mark.set, now), mark.Run, mark.set)
	return err
}
