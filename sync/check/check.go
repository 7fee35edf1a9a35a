// Package check verifies that the tables of the warehouse and of its copies match the journal, and that
// their operations tables match the state.
package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/compare"
	"outlierd/sync/load"
	"outlierd/sync/ops"
	"outlierd/sync/state"
)

// Tables is a snapshot of the tables of the warehouse or of a copy, and what a check of them has found.
type Tables struct {
	Name   string         `json:"sink"` // of the copy in jobs.yaml: "duckdb"; or "warehouse"
	Path   string         `json:"path"` // where they are read
	Source compare.Source `json:"-"`
	Has    sinks.Marks    `json:"-"`

	Answers  int64            `json:"answers"` // the last one that it has
	Behind   int64            `json:"behind"`  // answers of the journal that it does not have yet
	Ahead    bool             `json:"ahead"`   // it has answers that the journal lacks, which a rebuild would lose
	Away     bool             `json:"away"`    // it could not be reached, so its rows were not checked
	Missing  bool             `json:"missing"` // a copy that does not exist, and that the next run makes
	Rows     map[string]int64 `json:"rows"`    // by table
	ReadData bool             `json:"read_data"`
	Problems []string         `json:"problems"` // also those from before the rows were read
	Foreign  []string         `json:"foreign"`  // files of other programs, whose rows readers find in its tables

	// Pruned is the last pruned answer of the journal: rows of answers up to it were compared with those of
	// the file Same, not with the journal. It is 0 if all were compared with the journal.
	Pruned     int64      `json:"pruned"`
	Same       string     `json:"same"`
	Operations Operations `json:"operations"`
}

// Operations is the result for the operations tables, if rows are compared.
type Operations struct {
	Rows  int64 `json:"rows"`  // that match the state
	Later int64 `json:"later"` // number of rows that were changed or added later, which were not compared
	Known bool  `json:"known"` // the state has a record of later changes; else nothing was compared
}

// unread reports whether there are no rows to check.
func (t *Tables) unread() bool { return t.Missing || len(t.Problems) > 0 }

func (t *Tables) addProblem(format string, args ...any) {
	t.Problems = append(t.Problems, fmt.Sprintf(format, args...))
}

// Check compares tables with the journal of a state.
type Check struct {
	State  *state.Store
	End    int64 // the last answer of the journal
	Pruned int64 // the last answer whose body was pruned; 0 if none was
	Reader *compare.Reader

	// Build makes a warehouse from the journal in an empty folder, with the answers of other tables and without what
	// they leave out, and returns where it is read. The rows of pruned answers are taken from the DuckDB file older, if
	// it is not "".
	Build func(ctx context.Context, folder string, like sinks.Marks, older string) (compare.Source, error)
	Temp  string // folder for it
}

// Look compares the marks of tables with the journal, and counts their rows.
func (c *Check) Look(ctx context.Context, t *Tables) error {
	t.Answers, t.Behind, t.Rows = t.Has.Answers, max(0, c.End-t.Has.Answers), map[string]int64{}
	t.Problems, t.Foreign = append([]string{}, t.Problems...), append([]string{}, t.Foreign...) // never nil, which JSON has as null
	if t.Missing {
		t.Problems = []string{}
	}
	if t.unread() {
		return nil
	}
	err := load.CheckMarks(c.State, t.Name, t.Has)
	_, isLost := errors.AsType[*load.LostStateError](err)
	switch _, t.Ahead = errors.AsType[*load.AheadError](err); {
	case t.Ahead || isLost:
		t.addProblem("%v", err)
		return nil
	case err != nil:
		return err
	}
	for _, of := range schema.Tables() {
		rows, err := c.Reader.Rows(ctx, t.Source, of)
		if err != nil {
			return t.noteUnreadable(ctx, of, err)
		}
		t.Rows[of.Name] = rows.Count
		if rows.Last > t.Has.Answers || rows.Count > 0 && rows.First < 1 {
			t.addProblem("table %s has rows of answers %d to %d, and the marks say 1 to %d",
				of.Name, rows.First, rows.Last, t.Has.Answers)
		}
	}
	for _, of := range schema.OpsTables() {
		if _, err := c.Reader.Rows(ctx, t.Source, of); err != nil {
			return t.noteUnreadable(ctx, of, err)
		}
	}
	return nil
}

// CompareCounts compares the numbers of rows that [Check.Look] has counted with those of other tables that hold the
// same. The warehouse comes first.
func CompareCounts(all []Tables) {
	counted := map[sinks.Marks]*Tables{}
	for i := range all {
		t := &all[i]
		if t.unread() {
			continue
		}
		same := t.Has
		same.Ops = 0
		like := counted[same]
		if like == nil {
			counted[same] = t
			continue
		}
		for _, of := range schema.Tables() {
			if have, want := t.Rows[of.Name], like.Rows[of.Name]; have != want {
				t.addProblem("table %s has %d rows in place of the %d of %s", of.Name, have, want, like.Name)
			}
		}
	}
}

// noteUnreadable records that one of the tables cannot be read. The rest is then not read.
func (t *Tables) noteUnreadable(ctx context.Context, of *schema.Table, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.addProblem("table %s cannot be read: %v", of.Name, err)
	t.Away = slices.ContainsFunc(unrelated, func(cause string) bool { return strings.Contains(err.Error(), cause) })
	return nil
}

// unrelated are parts of DuckDB's errors that say nothing about the content of tables, so that making them
// again would not help.
var unrelated = []string{
	"Out of Memory Error", "No space left on device", "Too many open files", "Permission denied",
}

// Read decodes the answers of the journal again and compares all rows with them, after [Check.Look].
func (c *Check) Read(ctx context.Context, all []Tables) error {
	built := map[sinks.Marks]bool{}
	for _, t := range all {
		if built[derived(t.Has)] || t.unread() {
			continue
		}
		built[derived(t.Has)] = true
		if err := c.readAt(ctx, derived(t.Has), all); err != nil {
			return err
		}
	}
	return nil
}

// derived returns the part of marks on which the tables depend that are derived from the journal.
func derived(m sinks.Marks) sinks.Marks { return sinks.Marks{Answers: m.Answers, Omitted: m.Omitted} }

// readAt compares the tables that have the given marks with a warehouse of them.
func (c *Check) readAt(ctx context.Context, mark sinks.Marks, all []Tables) (err error) {
	folder, err := os.MkdirTemp(c.Temp, "check-")
	if err != nil {
		return fmt.Errorf("create a folder for tables built from the journal: %w", err)
	}
	defer func() { err = errors.Join(err, c.Reader.Close(), os.RemoveAll(folder)) }()
	var older Tables // with the rows of pruned answers
	for _, t := range all {
		if c.Pruned > 0 && derived(t.Has) == mark && !t.unread() && t.Source.File != "" {
			older = t
			break
		}
	}
	if c.Pruned > 0 && older.Source.File == "" {
		return nil // without the rows of pruned answers every current row would differ
	}
	want, err := c.Build(ctx, filepath.Join(folder, "warehouse.duckdb"), mark, older.Source.File)
	if err != nil {
		return err
	}
	for i := range all {
		t := &all[i]
		if derived(t.Has) != mark || t.unread() {
			continue
		}
		t.Pruned, t.Same = c.Pruned, older.Path
		if err := c.compareRows(ctx, want, t); err != nil {
			return err
		}
	}
	return nil
}

func (c *Check) compareRows(ctx context.Context, want compare.Source, t *Tables) error {
	t.ReadData = true
	for _, of := range schema.Tables() {
		d, err := c.Reader.Compare(ctx, want, t.Source, of)
		if err != nil {
			return t.noteUnreadable(ctx, of, err)
		}
		t.addDifference(of, d)
	}
	return c.compareOperations(ctx, want, t)
}

// compareOperations compares the operations tables with the state, except for rows that have changed in
// the state since they were last written.
func (c *Check) compareOperations(ctx context.Context, want compare.Source, t *Tables) error {
	changes, err := ops.Since(c.State.DB, t.Has.Ops)
	if t.Operations.Known = err == nil && !changes.All; !t.Operations.Known {
		return err
	}
	for _, of := range state.OpsTables {
		changed := changes.Changed(&of)
		d, err := c.Reader.Compare(ctx, want, t.Source, of.Table, changed...)
		if err != nil {
			return t.noteUnreadable(ctx, of.Table, err)
		}
		t.Operations.Rows += d.Rows
		t.Operations.Later += int64(len(changed))
		t.addDifference(of.Table, d)
	}
	return nil
}

// addDifference records a difference of a table.
func (t *Tables) addDifference(of *schema.Table, d compare.Difference) {
	if !d.Any() {
		return
	}
	t.addProblem("table %s: rows %s", of.Name, d)
	for _, e := range d.Examples {
		t.addProblem("table %s: %s", of.Name, e)
	}
}
