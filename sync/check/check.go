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

// Tables is a snapshot of the tables of the warehouse or of a copy.
type Tables struct {
	Name     string // of the copy in jobs.yaml: "duckdb"; or "warehouse"
	Path     string // where they are read
	Source   compare.Source
	Has      sinks.Marks
	Problems []string // found before the rows were read
	Foreign  []string // Parquet files of other programs among those of its tables
	Away     bool     // it could not be reached, so its rows were not checked
	Missing  bool     // a copy that does not exist, which the next run makes
}

// Result is what a check found.
type Result struct {
	Sink     string           `json:"sink"`
	Path     string           `json:"path"`
	Answers  int64            `json:"answers"` // the last one that it has
	Behind   int64            `json:"behind"`  // answers of the journal that it does not have yet
	Ahead    bool             `json:"ahead"`   // it has answers that the journal lacks, which a rebuild would lose
	Away     bool             `json:"away"`    // it could not be reached, so its rows were not checked
	Missing  bool             `json:"missing"` // it does not exist, and the next run makes it
	Rows     map[string]int64 `json:"rows"`    // by table
	ReadData bool             `json:"read_data"`
	Problems []string         `json:"problems"`
	Foreign  []string         `json:"foreign"` // files of other programs, whose rows readers find in its tables

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
func (r *Result) unread() bool { return r.Missing || len(r.Problems) > 0 }

func (r *Result) addProblem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
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
func (c *Check) Look(ctx context.Context, s Tables) (Result, error) {
	r := Result{Sink: s.Name, Path: s.Path, Answers: s.Has.Answers, Behind: max(0, c.End-s.Has.Answers), Away: s.Away,
		Rows: map[string]int64{}, Problems: append([]string{}, s.Problems...), Foreign: append([]string{}, s.Foreign...)}
	if r.Missing = s.Missing; r.Missing {
		r.Problems = []string{}
	}
	if r.unread() {
		return r, nil
	}
	err := load.CheckMarks(c.State, s.Name, s.Has)
	ahead, isAhead := errors.AsType[*load.AheadError](err)
	lost, isLost := errors.AsType[*load.LostStateError](err)
	switch {
	case isAhead:
		r.Ahead = true
		r.addProblem("it holds answers up to %d, but the journal ends at %d: %s", ahead.Mark, ahead.End, ahead.Remedy())
		return r, nil
	case isLost:
		r.addProblem("it holds answers %d to %d of the state that was lost, "+
			"and the journal of the restored one has others with these numbers", lost.Backup+1, lost.Mark)
		return r, nil
	case err != nil:
		return r, err
	}
	for _, t := range schema.Tables() {
		rows, err := c.Reader.Rows(ctx, s.Source, t)
		if err != nil {
			return r.withUnreadable(ctx, t, err)
		}
		r.Rows[t.Name] = rows.Count
		if rows.Last > s.Has.Answers || rows.Count > 0 && rows.First < 1 {
			r.addProblem("table %s has rows of answers %d to %d, and the marks say 1 to %d",
				t.Name, rows.First, rows.Last, s.Has.Answers)
		}
	}
	for _, t := range schema.OpsTables() {
		if _, err := c.Reader.Rows(ctx, s.Source, t); err != nil {
			return r.withUnreadable(ctx, t, err)
		}
	}
	return r, nil
}

// CompareCounts compares the numbers of rows with those of other tables that hold the same. It adds to the results of
// [Check.Look], which are in the order of the tables: the warehouse comes first.
func CompareCounts(all []Tables, results []Result) {
	counted := map[sinks.Marks]*Result{}
	for i, s := range all {
		if results[i].unread() {
			continue
		}
		s.Has.Ops = 0
		like := counted[s.Has]
		if like == nil {
			counted[s.Has] = &results[i]
			continue
		}
		for _, t := range schema.Tables() {
			if have, want := results[i].Rows[t.Name], like.Rows[t.Name]; have != want {
				results[i].addProblem("table %s has %d rows in place of the %d of %s", t.Name, have, want, like.Sink)
			}
		}
	}
}

// withUnreadable returns the result for tables of which one cannot be read. The rest is then not read.
func (r Result) withUnreadable(ctx context.Context, t *schema.Table, err error) (Result, error) {
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	r.addProblem("table %s cannot be read: %v", t.Name, err)
	r.Away = slices.ContainsFunc(unrelated, func(cause string) bool { return strings.Contains(err.Error(), cause) })
	return r, nil
}

// unrelated are parts of DuckDB's errors that say nothing about the content of tables, so that making them
// again would not help.
var unrelated = []string{
	"Out of Memory Error", "No space left on device", "Too many open files", "Permission denied",
}

// Read decodes the answers of the journal again and compares all rows with them. It adds to the results of
// [Check.Look], which are in the order of the tables.
func (c *Check) Read(ctx context.Context, all []Tables, results []Result) error {
	built := map[sinks.Marks]bool{}
	for i, s := range all {
		if built[derived(s.Has)] || results[i].unread() {
			continue
		}
		built[derived(s.Has)] = true
		if err := c.readAt(ctx, derived(s.Has), all, results); err != nil {
			return err
		}
	}
	return nil
}

// derived returns the part of marks on which the tables depend that are derived from the journal.
func derived(m sinks.Marks) sinks.Marks { return sinks.Marks{Answers: m.Answers, Omitted: m.Omitted} }

// readAt compares the tables that have the given marks with a warehouse of them.
func (c *Check) readAt(ctx context.Context, mark sinks.Marks, all []Tables, results []Result) (err error) {
	folder, err := os.MkdirTemp(c.Temp, "check-")
	if err != nil {
		return fmt.Errorf("create a folder for tables built from the journal: %w", err)
	}
	defer func() { err = errors.Join(err, c.Reader.Close(), os.RemoveAll(folder)) }()
	older := c.findOlder(mark, all, results)
	if c.Pruned > 0 && older.Source.File == "" {
		return nil // without the rows of pruned answers every current row would differ
	}
	want, err := c.Build(ctx, filepath.Join(folder, "warehouse.duckdb"), mark, older.Source.File)
	if err != nil {
		return err
	}
	for i, s := range all {
		if derived(s.Has) != mark || results[i].unread() {
			continue
		}
		results[i].Pruned, results[i].Same = c.Pruned, older.Path
		if results[i], err = c.compareRows(ctx, want, s, results[i]); err != nil {
			return err
		}
	}
	return nil
}

// findOlder returns the tables in a DuckDB file with the rows of pruned answers; none if there is no such file, or
// nothing is pruned.
func (c *Check) findOlder(mark sinks.Marks, all []Tables, results []Result) (older Tables) {
	for i, s := range all {
		if c.Pruned > 0 && derived(s.Has) == mark && !results[i].unread() && s.Source.File != "" {
			return s
		}
	}
	return older
}

func (c *Check) compareRows(ctx context.Context, want compare.Source, s Tables, r Result) (Result, error) {
	r.ReadData = true
	for _, t := range schema.Tables() {
		d, err := c.Reader.Compare(ctx, want, s.Source, t)
		if err != nil {
			return r.withUnreadable(ctx, t, err)
		}
		r.addDifference(t, d)
	}
	return c.compareOperations(ctx, want, s, r)
}

// compareOperations compares the operations tables with the state, except for rows that have changed in
// the state since they were last written.
func (c *Check) compareOperations(ctx context.Context, want compare.Source, s Tables, r Result) (Result, error) {
	changes, err := ops.Since(c.State.DB, s.Has.Ops)
	if r.Operations.Known = err == nil && !changes.All; !r.Operations.Known {
		return r, err
	}
	for _, t := range state.OpsTables {
		changed := changes.Changed(&t)
		d, err := c.Reader.Compare(ctx, want, s.Source, t.Table, changed...)
		if err != nil {
			return r.withUnreadable(ctx, t.Table, err)
		}
		r.Operations.Rows += d.Rows
		r.Operations.Later += int64(len(changed))
		r.addDifference(t.Table, d)
	}
	return r, nil
}

// addDifference records a difference of a table.
func (r *Result) addDifference(t *schema.Table, d compare.Difference) {
	if !d.Any() {
		return
	}
	r.addProblem("table %s: rows %s", t.Name, d)
	for _, e := range d.Examples {
		r.addProblem("table %s: %s", t.Name, e)
	}
}
