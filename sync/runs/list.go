package runs

import (
	"cmp"
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

// List returns the runs that a filter selects, newest first: at most most, or for 0 all. Its conditions have indexes in
// the order of the list, so that nothing is sorted.
func (rs *Runs) List(f Filter, most int) ([]Run, error) {
	query, args := `FROM runs WHERE id < iif(?1 = '', 1 << 62, (SELECT id FROM runs WHERE run = ?1))`, []any{f.Before}
	add := func(condition, value string) {
		if value != "" {
			query, args = query+` AND `+condition, append(args, value)
		}
	}
	add(`job = ?`, f.Job)
	switch {
	case rs.db.Idle() && (f.Status == Running || f.Status == Interrupted): // see [Runs.setActualStatus]
		add(`iif(status = 'running', 'interrupted', status) = ?`, string(f.Status))
	case f.Job != "":
		add(`+status = ?`, string(f.Status)) // the index of the job has the status, too
	default:
		add(`status = ?`, string(f.Status))
	}
	return rs.listRuns(query+` ORDER BY id DESC LIMIT `+strconv.Itoa(cmp.Or(most, -1)), args...)
}

// Last returns the newest run that a filter selects, or nil.
func (rs *Runs) Last(f Filter) (*Run, error) { return first(rs.List(f, 1)) }

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
