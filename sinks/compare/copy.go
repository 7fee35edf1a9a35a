package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// # Rows that the journal does not have any more
//
// Where the journal is pruned up to an answer, a sink cannot be built from it alone. First [Reader.Copy] brings
// the older rows of histories over from another sink. Then the sink takes the answers of the journal, as
// always. What its current tables lack after that [Reader.Carry] brings: rows that no later answer has
// replaced, and what rows carry on of older ones, such as first_seen_at. All else in a row that the journal
// still has comes from the journal.

// Copying is a copy of older rows.
type Copying struct {
	From Source // has published all answers of the journal
	UpTo int64  // the last answer whose rows are copied

	Erase *Erasing // what is not copied; nil for nothing
}

// copiedRows is about how many rows are copied at a time, and partOf into how many answers the tables are
// cut for that.
const (
	copiedRows = 20_000
	partOf     = 50
)

// appended reports whether a table keeps rows that no later answer changes, beside those that it replaces whole.
func appended(t *schema.Table) bool { return t.Kind != schema.Current && t.Kind != schema.Children }

// Copy writes the older rows of histories and the like into a new sink, whose watermark is then the last of
// these answers.
func (r *Reader) Copy(ctx context.Context, c Copying, into sinks.Sink) error {
	ends, err := r.ends(ctx, c)
	if err != nil {
		return err
	}
	columns := map[string]string{} // by what stands in FROM
	lo := int64(0)
	for _, hi := range append(ends, c.UpTo) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if hi == lo {
			continue
		}
		if err := r.copyRange(ctx, c, lo, hi, columns, into); err != nil {
			return fmt.Errorf("copy the rows of answers %d to %d from %s: %w", lo+1, hi, c.From.Name, err)
		}
		lo = hi
	}
	return nil
}

// ends are the last answers of ranges that have about as many rows as are copied at a time.
func (r *Reader) ends(ctx context.Context, c Copying) (ends []int64, err error) {
	parts := map[int64]int64{}
	for _, t := range schema.Tables() {
		from := c.From.from(t)
		if !appended(t) || from == "" {
			continue
		}
		rows, err := r.query(ctx, fmt.Sprintf("SELECT _response_id // %d, count(*) FROM %s WHERE _response_id <= %d GROUP BY ALL",
			partOf, from, c.UpTo), c.From)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			parts[number(row[0])] += number(row[1])
		}
	}
	count := int64(0)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if count += parts[part]; count < copiedRows {
			continue
		}
		if end := (part+1)*partOf - 1; end < c.UpTo {
			ends, count = append(ends, end), 0
		}
	}
	return ends, nil
}

func (r *Reader) copyRange(ctx context.Context, c Copying, lo, hi int64, columns map[string]string, into sinks.Sink) error {
	batch := sinks.Batch{Lo: lo, Hi: hi}
	defer func() {
		for _, part := range batch.Parts {
			part.Release()
		}
	}()
	for _, t := range schema.Tables() {
		from := c.From.within(t, lo, hi)
		if !appended(t) || from == "" {
			continue
		}
		if columns[from] == "" {
			var err error
			if columns[from], err = r.stored(ctx, c.From, from, t); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		var all []arrow.RecordBatch
		err := r.records(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE _response_id > %d AND _response_id <= %d ORDER BY _response_id",
			columns[from], from, lo, hi), t, c.Erase, func(rows arrow.RecordBatch) error {
			rows.Retain()
			all = append(all, rows)
			return nil
		}, c.From)
		if err == nil && len(all) > 0 {
			var rows arrow.RecordBatch
			if rows, err = sinks.Concatenate(all); err == nil {
				batch.Parts = append(batch.Parts, schema.Part{Table: t, Rows: rows})
			}
		}
		for _, rows := range all {
			rows.Release()
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return into.Write(ctx, batch)
}

// Carry completes the current tables of a sink that [Reader.Copy] has filled, and that has taken and published
// the answers of the journal since. made is where it has published them. What Carry changes is not published.
func (r *Reader) Carry(ctx context.Context, c Copying, made Source, into sinks.Adopter) error {
	for _, t := range schema.Tables() {
		if appended(t) {
			continue
		}
		if n, err := r.Rows(ctx, c.From, t); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		} else if n.Count == 0 {
			continue
		}
		query, err := r.carried(ctx, c, made, t)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		err = into.Adopt(ctx, t, func(put func(arrow.RecordBatch) error) error {
			return r.records(ctx, query, t, c.Erase, put, c.From, made)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// carried asks for all rows of a current table: the older ones from the sink that is copied, the others from the
// one that was made, with what they carry on.
func (r *Reader) carried(ctx context.Context, c Copying, made Source, t *schema.Table) (query string, err error) {
	old, err := r.stored(ctx, c.From, c.From.from(t), t)
	if err != nil {
		return "", err
	}
	older := fmt.Sprintf("SELECT %s FROM %s WHERE _response_id <= %d", old, c.From.from(t), c.UpTo)
	if made.from(t) == "" {
		return older, nil
	}
	now, err := r.stored(ctx, made, made.from(t), t)
	if err != nil {
		return "", err
	}
	newer := fmt.Sprintf("SELECT %s FROM %s WHERE _response_id > %d", now, made.from(t), c.UpTo)
	if t.Kind != schema.Current {
		return older + " UNION ALL " + newer, nil
	}
	var columns []string
	declared := t.Schema()
	for _, f := range t.Stored().Fields() {
		value := "m." + database.Name(f.Name)
		if len(declared.FieldIndices(f.Name)) == 0 {
			value = fmt.Sprintf("CASE WHEN c._response_id IS NULL THEN %s ELSE c.%s END", value, database.Name(f.Name))
		}
		columns = append(columns, value)
	}
	return fmt.Sprintf("%s UNION ALL SELECT %s FROM (%s) AS m LEFT JOIN (SELECT %s FROM %s) AS c ON %s AND m._response_id = c._response_id",
		older, strings.Join(columns, ", "), newer, old, c.From.from(t), same("m.", "c.", t.Key)), nil
}

// records gives the rows of a query in the columns of a table, some thousand at a time.
func (r *Reader) records(
	ctx context.Context, query string, t *schema.Table, erase *Erasing,
	put func(arrow.RecordBatch) error, of ...Source,
) error {
	if err := r.attach(ctx, of); err != nil {
		return errors.Join(err, r.Close())
	}
	var waiting []arrow.RecordBatch
	count := int64(0)
	flush := func() (err error) {
		all := waiting
		waiting, count = nil, 0
		defer func() {
			for _, rows := range all {
				rows.Release()
			}
		}()
		if len(all) == 0 {
			return nil
		}
		rows, err := sinks.Concatenate(all)
		if err != nil {
			return err
		}
		defer func() { rows.Release() }()
		if erase != nil {
			if rows, err = erase.apply(ctx, t, rows); err != nil {
				return err
			}
		}
		if rows.NumRows() == 0 {
			return nil
		}
		return put(rows)
	}
	var failed error
	err := r.db.Records(ctx, query, func(some arrow.RecordBatch) {
		if failed != nil {
			return
		}
		rows, err := typed(t, some)
		if err != nil {
			failed = err
			return
		}
		waiting, count = append(waiting, rows), count+rows.NumRows()
		if count >= copiedRows {
			failed = flush()
		}
	})
	if err == nil && failed == nil {
		failed = flush()
	}
	for _, rows := range waiting {
		rows.Release()
	}
	if err != nil {
		return errors.Join(err, failed, r.Close())
	}
	return failed
}

// typed gives rows of a query the columns of a table, which they have in that order.
func typed(t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, f := range t.Stored().Fields() {
		have := rows.Column(i)
		if have.NullN() == have.Len() { // perhaps a column that the sink does not have yet, and so of any type
			columns = append(columns, array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, have.Len()))
			continue
		}
		data, err := sinks.Retype(have.Data(), f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		columns = append(columns, array.MakeFromData(data))
	}
	return array.NewRecordBatch(t.Stored(), columns, rows.NumRows()), nil
}

// stored lists the columns of a table in their order; one that is not there yet is NULL.
func (r *Reader) stored(ctx context.Context, s Source, from string, t *schema.Table) (string, error) {
	is, err := r.describeAt(ctx, s, from)
	if err != nil {
		return "", err
	}
	missing := later{}
	for _, c := range t.All() {
		if is.types[c.Name] == "" {
			missing[c.Name] = math.MaxInt64
		}
	}
	return columnsOf(t, missing), nil
}
