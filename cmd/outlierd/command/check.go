package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/internal/durable"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/bucket"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/iceberg"
	"outlierd/sinks/parquet"
	"outlierd/sinks/warehouse"
	"outlierd/sync/check"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

func checkCommand(g *globals) *cobra.Command {
	var readData bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the state and the tables for damage",
		Long: `Check the state in data/state: the database file, the sums of the ledger, and the checksum
of every answer in the journal. Then check the warehouse and each of its copies: which answers
they hold, whether their tables have the same number of rows, and whether all files are there.
Nothing is changed. Exit code 1 if there is damage or a difference. The warehouse is read from a
copy below data/state/tmp.

With --read-data every answer is decoded again, and every row is compared with the decoded
answers, or for the tables ops.* with the state. That takes as long as 'outlierd rebuild', and
as much space below data/state/tmp as three copies of the warehouse.`,
		RunE: func(c *cobra.Command, _ []string) error { return runCheck(c.Context(), g, readData) },
	}
	c.Flags().BoolVar(&readData, "read-data", false, "compare every row with the journal and the state")
	return c
}

// runCheck verifies the state and the sinks and prints what was checked.
func runCheck(ctx context.Context, g *globals, readData bool) error {
	config, err := g.loadToRead()
	if err != nil {
		return err
	}
	if err := warnErased(ctx, g, config); err != nil {
		return err
	}
	seen, err := peek(ctx, config)
	if err != nil {
		return err
	}
	var found checked
	found.Checked, err = seen.Check(ctx)
	if err = errors.Join(err, seen.Close()); err != nil {
		return err
	}
	if found.Sinks, err = checkSinks(ctx, g, config, readData); err != nil {
		return err
	}
	var away error // the results of the sinks do not depend on it
	found.Buckets, away = checkBuckets(ctx, config, g.world.env, readData)
	if err := g.out.print(found, "%s", found.describe(g.out.look())); err != nil {
		return err
	}
	return errors.Join(sinksError(found.Sinks), bucketsError(found.Buckets), away)
}

// checkBuckets checks the buckets that sinks are copied to.
func checkBuckets(ctx context.Context, config *job.Config, env lookup, readData bool) (all []bucket.Report, err error) {
	for _, s := range config.Sinks {
		if s.Bucket == "" || isMissing(sinkPath(config, s)) {
			continue
		}
		r, err := bucket.New(sinkPath(config, s), bucketOf(config, s, env)).Check(ctx, readData)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// bucketsError returns an error that names the buckets with problems, or nil.
func bucketsError(all []bucket.Report) error {
	for _, r := range all {
		if len(r.Problems) > 0 {
			return fmt.Errorf("%s: not what the folder has. The next run uploads what is missing or too short; "+
				"after damage 'outlierd rebuild' uploads everything again", r.Address)
		}
	}
	return nil
}

// sinksError returns an error that names the sinks with problems, and what to do, or nil.
func sinksError(all []check.Tables) error {
	var err error
	add := func(what string, has func(*check.Tables) bool) (names []string) {
		for i := range all {
			if t := &all[i]; has(t) && !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %s", strings.Join(names, ", "), what))
		}
		return names
	}
	ahead := add("more answers than the state, which is lost or an older copy. Restore its newest copy: a rebuild would lose these answers",
		func(t *check.Tables) bool { return t.Ahead })
	add("not checked, because it cannot be used now", func(t *check.Tables) bool { return t.Away && !t.Ahead })
	add("different from the state. To make all tables again:\n  outlierd rebuild", func(t *check.Tables) bool {
		return len(t.Problems) > 0 && !t.Away && !slices.Contains(ahead, t.Name)
	})
	add("files of other programs in the folders of tables. Move them to another folder: outlierd never touches them",
		func(t *check.Tables) bool { return len(t.Foreign) > 0 })
	return err
}

// checkSinks checks the warehouse and its copies.
func checkSinks(ctx context.Context, g *globals, config *job.Config, readData bool) (all []check.Tables, err error) {
	log := g.logger()
	memory, err := duckdbMemory(g.world.env)
	if err != nil {
		return nil, err
	}
	temp, err := newTemporary(config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	reader := compare.Open(filepath.Join(temp.path, "sort"))
	defer func() { err = errors.Join(err, reader.Close()) }()
	// The copies are read before the state, so that the state has everything that they show, even while
	// another process publishes.
	for _, s := range config.Sinks {
		all = append(all, openPublished(ctx, config, s, g.world.env, filepath.Join(temp.path, s.Kind), readData))
	}
	seen, err := peek(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, seen.Close()) }()
	path := warehouseOptions(config, memory, log).Path
	all = append(openWarehouse(ctx, seen, path, temp.path), all...)
	c := &check.Check{State: seen, Temp: temp.path, Reader: reader}
	c.Build = func(ctx context.Context, path string, like sinks.Marks, file string) (compare.Source, error) {
		made := warehouseOptions(config, memory, log)
		made.Path, made.Older, made.Uncommented = path, nil, true
		w := warehouse.New(made)
		err := fillWarehouse(ctx, seen, w, older{upTo: c.Pruned, file: file}, like,
			journalProgress(g.out, log, "compared with the journal"))
		return compare.Source{Name: "the journal", File: path}, errors.Join(err, w.Close())
	}
	if c.End, err = seen.Journal.End(); err != nil {
		return nil, err
	}
	if c.Pruned, err = seen.Journal.Pruned(); err != nil {
		return nil, err
	}
	if c.End > 0 && isMissing(path) { // its copies are what is left
		for i := range all {
			all[i].Missing = false
		}
	}
	for i := range all {
		if err := c.Look(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	if readData {
		err = c.Read(ctx, all)
		g.out.block.Erase()
	} else {
		check.CompareCounts(all)
	}
	return all, err
}

// openWarehouse returns the tables of the warehouse if no process uses it. They are read from a copy in a folder, which
// blocks no run that starts meanwhile.
func openWarehouse(ctx context.Context, seen *state.Store, path, folder string) []check.Tables {
	before, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || !seen.DB.Idle() || !isMissing(path+".wal") {
		return nil
	}
	copied := filepath.Join(folder, warehouse.Name)
	if err == nil {
		err = database.Copy(path, copied, 0o600)
		after, _ := os.Stat(path)
		if after == nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
			return nil // a run has written it meanwhile, so an error may be of a block that was half written
		}
	}
	if err != nil {
		return []check.Tables{withProblem(check.Tables{Name: "warehouse", Path: path}, err)}
	}
	t := openFile(ctx, "warehouse", copied, "")
	t.Path, t.Source.Name = path, report.Path(path)
	return []check.Tables{t}
}

// openPublished returns the published tables of a copy. The files of a Parquet folder are linked into the
// folder keep, because a publication replaces some of them; with verify, their checksums are compared. The
// rows of a lake are copied there.
func openPublished(ctx context.Context, config *job.Config, s job.Sink, env lookup, keep string, verify bool) check.Tables {
	switch path := sinkPath(config, s); {
	case s.Lake != nil:
		return copyLake(ctx, config, s, env, keep)
	case s.Kind == job.SinkDuckDB:
		return openFile(ctx, s.Kind, path, keep)
	default:
		return openFolder(ctx, path, keep, verify)
	}
}

// isEmptyFolder reports whether a folder has nothing in it, such as one for a volume that was just made.
func isEmptyFolder(path string) bool {
	found, err := os.ReadDir(path)
	return err == nil && !slices.ContainsFunc(found, func(e fs.DirEntry) bool { return e.Name() != "lost+found" })
}

// copyLake copies the rows that this state folder has written to a lake to a folder, from which they are
// read.
func copyLake(ctx context.Context, config *job.Config, s job.Sink, env lookup, folder string) check.Tables {
	t := check.Tables{Name: s.Kind, Path: sinkPath(config, s)}
	found, err := exportLake(ctx, config, s, env, folder)
	if err != nil {
		t = withProblem(t, err)
		t.Away = !errors.Is(err, iceberg.ErrRebuild)
		return t
	}
	t.Has, t.Source = found.Has, compare.Source{Name: "the lake", Parquet: found.Paths}
	return t
}

func exportLake(ctx context.Context, config *job.Config, s job.Sink, env lookup, folder string) (*iceberg.Rows, error) {
	seen, err := peek(ctx, config)
	if err != nil {
		return nil, err
	}
	instance, err := seen.Instance()
	if err := errors.Join(err, seen.Close()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return iceberg.Read(ctx, lakeOf(config, s, instance, env), folder)
}

// openFile reads the marks of a DuckDB file. Its rows are read later, from the same file even if it is replaced
// meanwhile: it is kept in the folder keep, if that is not "". One with a log beside it was opened by another program.
func openFile(ctx context.Context, name, path, keep string) check.Tables {
	t := check.Tables{Name: name, Path: path, Source: compare.Source{Name: report.Path(path), File: path}}
	_, err := os.Stat(path)
	if err == nil {
		err = database.CheckFile(path, "it is damaged, or another program's")
	} else {
		t.Missing = isMissing(path)
	}
	if err == nil && isMissing(path+".wal") {
		t.Source.File, err = durable.Keep(path, keep, filepath.Base(path))
	}
	if err == nil {
		t.Has, err = warehouse.ReadMarks(ctx, t.Source.File)
	}
	return withProblem(t, err)
}

// withProblem returns tables with the error of reading them added to their problems.
func withProblem(t check.Tables, err error) check.Tables {
	if err != nil {
		t.Problems = append(t.Problems, "it cannot be read: "+err.Error())
		t.Away = slices.ContainsFunc(unrelated, func(cause error) bool { return errors.Is(err, cause) })
	}
	return t
}

// unrelated are causes of errors that say nothing about the content of tables, so that a rebuild would not
// help: there is no room for what a check writes, too many files are open, this user may not read it, or it is of
// another version.
var unrelated = []error{parquet.ErrOtherVersion, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, fs.ErrPermission}

func openFolder(ctx context.Context, path, keep string, verify bool) check.Tables {
	t := check.Tables{Name: job.SinkParquet, Path: path}
	folder, err := parquet.Look(ctx, path, keep, schema.AllTables())
	if err != nil {
		t.Missing = isMissing(path) || isEmptyFolder(path)
		return withProblem(t, err)
	}
	t.Has, t.Problems, t.Foreign = folder.Marks, folder.Problems, folder.Foreign
	t.Source = compare.Source{Name: report.Path(path), Parquet: folder.Paths}
	if verify {
		damaged, err := folder.Verify(ctx)
		t = withProblem(t, err)
		t.Problems = append(t.Problems, damaged...)
	}
	return t
}
