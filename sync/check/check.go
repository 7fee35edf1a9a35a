// Package check verifies that the tables of the sinks match the journal, and that their operations
// tables match the state.
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
	"outlierd/sync/state"
)

// Sink is a snapshot of the published tables of a sink.
type Sink struct {
	Name     string // in jobs.yaml: "duckdb"
	Path     string // where its tables are read
	Source   compare.Source
	Mark     int64           // the last answer it contains
	Ops      int64           // the version of its operations tables
	Waiting  map[string]bool // tables with rows that are not published yet
	Problems []string        // found before its rows were read
	Foreign  []string        // Parquet files of other programs among those of its tables
	Away     bool            // it could not be reached, so its rows were not checked
	Lacks    int64           // it was rebuilt without the rows of answers up to this one; 0 if it is complete
}

// Result is what a check found about a sink.
type Result struct {
	Sink     string           `json:"sink"`
	Path     string           `json:"path"`
	Answers  int64            `json:"answers"` // the last one that it has
	Behind   int64            `json:"behind"`  // answers of the journal that it does not have yet
	Ahead    bool             `json:"ahead"`   // it has answers that the journal lacks, which a rebuild would lose
	Away     bool             `json:"away"`    // it could not be reached, so its rows were not checked
	Rows     map[string]int64 `json:"rows"`    // by table
	ReadData bool             `json:"read_data"`
	Waiting  []string         `json:"waiting"` // tables not compared, because of unpublished rows
	Added    []string         `json:"added"`   // columns that are NULL in rows stored before the column was added
	Problems []string         `json:"problems"`
	Foreign  []string         `json:"foreign"` // files of other programs, whose rows readers find in its tables

	// Pruned is the last pruned answer of the journal: rows of answers up to it were not compared with
	// the journal. It is 0 if all were.
	Pruned     int64      `json:"pruned"`
	Operations Operations `json:"operations"`

	Same string `json:"same"` // the rows are those of the sink at that path; "" if they were not compared
}

// Operations is the result for the operations tables of a sink, if rows are compared.
type Operations struct {
	Rows  int64 `json:"rows"`  // that match the state
	Later int64 `json:"later"` // number of rows that were changed or added later, which were not compared
	Known bool  `json:"known"` // the state has a record of later changes; else nothing was compared
}

func (r *Result) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check compares sinks with the journal of a state.
type Check struct {
	State  *state.Store
	End    int64 // the last answer of the journal
	Pruned int64 // the last answer whose body was pruned; 0 if none was
	Reader *compare.Reader

	// Build opens a new sink in an empty folder. The source reads its tables once they are
	// published.
	Build func(ctx context.Context, folder string) (sinks.Adopter, compare.Source, error)
	Temp  string // folder for it

	At func(id, end int64) // called while answers are decoded
}

// Look compares the marks of a sink with the journal, and its current tables with their histories.
func (c *Check) Look(ctx context.Context, s Sink) (Result, error) {
	r := Result{Sink: s.Name, Path: s.Path, Answers: s.Mark, Behind: max(0, c.End-s.Mark), Away: s.Away,
		Rows: map[string]int64{}, Waiting: []string{}, Added: []string{}, Problems: append([]string{}, s.Problems...),
		Foreign: append([]string{}, s.Foreign...)}
	if len(r.Problems) > 0 {
		return r, nil
	}
	if s.Mark > c.End {
		r.Ahead = true
		ahead := load.AheadError{Sink: s.Name, Mark: s.Mark, End: c.End}
		r.problem("it holds answers up to %d, but the journal ends at %d: %s", s.Mark, c.End, ahead.Remedy())
		return r, nil
	}
	restores, err := c.State.Restores()
	if err != nil {
		return r, err
	}
	if lost := restores.LostWith(s.Name, s.Ops, s.Mark); lost != nil {
		r.problem("it holds answers %d to %d of the state that was lost, "+
			"and the journal of the restored one has others with these numbers", lost.Answers+1, s.Mark)
		return r, nil
	}
	if s.Mark < c.Pruned {
		r.problem("it holds answers up to %d, and the journal is pruned up to %d", s.Mark, c.Pruned)
		return r, nil
	}
	for _, t := range schema.Tables() {
		rows, err := c.Reader.Rows(ctx, s.Source, t)
		if err != nil {
			return r.unreadable(ctx, t, err)
		}
		r.Rows[t.Name] = rows.Count
		if rows.Last > s.Mark && !s.Waiting[t.Name] || rows.Count > 0 && rows.First < 1 {
			r.problem("table %s has rows of answers %d to %d, and the sink holds 1 to %d",
				t.Name, rows.First, rows.Last, s.Mark)
		}
		if s.Waiting[t.Name] {
			r.Waiting = append(r.Waiting, t.Name)
		}
	}
	if s.Source.File != "" { // Parquet files are those of the manifest
		for _, t := range schema.OpsTables() {
			if _, err := c.Reader.Count(ctx, s.Source, t); err != nil {
				return r.unreadable(ctx, t, err)
			}
		}
	}
	for _, t := range schema.Tables() {
		if t.History == nil || s.Waiting[t.Name] {
			continue
		}
		stale, err := c.Reader.Stale(ctx, s.Source, t)
		if err != nil {
			return r.unreadable(ctx, t, err)
		}
		if stale > 0 {
			r.problem("table %s does not agree with %s (keys: %d)", t.Name, t.History.Name, stale)
		}
	}
	return c.lookAtComments(ctx, s, r)
}

// lookAtComments compares the comments of each video with their history. A video has many comments,
// and its last answer may have none, so they cannot be compared by one row per key.
func (c *Check) lookAtComments(ctx context.Context, s Sink, r Result) (Result, error) {
	for _, t := range []*schema.Table{schema.Comments, schema.CommentsHistory, schema.CommentCounts} {
		if s.Waiting[t.Name] {
			return r, nil
		}
	}
	stale, err := c.Reader.StaleComments(ctx, s.Source)
	if err != nil {
		return r.unreadable(ctx, schema.Comments, err)
	}
	if stale > 0 {
		r.problem("table %s does not agree with %s (videos: %d)",
			schema.Comments.Name, schema.CommentsHistory.Name, stale)
	}
	return r, nil
}

// unreadable returns the result for a sink whose table cannot be read. The rest of the sink is then
// not read.
func (r Result) unreadable(ctx context.Context, t *schema.Table, err error) (Result, error) {
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	r.problem("table %s cannot be read: %v", t.Name, err)
	r.Away = slices.ContainsFunc(unrelated, func(cause string) bool { return strings.Contains(err.Error(), cause) })
	return r, nil
}

// unrelated are parts of DuckDB's errors that say nothing about the content of a sink, so that a rebuild would
// not help.
var unrelated = []string{
	"Out of Memory Error", "No space left on device", "Too many open files", "Permission denied",
}

// Read decodes the answers of the journal again and compares all rows of the sinks with them. It
// adds to the results of [Check.Look], which are in the order of the sinks.
func (c *Check) Read(ctx context.Context, all []Sink, results []Result) (err error) {
	folder, err := os.MkdirTemp(c.Temp, "check-")
	if err != nil {
		return fmt.Errorf("create a folder for tables built from the journal: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	built := map[int64]bool{}
	for i, s := range all {
		if built[s.Mark] || len(results[i].Problems) > 0 {
			continue
		}
		built[s.Mark] = true
		if err := c.readAt(ctx, filepath.Join(folder, fmt.Sprint(s.Mark)), s.Mark, all, results); err != nil {
			return err
		}
	}
	return nil
}

// readAt compares the sinks whose mark is the given answer.
func (c *Check) readAt(ctx context.Context, folder string, mark int64, all []Sink, results []Result) (err error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	like := c.like(mark, all, results)
	want, err := c.build(ctx, folder, mark, like)
	if err != nil {
		return err
	}
	for i, s := range all {
		if s.Mark != mark || len(results[i].Problems) > 0 {
			continue
		}
		if c.Pruned > 0 {
			results[i].Pruned = c.Pruned
			if s.Path != like.Path {
				results[i].Same = like.Path
			}
		}
		if results[i], err = c.compare(ctx, want, like, s, results[i]); err != nil {
			return err
		}
	}
	return nil
}

// like returns the sink whose older rows the others are compared with if the journal is pruned: the
// first of those that lack the fewest rows, preferably one with everything published.
func (c *Check) like(mark int64, all []Sink, results []Result) (like Sink) {
	waits := false
	for i, s := range all {
		if s.Mark != mark || len(results[i].Problems) > 0 {
			continue
		}
		waiting := len(results[i].Waiting) > 0
		if like.Name == "" || s.Lacks < like.Lacks || s.Lacks == like.Lacks && waits && !waiting {
			like, waits = s, waiting
		}
	}
	return like
}

// build creates a sink with the answers up to a mark. Rows of pruned answers are copied from the
// sink like.
func (c *Check) build(ctx context.Context, folder string, mark int64, like Sink) (want compare.Source, err error) {
	sink, want, err := c.Build(ctx, folder)
	if err != nil {
		return want, fmt.Errorf("open a sink to compare with: %w", err)
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	older := compare.CopyOptions{From: like.Source, UpTo: c.Pruned}
	if c.Pruned > 0 {
		if err := c.Reader.Copy(ctx, older, sink); err != nil {
			return want, err
		}
	}
	if err := load.Project(ctx, c.State, mark, sink, func(id int64) { c.At(id, mark) }); err != nil {
		return want, err
	}
	operations, err := load.Operations(c.State)
	if err != nil {
		return want, err
	}
	if err := sink.Publish(ctx, operations); err != nil || c.Pruned == 0 {
		return want, err
	}
	if err := c.Reader.Carry(ctx, older, want, sink); err != nil {
		return want, err
	}
	if err := c.Reader.Close(); err != nil { // its open file is about to be replaced
		return want, err
	}
	return want, sink.Publish(ctx, nil)
}

func (c *Check) compare(ctx context.Context, want compare.Source, like, s Sink, r Result) (Result, error) {
	r.ReadData = true
	for _, t := range schema.Tables() {
		if s.Waiting[t.Name] || c.Pruned > 0 && like.Waiting[t.Name] {
			continue
		}
		d, err := c.Reader.Compare(ctx, want, s.Source, t)
		if err != nil {
			return r.unreadable(ctx, t, err)
		}
		r.differ(t, d)
	}
	return c.compareOperations(ctx, want, s, r)
}

// compareOperations compares the operations tables with the state, except for rows that have
// changed in the state since they were last sent to the sink.
func (c *Check) compareOperations(ctx context.Context, want compare.Source, s Sink, r Result) (Result, error) {
	for _, t := range schema.OpsTables() {
		changed, known, err := c.State.OpsChanged(t.Name, s.Ops)
		if err != nil {
			return r, err
		}
		if r.Operations.Known = known; !known { // if one table is unknown, all are
			return r, nil
		}
		d, err := c.Reader.CompareOperations(ctx, want, s.Source, t, changed)
		if err != nil {
			return r.unreadable(ctx, t, err)
		}
		r.Operations.Rows += d.Rows
		r.Operations.Later += int64(len(changed))
		r.differ(t, d)
	}
	return r, nil
}

// differ records a difference of a table.
func (r *Result) differ(t *schema.Table, d compare.Difference) {
	for _, column := range d.Added {
		r.Added = append(r.Added, t.Name+"."+column)
	}
	if !d.Any() {
		return
	}
	r.problem("table %s: rows %s", t.Name, d)
	for _, e := range d.Examples {
		r.problem("table %s: %s", t.Name, e)
	}
}
