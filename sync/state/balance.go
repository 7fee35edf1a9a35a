package state

import (
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// Balance is what one period holds, by what became of it.
type Balance struct {
	Spent    outlier.Credits `json:"spent"`
	Reserved outlier.Credits `json:"reserved"` // by calls that are under way
	Unknown  outlier.Credits `json:"unknown"`  // nobody can prove that they were refunded; they count
	Scans    outlier.Credits `json:"scans"`    // set aside for reading the results of scans
	Adjusted outlier.Credits `json:"adjusted"` // by [Store.Adjust]: spent elsewhere, less what was bought on top

	Refunded  outlier.Credits `json:"refunded"`  // beside what is held
	Explained outlier.Credits `json:"explained"` // of Unknown: a later answer to the same request was charged
}

// Held is what counts against a cap; see [Store.Held].
func (b *Balance) Held() outlier.Credits {
	return b.Taken() - b.Bought()
}

// Taken is what is held, as people understand it: never less than nothing. It counts
// against a cap that [Balance.Bought] has raised.
func (b *Balance) Taken() outlier.Credits {
	return b.Spent + b.Reserved + b.Unknown + b.Scans + max(0, b.Adjusted)
}

// Bought is by how much more was bought on top than spent elsewhere.
func (b *Balance) Bought() outlier.Credits { return max(0, -b.Adjusted) }

// Balance adds up the period of a cap, whether or not the cap is reached. What counts
// for a day or a billing cycle follows from the time at which it was reserved, by the
// calendar that is in force, whatever calendar was in force then.
func (s *Store) Balance(c credit.Cap) (b Balance, err error) {
	err = s.view(func() error {
		b, err = s.balance(c)
		return err
	})
	if err != nil {
		return b, fmt.Errorf("add up %s: %w", c, err)
	}
	return b, nil
}

func (s *Store) balance(c credit.Cap) (b Balance, err error) {
	p, err := s.period(credit.Period{Scope: c.Scope, Key: c.Period})
	if err != nil {
		return b, err
	}
	where, args := p.within()
	err = s.row(`SELECT
		coalesce(sum(price) FILTER (WHERE state = 'charged'), 0),
		coalesce(sum(price) FILTER (WHERE state IN ('reserved', 'sending')), 0),
		coalesce(sum(price) FILTER (WHERE state = 'unknown'), 0),
		(SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE `+where+`),
		coalesce(sum(price) FILTER (WHERE state = 'refunded'), 0),
		coalesce(sum(price) FILTER (WHERE state = 'unknown' AND id IN (`+explained+`)), 0)
		FROM attempts WHERE price > 0 AND `+where, args...).
		Scan(&b.Spent, &b.Reserved, &b.Unknown, &b.Scans, &b.Refunded, &b.Explained)
	if err != nil || c.Scope != credit.AllMonth {
		return b, err
	}
	err = s.row(`SELECT coalesce(sum(adjustment), 0) FROM attempts WHERE adjustment IS NOT NULL AND `+where, args...).Scan(&b.Adjusted)
	return b, err
}

// explained are the attempts of unknown outcome that point to the charged answer of a
// later one; what is left of their own answers is in the journal as unknown.
const explained = `SELECT a.id FROM attempts a JOIN responses r ON r.id = a.response
	WHERE a.price > 0 AND a.state = 'unknown' AND a.response IS NOT NULL AND r.outcome = 'charged'`

// Adjustment is one use of [Store.Adjust].
type Adjustment struct {
	At      time.Time       `json:"at"`
	Credits outlier.Credits `json:"credits"`
	Why     string          `json:"why"`
}

// Adjustments are those of a billing cycle, oldest first.
func (s *Store) Adjustments(cycle string) (all []Adjustment, err error) {
	type row struct {
		Adjustment
		at int64
	}
	err = s.view(func() error {
		p, err := s.period(credit.Period{Scope: credit.AllMonth, Key: cycle})
		if err != nil {
			return err
		}
		where, args := p.within()
		rows, err := list(s, func(r *row) []any { return []any{&r.at, &r.Credits, &r.Why} },
			`SELECT reserved_at, adjustment, error FROM attempts WHERE adjustment IS NOT NULL AND `+where+` ORDER BY id`, args...)
		for _, r := range rows {
			r.At = instant(r.at)
			all = append(all, r.Adjustment)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the adjustments of the cycle from %s: %w", cycle, err)
	}
	return all, nil
}
