package journal

import (
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Paging is what `from` counts at an endpoint, as learned from answers.
type Paging struct {
	Op      outlier.Operation `json:"operation"`
	Reading string            `json:"counts"`         // "page", "offset", or "" while unknown
	Learned time.Time         `json:"since,omitzero"` // zero if the configuration says so
}

// Paging returns what was learned about an endpoint.
func (k *Learned) Paging(op outlier.Operation) (Paging, error) {
	return store.Read(k.db, fmt.Sprintf("read what `from` of %s counts", op), func(tx *store.Tx) (Paging, error) {
		learned, err := store.First(tx, func(p *Paging) store.Columns {
			return store.Columns{"op": &p.Op, "reading": &p.Reading, "learned_at": store.Time(&p.Learned)}
		}, `FROM paging WHERE op = ?`, op)
		if err != nil || learned == nil {
			return Paging{Op: op}, err
		}
		return *learned, nil
	})
}

// LearnPaging stores what `from` counts at an endpoint, "page" or "offset". If it was known already, the
// stored time does not change.
func LearnPaging(tx *store.Tx, op outlier.Operation, reading string) error {
	_, err := tx.Exec(`INSERT INTO paging (op, reading, learned_at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET reading = excluded.reading, learned_at = excluded.learned_at
		WHERE reading <> excluded.reading`, op, reading, store.Micros(tx.Now()))
	if err != nil {
		return fmt.Errorf("record that `from` of %s counts %q: %w", op, reading, err)
	}
	return nil
}

// UnlearnPaging removes what was learned about an endpoint, after an answer has contradicted it.
func UnlearnPaging(tx *store.Tx, op outlier.Operation) error {
	if _, err := tx.Exec(`DELETE FROM paging WHERE op = ?`, string(op)); err != nil {
		return fmt.Errorf("forget what `from` of %s counts: %w", op, err)
	}
	return nil
}
