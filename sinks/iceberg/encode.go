//go:build iceberg

package iceberg

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	parquetfile "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"outlierd/sinks"
	"outlierd/sinks/bucket"
	"outlierd/sinks/parquet"
)

// rowGroup is the maximum number of rows in a row group. The writer buffers one row group in memory.
const rowGroup = 65_536

// mostOfGroup is the size, in bytes, at which a row group ends early.
const mostOfGroup = 32 << 20

// encoding uses dictionaries for columns with repeated values. Numbers have plain encoding, unlike in
// the Parquet sink, because some engines that read Iceberg are slower with delta encoding.
func (l *lakeTable) encoding(fields *arrow.Schema) *parquetfile.WriterProperties {
	properties := []parquetfile.WriterProperty{
		parquetfile.WithCompression(compress.Codecs.Zstd), parquetfile.WithCompressionLevel(1),
		parquetfile.WithDictionaryDefault(false), parquetfile.WithMaxRowGroupLength(rowGroup),
		parquetfile.WithDataPageSize(64 << 10), parquetfile.WithCreatedBy(parquet.CreatedBy),
	}
	for _, f := range fields.Fields() {
		name := f.Name
		if name != InstanceColumn && name != "file_path" && (l.of == nil || !l.of.Repeats(name)) {
			continue
		}
		if f.Type.ID() == arrow.LIST {
			name += ".list.element"
		}
		properties = append(properties, parquetfile.WithDictionaryFor(name, true))
	}
	return parquetfile.NewWriterProperties(properties...)
}

// writeData writes rows as a data file of a day, nil for a table or rows without a day. The file is not
// part of the table until it is committed.
func (l *lakeTable) writeData(
	day *iceberg.Date, each func(put func(arrow.RecordBatch) error) error,
) (iceberg.DataFile, error) {
	return l.writeFile(iceberg.EntryContentData, day, l.fields, func(put func(arrow.RecordBatch) error) error {
		return each(func(rows arrow.RecordBatch) error {
			whole, err := l.conform(rows)
			if err != nil {
				return err
			}
			defer whole.Release()
			return put(whole)
		})
	})
}

// conform converts rows to the columns of the table: it adds the instance, and null where rows has no
// such column. The caller releases the result.
func (l *lakeTable) conform(rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for _, f := range l.fields.Fields() {
		at := rows.Schema().FieldIndices(f.Name)
		switch {
		case len(at) > 0:
			data, err := sinks.Retype(rows.Column(at[0]).Data(), f.Type)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", f.Name, err)
			}
			columns = append(columns, array.MakeFromData(data))
		case f.Name == InstanceColumn:
			b := array.NewStringBuilder(memory.DefaultAllocator)
			for range rows.NumRows() {
				b.Append(l.sink.options.Instance)
			}
			columns = append(columns, b.NewArray())
			b.Release()
		default:
			columns = append(columns, array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(rows.NumRows())))
		}
	}
	return array.NewRecordBatch(l.fields, columns, rows.NumRows()), nil
}

// newPath returns the URL of a new file. The files of a writer are in a folder with its name.
func (l *lakeTable) newPath(day *iceberg.Date) string {
	place := path.Join("data", l.sink.options.Instance)
	if day != nil {
		place = path.Join(place, day.ToTime().Format(time.DateOnly))
	}
	return strings.TrimSuffix(l.table.Location(), "/") + "/" + path.Join(place, uuid.NewString()+".parquet")
}

// fileWriter writes a file, which is not part of the table until it is committed.
type fileWriter struct {
	table   *lakeTable
	content iceberg.ManifestEntryContent
	day     *iceberg.Date
	fields  *arrow.Schema
	name    string
	to      io.Closer
	counted *counting
	out     *pqarrow.FileWriter
}

func (l *lakeTable) create(content iceberg.ManifestEntryContent, day *iceberg.Date,
	fields *arrow.Schema) (*fileWriter, error) {
	w := &fileWriter{table: l, content: content, day: day, fields: fields, name: l.newPath(day)}
	to, err := l.files.Create(w.name)
	if err != nil {
		return nil, w.failed(err)
	}
	w.to, w.counted = to, &counting{to: bufio.NewWriterSize(to, 256<<10)}
	w.out, err = pqarrow.NewFileWriter(fields, w.counted, l.encoding(fields), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, w.failed(errors.Join(err, to.Close()))
	}
	return w, nil
}

func (w *fileWriter) failed(err error) error { return fmt.Errorf("write %s: %w", w.name, err) }

func (w *fileWriter) put(rows arrow.RecordBatch) error {
	if rows.NumRows() == 0 {
		return nil
	}
	if err := w.out.WriteBuffered(rows); err != nil {
		return w.failed(err)
	}
	if w.out.RowGroupTotalBytesWritten() >= mostOfGroup {
		w.out.NewBufferedRowGroup()
	}
	return nil
}

// close completes the file and returns its description for a manifest. It deletes the file if that
// fails.
func (w *fileWriter) close() (iceberg.DataFile, error) {
	if err := errors.Join(w.out.Close(), w.counted.to.Flush(), w.to.Close()); err != nil {
		return nil, errors.Join(w.failed(err), w.table.files.Remove(w.name))
	}
	meta, err := w.out.FileMetadata()
	if err != nil {
		return nil, w.failed(err)
	}
	return w.table.describe(w.content, w.name, w.day, w.fields, meta, w.counted.n)
}

// abandon deletes the unfinished file.
func (w *fileWriter) abandon() error {
	return errors.Join(w.to.Close(), w.table.files.Remove(w.name))
}

func (l *lakeTable) writeFile(
	content iceberg.ManifestEntryContent, day *iceberg.Date, fields *arrow.Schema,
	each func(put func(arrow.RecordBatch) error) error,
) (iceberg.DataFile, error) {
	w, err := l.create(content, day, fields)
	if err != nil {
		return nil, err
	}
	if err := each(w.put); err != nil {
		return nil, errors.Join(err, w.abandon())
	}
	return w.close()
}

// counting counts the bytes that are written to a writer.
type counting struct {
	to *bufio.Writer
	n  int64 // bytes
}

// Write implements [io.Writer].
func (c *counting) Write(some []byte) (int, error) {
	n, err := c.to.Write(some)
	c.n += int64(n)
	return n, err
}

// describe returns the entry of a file in a manifest: its partition, row count, size in bytes, and
// statistics per column.
func (l *lakeTable) describe(
	content iceberg.ManifestEntryContent, name string, day *iceberg.Date, fields *arrow.Schema,
	meta *metadata.FileMetaData, bytes int64,
) (iceberg.DataFile, error) {
	values, logical := map[int]any{}, map[int]string{}
	for _, f := range l.spec.Fields() {
		switch f.Name {
		case instancePartition:
			values[f.FieldID] = l.sink.options.Instance
		default:
			logical[f.FieldID] = "date"
			values[f.FieldID] = nil
			if day != nil {
				values[f.FieldID] = *day
			}
		}
	}
	b, err := iceberg.NewDataFileBuilder(l.spec, content, name, iceberg.ParquetFile, values, logical, nil,
		meta.NumRows, bytes)
	if err != nil {
		return nil, err
	}
	counts, nulls, sizes := map[int]int64{}, map[int]int64{}, map[int]int64{}
	lower, upper := map[int][]byte{}, map[int][]byte{}
	for i, column := range leaves(meta) {
		if column < 0 || column >= fields.NumFields() {
			continue
		}
		id := fieldID(fields.Field(column))
		bounds := bounds{kind: fields.Field(column).Type.ID(), exact: content == iceberg.EntryContentPosDeletes}
		for g := range meta.NumRowGroups() {
			chunk, err := meta.RowGroup(g).ColumnChunk(i)
			if err != nil {
				return nil, err
			}
			sizes[id] += chunk.TotalCompressedSize()
			counts[id] += chunk.NumValues()
			stats, err := chunk.Statistics()
			if err != nil || stats == nil {
				bounds.unknown = true
				continue
			}
			nulls[id] += stats.NullCount()
			bounds.add(stats)
		}
		if lo, hi := bounds.ends(); !bounds.unknown {
			if lo != nil {
				lower[id] = lo
			}
			if hi != nil {
				upper[id] = hi
			}
		}
	}
	var offsets []int64
	for g := range meta.NumRowGroups() {
		offsets = append(offsets, meta.RowGroup(g).FileOffset())
	}
	b.ColumnSizes(sizes).ValueCounts(counts).NullValueCounts(nulls).LowerBoundValues(lower).UpperBoundValues(upper)
	if !slices.Contains(offsets, 0) {
		b.SplitOffsets(offsets)
	}
	return b.Build(), nil
}

// leaves returns, for each leaf column of a file, the index of its field, or -1 if it is nested.
func leaves(meta *metadata.FileMetaData) (columns []int) {
	for i := range meta.Schema.NumColumns() {
		leaf := meta.Schema.Column(i)
		if len(leaf.ColumnPath()) != 1 {
			columns = append(columns, -1)
			continue
		}
		columns = append(columns, meta.Schema.Root().FieldIndexByName(leaf.Name()))
	}
	return columns
}

func fieldID(f arrow.Field) int {
	text, _ := f.Metadata.GetValue("PARQUET:field_id")
	id := 0
	fmt.Sscan(text, &id)
	return id
}

// bounds collects the minimum and maximum of a column, in the encoding of manifests. It equals that of
// Parquet, except that long texts are truncated.
type bounds struct {
	kind    arrow.Type
	exact   bool // do not truncate texts
	unknown bool // a row group has no statistics
	lo, hi  []byte
}

func (b *bounds) add(stats metadata.TypedStatistics) {
	if !stats.HasMinMax() {
		return
	}
	lo, hi := stats.EncodeMin(), stats.EncodeMax()
	if b.lo == nil || b.compare(lo, b.lo) < 0 {
		b.lo = lo
	}
	if b.hi == nil || b.compare(hi, b.hi) > 0 {
		b.hi = hi
	}
}

func (b *bounds) compare(x, y []byte) int {
	switch b.kind {
	case arrow.INT64, arrow.TIMESTAMP:
		return cmpBounds(x, y)
	case arrow.FLOAT64:
		return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(x)),
			math.Float64frombits(binary.LittleEndian.Uint64(y)))
	}
	return bytes.Compare(x, y)
}

// mostOfBound is the maximum length of a text in a bound, in characters.
const mostOfBound = 16

// ends returns the bounds. Long texts are truncated, see cut and raise; hi is nil if raise finds
// no bound.
func (b *bounds) ends() (lo, hi []byte) {
	if b.kind != arrow.STRING || b.exact {
		return b.lo, b.hi
	}
	return cut(b.lo), raise(b.hi)
}

func cut(text []byte) []byte {
	at := 0
	for range mostOfBound {
		if at == len(text) {
			return text
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return text[:at]
}

// raise truncates a long text and increments its last character, so that the result is greater than
// text. It returns nil if there is no such text.
func raise(text []byte) []byte {
	short := cut(text)
	if len(short) == len(text) {
		return text
	}
	for len(short) > 0 {
		last, size := utf8.DecodeLastRune(short)
		short = short[:len(short)-size]
		next := last + 1
		if next == 0xD800 {
			next = 0xE000
		}
		if utf8.ValidRune(next) {
			return utf8.AppendRune(slices.Clone(short), next)
		}
	}
	return nil
}

// cmpBounds compares bounds as 64-bit integers if both have 8 bytes, otherwise as bytes. A missing
// bound is the smallest.
func cmpBounds(a, b []byte) int {
	if len(a) != 8 || len(b) != 8 {
		return bytes.Compare(a, b)
	}
	return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
}

// decode reads columns of a Parquet file in the given row groups; nil means all. from is the position
// of the first row of a record in the file.
func (l *lakeTable) decode(
	ctx context.Context, name string, columns []string, groups []int,
	each func(from int64, rows arrow.RecordBatch) error,
) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", name, err)
		}
	}()
	f, err := l.files.Open(name)
	if err != nil {
		return unreadable(err)
	}
	defer f.Close()
	in, err := file.NewParquetReader(f)
	if err != nil {
		return unreadable(err)
	}
	rows, err := pqarrow.NewFileReader(in, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	var chosen []int
	for _, c := range columns {
		leaf := in.MetaData().Schema.ColumnIndexByName(c)
		if leaf < 0 {
			return fmt.Errorf("column %s is missing: %w", c, ErrRebuild)
		}
		chosen = append(chosen, leaf)
	}
	if groups == nil {
		for g := range in.NumRowGroups() {
			groups = append(groups, g)
		}
	}
	from := int64(0)
	for g := range in.NumRowGroups() {
		count := in.MetaData().RowGroup(g).NumRows()
		if slices.Contains(groups, g) {
			if err := eachRecord(ctx, rows, chosen, g, from, each); err != nil {
				return err
			}
		}
		from += count
	}
	return nil
}

// unreadable adds the remedy to the error of a file that is damaged or gone, as opposed to a bucket
// that cannot be reached.
func unreadable(err error) error {
	if _, ofBucket := errors.AsType[*bucket.ObjectError](err); ofBucket && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: bring the file back; %w", err, ErrRebuild)
}

func eachRecord(
	ctx context.Context, in *pqarrow.FileReader, leaves []int, group int, from int64,
	each func(from int64, rows arrow.RecordBatch) error,
) error {
	records, err := in.GetRecordReader(ctx, leaves, []int{group})
	if err != nil {
		return err
	}
	defer records.Release()
	for records.Next() {
		rows := records.RecordBatch()
		if err := each(from, rows); err != nil {
			return err
		}
		from += rows.NumRows()
	}
	if err := records.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// writeDeletes writes a file of position deletes of a day. dead has the positions of rows by file; it
// is sorted, as Iceberg requires.
func (l *lakeTable) writeDeletes(day *iceberg.Date, dead map[string][]int64) (iceberg.DataFile, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, table.PositionalDeleteArrowSchema)
	defer b.Release()
	paths, positions := b.Field(0).(*array.StringBuilder), b.Field(1).(*array.Int64Builder)
	for _, name := range sortedKeys(dead) {
		slices.Sort(dead[name])
		for _, row := range dead[name] {
			paths.Append(name)
			positions.Append(row)
		}
	}
	rows := b.NewRecordBatch()
	defer rows.Release()
	return l.writeFile(iceberg.EntryContentPosDeletes, day, table.PositionalDeleteArrowSchema,
		func(put func(arrow.RecordBatch) error) error { return put(rows) })
}

// groupsOf returns the row groups of a file that contain rows, which are in ascending order.
func (l *lakeTable) groupsOf(name string, rows []rowPair) (groups []int, err error) {
	f, err := l.files.Open(name)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	in, err := file.NewParquetReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, unreadable(err))
	}
	end := int64(0)
	for g := range in.NumRowGroups() {
		end += in.MetaData().RowGroup(g).NumRows()
		if len(rows) > 0 && rows[0].old < end {
			groups = append(groups, g)
		}
		for len(rows) > 0 && rows[0].old < end {
			rows = rows[1:]
		}
	}
	return groups, nil
}
