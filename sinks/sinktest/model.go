package sinktest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
)

// Want returns the expected rows of a table after the answers up to hi. It is the reference
// implementation of the kinds of tables.
func (j Journal) Want(table *schema.Table, hi int64) []Row {
	var kept []Row
	numbers := map[string]any{} // by identity, also of rows that were deleted
	for _, a := range j[:hi] {
		for _, gone := range a.Gone[table] {
			of := table.Identity()
			kept = slices.DeleteFunc(kept, func(old Row) bool { return key(old, of) == key(gone, of) })
		}
		var replaced bool
		for _, row := range a.Rows[table] {
			if table.Identity() != nil {
				row = maps.Clone(row)
				identity := key(row, table.Identity())
				if numbers[identity] == nil {
					numbers[identity] = a.ID
				}
				row[schema.FirstResponseID] = numbers[identity]
			}
			same := func(old Row) bool { return key(old, table.Key) == key(row, table.Key) }
			switch table.Kind {
			case schema.Current:
				row[sinks.FirstSeenAt], row[sinks.LastSeenAt], row[sinks.TimesSeen] = a.At, a.At, int64(1)
				if i := slices.IndexFunc(kept, same); i >= 0 {
					row[sinks.FirstSeenAt] = kept[i][sinks.FirstSeenAt]
					row[sinks.TimesSeen] = kept[i][sinks.TimesSeen].(int64) + 1
					if table.Grows != "" {
						previous(table, row, kept[i])
					}
					kept = slices.Delete(kept, i, i+1)
				}
				if at, ok := row[schema.ImportedSeenAt].(time.Time); ok && at.Before(row[sinks.FirstSeenAt].(time.Time)) {
					row[sinks.FirstSeenAt] = at
				}
			case schema.Children, schema.Once:
				if older := fromOtherAnswers(row, table); !replaced || slices.ContainsFunc(kept, older) {
					kept = slices.DeleteFunc(kept, older)
					replaced = true
				}
			case schema.Changes:
				if last := lastOf(kept, same); last != nil && equal(last, row, table) {
					continue
				}
			}
			kept = append(kept, row)
		}
	}
	return kept
}

// wantWithout is Want without what is left out.
func (j Journal) wantWithout(table *schema.Table, hi int64, o sinks.Omitted) (rows []Row) {
	less, upTo := j.Only(table), o.UpTo[table.Name]
	for _, a := range less {
		for i, row := range a.Rows[table] {
			a.Rows[table][i] = maps.Clone(row)
			for _, column := range o.Columns[table.Name] {
				delete(a.Rows[table][i], column)
			}
		}
	}
	all := less.Want(table, hi)
	for i, row := range all {
		later := func(other Row) bool {
			return key(other, table.Key) == key(row, table.Key) && other[sinks.ResponseID].(int64) <= upTo
		}
		stands := table.Kind == schema.Changes && upTo < sinks.Whole && !slices.ContainsFunc(all[i+1:], later)
		if row[sinks.ResponseID].(int64) > upTo || stands {
			rows = append(rows, row)
		}
	}
	return rows
}

// previous sets the columns of a row with the value of an earlier day, from the row before it.
func previous(table *schema.Table, row, before Row) {
	const day = 24 * time.Hour
	at, last := row[sinks.LastSeenAt].(time.Time), before[sinks.LastSeenAt].(time.Time)
	if last.UTC().Truncate(day).Before(at.UTC().Truncate(day)) {
		row[schema.PreviousSeenAt], row[table.Previous()] = last, before[table.Grows]
	} else {
		row[schema.PreviousSeenAt], row[table.Previous()] = before[schema.PreviousSeenAt], before[table.Previous()]
	}
}

// fromOtherAnswers returns a function that matches the rows of row's parent from other answers.
func fromOtherAnswers(row Row, table *schema.Table) func(Row) bool {
	return func(old Row) bool {
		return key(old, table.Key[:1]) == key(row, table.Key[:1]) && old[sinks.ResponseID] != row[sinks.ResponseID]
	}
}

func lastOf(rows []Row, is func(Row) bool) Row {
	for _, row := range slices.Backward(rows) {
		if is(row) {
			return row
		}
	}
	return nil
}

func equal(a, b Row, table *schema.Table) bool {
	for _, c := range table.Columns {
		if !reflect.DeepEqual(a[c.Name], b[c.Name]) {
			return false
		}
	}
	return true
}

func key(row Row, names []string) string {
	var text string
	for _, name := range names {
		text += fmt.Sprintf("%#v|", row[name])
	}
	return text
}

// lines formats rows as texts without NULLs, and sorts them, because tables have no order.
func lines(rows []Row) (all []string) {
	for _, row := range rows {
		row = maps.Clone(row)
		maps.DeleteFunc(row, func(_ string, v any) bool { return v == nil })
		all = append(all, fmt.Sprintf("%#v", row))
	}
	slices.Sort(all)
	return all
}
