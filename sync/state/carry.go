package state

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// cycleRule is where meta keeps by which rule billing cycles began when the books were
// opened last.
const cycleRule = "billing cycles"

// carried marks the rows that carry a cycle over, by their entity.
const carried = "carried over"

// carryOver books what was spent since the present billing cycle began if that cycle is
// another one than before, because budget.renews or timezone was changed: the key
// under which its credits add up is new, and what was spent is not.
func (s *Store) carryOver() error {
	rule := fmt.Sprintf("on day %d, %s", s.options.Renews, s.options.Location)
	err := s.Update(func(tx *Tx) error {
		before, err := tx.meta(cycleRule)
		if err != nil || before == rule {
			return err
		}
		if before != "" {
			if err := tx.carry(); err != nil {
				return err
			}
		}
		return tx.setMeta(cycleRule, rule)
	})
	if err != nil {
		return fmt.Errorf("carry the billing cycle over: %w", err)
	}
	return nil
}

// carry adds to the present cycle what other cycles hold of its time, less what was
// carried over to it before. What was bought on top is carried with it, and what was
// refunded since is given back.
func (t *Tx) carry() error {
	now := t.s.clock.now()
	from, _ := credit.CycleBounds(now, t.s.options.Location, t.s.options.Renews)
	var due int64
	err := t.row(`SELECT coalesce(sum(CASE
			WHEN cycle = ?1 THEN -adjustment
			WHEN adjustment IS NOT NULL THEN adjustment
			ELSE price END), 0)
		FROM attempts WHERE (price > 0 OR adjustment IS NOT NULL) AND state <> 'refunded' AND reserved_at >= ?2
		AND (entity = ?3) = (cycle = ?1)`,
		credit.Cycle(now, t.s.options.Location, t.s.options.Renews), micros(from), carried).Scan(&due)
	if err != nil || due == 0 {
		return err
	}
	return t.adjust(now, outlier.Credits(due), carried, "booked in this cycle before budget.renews or timezone was changed")
}
