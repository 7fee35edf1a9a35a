// Package ops derives the operations tables ops.* from the state: which rows they have, and which
// of them have changed. It owns the table ops_changes, which triggers on the other tables fill.
package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/sync/store"
)

// Table defines how an operations table is derived from the state. Its columns are those declared
// under the same name in package schema, in the same order.
type Table struct {
	Name    string
	Source  string // the table of the state that triggers changes
	From    string // FROM clause of the query for the rows
	ID      string // the number of a row, equal to that of the source's row
	Columns []Column
}

// Column is a column of a [Table].
type Column struct {
	Name string
	SQL  string
	As   func(any) (any, error) // converts a value of SQLite for the sinks
}

// Col returns a column with that name, computed by an SQL expression.
func Col(name, sql string, as func(any) (any, error)) Column { return Column{name, sql, as} }

// Changes are the rows of the operations tables that have changed since a version.
type Changes struct {
	Version int64 // the version of the tables that includes the changes
	All     bool  // all rows count as changed, because the changes are no longer recorded

	changed map[string][]int64 // numbers of the changed rows by source, unless All
}

// From returns the number of the first changed row of a table, from which on a warehouse replaces its rows,
// and whether there is one; 0 if all rows count as changed.
func (n Changes) From(t *Table) (id int64, changed bool) {
	if n.All {
		return 0, true
	}
	if len(n.changed[t.Source]) == 0 {
		return 0, false
	}
	return slices.Min(n.changed[t.Source]), true
}

// Changed returns the numbers of the changed rows of a table, in order; nil if All is set.
func (n Changes) Changed(t *Table) []int64 {
	return slices.Compact(slices.Sorted(slices.Values(n.changed[t.Source])))
}

// forgotten has the version up to which changes were removed.
var forgotten = store.Cell[int64]{Key: "ops changes forgotten"}

// Since returns the changes since the given version; 0 means all rows.
func Since(db *store.Store, since int64) (Changes, error) {
	return store.Read(db, func(tx *store.Tx) (changes Changes, err error) {
		changes.changed = map[string][]int64{}
		if changes.Version, err = lastVersion(tx); err != nil {
			return changes, err
		}
		forgotten, err := forgotten.Get(tx)
		if err != nil {
			return changes, err
		}
		skipped, err := skipped.Get(tx)
		lost := slices.ContainsFunc(skipped, func(s Skipped) bool { return s.hasVersion(since) })
		if changes.All = since == 0 || since < forgotten || since > changes.Version || lost; err != nil || changes.All {
			return changes, err
		}
		type change struct {
			source string
			id     int64
		}
		recorded, err := store.List(tx, func(c *change) []any { return []any{&c.source, &c.id} },
			`SELECT source, id FROM ops_changes WHERE version > ? ORDER BY version`, since)
		for _, c := range recorded {
			changes.changed[c.source] = append(changes.changed[c.source], c.id)
		}
		return changes, err
	})
}

// lastVersion returns the number of the last change.
func lastVersion(tx *store.Tx) (version int64, err error) {
	return store.Value[int64](tx, `SELECT seq FROM sqlite_sequence WHERE name = 'ops_changes'`)
}

// Forget removes the changes up to a version, once all sinks have them. [Since] an earlier version
// then returns all rows.
func Forget(db *store.Store, version int64) error {
	return db.Update(func(tx *store.Tx) error {
		before, err := forgotten.Get(tx)
		if err != nil || before >= version {
			return err
		}
		return errors.Join(tx.Exec(`DELETE FROM ops_changes WHERE version <= ?`, version), forgotten.Set(tx, version))
	})
}

// Rows yields the rows of a table from the first changed one on, in order of id, most rows at a time; the
// last time it may be fewer. Values are nil, bool, int64, float64, string, time.Time, []string or
// map[string]int64. An error comes last.
func (t *Table) Rows(db *store.Store, changes Changes, most int) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		from, changed := changes.From(t)
		for last := from - 1; changed; {
			rows, err := t.readRows(db, `> ?1 ORDER BY `+t.ID+` LIMIT ?2`, last, most)
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", t.Name, err))
				return
			}
			if len(rows) > 0 && !yield(rows, nil) || len(rows) < most {
				return
			}
			last = rows[most-1][0].(int64)
		}
	}
}

// readRows reads the rows whose number meets a condition. The first column is the number.
func (t *Table) readRows(in store.Reader, condition string, args ...any) ([][]any, error) {
	var expressions []string
	for _, c := range t.Columns {
		expressions = append(expressions, c.SQL)
	}
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE %s %s`,
		strings.Join(expressions, ", "), t.From, t.ID, condition)
	rows, err := store.List(in, func(row *[]any) []any {
		*row = make([]any, len(t.Columns))
		into := make([]any, len(t.Columns))
		for i := range into {
			into[i] = &(*row)[i]
		}
		return into
	}, query, args...)
	for _, row := range rows {
		for i, c := range t.Columns {
			if row[i] == nil {
				continue
			}
			if row[i], err = c.As(row[i]); err != nil {
				return nil, fmt.Errorf("row %v, column %s: %w", row[0], c.Name, err)
			}
		}
	}
	return rows, err
}

// Plain returns the value unchanged.
func Plain(v any) (any, error) { return v, nil }

// Text returns a string; NULL if it is empty.
func Text(v any) (any, error) {
	if v == "" {
		return nil, nil
	}
	return v, nil
}

// Bool converts 0 and 1.
func Bool(v any) (any, error) { return v != int64(0), nil }

// Moment converts microseconds to a time; NULL for 0.
func Moment(v any) (any, error) {
	if us, ok := v.(int64); ok && us != 0 {
		return store.Instant(us), nil
	}
	return nil, nil
}

// Seconds converts a duration in microseconds to seconds.
func Seconds(v any) (any, error) {
	us, _ := v.(int64)
	return (time.Duration(us) * time.Microsecond).Seconds(), nil
}

// Texts decodes a JSON list of strings.
func Texts(v any) (any, error) {
	var list []string
	err := json.Unmarshal([]byte(v.(string)), &list)
	if list == nil {
		return nil, err
	}
	return list, err
}

// Counts decodes a JSON object of numbers.
func Counts(v any) (any, error) {
	var rows map[string]int64
	err := json.Unmarshal([]byte(v.(string)), &rows)
	if rows == nil {
		return nil, err
	}
	return rows, err
}

// Parameters returns a function that converts a request's parameters, except some, to a JSON
// object; a repeated parameter becomes a list.
func Parameters(but ...string) func(any) (any, error) {
	return func(v any) (any, error) { return parametersBut(v.(string), but...) }
}

func parametersBut(encoded string, names ...string) (any, error) {
	if encoded == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		values.Del(name)
	}
	object := map[string]any{}
	for name, list := range values {
		object[name] = list
		if len(list) == 1 {
			object[name] = list[0]
		}
	}
	text, err := json.Marshal(object)
	return string(text), err
}

// ParameterTime returns a function that reads a time from a search's parameters; NULL if there is
// none, or if it has another form, which the filters column still shows.
func ParameterTime(name string) func(any) (any, error) {
	return func(v any) (any, error) {
		values, err := url.ParseQuery(v.(string))
		if err != nil || values.Get(name) == "" {
			return nil, err
		}
		t, err := time.Parse(time.RFC3339, values.Get(name))
		if err != nil {
			return nil, nil
		}
		return t.UTC(), nil
	}
}
