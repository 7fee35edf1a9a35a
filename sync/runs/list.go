package runs

import (
	"fmt"
	"iter"
	"strconv"
	"time"

	"outlierd/sync/store"
)

// Filter selects runs by job and status; "" means any. If Before is the id of a run, it selects only
// runs that began before that one, and none if there is no such run.
type Filter struct {
	Job    string
	Status Status
	Before string
}

// listPage is how many runs are read at a time.
const listPage = 200

// Newest yields the runs that a filter selects, newest first. It reads them in pages as the caller
// continues. An error comes last.
func (rs *Runs) Newest(f Filter) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		before, size := int64(1)<<62, 1 // of a page: many callers stop after the first
		if f.Before != "" {
			var err error
			if before, err = rs.place(f.Before); err != nil {
				yield(nil, err)
				return
			}
		}
		for {
			page, last, err := rs.page(f, before, size)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			before, size = last, min(4*size, listPage)
		}
	}
}

// place returns the row id of a run, or 0.
func (rs *Runs) place(run string) (id int64, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		ids, err := store.List(tx, func(id *int64) []any { return []any{id} }, `SELECT id FROM runs WHERE run = ?`, run)
		if len(ids) > 0 {
			id = ids[0]
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for run %s: %w", run, err)
	}
	return id, nil
}

// page returns the next page of [Runs.Newest] and the row id of its last run.
func (rs *Runs) page(f Filter, before int64, size int) (page []Run, last int64, err error) {
	if rs.db.Idle() && f.Status == Running {
		return nil, 0, nil
	}
	query, args := f.query(before, size, rs.db.Idle())
	err = rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*placedRow).columns, query, args...)
		for i := 0; err == nil && i < len(rows); i++ {
			var r Run
			r, err = rows[i].run()
			page, last = append(page, rs.withActualStatus(r)), rows[i].id
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list runs: %w", err)
	}
	return page, last, nil
}

// placedRow is a run with its row id.
type placedRow struct {
	runRow
	id int64
}

func (r *placedRow) columns() []any { return append(r.runRow.columns(), &r.id) }

// query returns the query for one page. Its conditions have indexes in the order of the list, so that
// nothing is sorted. If no process holds the folder, interrupted runs are of two kinds: those recorded
// as running were interrupted too.
func (f Filter) query(before int64, size int, idle bool) (query string, args []any) {
	limit := ` ORDER BY id DESC LIMIT ` + strconv.Itoa(size)
	where := func(status Status) string {
		text := `SELECT ` + runColumns + `, id FROM runs WHERE `
		if f.Job != "" {
			text, args = text+`job = ? AND `, append(args, f.Job)
		}
		if status != "" {
			if f.Job != "" {
				text += "+" // the index of the job has the status, too
			}
			text, args = text+`status = ? AND `, append(args, string(status))
		}
		args = append(args, before)
		return text + `id < ?` + limit
	}
	if idle && f.Status == Interrupted {
		return `SELECT * FROM (` + where(Interrupted) + `) UNION ALL SELECT * FROM (` + where(Running) + `)` +
			limit, args
	}
	return where(f.Status), args
}

// List returns the newest runs of the job, or of all jobs if job is "", newest first. A limit of 0 or
// less means all.
func (rs *Runs) List(job string, limit int) (all []Run, err error) {
	for r, err := range rs.Newest(Filter{Job: job}) {
		if err != nil {
			return nil, err
		}
		if all = append(all, *r); len(all) == limit {
			break
		}
	}
	return all, nil
}

// Named returns the runs whose ids begin with prefix, oldest first, at most most.
func (rs *Runs) Named(prefix string, most int) ([]Run, error) {
	return rs.runs(`SELECT `+runColumns+` FROM runs WHERE run >= ?1 AND run < ?1 || 'g' ORDER BY run LIMIT ?2`,
		prefix, most) // ids are hexadecimal: no digit sorts after f
}

// Streak is the number of a job's own consecutive runs that ended with the same status.
type Streak struct {
	Status Status    `json:"status"`
	Runs   int       `json:"runs"`  // [StreakMost] means that many or more
	Since  time.Time `json:"since"` // when the oldest of them began
}

// StreakMost is the maximum number of runs that are counted.
const StreakMost = 100

// Streak counts back from a job's newest run that has ended. It skips manually overridden runs, and
// is zero for a job without runs.
func (rs *Runs) Streak(job string) (s Streak, err error) {
	type ended struct {
		id     int64
		status Status
	}
	err = rs.db.View(func(tx *store.Tx) error {
		all, err := store.List(tx, func(e *ended) []any { return []any{&e.id, &e.status} },
			`SELECT id, status FROM runs WHERE job = ? AND NOT overridden AND status <> 'running'
				ORDER BY id DESC LIMIT `+strconv.Itoa(StreakMost), job)
		if err != nil || len(all) == 0 {
			return err
		}
		for s.Status = all[0].status; s.Runs < len(all) && all[s.Runs].status == s.Status; {
			s.Runs++
		}
		var since int64
		err = tx.Row(`SELECT started FROM runs WHERE id = ?`, all[s.Runs-1].id).Scan(&since)
		s.Since = store.Instant(since)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("count how the runs of job %s ended: %w", job, err)
	}
	return s, nil
}
