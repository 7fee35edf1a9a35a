package warehouse

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// Except are ids of which [Warehouse.Adopt] takes nothing over.
type Except struct {
	IDs     []string // of videos and channels, in any column
	Authors []string // of authors of comments, in author_channel_id alone
	Erased  string   // replaces the ids in texts that are about others, such as lists of seeds
}

// Older is a copy from which the warehouse takes rows whose answers the journal no longer has.
type Older struct {
	Path string

	// Look returns what the copy has, and the SQL that attaches it as the database "older", in which rowid has the
	// order of the journal. It refuses a copy that is damaged, or that another program has changed.
	Look func(ctx context.Context) (has sinks.Marks, attach string, err error)
}

// Published is a copy of a warehouse that was published as a DuckDB file.
func Published(path string) Older {
	return Older{path, func(ctx context.Context) (has sinks.Marks, attach string, err error) {
		if err := verifyFile(path); err != nil {
			return has, "", err
		}
		marks, err := database.ReadMarks(ctx, path)
		if err == nil && marks.Changed {
			err = errors.New("it was changed after it was published")
		}
		return marks.Marks, attachFile(path), err
	}}
}

// IsDamaged reports whether a block of a warehouse is damaged that no program has open.
func IsDamaged(path string) bool { return database.Damaged(verifyFile(path)) }

func verifyFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(database.Verify(file), file.Close())
}

func attachFile(path string) string { return "ATTACH " + database.Text(path) + " AS older (READ_ONLY)" }

func (w *Warehouse) removeIfDamaged() error {
	if err := w.Close(); err != nil {
		return err
	}
	if damage := verifyFile(w.options.Path); database.Damaged(damage) {
		return w.removeDamaged(damage)
	}
	return nil
}

// Adopt fills a new warehouse with the rows of the answers up to upTo from a DuckDB file, because the journal no longer
// has these answers. The watermark is then upTo.
//
// Current rows whose last answer is a later one are folded again from what their history has; see
// [Warehouse.CarryOver].
func (w *Warehouse) Adopt(ctx context.Context, from string, upTo int64, except Except) error {
	marks, err := w.Marks(ctx)
	if err == nil && marks.Answers != 0 {
		err = fmt.Errorf("%s already has answers", w.options.Path)
	}
	if err != nil {
		return err
	}
	has, err := ReadMarks(ctx, from)
	if err == nil && has.Answers < upTo {
		err = fmt.Errorf("it has answers up to %d", has.Answers)
	}
	if err == nil {
		err = w.adoptRows(ctx, attachFile(from), has.Omitted, upTo, except)
	}
	return explainAdopt(from, upTo, err)
}

// Refill implements [sinks.Warehouse]. The first copy that has the rows is taken. A damaged warehouse may have others:
// it is only removed once there is such a copy.
func (w *Warehouse) Refill(ctx context.Context, least int64, common func(has sinks.Marks) int64) error {
	var wrong []error
	for _, from := range w.options.Older {
		if _, err := os.Stat(from.Path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		has, attach, err := from.Look(ctx)
		upTo := min(has.Answers, common(has))
		if err == nil && upTo < least {
			err = fmt.Errorf("it has answers up to %d", upTo)
		}
		if err == nil {
			err = w.removeIfDamaged()
		}
		if err == nil {
			err = w.adoptRows(ctx, attach, has.Omitted, upTo, Except{})
		}
		if err == nil {
			w.options.Log.Warn("the warehouse lacked rows of pruned answers: they were taken from a copy", "from", from.Path, "up_to", least)
			return nil
		}
		wrong = append(wrong, explainAdopt(from.Path, least, err))
	}
	if len(wrong) == 0 {
		return errors.New("no copy of the job file has these rows")
	}
	return errors.Join(wrong...)
}

func explainAdopt(from string, upTo int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("take over the rows of answers up to %d from %s: %w", upTo, from, err)
}

// adoptRows replaces all rows by those of a copy's answers up to upTo. The warehouse is then another one, so that all
// copies are made again.
func (w *Warehouse) adoptRows(ctx context.Context, attach, leftOut string, upTo int64, except Except) error {
	omitted, err := sinks.ParseOmitted(leftOut)
	if err != nil {
		return err
	}
	err = w.Run(ctx, func(db *database.DB) error {
		if _, err := db.Exec(ctx, attach+"; BEGIN; DELETE FROM warehouse.outlierd.deleted"); err != nil {
			return err
		}
		for _, t := range w.options.Tables {
			if t.IsOps() {
				continue
			}
			if err := adoptTable(ctx, db, t, upTo, except); err != nil {
				return err
			}
		}
		for _, t := range w.options.Tables {
			if !slices.Contains(w.options.Tables, t.History) {
				continue
			}
			if _, err := db.Exec(ctx, foldHistory(t)); err != nil {
				return err
			}
		}
		_, err := db.Exec(ctx, strings.Join([]string{setMark(database.Journal, upTo), setMark(database.Operations, 0),
			setOmitted(omitted.Until(upTo)), setMark(database.Warehouse, rand.Int64()), "COMMIT", "DETACH older"}, "; "))
		return err
	})
	if err != nil {
		return err
	}
	return w.tidy(ctx)
}

// CarryOver takes over, from a file whose rows up to upTo were adopted, what current rows of keys that were first seen
// up to upTo and last later say of all their answers, because histories may lack old days. The warehouse has the
// answers that the file has.
func (w *Warehouse) CarryOver(ctx context.Context, from string, upTo int64) error {
	sql := []string{attachFile(from), "BEGIN"}
	for _, t := range w.options.Tables {
		if t.Kind != schema.Current {
			continue
		}
		var set []string
		for _, c := range t.All()[t.Schema().NumFields():] {
			set = append(set, fmt.Sprintf("%s = o.%[1]s", database.Name(c.Name)))
		}
		sql = append(sql, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s AS o WHERE %s AND t._response_id = o._response_id AND "+
			"o._response_id > %d AND o._first_response_id <= %[5]d", database.TableName(t), strings.Join(set, ", "),
			older(t), database.Same("t.", "o.", t.Key), upTo))
	}
	err := w.Run(ctx, func(db *database.DB) error {
		_, err := db.Exec(ctx, strings.Join(append(sql, "COMMIT", "DETACH older"), "; "))
		return err
	})
	if err != nil {
		return fmt.Errorf("take over from %s when keys were first seen: %w", from, err)
	}
	return w.tidy(ctx)
}

// older returns the name of a table in the older copy.
func older(t *schema.Table) string {
	return strings.Replace(database.TableName(t), "warehouse.", "older.", 1)
}

// adoptTable copies the rows of a table without what is to be erased. Columns that the older file lacks stay NULL.
func adoptTable(ctx context.Context, db *database.DB, t *schema.Table, upTo int64, except Except) error {
	found, err := db.Query(ctx, "SELECT column_name FROM duckdb_columns() WHERE database_name = 'older' "+
		"AND schema_name || '.' || table_name = "+database.Text("main."+t.Name))
	if err != nil || len(found) == 0 {
		return err
	}
	var names, values []string
	stands := []string{fmt.Sprintf("_response_id <= %d", upTo)}
	if t.Kind == schema.Children || t.Kind == schema.Once {
		// What later answers have replaced is replaced by them again, and keeps the number of the first answer.
		stands[0] = fmt.Sprintf("_first_response_id <= %d", upTo)
	}
	for _, c := range t.All() {
		if slices.ContainsFunc(found, func(row []driver.Value) bool { return row[0] == c.Name }) {
			value, mentions := except.cleanColumn(t, c)
			names, values = append(names, database.Name(c.Name)), append(values, value)
			stands = append(stands, mentions...)
		}
	}
	_, err = db.Exec(ctx, fmt.Sprintf("DELETE FROM %[1]s; INSERT INTO %[1]s (%s) SELECT %s FROM %s WHERE %s ORDER BY rowid",
		database.TableName(t), strings.Join(names, ", "), strings.Join(values, ", "), older(t),
		strings.Join(stands, " AND ")))
	return err
}

// cleanColumn returns the SQL of a column without the ids, and the condition that the row is not about one of them: its
// key or a field of the answer would be the id. In what the answer does not have, such as seeds, only the id is
// replaced.
func (e Except) cleanColumn(t *schema.Table, c schema.Column) (value string, stands []string) {
	name := database.Name(c.Name)
	ids := e.IDs
	if c.Name == "author_channel_id" {
		ids = slices.Concat(e.IDs, e.Authors)
	}
	if len(e.IDs)+len(e.Authors) == 0 {
		return name, nil
	}
	var all []string
	for _, id := range slices.Concat(e.IDs, e.Authors) {
		all = append(all, regexp.QuoteMeta(id))
	}
	pattern, erased := database.Text(strings.Join(all, "|")), database.Text(e.Erased)
	switch list, isList := c.Type.(*arrow.ListType); {
	case c.JSON:
		return fmt.Sprintf("CASE WHEN NOT regexp_matches(%[1]s::VARCHAR, %s) THEN %[1]s END", name, pattern), nil
	case isList && list.Elem().ID() == arrow.STRING:
		return fmt.Sprintf("list_transform(%s, lambda x: regexp_replace(x, %s, %s, 'g'))", name, pattern, erased), nil
	case c.Type.ID() != arrow.STRING:
		return name, nil
	case c.Path == "" && !slices.Contains(t.Key, c.Name):
		return fmt.Sprintf("regexp_replace(%s, %s, %s, 'g')", name, pattern, erased), nil
	case len(ids) == 0:
		return name, nil
	}
	var texts []string
	for _, id := range ids {
		texts = append(texts, database.Text(id))
	}
	return name, []string{fmt.Sprintf("coalesce(%s NOT IN (%s), true)", name, strings.Join(texts, ", "))}
}

// foldHistory folds the current rows that were not copied.
func foldHistory(t *schema.Table) string {
	rows := stagedRows(t)
	return fmt.Sprintf(`CREATE TEMP VIEW %s AS SELECT rowid AS rowid, * FROM %s AS h
		WHERE NOT EXISTS (FROM %s AS c WHERE %s);
		%s; DROP VIEW temp.%[1]s`, rows, database.TableName(t.History), database.TableName(t),
		database.Same("h.", "c.", t.Key), changeOf(t, t, false, nil))
}
