// Package ops derives the operations tables ops.* from the state: which rows they have, and which
// of them have changed. It owns the table ops_changes, which triggers on the other tables fill.
package ops

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
	"outlierd/sync/store"
)

// Table says how the rows of an operations table are read from the state. The table is declared in package schema.
type Table struct {
	*schema.Table
	Source string // the table of the state that triggers changes, whose row has the same id
	From   string // FROM clause of the query for the rows

	// SQL has the expressions of the columns that are not columns of From under their own names, and As converts the
	// values that the column's type does not say how to convert.
	SQL map[string]string
	As  map[string]func(any) (any, error)
}

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
			rows, err := t.readRows(db, last, most)
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

// readRows reads the first rows after one. The first column is the number of a row.
func (t *Table) readRows(in store.Reader, after int64, most int) ([][]any, error) {
	var expressions []string
	for _, c := range t.Columns {
		expressions = append(expressions, cmp.Or(t.SQL[c.Name], c.Name))
	}
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE id > ?1 ORDER BY id LIMIT ?2`, strings.Join(expressions, ", "), t.From)
	rows, err := store.List(in, func(row *[]any) []any {
		*row = make([]any, len(t.Columns))
		into := make([]any, len(t.Columns))
		for i := range into {
			into[i] = &(*row)[i]
		}
		return into
	}, query, after, most)
	for _, row := range rows {
		for i, c := range t.Columns {
			if row[i] == nil {
				continue
			}
			convert := t.As[c.Name]
			if convert == nil {
				convert = conversions[c.SQLType()]
			}
			if row[i], err = convert(row[i]); err != nil {
				return nil, fmt.Errorf("row %v, column %s: %w", row[0], c.Name, err)
			}
		}
	}
	return rows, err
}

// conversions convert the values of SQLite to those of a column's type.
var conversions = map[string]func(any) (any, error){
	"BIGINT": keepNumber, "VARCHAR": readText, "BOOLEAN": readBool, "TIMESTAMPTZ": readMoment, "DOUBLE": readSeconds,
	"VARCHAR[]": readJSON[[]string], "MAP(VARCHAR, BIGINT)": readJSON[map[string]int64], "JSON": Parameters(),
}

func keepNumber(v any) (any, error) { return v, nil }

// readText returns a string; NULL if it is empty.
func readText(v any) (any, error) {
	if v == "" {
		return nil, nil
	}
	return v, nil
}

// readBool converts 0 and 1.
func readBool(v any) (any, error) { return v != int64(0), nil }

// readMoment converts microseconds to a time; NULL for 0.
func readMoment(v any) (any, error) {
	if us, ok := v.(int64); ok && us != 0 {
		return store.Instant(us), nil
	}
	return nil, nil
}

// readSeconds converts a duration in microseconds to seconds.
func readSeconds(v any) (any, error) {
	us, _ := v.(int64)
	return (time.Duration(us) * time.Microsecond).Seconds(), nil
}

// readJSON decodes a list or an object; NULL for null.
func readJSON[T []string | map[string]int64](v any) (any, error) {
	var value T
	err := json.Unmarshal([]byte(v.(string)), &value)
	if value == nil {
		return nil, err
	}
	return value, err
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

// # States restored from a backup
//
// A restored state continues from an older version than that of the lost state, which sinks may have
// seen. So its next version is one that the lost state never had. The versions in between are known to
// belong to the lost state.

// Skipped has the versions that a restored state skipped.
type Skipped struct {
	After   int64 `json:"after"`   // the version of the backup
	Until   int64 `json:"until"`   // the first version of the restored state
	Answers int64 `json:"answers"` // the last answer in the backup
}

// hasVersion reports whether a version belongs to the lost state.
func (s *Skipped) hasVersion(version int64) bool { return s.After < version && version < s.Until }

// skipped has the versions that were skipped.
var skipped = store.Cell[Restores]{Key: "ops versions skipped"}

// minSkipped is the number of versions that are skipped if the clock is behind them.
const minSkipped = 1 << 32

// Skip skips the versions of the lost state, in a restored state whose journal ends at answers. The next
// version is the time in microseconds: no state ever has as many changes.
func Skip(tx *store.Tx, answers int64) error {
	all, err := skipped.Get(tx)
	if err != nil {
		return err
	}
	at, err := lastVersion(tx)
	if err != nil {
		return err
	}
	next := max(tx.Now().UnixMicro(), at+minSkipped)
	return errors.Join(skipped.Set(tx, append(all, Skipped{After: at, Until: next, Answers: answers})),
		tx.Exec(`DELETE FROM sqlite_sequence WHERE name = 'ops_changes'`),
		tx.Exec(`INSERT INTO sqlite_sequence (name, seq) VALUES ('ops_changes', ?)`, next))
}

// Restores has the skipped versions of all restores of a state.
type Restores []Skipped

// ReadRestores returns the restores of a state; none if it was never restored.
func ReadRestores(db *store.Store) (all Restores, err error) {
	return skipped.Get(db)
}

// LostWith returns the restore before which the lost state has filled a sink, or nil. Such a sink has answers after
// those of the backup, and an earlier version than any of the restored state, because a warehouse gets the operations
// tables before answers. Without a version, it has only rows of answers in common with the journal.
func (r Restores) LostWith(version, mark int64) *Skipped {
	for i := range r {
		if mark > r[i].Answers && version > 0 && version < r[i].Until {
			return &r[i]
		}
	}
	return nil
}
