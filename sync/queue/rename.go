package queue

import (
	"context"

	"outlierd/sync/store"
)

// Rename moves the calls of a job to its new name. A wish that the new name has, too,
// goes.
func (q *Queue) Rename(ctx context.Context, old, new string) error {
	const shared = ` AND (EXISTS (SELECT 1 FROM queue q WHERE q.op = ?3 AND q.entity = ?4 AND q.job = ?2)
		OR EXISTS (SELECT 1 FROM queue_others n WHERE n.op = ?3 AND n.entity = ?4 AND n.job = ?2))`
	for _, table := range []struct{ name, drop string }{
		{"queue", ""},
		{"queue_others", `DELETE FROM queue_others WHERE job = ?1 AND op = ?3 AND entity = ?4` + shared},
	} {
		move := `UPDATE ` + table.name + ` SET job = ?2 WHERE job = ?1 AND op = ?3 AND entity = ?4`
		err := q.db.InPieces(ctx, func(tx *store.Tx, most int) (int, error) {
			type call struct{ op, entity string }
			calls, err := store.List(tx, func(c *call) []any { return []any{&c.op, &c.entity} }, wants(table.name), old, "", most)
			for _, c := range calls {
				if table.drop != "" {
					_, err = tx.Exec(table.drop, old, new, c.op, c.entity)
				}
				if err == nil {
					_, err = tx.Exec(move, old, new, c.op, c.entity)
				}
				if err != nil {
					break
				}
			}
			return len(calls), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
