package ledger

import (
	"database/sql"
	"errors"
	"fmt"

	"outlierd/sync/store"
)

// newest is how many of the last paid attempts have their runs checked at a start: many more than
// can have been in flight.
const newest = 256

// CheckSent returns a [*store.BehindError] if the ledger does not have the paid call that was sent last.
func (l *Ledger) CheckSent(tx *store.Tx) error {
	last := l.db.Sent().Attempt
	if last == 0 {
		return nil
	}
	has, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE id = ? AND state <> 'reserved')`, last)
	if err == nil && !has {
		err = &store.BehindError{Path: l.db.Path(), Sent: l.db.SentPath()}
	}
	return err
}

// Audit compares the totals and adjustments of all periods with the sum of their attempts and the
// rest of their holds, and returns the number of periods. A mismatch is a [*store.CorruptError].
func (l *Ledger) Audit(tx *store.Tx) (periods int64, err error) {
	periods, err = store.Value[int64](tx, `SELECT count(*) FROM periods`)
	if err == nil {
		err = l.auditPeriods(tx, ``)
	}
	return periods, err
}

// AuditNewest is [Ledger.Audit] for the periods that have not ended, and for those of the runs that
// bought last.
func (l *Ledger) AuditNewest(tx *store.Tx) error {
	// Preparing the audit takes longer than all else at the start of a new state, which has no periods.
	some, err := store.Value[bool](tx, `SELECT max(ends) IS NOT NULL FROM periods`)
	if err != nil || !some {
		return err
	}
	return l.auditPeriods(tx, `WHERE (scope, period) IN (SELECT scope, period FROM (
		SELECT scope, period FROM periods WHERE ends > (SELECT max(reserved_at) FROM attempts WHERE price > 0)
		UNION ALL
		SELECT 'run', run FROM (SELECT run FROM attempts WHERE price > 0 ORDER BY reserved_at DESC
		LIMIT ?)))`, newest)
}

// auditPeriods checks the rows of period_sums that match a condition.
func (l *Ledger) auditPeriods(tx *store.Tx, where string, args ...any) error {
	var p Period
	var held, sum int64
	err := tx.Row(`SELECT scope, period, p.held + p.adjusted, s.held + s.adjusted
		FROM (SELECT * FROM period_sums `+where+`) s JOIN periods p USING (scope, period)
		WHERE p.held <> s.held OR p.adjusted <> s.adjusted LIMIT 1`,
		args...).Scan(&p.Scope, &p.Key, &held, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.db.Corrupt(fmt.Sprintf("the ledger holds %d credits for %s %s, but its rows add up to %d",
		held, p.Scope, p.Key, sum))
}
