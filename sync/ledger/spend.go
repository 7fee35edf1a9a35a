package ledger

import (
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Spend is what a run has used of credits and requests.
type Spend struct {
	Charged, Refunded, Unknown, Reserved outlier.Credits
	Held                                 outlier.Credits // left in its holds

	Requests int64         // attempts that were sent
	Waited   time.Duration // for the rate limit
}

// Held returns what counts against a cap, in credits: everything that is not proven to have been
// refunded, what is set aside, and in a billing cycle the adjustments of [Ledger.Adjust]. It is
// negative if more was bought in addition than all of that; [Ledger.Balance] returns the parts
// separately.
func (l *Ledger) Held(c Cap) (outlier.Credits, error) {
	b, err := l.Balance(c)
	return b.Held(), err
}

// Adjust books credits in the current billing cycle: positive if they were spent elsewhere,
// negative if they were bought in addition. It records a fact, so no cap applies, but it changes
// what is left under the cap. The row is kept forever.
func (l *Ledger) Adjust(credits outlier.Credits, why string) error {
	if credits == 0 || why == "" {
		return fmt.Errorf("adjust the budget by %d credits: an amount and a reason are needed", credits)
	}
	now := l.clock.Now()
	return store.Insert(l.db, "attempts", store.Columns{
		"op": adjustment, "state": outlier.Charged, "day": Day(now, l.location),
		"cycle": Cycle(now, l.location, l.renews), "caps": "[]", "reserved_at": store.Time(&now),
		"settled_at": store.Time(&now), "error": store.Bounded(why), "adjustment": credits,
	}, "")
}

// adjustment is the operation of a row made by [Ledger.Adjust].
const adjustment = "adjustment"

// Spent adds up the attempts of a run.
func (l *Ledger) Spent(run string) (Spend, error) {
	all, _, err := Totals(l.db, run)
	return all, err
}

// Totals returns what a run has spent, and when its last attempt was settled.
func Totals(in store.Reader, run string) (all Spend, last time.Time, err error) {
	_, err = store.Scan(in, []any{&all.Charged, &all.Refunded, &all.Unknown, &all.Reserved, &all.Held, &all.Requests,
		store.Duration(&all.Waited), store.Time(&last)}, `SELECT
			coalesce(sum(price) FILTER (WHERE state = 'charged'), 0),
			coalesce(sum(price) FILTER (WHERE state = 'refunded'), 0),
			coalesce(sum(price) FILTER (WHERE state = 'unknown'), 0),
			coalesce(sum(price) FILTER (WHERE state IN ('reserved', 'sending')), 0),
			(SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE run = ?1),
			count(*) FILTER (WHERE sent_at <> 0), sum(waited), max(settled_at)
			FROM attempts WHERE run = ?1`, run)
	return all, last, err
}

// Requests returns how many requests count for a run: its own, except those that another run has made, and those that
// it has made for what another run had queued.
func Requests(in store.Reader, run string) (int64, error) {
	return store.Value[int64](in, `SELECT (SELECT count(*) FROM attempts WHERE run = ?1 AND sent_at <> 0 AND counts_for = '')
		+ (SELECT count(*) FROM attempts WHERE counts_for <> '' AND counts_for = ?1 AND sent_at <> 0)`, run)
}

// StepCredits is the SQL expression for the credits that the step in a row of `steps` has cost,
// including those of unknown outcome.
const StepCredits = `(SELECT coalesce(sum(price), 0) FROM attempts WHERE attempts.step = steps.id
	AND price > 0 AND state <> 'refunded')`

// EverAnswered reports whether the service has ever sent a response of its own, including an
// error. A 429 does not count, because a proxy in front of the service may send it.
func EverAnswered(in store.Reader) (bool, error) {
	return store.Value[bool](in, `SELECT EXISTS (SELECT 1 FROM attempts
		WHERE state IN ('charged', 'refunded') AND http_status NOT IN (0, 429))`)
}

// LastPurchase returns when the last paid call was made, in the service's time; zero if there was
// none.
func (l *Ledger) LastPurchase() (time.Time, error) {
	return store.ValueTime(l.db, `SELECT reserved_at FROM attempts
		WHERE price > 0 AND state = 'charged' AND adjustment IS NULL ORDER BY reserved_at DESC LIMIT 1`)
}
