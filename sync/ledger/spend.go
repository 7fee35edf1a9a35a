package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
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

// Counted returns [Ledger.Held] from the total that the database keeps. It adds up the attempts
// only if the period has no row, as before its first purchase.
func (l *Ledger) Counted(c Cap) (held outlier.Credits, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		known, err := l.period(tx, Period{Scope: c.Scope, Key: c.Period})
		if err != nil {
			return err
		}
		err = tx.Row(`SELECT held + adjusted FROM periods WHERE scope = ? AND period = ?`,
			string(c.Scope), known.Key).Scan(&held)
		if errors.Is(err, sql.ErrNoRows) {
			b, err := l.balance(tx, c)
			held = b.Held()
			return err
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look up what counts against %s: %w", c, err)
	}
	return held, nil
}

// Adjust books credits in the current billing cycle: positive if they were spent elsewhere,
// negative if they were bought in addition. It records a fact, so no cap applies, but it changes
// what is left under the cap. The row is kept forever.
func (l *Ledger) Adjust(credits outlier.Credits, why string) error {
	now := l.ServiceTime()
	err := l.db.Update(func(tx *store.Tx) error {
		if credits == 0 || why == "" {
			return errors.New("an amount and a reason are needed")
		}
		return l.adjust(tx, now, credits, why)
	})
	if err != nil {
		return fmt.Errorf("adjust the budget by %d credits: %w", credits, err)
	}
	return nil
}

// adjust books credits in the billing cycle of the given time.
func (l *Ledger) adjust(tx *store.Tx, now time.Time, credits outlier.Credits, why string) error {
	_, err := tx.Exec(`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day,
		cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error, adjustment)
		VALUES ('', '', 0, ?, '', '', 0, 0, 'charged', ?, ?, '[]', ?, 0, ?, 0, 0, 0, ?, ?)`,
		adjustment, Day(now, l.location), Cycle(now, l.location, l.renews),
		store.Micros(now), store.Micros(now), store.Bounded(why), int64(credits))
	return err
}

// adjustment is the operation of a row made by [Ledger.Adjust].
const adjustment = "adjustment"

// Spent adds up the attempts of a run.
func (l *Ledger) Spent(run string) (Spend, error) {
	var all Spend
	err := l.db.View(func(tx *store.Tx) (err error) {
		all, _, err = Totals(tx, run)
		return err
	})
	if err != nil {
		return all, fmt.Errorf("add up what run %s has spent: %w", run, err)
	}
	return all, nil
}

// Totals returns what a run has spent, and when its last attempt was settled.
func Totals(tx *store.Tx, run string) (all Spend, last time.Time, err error) {
	var waited, settled int64
	err = tx.Row(`SELECT
			coalesce(sum(price) FILTER (WHERE state = 'charged'), 0),
			coalesce(sum(price) FILTER (WHERE state = 'refunded'), 0),
			coalesce(sum(price) FILTER (WHERE state = 'unknown'), 0),
			coalesce(sum(price) FILTER (WHERE state IN ('reserved', 'sending')), 0),
			(SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE run = ?1),
			count(*) FILTER (WHERE sent_at <> 0), coalesce(sum(waited), 0), coalesce(max(settled_at), 0)
			FROM attempts WHERE run = ?1`, run).
		Scan(&all.Charged, &all.Refunded, &all.Unknown, &all.Reserved, &all.Held, &all.Requests, &waited,
			&settled)
	all.Waited = time.Duration(waited) * time.Microsecond
	return all, store.Instant(settled), err
}

// Asked counts the requests of a run by operation, including those that it left in the queue when
// it ended.
func (l *Ledger) Asked(run string) (map[outlier.Operation]int, error) {
	type asked struct {
		op outlier.Operation
		n  int
	}
	counts := map[outlier.Operation]int{}
	err := l.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, func(a *asked) []any { return []any{&a.op, &a.n} },
			`SELECT op, count(*) FROM attempts WHERE run = ? AND sent_at <> 0 GROUP BY op`, run)
		for _, a := range rows {
			counts[a.op] = a.n
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the requests of run %s: %w", run, err)
	}
	return counts, nil
}

// OpTotal is the total of the calls of one operation.
type OpTotal struct {
	Op       outlier.Operation
	Requests int             // that were sent
	Answered int             // including "not found"
	Failed   int             // with proof that they were not charged
	Unknown  int             // whose answer was lost
	Credits  outlier.Credits // including those of Unknown
	Waited   time.Duration   // for the rate limit
}

// ByOperation returns the totals of a run's calls, operations with the most requests first.
func (l *Ledger) ByOperation(run string) (all []OpTotal, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		all, err = store.List(tx, func(t *OpTotal) []any {
			return []any{&t.Op, &t.Requests, &t.Answered, &t.Failed, &t.Unknown, &t.Credits, &t.Waited}
		}, `SELECT op, count(*) FILTER (WHERE sent_at <> 0) AS requests,
			count(*) FILTER (WHERE state = 'charged' OR http_status = 404),
			count(*) FILTER (WHERE state = 'refunded' AND http_status <> 404),
			count(*) FILTER (WHERE state = 'unknown'),
			coalesce(sum(price) FILTER (WHERE state IN ('charged', 'unknown')), 0),
			sum(waited) * 1000
			FROM attempts WHERE run = ? GROUP BY op ORDER BY requests DESC, op`, run)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add up the calls of run %s: %w", run, err)
	}
	return all, nil
}

// DistinctEntities counts the entities for which the free calls of a run with one of these
// operations returned an answer.
func DistinctEntities(tx *store.Tx, run string, ops ...outlier.Operation) (n int64, err error) {
	list, err := json.Marshal(ops)
	if err != nil {
		return 0, err
	}
	err = tx.Row(`SELECT count(DISTINCT entity) FROM attempts WHERE run = ? AND price = 0
		AND state = 'charged'
		AND op IN (SELECT value FROM json_each(?))`, run, string(list)).Scan(&n)
	return n, err
}

// StepCredits is the SQL expression for the credits that the step in a row of `steps` has cost,
// including those of unknown outcome.
const StepCredits = `(SELECT coalesce(sum(price), 0) FROM attempts WHERE attempts.step = steps.id
	AND price > 0 AND state <> 'refunded')`

// EverAnswered reports whether the service has ever sent a response of its own, including an
// error. A 429 does not count, because a proxy in front of the service may send it.
func EverAnswered(tx *store.Tx) (answered bool, err error) {
	err = tx.Row(`SELECT EXISTS (SELECT 1 FROM attempts
		WHERE state IN ('charged', 'refunded') AND http_status NOT IN (0, 429))`).Scan(&answered)
	return answered, err
}

// Answers returns the journal ids of the answers to a run's calls, up to and including upTo.
func (l *Ledger) Answers(run string, upTo int64) (ids []int64, err error) {
	err = l.db.View(func(tx *store.Tx) (err error) {
		ids, err = store.List(tx, func(id *int64) []any { return []any{id} },
			`SELECT DISTINCT response FROM attempts WHERE run = ? AND response <= ? ORDER BY response`,
			run, upTo)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the answers of run %s: %w", run, err)
	}
	return ids, nil
}

// FirstAnswer returns the journal id of the first answer to a call of one of these runs or that
// [Ledger.TakeUp] may still take up, or 0.
func (l *Ledger) FirstAnswer(runs []string) (first int64, err error) {
	list, err := json.Marshal(runs)
	if err != nil {
		return 0, err
	}
	err = l.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce(min(first), 0) FROM (
			SELECT min(response) AS first FROM attempts WHERE run IN (SELECT value FROM json_each(?))
			UNION ALL SELECT min(response) FROM recovered)`, string(list)).Scan(&first)
	})
	if err != nil {
		return 0, fmt.Errorf("find the first answer of %d runs: %w", len(runs), err)
	}
	return first, nil
}

// LastPurchase returns when the last paid call was made, in the service's time; zero if there was
// none.
func (l *Ledger) LastPurchase() (at time.Time, err error) {
	var reserved int64
	err = l.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce((SELECT reserved_at FROM attempts
			WHERE price > 0 AND state = 'charged' AND adjustment IS NULL ORDER BY reserved_at DESC LIMIT 1), 0)`).Scan(&reserved)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("find the last paid call: %w", err)
	}
	return store.Instant(reserved), nil
}
