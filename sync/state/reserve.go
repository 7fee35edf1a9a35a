package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// terms are what a reservation fixes for good: an answer that arrives after midnight
// still counts for the day on which it was asked for, and a page read from a hold for
// the day on which the hold was made.
type terms struct {
	at         time.Time // the service's time
	account    string
	day, cycle string
	caps       []credit.Cap // in force
	hold       *hold        // that pays; nil if the periods have to
}

// terms looks up what the attempt is to be booked under.
func (a *attempt) terms() (t terms, err error) {
	t.at = a.s.ServiceTime()
	err = a.s.view(func() error {
		if t.account, err = a.s.account(a.p.Job); err == nil && a.p.FromHold != 0 {
			t.hold, err = a.s.holdFor(a.p, a.r.Price)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	in := t.at
	if t.hold != nil {
		in = t.hold.made
		t.account, t.day, t.cycle = t.hold.account, t.hold.day, t.hold.cycle
	} else {
		t.day = credit.Day(in, a.s.options.Location)
		t.cycle = credit.Cycle(in, a.s.options.Location, a.s.options.Renews)
	}
	if a.p.Caps != nil {
		t.caps = a.p.Caps(in)
	}
	return t, nil
}

// reserve takes the price, and what is to be held beside it, out of every period
// that the call counts for, or the price out of a hold that was taken out before.
func (a *attempt) reserve() error {
	t, err := a.terms()
	if err != nil {
		return err
	}
	return a.s.unit(true, func(tx *Tx) error {
		if t.hold == nil {
			if err := tx.setCaps(credit.Periods(a.p.Run, a.p.Job, t.day, t.cycle), t.caps); err != nil {
				return err
			}
		}
		if err := a.enter(tx, t); err != nil {
			return tx.refusal(t.caps, a, 0, err)
		}
		if a.p.Hold == 0 {
			return nil
		}
		if err := a.setAside(tx, t); err != nil {
			return tx.refusal(t.caps, a, a.r.Price, err)
		}
		return nil
	})
}

// enter makes the ledger's row.
func (a *attempt) enter(tx *Tx, t terms) error {
	caps, err := json.Marshal(t.caps)
	if err != nil {
		return err
	}
	var hold any
	if t.hold != nil {
		hold = t.hold.id
	}
	result, err := tx.exec(`INSERT INTO attempts (run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps,
		intent, hold, reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, '')`,
		a.p.Run, a.p.Job, t.account, a.p.Step, string(a.r.Op), a.r.Entity, a.params, a.p.Attempt, int64(a.r.Price),
		t.day, t.cycle, string(caps), orNull(a.p.Intent), hold, micros(t.at))
	if err == nil {
		a.id, err = result.LastInsertId()
	}
	return err
}

// setAside makes the hold of the attempt.
func (a *attempt) setAside(tx *Tx, t terms) error {
	_, err := tx.exec(`INSERT INTO holds (attempt, run, step, account, day, cycle, amount, made_at, open) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)`,
		a.id, a.p.Run, a.p.Step, t.account, t.day, t.cycle, int64(a.p.Hold), micros(t.at))
	return err
}

// setCaps writes down what each period may hold from now on. A period whose cap was
// taken away is set free.
func (t *Tx) setCaps(periods []credit.Period, caps []credit.Cap) error {
	for _, c := range caps {
		if !contains(periods, c) {
			return fmt.Errorf("a cap for %s %s cannot hold: this call counts for %v", c.Scope, c.Period, periods)
		}
	}
	if err := t.cutPeriods(t.ServiceTime()); err != nil {
		return err
	}
	for _, p := range periods {
		if err := t.setCap(p, lowest(p, caps)); err != nil {
			return err
		}
	}
	return nil
}

// cutPeriods lets earlier periods go that reach beyond their ends, up to what was dated in
// the future, now that this has come. They are counted anew when they are needed.
func (t *Tx) cutPeriods(at time.Time) error {
	now, zone := micros(at), t.s.options.Location
	cycle, _ := credit.CycleBounds(at, zone, t.s.options.Renews)
	day, _, err := credit.Period{Scope: credit.AllDay, Key: credit.Day(at, zone)}.Bounds(zone, t.s.options.Renews)
	if err != nil {
		return err
	}
	_, err = t.exec(`DELETE FROM periods WHERE ends > 0 AND ends > ?1 AND begins < iif(scope = 'day', ?2, ?3)`,
		now, micros(day), micros(cycle))
	return err
}

// setCap sets the cap of one period, nil for none. What a new period holds already is
// counted by the database, and may be more than that.
func (t *Tx) setCap(of credit.Period, most any) error {
	p, err := t.s.period(of)
	if err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM periods WHERE scope = ? AND period = ? AND ends <> ?`, string(p.Scope), p.Key, p.ends); err != nil {
		return err
	}
	if _, err := t.exec(`INSERT INTO periods (scope, period, account, begins, ends) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		string(p.Scope), p.Key, p.account, p.begins, p.ends); err != nil {
		return err
	}
	_, err = t.exec(`UPDATE periods SET max = ?1 WHERE scope = ?2 AND period = ?3 AND max IS NOT ?1`, most, string(p.Scope), p.Key)
	return err
}

func contains(periods []credit.Period, c credit.Cap) bool {
	for _, p := range periods {
		if p.Scope == c.Scope && p.Key == c.Period {
			return true
		}
	}
	return false
}

// lowest is the strictest cap on p, nil if there is none.
func lowest(p credit.Period, caps []credit.Cap) any {
	var least any
	for _, c := range caps {
		if c.Scope == p.Scope && c.Period == p.Key && (least == nil || int64(c.Max) < least.(int64)) {
			least = max(int64(c.Max), 0)
		}
	}
	return least
}

// refusal names the cap that made the database refuse a reservation, of which the
// given part had been booked when it did. Any other error stays what it is.
func (t *Tx) refusal(caps []credit.Cap, a *attempt, booked outlier.Credits, cause error) error {
	if !isConstraint(cause) {
		return cause
	}
	for _, c := range caps {
		b, err := t.s.balance(c)
		if err != nil {
			return errors.Join(cause, err)
		}
		if held := b.Taken() - booked; held+a.r.Price+a.p.Hold > c.Max+b.Bought() {
			return &credit.Exceeded{Cap: c, Held: held, Bought: b.Bought(), Price: a.r.Price, Hold: a.p.Hold}
		}
	}
	return cause
}
