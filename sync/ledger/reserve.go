package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// insertRow inserts the attempt with its hold, unless that would exceed a cap. What it fixes is permanent: an
// answer that arrives after midnight still counts for the day of its request, and a page paid from a hold for the
// day on which the hold was made. A free call counts for no period.
func (a *attempt) insertRow(tx *store.Tx) (err error) {
	p, at, caps := &a.p, time.Time{}, []Cap(nil)
	row := store.Columns{
		"run": p.Run, "job": p.Job, "step": p.Step, "op": a.call.Op, "entity": a.call.Entity, "params": a.call.Params,
		"attempt": p.Attempt, "price": a.price, "state": "reserved", "intent": store.Optional(&p.Intent),
		"counts_for": p.CountsFor, "aside": p.Hold, "holding": p.Hold > 0, "reserved_at": store.Time(&at),
		"caps": store.JSON(&caps), "account": "", "day": "", "cycle": "",
	}
	if a.price > 0 || p.Hold > 0 {
		at = a.l.clock.Now()
		if caps, err = a.bookPeriods(tx, row, at); err != nil {
			return err
		}
	}
	if a.id, err = store.InsertID(tx, "attempts", row, ""); err != nil {
		return a.l.explainRefusal(tx, caps, a, err)
	}
	return nil
}

// bookPeriods sets the account, the day and the cycle of a row for which the attempt counts at a time, and returns
// the caps in force: those of its periods, or of the hold that pays for it.
func (a *attempt) bookPeriods(tx *store.Tx, row store.Columns, at time.Time) (caps []Cap, err error) {
	paying := &hold{day: Day(at, a.l.location), cycle: Cycle(at, a.l.location, a.l.renews), made: at}
	if paying.account, err = accountOf(tx, a.p.Job); err != nil {
		return nil, err
	}
	if a.p.FromHold != 0 {
		held, err := holdFor(tx, a.p, a.price)
		if err != nil {
			return nil, err
		}
		if held != nil {
			paying, row["hold"] = held, held.id
		}
	}
	row["account"], row["day"], row["cycle"] = paying.account, paying.day, paying.cycle
	if a.p.Caps != nil {
		caps = a.p.Caps(paying.made)
	}
	if paying.id == 0 {
		err = a.l.setCaps(tx, Periods(a.p.Run, a.p.Job, paying.day, paying.cycle), caps)
	}
	return caps, err
}

// setCaps replaces the caps in force by those of a call that counts for the given periods.
func (l *Ledger) setCaps(tx *store.Tx, periods []Period, caps []Cap) error {
	if err := tx.Exec(`DELETE FROM caps`); err != nil {
		return err
	}
	for _, c := range caps {
		of := Period{c.Scope, c.Period}
		if !slices.Contains(periods, of) {
			return fmt.Errorf("a cap for %s %s cannot hold: this call counts for %v", c.Scope, c.Period, periods)
		}
		p, err := l.periodKey(tx, of)
		if err != nil {
			return err
		}
		err = store.Insert(tx, "caps", store.Columns{"scope": p.Scope, "period": p.Key, "account": p.account,
			"begins": p.begins, "ends": p.ends, "max": max(c.Max, 0)}, "")
		if err != nil {
			return err
		}
	}
	return nil
}

// explainRefusal returns an [*Exceeded] with the cap that made the database refuse a reservation. Any other
// error is returned unchanged.
func (l *Ledger) explainRefusal(tx *store.Tx, caps []Cap, a *attempt, cause error) error {
	if !store.IsConstraint(cause) {
		return cause
	}
	for _, c := range caps {
		b, err := l.readBalance(tx, c)
		if err != nil {
			return errors.Join(cause, err)
		}
		if held := b.Taken(); held+a.price+a.p.Hold > c.Max+b.Bought() {
			return &Exceeded{Cap: c, Held: held, Bought: b.Bought(), Price: a.price, Hold: a.p.Hold}
		}
	}
	return cause
}

// OpJoinScan is the operation of the row for joining a scan, which itself costs nothing.
const OpJoinScan = "join_scan"

// SetAside makes the hold of p for a scan that another step has started, and calls first in the
// same transaction. If the hold exceeds a cap, neither takes effect. The row that the hold belongs to
// passes through the same states as any other row.
func (l *Ledger) SetAside(p Purchase, first func(*store.Tx) error) error {
	a := &attempt{l: l, p: p, call: journal.Call{Op: OpJoinScan}}
	return l.db.Update(func(tx *store.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		if err := a.insertRow(tx); err != nil {
			return err
		}
		for _, state := range []string{"sending", "charged"} {
			if err := tx.Exec(`UPDATE attempts SET state = ?, settled_at = ? WHERE id = ?`,
				state, store.Micros(tx.Now()), a.id); err != nil {
				return err
			}
		}
		return nil
	})
}
