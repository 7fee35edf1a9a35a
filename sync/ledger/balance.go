package ledger

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Balance is the total of one period, by outcome.
type Balance struct {
	Spent    outlier.Credits `json:"spent"`
	Reserved outlier.Credits `json:"reserved"` // by calls in progress
	Unknown  outlier.Credits `json:"unknown"`  // not proven to have been refunded; they count
	Scans    outlier.Credits `json:"scans"`    // set aside for reading the results of scans
	Adjusted outlier.Credits `json:"adjusted"` // by [Ledger.Adjust]: spent elsewhere, less what was bought on top

	Refunded outlier.Credits `json:"refunded"` // beside what is held
}

// Held is what counts against a cap; see [Ledger.Held].
func (b *Balance) Held() outlier.Credits {
	return b.Taken() - b.Bought()
}

// Taken is the held amount as shown to people: at least 0. It counts against a cap raised by
// [Balance.Bought].
func (b *Balance) Taken() outlier.Credits {
	return b.Spent + b.Reserved + b.Unknown + b.Scans + max(0, b.Adjusted)
}

// Bought returns by how much the credits bought on top exceed those spent elsewhere.
func (b *Balance) Bought() outlier.Credits { return max(0, -b.Adjusted) }

// Balance adds up the period of a cap, whether or not the cap is reached. A call counts for the
// day and billing cycle of the time at which it was reserved, by the calendar in force now, not by
// the one in force then.
func (l *Ledger) Balance(c Cap) (Balance, error) {
	return store.Read(l.db, func(tx *store.Tx) (Balance, error) { return l.readBalance(tx, c) })
}

func (l *Ledger) readBalance(tx *store.Tx, c Cap) (b Balance, err error) {
	p, err := l.periodKey(tx, Period{Scope: c.Scope, Key: c.Period})
	if err != nil {
		return b, err
	}
	where, args := p.within()
	_, err = store.Scan(tx, []any{&b.Spent, &b.Reserved, &b.Unknown, &b.Scans, &b.Refunded}, `SELECT
		coalesce(sum(price) FILTER (WHERE state = 'charged'), 0),
		coalesce(sum(price) FILTER (WHERE state IN ('reserved', 'sending')), 0),
		coalesce(sum(price) FILTER (WHERE state = 'unknown'), 0),
		(SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE `+where+`),
		coalesce(sum(price) FILTER (WHERE state = 'refunded'), 0)
		FROM attempts WHERE price > 0 AND `+where, args...)
	if err != nil || c.Scope != ScopeMonth {
		return b, err
	}
	b.Adjusted, err = store.Value[outlier.Credits](tx, `SELECT sum(adjustment) FROM attempts
		WHERE adjustment IS NOT NULL AND `+where, args...)
	return b, err
}

// Adjustment is one use of [Ledger.Adjust].
type Adjustment struct {
	At      time.Time       `json:"at"`
	Credits outlier.Credits `json:"credits"`
	Why     string          `json:"why"`
}

// Adjustments returns the adjustments of a billing cycle, oldest first.
func (l *Ledger) Adjustments(cycle string) ([]Adjustment, error) {
	return store.Read(l.db, func(tx *store.Tx) ([]Adjustment, error) {
		p, err := l.periodKey(tx, Period{Scope: ScopeMonth, Key: cycle})
		if err != nil {
			return nil, err
		}
		where, args := p.within()
		return store.Select(tx, func(a *Adjustment) store.Columns {
			return store.Columns{"reserved_at": store.Time(&a.At), "adjustment": &a.Credits, "error": &a.Why}
		}, `FROM attempts WHERE adjustment IS NOT NULL AND `+where+` ORDER BY id`, args...)
	})
}
