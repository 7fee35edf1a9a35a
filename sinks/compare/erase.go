package compare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// Eraser erases ids from rows, as [outlier.Redact] does from answers. A row is removed if its key or a
// field of its answer is one of the ids. In other texts the id is replaced.
type Eraser struct {
	Mentions outlier.Mention
	IDs      [][]byte
	Erased   string // replacement of an id
}

// apply returns the rows of a table without the ids. The caller releases the result.
func (e *Eraser) apply(ctx context.Context, t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	var stay []int
	for i := range int(rows.NumRows()) {
		if !e.matches(t, rows, i) {
			stay = append(stay, i)
		}
	}
	some, err := sinks.Pick(ctx, rows, stay)
	if err != nil {
		return nil, err
	}
	defer some.Release()
	columns := slices.Clone(some.Columns())
	var made []arrow.Array
	for i, c := range t.All() {
		switch column := some.Column(i).(type) {
		case *array.String:
			columns[i] = e.texts(c, column)
		case *array.List:
			if c.Type.(*arrow.ListType).Elem().ID() != arrow.STRING {
				continue
			}
			columns[i] = e.lists(column)
		default:
			continue
		}
		made = append(made, columns[i])
	}
	clean := array.NewRecordBatch(some.Schema(), columns, some.NumRows())
	for _, a := range made {
		a.Release()
	}
	return clean, nil
}

// names reports whether the key or a field of the answer of row i is one of the ids.
func (e *Eraser) matches(t *schema.Table, rows arrow.RecordBatch, i int) bool {
	for n, c := range t.All() {
		column, ok := rows.Column(n).(*array.String)
		if !ok || column.IsNull(i) || c.JSON || c.Path == "" && !slices.Contains(t.Key, c.Name) {
			continue
		}
		member := c.Path[strings.LastIndexAny(c.Path, "./")+1:]
		if e.Mentions([]byte(member), []byte(column.Value(i))) {
			return true
		}
	}
	return false
}

// texts returns a column without the ids.
func (e *Eraser) texts(c schema.Column, of *array.String) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range of.Len() {
		switch {
		case of.IsNull(i):
			b.AppendNull()
		case c.JSON:
			if text, ok := e.json([]byte(of.Value(i))); ok {
				b.Append(string(text))
			} else {
				b.AppendNull()
			}
		case c.Path == "":
			b.Append(e.without(of.Value(i)))
		default:
			b.Append(of.Value(i)) // rows in which this is an id are removed
		}
	}
	return b.NewArray()
}

// json returns a JSON text without the ids, or false if nothing remains of it.
func (e *Eraser) json(text []byte) ([]byte, bool) {
	clean, _, err := outlier.Redact(text, e.Mentions, nil)
	return clean, err == nil && clean != nil
}

func (e *Eraser) without(text string) string {
	for _, id := range e.IDs {
		text = strings.ReplaceAll(text, string(id), e.Erased)
	}
	return text
}

func (e *Eraser) lists(of *array.List) arrow.Array {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.BinaryTypes.String)
	defer b.Release()
	values, texts := of.ListValues().(*array.String), b.ValueBuilder().(*array.StringBuilder)
	for i := range of.Len() {
		if of.IsNull(i) {
			b.AppendNull()
			continue
		}
		b.Append(true)
		from, to := of.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			if values.IsNull(j) {
				texts.AppendNull()
			} else {
				texts.Append(e.without(values.Value(j)))
			}
		}
	}
	return b.NewArray()
}

// VideosOf returns the ids of all videos of channels, sorted. It reads all tables that have both
// columns.
func (r *Reader) VideosOf(ctx context.Context, s Source, channels []string) (videos []string, err error) {
	var of []string
	for _, channel := range channels {
		of = append(of, database.Text(channel))
	}
	found := map[string]bool{}
	for _, t := range schema.Tables() {
		names := columnNames(t)
		from := s.from(t)
		if from == "" || !slices.Contains(names, "video_id") || !slices.Contains(names, "channel_id") {
			continue
		}
		rows, err := r.query(ctx, fmt.Sprintf("SELECT DISTINCT video_id FROM %s WHERE channel_id IN (%s) "+
			"AND video_id IS NOT NULL", from, strings.Join(of, ", ")), s)
		if err != nil {
			return nil, fmt.Errorf("find the videos of channels in table %s of %s: %w", t.Name, s.Name, err)
		}
		for _, row := range rows {
			found[row[0].(string)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
