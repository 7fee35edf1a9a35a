// Package parquet makes a folder of Parquet files from the warehouse, for readers that use a glob.
//
//	<table>/part-<lo>.parquet                    rows of a table from the placing number lo up to the next part's
//	<table>/date=YYYY-MM-DD/part-<lo>.parquet    the same of a table that only grows, by the UTC day of observed_at
//	_manifest/latest.json                        what the copy holds, and its files
//	_manifest/next.json, .part-<lo>.parquet.tmp  a publication that is under way
//
// All rows of a key have one placing number for ever ([schema.Table.Placing]), so a key never leaves its part. A
// publication writes the parts with changed rows again, whole. New rows come into the last part until it is full, and
// then into new ones. Each part is replaced by one rename, and none is ever merged, or divided; one is removed when the
// warehouse has deleted all of its rows, see [sinks.Omitted]. So whatever a reader opens while a publication is under
// way, a glob for the files of a table has every key exactly once, some with their old rows and some with the new ones.
// Between two renames a reader may find one table with the newest answers and another one without them.
//
// A publication writes all parts under temporary names, then next.json, which is the commit, renames the parts, removes
// those whose rows are gone, and then renames next.json to latest.json. What a kill interrupts before the commit is
// done again; after it, the next opening finishes the renames, and its inspection the removals.
//
// The manifest is the authority. Files that it lists and that are missing, of another size or no regular
// files are written again. The sizes are compared by each process, after an error, and once a day.
// A copy of another warehouse, or one whose manifest is missing or damaged, is written again over the parts that are
// there. Files with other names are never touched, so a folder of another version is refused: readers would find its
// rows beside the new ones.
package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/warehouse"
)

// Options say where the files are.
type Options struct {
	Dir string

	// Constant is one more column of all files, with the same value in all rows; none if it has no name. FieldIDs has
	// its id.
	Constant Constant

	// FieldIDs returns the field ids of a table's columns, in the syntax of COPY. nil means numbers that follow
	// from their names.
	FieldIDs func(*schema.Table) string
}

// Constant is a column with one value.
type Constant struct{ Name, Value string }

var _ sinks.Copy = (*Copy)(nil)

// Copy is a folder of Parquet files. It is used by one goroutine at a time.
type Copy struct {
	*folder   // open during a call
	warehouse *warehouse.Warehouse
	options   Options

	place     fs.FileInfo // the folder in the last call; nil before the first one, and after an error
	inspected time.Time   // when the files in it were last compared with the manifest; zero if they were not

	limit limit // of parts; tests lower it

	// step is called before every change of the disk with a description of it. Tests make it fail.
	step func(what string) error
	now  func() time.Time // tests replace it
}

// inspectAfter is how often the files are compared with the manifest.
const inspectAfter = 24 * time.Hour

// New returns the copy of w. It opens the folder for each call only: another one may take its place meanwhile. It makes
// the folder in the first call, and after an error.
func New(w *warehouse.Warehouse, o Options) *Copy {
	return &Copy{warehouse: w, options: o, limit: defaultLimit, step: func(string) error { return nil }, now: time.Now}
}

// Name implements [sinks.Copy].
func (c *Copy) Name() string { return "parquet" }

// Close implements [sinks.Copy]. The copy can be used again; the files are then inspected.
func (c *Copy) Close() error {
	c.place = nil
	return nil
}

// withFolder opens the folder, finishes a publication that a kill has interrupted, and calls do.
func (c *Copy) withFolder(do func() error) error {
	err := c.openFolder()
	if err != nil {
		err = fmt.Errorf("folder of the Parquet files: %w", err)
	} else {
		if err = c.recoverPublication(); err == nil {
			err = do()
		}
		err = errors.Join(err, c.root.Close())
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

func (c *Copy) openFolder() (err error) {
	if c.place == nil {
		if err := os.MkdirAll(c.options.Dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Access(c.options.Dir, unix.W_OK); err != nil {
		return &os.PathError{Op: "write to", Path: c.options.Dir, Err: err}
	}
	place, err := os.Stat(c.options.Dir)
	if err != nil {
		return err
	}
	if !os.SameFile(place, c.place) {
		c.place, c.inspected = place, time.Time{}
	}
	c.folder, err = openFolder(c.options.Dir)
	return err
}

// Shows implements [sinks.Copy].
func (c *Copy) Shows(context.Context) (marks sinks.Marks, err error) {
	err = c.withFolder(func() error {
		m, err := c.readManifest(ManifestName)
		marks = m.Marks()
		return err
	})
	return marks, err
}

// Publish implements [sinks.Copy].
func (c *Copy) Publish(ctx context.Context) error {
	return c.withFolder(func() error { return c.publishChanges(ctx) })
}

func (c *Copy) publishChanges(ctx context.Context) error {
	old, err := c.readManifest(ManifestName)
	if err != nil {
		return err
	}
	marks, err := c.warehouse.Marks(ctx)
	if err != nil {
		return err
	}
	var surplus []string
	inspect := c.now().Sub(c.inspected) > inspectAfter || old.Version == 0
	if inspect {
		if surplus, err = c.inspectFolder(&old); err != nil {
			return err
		}
	}
	if inspect || old.Marks() != marks {
		if err := c.updateFolder(ctx, old, surplus, marks); err != nil {
			return err
		}
	}
	if inspect {
		c.inspected = c.now()
	}
	return nil
}

// lost is the size of a listed file that must be written again.
const lost = -1

// inspectFolder compares the folder with the manifest. It marks listed files that are not as they were written,
// removes the parts of publications that were not committed, and returns the parts that are not listed. Without
// a manifest all parts in the folder count as listed and lost.
func (c *Copy) inspectFolder(old *Manifest) (surplus []string, err error) {
	found, err := c.listFiles(c.warehouse.Tables())
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, e := range found {
		switch {
		case temporaryName().MatchString(e.name):
			if err := c.removeFile(e.name); err != nil {
				return nil, err
			}
		case !partName().MatchString(e.name):
		case e.IsDir():
			return nil, fmt.Errorf("%s is a folder and not a file: remove it", filepath.Join(c.dir, e.name))
		case e.Mode().IsRegular():
			sizes[e.name] = e.Size()
		default:
			sizes[e.name] = lost
		}
	}
	if old.Version == 0 {
		old.Tables = map[string][]File{}
		for _, t := range c.warehouse.Tables() {
			old.Tables[t.FileName()] = adoptFiles(t, sizes)
		}
	}
	for _, files := range old.Tables {
		for i, f := range files {
			if size, ok := sizes[f.Name]; !ok || size != f.Bytes {
				files[i].Bytes = lost
			}
			delete(sizes, f.Name)
		}
	}
	return slices.Collect(maps.Keys(sizes)), nil
}

// updateFolder makes the folder equal to the warehouse. old is the folder's manifest, and surplus are parts that it
// does not list.
func (c *Copy) updateFolder(ctx context.Context, old Manifest, surplus []string, marks sinks.Marks) error {
	if old.Warehouse == marks.Warehouse && old.Answers > marks.Answers {
		return fmt.Errorf("%s has the answers up to %d, the warehouse those up to %d only", c.dir, old.Answers, marks.Answers)
	}
	next := Manifest{Version: ManifestVersion, Warehouse: marks.Warehouse, Answers: marks.Answers, Ops: marks.Ops,
		Omitted: json.RawMessage(marks.Omitted)}
	var staged []string
	err := c.warehouse.Run(ctx, func(db *database.DB) (err error) {
		found, err := db.Marks(ctx)
		if err != nil {
			return err
		}
		if found.Marks != marks {
			return errors.New("the warehouse was damaged and has been replaced: publish again")
		}
		var writers []*writer
		for _, t := range c.warehouse.Tables() {
			w, err := c.writerOf(db, t, old, marks)
			if err != nil {
				return err
			}
			writers = append(writers, w)
		}
		changed, err := findChanges(ctx, db, writers)
		if err != nil {
			return fmt.Errorf("find what has changed: %w", err)
		}
		staged, next.Forms, next.Tables = nil, map[string]string{}, map[string][]File{}
		for _, w := range writers {
			name := w.table.FileName()
			files, err := w.stageParts(ctx, changed[name])
			if err != nil {
				return fmt.Errorf("table %s: %w", w.table.Name, err)
			}
			next.Forms[name] = w.form
			if staged = append(staged, w.staged...); len(files) > 0 {
				next.Tables[name] = files
			}
		}
		return nil
	})
	if err != nil || len(staged)+len(surplus) == 0 && old.Marks() == marks {
		return err
	}
	kept := next.All()
	dropped := slices.DeleteFunc(slices.AppendSeq(surplus, maps.Keys(old.All())), func(name string) bool {
		_, ok := kept[name]
		return ok
	})
	slices.Sort(dropped)
	return c.commitParts(next, staged, dropped)
}
