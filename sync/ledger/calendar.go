package ledger

import (
	"fmt"

	"outlierd/sync/store"
)

// calendar describes the calendar that was used last.
var calendar = store.Cell[string]{Key: "calendar"}

// TurnCalendar drops the periods of another calendar after budget.renews or timezone was changed.
// The periods of the present calendar are counted when needed, from the times at which credits were
// reserved, so that spending still counts on its day.
func (l *Ledger) TurnCalendar() error {
	present := fmt.Sprintf("cycles from day %d, %s", l.renews, l.location)
	return store.Change(l.db, "turn to another calendar", func(tx *store.Tx) error {
		before, err := calendar.Get(tx)
		if err != nil || before == present {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM periods WHERE scope <> ?`, ScopeRun); err != nil {
			return err
		}
		return calendar.Set(tx, present)
	})
}

// period is a period as the database knows it.
type period struct {
	Period              // a job's under the name of its account
	account      string // of the job
	begins, ends int64  // 0 for a run
}

// periodKey returns the key and the bounds of a period in the database.
func (l *Ledger) periodKey(tx *store.Tx, p Period) (period, error) {
	known := period{Period: p}
	if p.Scope == ScopeJobMonth || p.Scope == ScopeJobDay {
		job, cycle := CutJobCycle(p.Key)
		account, err := accountOf(tx, job)
		if err != nil {
			return known, err
		}
		if p.Scope == ScopeJobMonth && account == Assistants {
			account = ByHand
		}
		known.account, known.Key = account, JobCycle(account, cycle)
	}
	from, to, err := p.Bounds(l.location, l.renews)
	known.begins, known.ends = store.Micros(from), store.Micros(to)
	if err != nil || p.Scope == ScopeRun {
		return known, err
	}
	// Spending dated in the future counts as now: the present period reaches up to it.
	if now := store.Micros(l.ServiceTime()); known.begins <= now && now < known.ends {
		newest, err := newestCounted(tx)
		known.ends = max(known.ends, newest+1)
		return known, err
	}
	return known, nil
}

// within returns the condition for what counts for a period, and its arguments.
func (p period) within() (where string, args []any) {
	if p.Scope == ScopeRun {
		return `run = ?1`, []any{p.Key}
	}
	if p.account != "" {
		return `account IN (?3, iif(?3 = 'once:', 'once:mcp:', ?3)) AND counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends, p.account}
	}
	return `counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends}
}
