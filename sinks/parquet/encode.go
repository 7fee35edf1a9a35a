package parquet

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"outlierd/schema"
	"outlierd/sinks"
)

// rowGroup is the number of rows that are buffered in memory until they are written. Larger groups hardly
// make reading faster.
const rowGroup = 16_384

// page is the size in bytes at which a data page ends. A page that fits into one zstd block of 128 KiB is
// compressed without a window, which would take 8 MB.
const page = 64 << 10

// CreatedBy is the writer's name in files, in the only form that the Java library parses: it
// ignores statistics of files with other names.
const CreatedBy = "outlierd version 1"

// encoding returns the writer's properties for a table. Smallest and largest values are stored for columns
// where a reader can skip a row group because of them. For texts that are all different, such as titles and
// comments, they exclude nothing, and finding them takes a twentieth of the time of encoding.
func encoding(t *schema.Table, group int64) *parquet.WriterProperties {
	properties := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false),
		parquet.WithStats(false),
		parquet.WithMaxRowGroupLength(group),
		parquet.WithDataPageSize(page),
		parquet.WithCreatedBy(CreatedBy),
	}
	for _, f := range t.Stored().Fields() {
		if id := f.Type.ID(); id == arrow.INT64 || id == arrow.TIMESTAMP {
			properties = append(properties, parquet.WithEncodingFor(f.Name, parquet.Encodings.DeltaBinaryPacked))
		}
		if f.Type.ID() != arrow.STRING || t.Repeats(f.Name) || slices.Contains(t.Key, f.Name) {
			properties = append(properties, parquet.WithStatsFor(f.Name, true))
		}
		if !t.Repeats(f.Name) { // without repetitions, a dictionary only costs time and space
			continue
		}
		path := f.Name
		if f.Type.ID() == arrow.LIST {
			path += ".list.element"
		}
		properties = append(properties, parquet.WithDictionaryFor(path, true))
	}
	return parquet.NewWriterProperties(properties...)
}

// mostOfGroup is the maximum size of a row group of wide rows, in bytes.
const mostOfGroup = 32 << 20

// encode writes the rows that each yields as one Parquet file, and counts them. The metadata of the file
// have its folder and the range of its rows.
func (s *Sink) encode(
	w io.Writer, t *schema.Table, f File, group int64, each func(put func(arrow.RecordBatch) error) error,
) (count int64, err error) {
	numbered := numbered(t)
	out, err := pqarrow.NewFileWriter(numbered, w, encoding(t, group), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return 0, err
	}
	err = each(func(rows arrow.RecordBatch) error {
		if rows.NumRows() == 0 {
			return nil
		}
		count += rows.NumRows()
		rows = array.NewRecordBatch(numbered, rows.Columns(), rows.NumRows())
		defer rows.Release()
		if err := out.WriteBuffered(rows); err != nil || out.RowGroupTotalBytesWritten() < mostOfGroup {
			return err
		}
		out.NewBufferedRowGroup()
		return nil
	})
	for _, pair := range [][2]string{
		{"outlierd.instance", s.state.Instance}, {"outlierd.lo", strconv.FormatInt(f.Lo, 10)},
		{"outlierd.hi", strconv.FormatInt(f.Hi, 10)},
	} {
		err = errors.Join(err, out.AppendKeyValueMetadata(pair[0], pair[1]))
	}
	return count, errors.Join(err, out.Close())
}

// numbered returns the columns of a table with field ids, which engines such as those of Iceberg use. An
// id is a hash of the column's name, so it does not change when other columns are added or removed.
func numbered(t *schema.Table) *arrow.Schema {
	fields := t.Stored().Fields()
	for i := range fields {
		f := &fields[i]
		keys, values := slices.Clone(f.Metadata.Keys()), slices.Clone(f.Metadata.Values())
		f.Metadata = arrow.NewMetadata(append(keys, "PARQUET:field_id"), append(values, strconv.Itoa(fieldID(f.Name))))
	}
	return arrow.NewSchema(fields, nil)
}

func fieldID(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) >> 1) }

// decode reads the named columns of a Parquet file in the types of the table, one record at a time. If
// columns is nil, it reads all columns.
func (s *Sink) decode(ctx context.Context, t *schema.Table, name string, columns []string,
	each func(arrow.RecordBatch) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", name, err)
		}
	}()
	f, err := s.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := records(ctx, f, columns)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		conformed, err := conform(t, columns, rows.RecordBatch())
		if err != nil {
			return err
		}
		err = each(conformed)
		conformed.Release()
		if err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func records(ctx context.Context, f *os.File, columns []string) (pqarrow.RecordReader, error) {
	reader, err := file.NewParquetReader(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, rebuild)
	}
	rows, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	var leaves []int
	for _, c := range columns {
		leaf := reader.MetaData().Schema.ColumnIndexByName(c)
		if leaf < 0 {
			return nil, fmt.Errorf("column %s is missing: %s", c, rebuild)
		}
		leaves = append(leaves, leaf)
	}
	return rows.GetRecordReader(ctx, leaves, nil)
}

// conform converts rows of a file to the declared columns. A column that was declared after the file was
// written is null. Parquet has other names and metadata within nested types.
func conform(t *schema.Table, columns []string, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, f := range t.Stored().Fields() {
		if columns != nil && !slices.Contains(columns, f.Name) {
			continue
		}
		fields = append(fields, f)
		at := rows.Schema().FieldIndices(f.Name)
		if len(at) == 0 {
			arrays = append(arrays, array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(rows.NumRows())))
			continue
		}
		data, err := sinks.Retype(rows.Column(at[0]).Data(), f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w: %s", f.Name, err, rebuild)
		}
		arrays = append(arrays, array.MakeFromData(data))
	}
	for _, f := range rows.Schema().Fields() {
		if !slices.ContainsFunc(fields, func(g arrow.Field) bool { return g.Name == f.Name }) {
			return nil, fmt.Errorf("column %s is not known to this version, and would be lost: "+
				"use a newer program, or %s", f.Name, rebuild)
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, rows.NumRows()), nil
}

// pendingRows is the number of rows of a pending file that are read at a time.
const pendingRows = 4096

// encodePending writes rows in Arrow's format, without compression: they are read once, and soon.
func encodePending(w io.Writer, all []arrow.RecordBatch) (count int64, err error) {
	out := ipc.NewWriter(w, ipc.WithSchema(all[0].Schema()))
	for _, rows := range all {
		count += rows.NumRows()
		for from := int64(0); from < rows.NumRows(); from += pendingRows {
			some := rows.NewSlice(from, min(from+pendingRows, rows.NumRows()))
			err = errors.Join(err, out.Write(some))
			some.Release()
		}
	}
	return count, errors.Join(err, out.Close())
}

// tombstones returns rows that have an identity and nothing else, not even the _response_id that all
// other rows have. A tombstone deletes the older rows of its identity.
func tombstones(t *schema.Table, gone arrow.RecordBatch) arrow.RecordBatch {
	var columns []arrow.Array
	for _, f := range t.Stored().Fields() {
		if at := gone.Schema().FieldIndices(f.Name); len(at) > 0 {
			columns = append(columns, gone.Column(at[0]))
			continue
		}
		none := array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(gone.NumRows()))
		defer none.Release()
		columns = append(columns, none)
	}
	return array.NewRecordBatch(t.Stored(), columns, gone.NumRows())
}

// answers returns the column _response_id of rows; it is null in tombstones.
func answers(rows arrow.RecordBatch) *array.Int64 {
	return rows.Column(rows.Schema().FieldIndices(sinks.ResponseID)[0]).(*array.Int64)
}

// decodePending reads a file that encodePending has written.
func (s *Sink) decodePending(t *schema.Table, name string, each func(arrow.RecordBatch) error) error {
	f, err := s.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := ipc.NewReader(f)
	if err != nil {
		return fmt.Errorf("read %s: %w: %s", name, err, rebuild)
	}
	defer in.Release()
	for in.Next() {
		rows, err := conform(t, nil, in.RecordBatch())
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		err = each(rows)
		rows.Release()
		if err != nil {
			return err
		}
	}
	return in.Err()
}
