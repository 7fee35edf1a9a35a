package ledger

import "outlierd/sync/store"

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
	if now := store.Micros(l.clock.Now()); known.begins <= now && now < known.ends {
		newest, err := newestCounted(tx)
		known.ends = max(known.ends, store.Micros(newest)+1)
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
