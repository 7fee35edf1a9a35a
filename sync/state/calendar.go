package state

import (
	"fmt"

	"outlierd/sync/credit"
)

// calendar is where meta keeps by which calendar the books were kept last.
const calendar = "calendar"

// turnCalendar lets the periods of another calendar go if budget.renews or timezone was
// changed. Those of the present one are counted when they are needed, from the times
// at which credits were reserved: what was spent stays spent, and on its day.
func (s *Store) turnCalendar() error {
	present := fmt.Sprintf("cycles from day %d, %s", s.options.Renews, s.options.Location)
	err := s.Update(func(tx *Tx) error {
		before, err := tx.meta(calendar)
		if err != nil || before == present {
			return err
		}
		if _, err := tx.exec(`DELETE FROM periods WHERE scope <> ?`, string(credit.Run)); err != nil {
			return err
		}
		return tx.setMeta(calendar, present)
	})
	if err != nil {
		return fmt.Errorf("turn to another calendar: %w", err)
	}
	return nil
}

// period is a period as the database knows it.
type period struct {
	credit.Period        // a job's under the name of its account
	account       string // of the job
	begins, ends  int64  // 0 for a run
}

// period looks up what a period is called in the database, and its bounds.
func (s *Store) period(p credit.Period) (period, error) {
	known := period{Period: p}
	if p.Scope == credit.JobMonth {
		job, cycle := credit.CutJobCycle(p.Key)
		account, err := s.account(job)
		if err != nil {
			return known, err
		}
		known.account, known.Key = account, credit.JobCycle(account, cycle)
	}
	from, to, err := p.Bounds(s.options.Location, s.options.Renews)
	known.begins, known.ends = micros(from), micros(to)
	if err != nil || p.Scope == credit.Run {
		return known, err
	}
	// What is dated in the future counts as now: the present period reaches up to it.
	if now := micros(s.clock.now()); known.begins <= now && now < known.ends {
		newest, err := s.newest()
		known.ends = max(known.ends, newest+1)
		return known, err
	}
	return known, nil
}

// within is the condition for what counts for a period, and its arguments.
func (p period) within() (where string, args []any) {
	if p.Scope == credit.Run {
		return `run = ?1`, []any{p.Key}
	}
	if p.account != "" {
		return `account = ?3 AND counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends, p.account}
	}
	return `counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends}
}
