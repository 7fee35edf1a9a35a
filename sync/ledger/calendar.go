package ledger

import (
	"fmt"
	"time"

	"outlierd/sync/store"
)

// calendar is where meta keeps by which calendar the books were kept last.
const calendar = "calendar"

// TurnCalendar lets the periods of another calendar go if budget.renews or timezone was
// changed. Those of the present one are counted when they are needed, from the times
// at which credits were reserved: what was spent stays spent, and on its day.
func (l *Ledger) TurnCalendar() error {
	present := fmt.Sprintf("cycles from day %d, %s", l.renews, l.location)
	err := l.db.Update(func(tx *store.Tx) error {
		before, err := tx.Meta(calendar)
		if err != nil || before == present {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM periods WHERE scope <> ?`, string(ScopeRun)); err != nil {
			return err
		}
		return tx.SetMeta(calendar, present)
	})
	if err != nil {
		return fmt.Errorf("turn to another calendar: %w", err)
	}
	return nil
}

// period is a period as the database knows it.
type period struct {
	Period              // a job's under the name of its account
	account      string // of the job
	begins, ends int64  // 0 for a run
}

// period looks up what a period is called in the database, and its bounds.
func (l *Ledger) period(tx *store.Tx, p Period) (period, error) {
	known := period{Period: p}
	if p.Scope == ScopeJobMonth {
		job, cycle := CutJobCycle(p.Key)
		account, err := account(tx, job)
		if err != nil {
			return known, err
		}
		known.account, known.Key = account, JobCycle(account, cycle)
	}
	from, to, err := p.Bounds(l.location, l.renews)
	known.begins, known.ends = store.Micros(from), store.Micros(to)
	if err != nil || p.Scope == ScopeRun {
		return known, err
	}
	// What is dated in the future counts as now: the present period reaches up to it.
	if now := store.Micros(l.ServiceTime()); known.begins <= now && now < known.ends {
		newest, err := newestCounted(tx)
		known.ends = max(known.ends, newest+1)
		return known, err
	}
	return known, nil
}

// within is the condition for what counts for a period, and its arguments.
func (p period) within() (where string, args []any) {
	if p.Scope == ScopeRun {
		return `run = ?1`, []any{p.Key}
	}
	if p.account != "" {
		return `account = ?3 AND counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends, p.account}
	}
	return `counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends}
}

// PeriodEnds is when a period ends as it is counted: the present one reaches up to what is
// dated in the future. A run's is zero.
func (l *Ledger) PeriodEnds(tx *store.Tx, p Period) (time.Time, error) {
	known, err := l.period(tx, p)
	return store.Instant(known.ends), err
}
