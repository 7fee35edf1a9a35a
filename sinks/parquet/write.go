package parquet

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// writer writes the parts of a table that are not as the warehouse has them.
type writer struct {
	*Copy
	db     *database.DB
	table  *schema.Table
	marks  sinks.Marks
	listed map[string]File    // by name
	los    map[string][]int64 // by folder: what the listed parts begin with, ascending
	shown  int64              // rows of higher versions are not published yet
	form   string             // digest of the columns and settings of the files now
	afresh bool               // write all parts again
	upTo   int64              // rows of answers up to this one may have been deleted since the copy was published; 0 for none

	weighed part     // in which weights are the rows
	weights []weight // ascending
	staged  []string // parts that were written under temporary names
}

func (c *Copy) writerOf(db *database.DB, t *schema.Table, old Manifest, marks sinks.Marks) (*writer, error) {
	w := &writer{Copy: c, db: db, table: t, marks: marks, listed: map[string]File{}, los: map[string][]int64{}, form: c.options.formOf(t)}
	w.shown = old.Answers
	if t.IsOps() {
		w.shown = old.Ops
		w.afresh = old.Ops > marks.Ops // the state is older than the one that the copy was made from
	}
	had, err := sinks.ParseOmitted(string(old.Omitted))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	has, err := sinks.ParseOmitted(marks.Omitted)
	if err != nil {
		return nil, err
	}
	w.afresh = w.afresh || !slices.Equal(had.Columns[t.Name], has.Columns[t.Name]) || old.Warehouse != marks.Warehouse ||
		old.Forms[t.FileName()] != w.form
	// Also what was to be deleted from answers that were not there yet.
	if w.afresh || had.UpTo[t.Name] != has.UpTo[t.Name] || has.UpTo[t.Name] > w.shown {
		w.upTo = has.UpTo[t.Name]
	}
	if w.afresh && t.Kind == schema.Changes { // with fewer columns it has fewer changes
		w.upTo = sinks.Whole
	}
	for _, f := range old.Tables[t.FileName()] {
		folder := path.Dir(f.Name)
		w.listed[f.Name], w.los[folder] = f, append(w.los[folder], f.Lo)
	}
	for _, los := range w.los {
		slices.Sort(los)
	}
	return w, nil
}

// stageParts stages the parts with changed rows, which have these placing numbers, by folder. It returns all files of
// the table.
func (w *writer) stageParts(ctx context.Context, changed map[string][]int64) (files []File, err error) {
	folders := map[string][]int64{}
	maps.Copy(folders, changed)
	for folder := range w.los {
		folders[folder] = changed[folder]
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		numbers, los := folders[folder], w.los[folder]
		if len(los) == 0 || w.afresh || len(numbers) > 0 && slices.Max(numbers) >= los[len(los)-1] {
			if los, err = w.addParts(ctx, folder, los); err != nil {
				return nil, fmt.Errorf("divide %s into parts: %w", folder, err)
			}
		}
		hit := map[int]bool{}
		for _, n := range numbers {
			hit[partAt(los, n)] = true
		}
		for i, p := range partsOf(w.table, folder, los) {
			f, ok := w.listed[nameOf(folder, p.lo)]
			due := w.afresh || !ok || hit[i] || f.Bytes == lost
			if due || p.lo <= w.upTo {
				size, err := w.sizeOf(ctx, p)
				if err == nil && size.rows == 0 && p.lo <= w.upTo {
					continue
				}
				if err == nil && (due || size.rows != f.Rows) {
					f, err = w.stagePart(ctx, p, size)
				}
				if err != nil {
					return nil, fmt.Errorf("write %s: %w", nameOf(folder, p.lo), err)
				}
			}
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// findChanges returns the placing numbers of rows that were written or deleted since the copy was published, by table
// and folder. If all rows of a table are to be written, it has one number of each folder. It runs one query for all
// tables.
func findChanges(ctx context.Context, db *database.DB, writers []*writer) (map[string]map[string][]int64, error) {
	var some []string
	for _, w := range writers {
		of, placing := fmt.Sprintf("SELECT %s AS name, ", database.Text(w.table.FileName())), database.Name(w.table.Placing())
		if w.afresh {
			placing = "0::BIGINT"
		}
		query := of + fmt.Sprintf("%s AS day, %s AS placing FROM %s", dayOf(w.table), placing, database.TableName(w.table))
		if !w.afresh {
			query += fmt.Sprintf(" WHERE %s > %d", database.Name(w.table.Version()), w.shown)
		}
		some = append(some, query)
		if !w.afresh && !isDated(w.table) {
			some = append(some, of+fmt.Sprintf("'', \"placing\" FROM warehouse.outlierd.deleted WHERE table_name = %s AND version > %d",
				database.Text(w.table.Name), w.shown))
		}
	}
	rows, err := db.Query(ctx, "SELECT DISTINCT * FROM ("+strings.Join(some, " UNION ALL ")+")")
	changed := map[string]map[string][]int64{}
	for _, r := range rows {
		table := r[0].(string)
		if changed[table] == nil {
			changed[table] = map[string][]int64{}
		}
		folder := path.Join(table, r[1].(string))
		changed[table][folder] = append(changed[table][folder], r[2].(int64))
	}
	return changed, err
}

// addParts adds the parts of a folder for new rows that do not fit into its last part.
func (w *writer) addParts(ctx context.Context, folder string, los []int64) (_ []int64, err error) {
	last, published := part{w.table, folder, 0, math.MaxInt64, true}, int64(math.MinInt64)
	if len(los) > 0 {
		parts := partsOf(w.table, folder, los)
		last = parts[len(parts)-1]
		published = w.listed[nameOf(folder, last.lo)].Hi
		if !w.table.IsOps() { // a key comes back with the number of its first answer
			published = max(published, w.shown)
		}
	}
	w.weighed = last
	w.weights, err = weighRows(ctx, w.db, last)
	more := w.limit.cutRows(w.weights, published)
	if len(los) > 0 && len(more) > 0 {
		more = more[1:]
	}
	return slices.Concat(los, more), err
}

// adoptFiles returns the parts in the folder of a lost manifest that a table may have. Readers may have found any row
// in the last one, so that new rows go there, too.
func adoptFiles(t *schema.Table, sizes map[string]int64) (files []File) {
	for name := range sizes {
		folder := t.FileName()
		if isDated(t) {
			folder = path.Join(folder, path.Base(path.Dir(name)))
			if _, err := time.Parse("date="+time.DateOnly, path.Base(folder)); err != nil {
				continue
			}
		}
		if path.Dir(name) == folder {
			files = append(files, File{Name: name, Bytes: lost, Lo: loOf(name), Hi: math.MaxInt64})
		}
	}
	return files
}

// stagePart writes a part with rows of that size under its temporary name.
func (w *writer) stagePart(ctx context.Context, p part, size weight) (f File, err error) {
	f = File{Name: nameOf(p.folder, p.lo), Rows: size.rows, Lo: p.lo, Hi: size.placing}
	if err := w.makeFolder(p.folder); err != nil {
		return f, err
	}
	out, err := w.createFile(temporary(f.Name))
	if err != nil {
		return f, err
	}
	defer out.Close()
	// DuckDB would follow a symbolic link in a path.
	query, settings := w.options.copyFrom(w.table, p.where())
	copied, err := w.db.Exec(ctx, fmt.Sprintf("COPY (%s) TO '/proc/self/fd/%d' (%s, ROW_GROUP_SIZE %d, KV_METADATA {%s: %s, %s: '%d'})",
		query, out.Fd(), settings, groupRows(size), database.Text("outlierd.warehouse"),
		database.Text(w.marks.Warehouse), database.Text("outlierd.lo"), p.lo))
	if err == nil && copied != f.Rows {
		err = fmt.Errorf("DuckDB wrote %d rows of %d", copied, f.Rows)
	}
	if err != nil {
		return f, err
	}
	if f.SHA256, f.Bytes, err = checksum(out); err != nil {
		return f, err
	}
	w.staged = append(w.staged, f.Name)
	return f, w.syncFile(temporary(f.Name), out)
}
