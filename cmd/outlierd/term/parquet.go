package term

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// parquetPage is the number of rows that determine the column types of a Parquet file.
const parquetPage = 10_000

// parquetPrinter writes rows that do not come from a query as a Parquet file. The first page determines
// the type of each column; a column with values of several types, or with none, is text.
type parquetPrinter struct {
	w       io.Writer
	columns []string
	page    [][]any
	file    *pqarrow.FileWriter // nil before the first page
	schema  *arrow.Schema
}

func (p *parquetPrinter) Row(values []any) error {
	p.page = append(p.page, slices.Clone(values))
	if len(p.page) < parquetPage {
		return nil
	}
	return p.write()
}

func (p *parquetPrinter) Close() error {
	if err := p.write(); err != nil {
		return err
	}
	return p.file.Close()
}

func (p *parquetPrinter) write() (err error) {
	if p.file == nil {
		fields := make([]arrow.Field, len(p.columns))
		for i, name := range unique(p.columns) {
			fields[i] = arrow.Field{Name: name, Type: p.kind(i), Nullable: true}
		}
		p.schema = arrow.NewSchema(fields, nil)
		properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd))
		// The writer would close w if it could, but standard output is not ours to close.
		p.file, err = pqarrow.NewFileWriter(p.schema, struct{ io.Writer }{p.w}, properties,
			pqarrow.DefaultWriterProps())
		if err != nil {
			return err
		}
	}
	record, err := p.record()
	if err != nil {
		return err
	}
	defer record.Release()
	p.page = p.page[:0]
	return p.file.Write(record)
}

// record returns the page as an Arrow record batch.
func (p *parquetPrinter) record() (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, p.schema)
	defer b.Release()
	for _, row := range p.page {
		for i, v := range row {
			if err := put(b.Field(i), v); err != nil {
				return nil, fmt.Errorf("print column %s: %w", p.columns[i], err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// kind returns the type of a column, derived from its values on the first page.
func (p *parquetPrinter) kind(column int) arrow.DataType {
	var kind arrow.DataType
	for _, row := range p.page {
		of := typeOf(row[column])
		if of == nil {
			continue
		}
		if kind != nil && !arrow.TypeEqual(kind, of) {
			return arrow.BinaryTypes.String
		}
		kind = of
	}
	if kind == nil {
		return arrow.BinaryTypes.String
	}
	return kind
}

// typeOf returns the type of a value, nil for NULL.
func typeOf(v any) arrow.DataType {
	switch v := v.(type) {
	case nil:
		return nil
	case bool:
		return arrow.FixedWidthTypes.Boolean
	case int, int8, int16, int32, int64, uint8, uint16, uint32:
		return arrow.PrimitiveTypes.Int64
	case float32, float64:
		return arrow.PrimitiveTypes.Float64
	case time.Time:
		return arrow.FixedWidthTypes.Timestamp_us
	case []any:
		if slices.ContainsFunc(v, func(element any) bool { _, text := element.(string); return !text }) {
			return arrow.BinaryTypes.String
		}
		return arrow.ListOf(arrow.BinaryTypes.String)
	}
	return arrow.BinaryTypes.String
}

// put appends a value to a column. It refuses a value of another type, unless the column is text.
func put(column array.Builder, v any) error {
	if v == nil {
		column.AppendNull()
		return nil
	}
	switch b := column.(type) {
	case *array.StringBuilder:
		b.Append(Raw(v))
		return nil
	case *array.BooleanBuilder:
		if v, ok := v.(bool); ok {
			b.Append(v)
			return nil
		}
	case *array.Int64Builder:
		if n, ok := new(big.Int).SetString(Raw(v), 10); ok && n.IsInt64() {
			b.Append(n.Int64())
			return nil
		}
	case *array.Float64Builder:
		var f float64
		if json.Unmarshal([]byte(Raw(v)), &f) == nil {
			b.Append(f)
			return nil
		}
	case *array.TimestampBuilder:
		if v, ok := v.(time.Time); ok {
			b.Append(arrow.Timestamp(v.UnixMicro()))
			return nil
		}
	case *array.ListBuilder:
		if v, ok := v.([]any); ok && typeOf(v).ID() == arrow.LIST {
			b.Append(true)
			for _, element := range v {
				b.ValueBuilder().(*array.StringBuilder).Append(element.(string))
			}
			return nil
		}
	}
	return fmt.Errorf("%s came first and then %q", column.Type(), Raw(v))
}
