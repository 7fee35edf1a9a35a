package journal

import (
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
	p := Paging{Op: op}
	_, err := store.Scan(k.db, []any{&p.Reading, store.Time(&p.Learned)}, `SELECT reading, learned_at FROM paging WHERE op = ?`, op)
	return p, err
}

// LearnPaging stores what `from` counts at an endpoint, "page" or "offset". If it was known already, the
// stored time does not change.
func LearnPaging(tx *store.Tx, op outlier.Operation, reading string) error {
	return tx.Exec(`INSERT INTO paging (op, reading, learned_at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET reading = excluded.reading, learned_at = excluded.learned_at
		WHERE reading <> excluded.reading`, op, reading, store.Micros(tx.Now()))
}

// UnlearnPaging removes what was learned about an endpoint, after an answer has contradicted it.
func UnlearnPaging(tx *store.Tx, op outlier.Operation) error {
	return tx.Exec(`DELETE FROM paging WHERE op = ?`, op)
}
