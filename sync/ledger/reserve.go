package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// terms are what a reservation fixes permanently: an answer that arrives after midnight still
// counts for the day of its request, and a page paid from a hold for the day on which the hold was
// made.
type terms struct {
	at         time.Time // the service's time
	account    string
	day, cycle string
	caps       []Cap // in force
	hold       *hold // that pays; nil if the periods pay
}

// terms determines what the attempt is booked under.
func (a *attempt) terms(tx *store.Tx) (t terms, err error) {
	t.at = a.l.clock.Now()
	if t.account, err = accountOf(tx, a.p.Job); err == nil && a.p.FromHold != 0 {
		t.hold, err = holdFor(tx, a.p, a.price)
	}
	if err != nil {
		return t, err
	}
	in := t.at
	if t.hold != nil {
		in = t.hold.made
		t.account, t.day, t.cycle = t.hold.account, t.hold.day, t.hold.cycle
	} else {
		t.day = Day(in, a.l.location)
		t.cycle = Cycle(in, a.l.location, a.l.renews)
	}
	if a.p.Caps != nil {
		t.caps = a.p.Caps(in)
	}
	return t, nil
}

// reservePrice takes the price and the hold from every period that the call counts for, or the price
// from an existing hold. A free call counts for no period.
func (a *attempt) reservePrice() error {
	return a.l.db.Update(func(tx *store.Tx) error {
		if a.price == 0 && a.p.Hold == 0 {
			return a.insertRow(tx, terms{})
		}
		t, err := a.terms(tx)
		if err != nil {
			return err
		}
		return a.insertUnderCaps(tx, t)
	})
}

// insertUnderCaps inserts the attempt, with its hold, unless that would exceed a cap.
func (a *attempt) insertUnderCaps(tx *store.Tx, t terms) error {
	if t.hold == nil {
		if err := a.l.setCaps(tx, Periods(a.p.Run, a.p.Job, t.day, t.cycle), t.caps); err != nil {
			return err
		}
	}
	if err := a.insertRow(tx, t); err != nil {
		return a.l.explainRefusal(tx, t.caps, a, err)
	}
	return nil
}

// insertRow inserts the attempt into the ledger.
func (a *attempt) insertRow(tx *store.Tx, t terms) (err error) {
	row := store.Columns{
		"run": a.p.Run, "job": a.p.Job, "account": t.account, "step": a.p.Step, "op": a.call.Op, "entity": a.call.Entity,
		"params": a.call.Params, "attempt": a.p.Attempt, "price": a.price, "state": "reserved", "day": t.day,
		"cycle": t.cycle, "caps": store.JSON(t.caps), "intent": store.Optional(&a.p.Intent), "reserved_at": store.Time(&t.at),
		"counts_for": a.p.CountsFor, "aside": a.p.Hold, "holding": a.p.Hold > 0,
	}
	if t.hold != nil {
		row["hold"] = t.hold.id
	}
	a.id, err = store.Insert(tx, "attempts", row, "")
	return err
}

// setCaps replaces the caps in force by those of a call that counts for the given periods.
func (l *Ledger) setCaps(tx *store.Tx, periods []Period, caps []Cap) error {
	if _, err := tx.Exec(`DELETE FROM caps`); err != nil {
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
		_, err = store.Insert(tx, "caps", store.Columns{"scope": p.Scope, "period": p.Key, "account": p.account,
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
// same transaction. If the hold exceeds a cap, neither takes effect.
func (l *Ledger) SetAside(p Purchase, first func(*store.Tx) error) error {
	a := &attempt{l: l, p: p, call: journal.Call{Op: OpJoinScan}}
	return l.db.Update(func(tx *store.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		t, err := a.terms(tx)
		if err != nil {
			return err
		}
		return a.insertJoin(tx, t)
	})
}

// insertJoin inserts the row that the hold belongs to. It passes through the same states as any other
// row.
func (a *attempt) insertJoin(tx *store.Tx, t terms) error {
	if err := a.insertUnderCaps(tx, t); err != nil {
		return err
	}
	for _, state := range []string{"sending", "charged"} {
		if _, err := tx.Exec(`UPDATE attempts SET state = ?, settled_at = ? WHERE id = ?`,
			state, store.Micros(tx.Now()), a.id); err != nil {
			return err
		}
	}
	return nil
}
