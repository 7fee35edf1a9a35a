package state

import (
	"database/sql"
	"errors"
	"fmt"

	"outlierd/outlier"
)

// Paging is what `from` counts at an endpoint, as far as an answer has shown it:
// "page", "offset", or "" while nobody knows.
func (s *Store) Paging(op outlier.Operation) (reading string, err error) {
	err = s.view(func() error {
		return s.row(`SELECT reading FROM paging WHERE op = ?`, string(op)).Scan(&reading)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for what %s counts: %w", op, err)
	}
	return reading, nil
}

// LearnPaging remembers what `from` counts at an endpoint: "page" or "offset".
func (t *Tx) LearnPaging(op outlier.Operation, reading string) error {
	_, err := t.exec(`INSERT INTO paging (op, reading, learned_at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET reading = excluded.reading, learned_at = excluded.learned_at`, string(op), reading, micros(t.now))
	if err != nil {
		return fmt.Errorf("remember that %s pages by %q: %w", op, reading, err)
	}
	return nil
}
