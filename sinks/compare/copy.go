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

// # Rows of pruned answers
//
// If the journal is pruned up to an answer, a sink cannot be rebuilt from the journal alone. First
// [Reader.Copy] copies the older rows of append-only tables from another sink. Then the sink loads the
// answers of the journal as usual. Finally [Reader.Carry] completes the current tables: it adds the
// rows that no later answer has replaced, and the columns that depend on older rows, such as
// first_seen_at. All other columns of a row whose answer is in the journal come from the journal.

// CopyOptions are the options of a copy of older rows.
type CopyOptions struct {
	From Source // a sink that has published all answers of the journal
	UpTo int64  // id of the last answer whose rows are copied

	Erase *Eraser // ids to erase from the copied rows; nil for none
}

// Rows are copied in batches of about copiedRows rows. To find the bounds of the batches, rows are
// counted per answersPerPart answers.
const (
	copiedRows     = 20_000
	answersPerPart = 50
)

// isAppendOnly reports whether later answers leave the rows of a table unchanged, so that [Reader.Copy]
// copies them.
func isAppendOnly(t *schema.Table) bool { return t.Kind != schema.Current && t.Kind != schema.Children }

// Copy copies the rows of append-only tables up to c.UpTo into a new sink. The watermark of the sink is
// then c.UpTo.
func (r *Reader) Copy(ctx context.Context, c CopyOptions, into sinks.Sink) error {
	ends, err := r.ends(ctx, c)
	if err != nil {
		return err
	}
	columns := map[string]string{} // by the SQL in FROM
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

// ends returns the last answers of the batches except the last, so that each has about copiedRows rows.
func (r *Reader) ends(ctx context.Context, c CopyOptions) (ends []int64, err error) {
	parts := map[int64]int64{}
	for _, t := range schema.Tables() {
		from := c.From.from(t)
		if !isAppendOnly(t) || from == "" {
			continue
		}
		rows, err := r.query(ctx, fmt.Sprintf("SELECT _response_id // %d, count(*) FROM %s "+
			"WHERE _response_id <= %d GROUP BY ALL", answersPerPart, from, c.UpTo), c.From)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			parts[toInt64(row[0])] += toInt64(row[1])
		}
	}
	count := int64(0)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if count += parts[part]; count < copiedRows {
			continue
		}
		if end := (part+1)*answersPerPart - 1; end < c.UpTo {
			ends, count = append(ends, end), 0
		}
	}
	return ends, nil
}

func (r *Reader) copyRange(ctx context.Context, c CopyOptions, lo, hi int64, columns map[string]string,
	into sinks.Sink) error {
	batch := sinks.Batch{Lo: lo, Hi: hi}
	defer func() {
		for _, part := range batch.Parts {
			part.Release()
		}
	}()
	for _, t := range schema.Tables() {
		from := c.From.within(t, lo, hi)
		if !isAppendOnly(t) || from == "" {
			continue
		}
		if columns[from] == "" {
			var err error
			if columns[from], err = r.stored(ctx, c.From, from, t); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		var all []arrow.RecordBatch
		err := r.records(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE _response_id > %d AND _response_id <= %d "+
			"ORDER BY _response_id",
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

// Carry completes the current tables of a sink after [Reader.Copy], and after the sink has loaded and
// published the answers of the journal. made is where it has published them. Carry does not publish.
func (r *Reader) Carry(ctx context.Context, c CopyOptions, made Source, into sinks.Adopter) error {
	for _, t := range schema.Tables() {
		if isAppendOnly(t) {
			continue
		}
		if n, err := r.Rows(ctx, c.From, t); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		} else if n.Count == 0 {
			continue
		}
		query, err := r.carryQuery(ctx, c, made, t)
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

// carryQuery returns a query for all rows of a current table: older ones from the sink that is copied,
// newer ones from the sink that was built, with the columns that depend on older rows.
func (r *Reader) carryQuery(ctx context.Context, c CopyOptions, made Source,
	t *schema.Table) (query string, err error) {
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
	return fmt.Sprintf("%s UNION ALL SELECT %s FROM (%s) AS m LEFT JOIN (SELECT %s FROM %s) AS c ON %s "+
		"AND m._response_id = c._response_id",
		older, strings.Join(columns, ", "), newer, old, c.From.from(t), same("m.", "c.", t.Key)), nil
}

// records calls put with the rows of a query, in the columns of a table, in records of about copiedRows
// rows.
func (r *Reader) records(
	ctx context.Context, query string, t *schema.Table, erase *Eraser,
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
		defer rows.Release()
		if erase != nil {
			if rows, err = erase.apply(ctx, t, rows); err != nil {
				return err
			}
			defer rows.Release()
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
		rows, err := withTypes(t, some)
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

// withTypes converts rows of a query to the columns of a table. They must be in the same order.
func withTypes(t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, f := range t.Stored().Fields() {
		have := rows.Column(i)
		if have.NullN() == have.Len() { // a column that the sink lacks is NULL, of any type
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

// stored returns the SQL of the columns of a table, in their order. Columns that it lacks are NULL.
func (r *Reader) stored(ctx context.Context, s Source, from string, t *schema.Table) (string, error) {
	is, err := r.describeAt(ctx, s, from)
	if err != nil {
		return "", err
	}
	missing := addedColumns{}
	for _, c := range t.All() {
		if is.types[c.Name] == "" {
			missing[c.Name] = math.MaxInt64
		}
	}
	return columnsOf(t, missing), nil
}
