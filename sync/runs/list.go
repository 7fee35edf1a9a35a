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
		status := f.Status
		if status == Interrupted && rs.db.Idle() {
			f.Status = "" // those recorded as running were interrupted, too
		}
		if f.Before != "" {
			var err error
			if before, err = rs.rowID(f.Before); err != nil {
				yield(nil, err)
				return
			}
		}
		for {
			page, err := rs.listPage(f, before, size)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if status != "" && page[i].Status != status {
					continue
				}
				if !yield(&page[i].Run, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			before, size = page[len(page)-1].id, min(4*size, listPage)
		}
	}
}

// rowID returns the row id of a run, or 0.
func (rs *Runs) rowID(run string) (int64, error) {
	return store.Read(rs.db, "look for run "+run, func(tx *store.Tx) (int64, error) {
		return store.Value[int64](tx, `SELECT id FROM runs WHERE run = ?`, run)
	})
}

// placed is a run with its row id.
type placed struct {
	Run
	id int64
}

func (p *placed) columns() store.Columns {
	all := p.Run.columns()
	all["id"] = &p.id
	return all
}

// listPage returns the next page of [Runs.Newest].
func (rs *Runs) listPage(f Filter, before int64, size int) ([]placed, error) {
	from, args := f.pageQuery(before, size)
	return store.Read(rs.db, "list runs", func(tx *store.Tx) ([]placed, error) {
		page, err := store.Select(tx, (*placed).columns, from, args...)
		for i := range page {
			rs.setActualStatus(&page[i].Run)
		}
		return page, err
	})
}

// pageQuery returns the query for one page without its columns. Its conditions have indexes in the order of the list, so that
// nothing is sorted.
func (f Filter) pageQuery(before int64, size int) (query string, args []any) {
	query = `FROM runs WHERE `
	if f.Job != "" {
		query, args = query+`job = ? AND `, append(args, f.Job)
	}
	if f.Status != "" {
		if f.Job != "" {
			query += "+" // the index of the job has the status, too
		}
		query, args = query+`status = ? AND `, append(args, string(f.Status))
	}
	return query + `id < ? ORDER BY id DESC LIMIT ` + strconv.Itoa(size), append(args, before)
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
	return rs.listRuns(`FROM runs WHERE run >= ?1 AND run < ?1 || 'g' ORDER BY run LIMIT ?2`,
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
func (rs *Runs) Streak(job string) (Streak, error) {
	type ended struct {
		status Status
		since  time.Time
	}
	doing := fmt.Sprintf("count how the runs of job %s ended", job)
	return store.Read(rs.db, doing, func(tx *store.Tx) (s Streak, err error) {
		all, err := store.Select(tx, func(e *ended) store.Columns {
			return store.Columns{"status": &e.status, "started": store.Time(&e.since)}
		}, `FROM runs WHERE job = ? AND NOT overridden AND status <> 'running' ORDER BY id DESC LIMIT `+
			strconv.Itoa(StreakMost), job)
		for _, e := range all {
			if e.status != all[0].status {
				break
			}
			s = Streak{Status: e.status, Runs: s.Runs + 1, Since: e.since}
		}
		return s, err
	})
}
