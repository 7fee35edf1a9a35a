package warehouse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// Omit implements [sinks.Warehouse]. It is one transaction. The tables are then as if they had been written without
// what is left out.
func (w *Warehouse) Omit(ctx context.Context, more sinks.Omitted) error {
	err := w.Run(ctx, func(db *database.DB) error {
		marks, err := db.Marks(ctx)
		if err != nil {
			return err
		}
		had, err := sinks.ParseOmitted(marks.Omitted)
		if err != nil {
			return err
		}
		all := had.With(more)
		if all.String() == marks.Omitted {
			return nil
		}
		sql, vacuum := []string{"BEGIN"}, false
		for _, t := range w.options.Tables {
			upTo, gone := all.UpTo[t.Name], newColumns(t, had.Columns[t.Name], all.Columns[t.Name])
			vacuum = vacuum || gone != nil || upTo == sinks.Whole && had.UpTo[t.Name] < upTo
			for _, c := range gone {
				sql = append(sql, database.EmptyColumn(t, c)...)
			}
			if t.Kind == schema.Changes && gone != nil {
				sql = append(sql, placeholders(t, t, false, all.Columns[t.Name]).Replace(deleteUnchanged))
			}
			if upTo > had.UpTo[t.Name] {
				sql = append(sql, deleteUpTo(t, upTo))
			}
		}
		sql = append(sql, setOmitted(all))
		if vacuum && marks.Vacuum > 0 {
			sql = append(sql, setMark(database.Vacuum, 1)) // it is due, because much may have become free
		}
		if _, err := db.Exec(ctx, strings.Join(append(sql, "COMMIT"), "; ")); err != nil {
			return fmt.Errorf("delete what is not to be kept: %w", err)
		}
		return db.Checkpoint(ctx)
	})
	if err != nil {
		return err
	}
	return w.tidy(ctx)
}

func setOmitted(o sinks.Omitted) string {
	return fmt.Sprintf("UPDATE warehouse.outlierd.marks SET text = %s WHERE name = %s", database.Text(o.String()), database.Text(database.Omitted))
}

// newColumns returns the columns of a table that are in after and not in before.
func newColumns(t *schema.Table, before, after []string) (all []schema.Column) {
	for _, c := range t.Columns {
		if slices.Contains(after, c.Name) && !slices.Contains(before, c.Name) {
			all = append(all, c)
		}
	}
	return all
}

// deleteUnchanged deletes the rows that no longer differ from the row of their key before them.
const deleteUnchanged = `DELETE FROM {table} WHERE rowid NOT IN (SELECT n FROM (
	SELECT rowid AS n, lag(row({compared})) OVER (PARTITION BY {identity} ORDER BY rowid) IS DISTINCT FROM row({compared}) AS differs
	FROM {table}) WHERE differs)`

// deleteUpTo returns the SQL that deletes the rows of answers up to one. Of a table that has a row only when something
// changed, the last of these rows of each key stays: it says what the key was like from then on.
func deleteUpTo(t *schema.Table, upTo int64) string {
	sql := "DELETE FROM " + database.TableName(t)
	if upTo == sinks.Whole {
		return sql
	}
	sql += fmt.Sprintf(" WHERE _response_id <= %d", upTo)
	if t.Kind == schema.Changes {
		sql += fmt.Sprintf(" AND rowid NOT IN (SELECT max(rowid) FROM %s WHERE _response_id <= %d GROUP BY %s)",
			database.TableName(t), upTo, database.Names("", t.Key))
	}
	return sql
}
