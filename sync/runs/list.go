package runs

import (
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
// continues, of which the first is small: many callers stop after one run. An error comes last.
func (rs *Runs) Newest(f Filter) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		for size := 1; ; size = min(4*size, listPage) {
			page, err := rs.readPage(f, size)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if r := &page[i]; (f.Status == "" || r.Status == f.Status) && !yield(r, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			f.Before = page[size-1].ID
		}
	}
}

// readPage reads the first runs that a filter selects. Its conditions have indexes in the order of the list, so that
// nothing is sorted.
func (rs *Runs) readPage(f Filter, size int) ([]Run, error) {
	query, args := `FROM runs WHERE id < iif(?1 = '', 1 << 62, (SELECT id FROM runs WHERE run = ?1))`, []any{f.Before}
	add := func(condition, value string) {
		if value != "" {
			query, args = query+` AND `+condition, append(args, value)
		}
	}
	add(`job = ?`, f.Job)
	switch {
	case f.Status == Interrupted && rs.db.Idle(): // those recorded as running were interrupted, too
	case f.Job != "":
		add(`+status = ?`, string(f.Status)) // the index of the job has the status, too
	default:
		add(`status = ?`, string(f.Status))
	}
	return rs.listRuns(query+` ORDER BY id DESC LIMIT `+strconv.Itoa(size), args...)
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
	Runs   int       `json:"runs"`  // [MaxStreak] means that many or more
	Since  time.Time `json:"since"` // when the oldest of them began
}

// MaxStreak is the maximum number of runs that are counted.
const MaxStreak = 100

// Streak counts back from a job's newest run that has ended. It skips manually overridden runs, and
// is zero for a job without runs.
func (rs *Runs) Streak(job string) (s Streak, err error) {
	type ended struct {
		status Status
		since  time.Time
	}
	all, err := store.Select(rs.db, func(e *ended) store.Columns {
		return store.Columns{"status": &e.status, "started": store.Time(&e.since)}
	}, `FROM runs WHERE job = ? AND NOT overridden AND status <> 'running' ORDER BY id DESC LIMIT `+
		strconv.Itoa(MaxStreak), job)
	for _, e := range all {
		if e.status != all[0].status {
			break
		}
		s = Streak{Status: e.status, Runs: s.Runs + 1, Since: e.since}
	}
	return s, err
}
