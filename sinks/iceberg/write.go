//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks"
)

// Write implements [sinks.Sink].
func (s *Sink) Write(ctx context.Context, b sinks.Batch) error {
	mark, err := s.Watermark(ctx)
	if err != nil {
		return err
	}
	if b.Lo != mark {
		return fmt.Errorf("batch (%d, %d] does not follow watermark %d of the lake", b.Lo, b.Hi, mark)
	}
	for _, part := range b.Parts {
		if err := s.tables[part.Table].write(ctx, b.Hi, part); err != nil {
			return s.fail(fmt.Errorf("table %s: %w", part.Table.Name, err))
		}
	}
	return s.fail(s.advance(ctx, watermarkName, b.Lo, b.Hi))
}

// write commits the rows of a batch that ends at hi, except those of answers that the table already
// has.
func (l *lakeTable) write(ctx context.Context, hi int64, part schema.Part) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	mark, err := l.mark(watermarkName)
	if err != nil || mark >= hi {
		return err
	}
	part, err = after(ctx, part, mark)
	if err != nil {
		return err
	}
	defer part.Release()
	rows, gone, err := sinks.Fold(ctx, part)
	if err != nil {
		return err
	}
	defer rows.Release()
	if gone != nil {
		defer gone.Release()
	}
	if l.of.Kind == schema.Changes {
		if rows, err = l.changed(ctx, rows); err != nil {
			return err
		}
		defer rows.Release()
	}
	c := &change{table: l, rows: rows, gone: gone, mark: hi}
	return c.commit(ctx)
}

// after returns the rows of a part whose answers are after mark. The caller releases the result.
func after(ctx context.Context, part schema.Part, mark int64) (schema.Part, error) {
	newer := func(rows arrow.RecordBatch) (arrow.RecordBatch, error) {
		answers := rows.Column(rows.Schema().FieldIndices(sinks.ResponseID)[0]).(*array.Int64)
		var which []int
		for i := range answers.Len() {
			if answers.Value(i) > mark {
				which = append(which, i)
			}
		}
		return sinks.Pick(ctx, rows, which)
	}
	rows, err := newer(part.Rows)
	if err != nil {
		return part, err
	}
	some := schema.Part{Table: part.Table, Rows: rows}
	if part.Gone != nil {
		if some.Gone, err = newer(part.Gone); err != nil {
			rows.Release()
			return part, err
		}
	}
	return some, nil
}

// changed returns the rows that differ from the previous row of their key. The caller releases them.
func (l *lakeTable) changed(ctx context.Context, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := l.refresh(ctx); err != nil {
		return nil, err
	}
	if l.kept == nil {
		kept := sinks.NewChanges(l.of)
		err := l.each(ctx, func(old arrow.RecordBatch) error { kept.AddStored(old); return nil })
		if err != nil {
			return nil, fmt.Errorf("read the rows kept last: %w", err)
		}
		l.kept = kept
	}
	return sinks.Pick(ctx, rows, l.kept.Add(rows))
}

// change is a commit of rows to a table, and of deletes of the rows that they replace.
type change struct {
	table *lakeTable
	rows  arrow.RecordBatch
	gone  arrow.RecordBatch // identities whose rows are deleted, without history for new rows; may be nil
	mark  int64             // the new watermark of the table; 0 leaves it unchanged

	made    *index // the index by which the files below were written
	adds    []added
	dead    map[string][]int64 // file → positions of rows to delete
	deletes []iceberg.DataFile // files with these position deletes
}

// added is a new data file and its rows.
type added struct {
	file iceberg.DataFile
	rows arrow.RecordBatch
}

// replaces reports whether new rows of the table replace older ones.
func (l *lakeTable) replaces() bool { return l.isOps() || l.of.Identity() != nil }

func (l *lakeTable) isOps() bool { return slices.Contains(l.sink.options.Ops, l.of) }

// commit commits the change, unless it is empty. It returns an error if another process has written the
// same answers as this writer.
func (c *change) commit(ctx context.Context) error {
	l := c.table
	defer c.release()
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		mark, err := l.mark(watermarkName)
		if err != nil {
			return nil, err
		}
		if c.mark > 0 && mark >= c.mark {
			return nil, fmt.Errorf("another process has written as %s meanwhile", l.sink.options.Instance)
		}
		if err := c.prepare(ctx); err != nil {
			return nil, err
		}
		if len(c.adds) == 0 && len(c.deletes) == 0 {
			return nil, nil
		}
		if err := c.stage(ctx, tx); err != nil {
			return nil, err
		}
		properties := iceberg.Properties{}
		if c.mark > 0 {
			properties[l.sink.property(watermarkName)] = strconv.FormatInt(c.mark, 10)
		}
		return properties, nil
	})
	if err != nil {
		return err
	}
	c.note()
	return nil
}

func (c *change) release() {
	for _, a := range c.adds {
		a.rows.Release()
	}
	c.adds = nil
}

// prepare writes the files of the change. When a commit is retried it keeps them, unless the index has
// changed, since then other rows may have to be deleted.
func (c *change) prepare(ctx context.Context) error {
	l := c.table
	if !l.replaces() {
		if c.adds != nil {
			return nil
		}
		return c.writeRows(ctx, c.rows)
	}
	if err := l.buildIndex(ctx); err != nil {
		return err
	}
	if c.made == l.index {
		return nil
	}
	if err := c.discard(); err != nil {
		return err
	}
	c.made, c.dead = l.index, map[string][]int64{}
	rows, err := c.replace(ctx)
	if err != nil {
		return err
	}
	defer rows.Release()
	if err := c.writeRows(ctx, rows); err != nil {
		return err
	}
	days := map[string]map[string][]int64{}
	dayOf := map[string]*iceberg.Date{}
	for name, dead := range c.dead {
		day := l.dayOf(l.own.data[name])
		if days[dayName(day)] == nil {
			days[dayName(day)], dayOf[dayName(day)] = map[string][]int64{}, day
		}
		days[dayName(day)][name] = dead
	}
	for _, name := range sortedKeys(days) {
		file, err := l.writeDeletes(dayOf[name], days[name])
		if err != nil {
			return err
		}
		c.deletes = append(c.deletes, file)
	}
	return nil
}

// discard deletes the files that an earlier call of prepare wrote.
func (c *change) discard() error {
	var errs []error
	for _, a := range c.adds {
		errs = append(errs, c.table.files.Remove(a.file.FilePath()))
	}
	for _, file := range c.deletes {
		errs = append(errs, c.table.files.Remove(file.FilePath()))
	}
	c.release()
	c.deletes = nil
	return errors.Join(errs...)
}

// replace adds the rows that the new rows replace to c.dead, and returns the new rows with the history
// of their keys continued. The caller releases them.
func (c *change) replace(ctx context.Context) (arrow.RecordBatch, error) {
	l := c.table
	type old struct {
		file string
		row  int64
	}
	without := map[uint64]bool{}
	kill := func(hash uint64) (last *old) {
		l.index.find(hash, func(file string, row int64) {
			c.dead[file] = append(c.dead[file], row)
			last = &old{file, row}
		})
		return last
	}
	if c.gone != nil {
		keys := sinks.KeysOf(c.gone, l.identity())
		for i := range int(c.gone.NumRows()) {
			hash := l.index.hash(keys.At(i))
			without[hash] = true
			kill(hash)
		}
	}
	pairs := map[string][]rowPair{}
	keys, met := sinks.KeysOf(c.rows, l.identity()), map[uint64]bool{}
	for i := range int(c.rows.NumRows()) {
		if keys.SameAsPrevious(i) {
			continue
		}
		hash := l.index.hash(keys.At(i))
		if met[hash] || without[hash] {
			continue
		}
		met[hash] = true
		if o := kill(hash); o != nil {
			pairs[o.file] = append(pairs[o.file], rowPair{o.row, i})
		}
	}
	if l.of.Kind != schema.Current || l.isOps() {
		c.rows.Retain()
		return c.rows, nil
	}
	return c.continueHistory(ctx, pairs)
}

// writeRows writes rows into a data file for each day, and adds the files to c.adds.
func (c *change) writeRows(ctx context.Context, rows arrow.RecordBatch) error {
	l := c.table
	c.adds = []added{}
	if rows.NumRows() == 0 {
		return nil
	}
	for _, d := range l.split(rows) {
		some, err := sinks.Pick(ctx, rows, d.rows)
		if err != nil {
			return err
		}
		file, err := l.writeData(d.day, func(put func(arrow.RecordBatch) error) error { return put(some) })
		if err != nil {
			some.Release()
			return err
		}
		c.adds = append(c.adds, added{file, some})
	}
	return nil
}

// daily has the rows of one day.
type daily struct {
	day  *iceberg.Date // in UTC; nil for rows without a time and tables without days
	rows []int
}

// split groups rows by day if the table is partitioned by day.
func (l *lakeTable) split(rows arrow.RecordBatch) []daily {
	if !l.byDay() {
		all := make([]int, rows.NumRows())
		for i := range all {
			all[i] = i
		}
		return []daily{{nil, all}}
	}
	observed := rows.Column(rows.Schema().FieldIndices(sinks.ObservedAt)[0]).(*array.Timestamp)
	days := map[string]*daily{}
	for i := range observed.Len() {
		var day *iceberg.Date
		if observed.IsValid(i) {
			day = new(iceberg.Date(floor(int64(observed.Value(i)), (24 * time.Hour).Microseconds())))
		}
		if days[dayName(day)] == nil {
			days[dayName(day)] = &daily{day: day}
		}
		d := days[dayName(day)]
		d.rows = append(d.rows, i)
	}
	var all []daily
	for _, name := range sortedKeys(days) {
		all = append(all, *days[name])
	}
	return all
}

func floor(a, b int64) int64 {
	if a < 0 {
		return (a - b + 1) / b
	}
	return a / b
}

func dayName(day *iceberg.Date) string {
	if day == nil {
		return ""
	}
	return day.ToTime().Format(time.DateOnly)
}

// dayOf returns the day in the partition of a file; nil if it has none.
func (l *lakeTable) dayOf(f iceberg.DataFile) *iceberg.Date {
	for _, field := range l.spec.Fields() {
		if day, ok := f.Partition()[field.FieldID].(iceberg.Date); ok && field.Name == dayPartition {
			return &day
		}
	}
	return nil
}

// stage adds the files to a transaction.
func (c *change) stage(ctx context.Context, tx *table.Transaction) error {
	var files []iceberg.DataFile
	for _, a := range c.adds {
		files = append(files, a.file)
	}
	if len(c.deletes) == 0 {
		return tx.AddDataFiles(ctx, files, nil, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	}
	return tx.NewRowDelta(nil).AddRows(files...).AddDeletes(c.deletes...).Commit(ctx)
}

// note updates the cached files and the index after a commit.
func (c *change) note() {
	l := c.table
	if l.own == nil {
		return
	}
	l.own.snapshot = -1 // read the manifests again: if they agree with what is noted here, it stays valid
	for _, a := range c.adds {
		l.own.data[a.file.FilePath()] = &dataFile{DataFile: a.file}
	}
	for _, file := range c.deletes {
		l.own.deletes[file.FilePath()] = file
	}
	for name, rows := range c.dead {
		f := l.own.data[name]
		if f.dead == nil {
			f.dead = map[int64]struct{}{}
		}
		for _, row := range rows {
			f.dead[row] = struct{}{}
		}
	}
	if l.index == nil {
		return
	}
	forget := func(rows arrow.RecordBatch) {
		keys := sinks.KeysOf(rows, l.identity())
		for i := range int(rows.NumRows()) {
			if !keys.SameAsPrevious(i) {
				l.index.remove(l.index.hash(keys.At(i)))
			}
		}
	}
	if c.gone != nil {
		forget(c.gone)
	}
	forget(c.rows)
	for _, a := range c.adds {
		l.index.add(a.file.FilePath(), sinks.KeysOf(a.rows, l.identity()), int(a.rows.NumRows()), 0,
			func(int64) bool { return false })
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
