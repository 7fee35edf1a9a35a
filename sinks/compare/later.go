package compare

import (
	"context"
	"fmt"
	"math"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// addedColumns has the columns that a new version of the program has added to a table with rows: name → id of
// the first answer with a value, or the maximum if no row has one.
type addedColumns map[string]int64

// tableColumns has the columns of a table as they are in a sink.
type tableColumns struct {
	columns []string          // in their order
	types   map[string]string // column → DuckDB type, with VARCHAR for JSON
}

func (r *Reader) describe(ctx context.Context, s Source, t *schema.Table) (f tableColumns, err error) {
	return r.describeAt(ctx, s, s.from(t))
}

// describeAt describes the result of a FROM clause.
func (r *Reader) describeAt(ctx context.Context, s Source, from string) (f tableColumns, err error) {
	rows, err := r.query(ctx, "SELECT column_name, replace(column_type, 'JSON', 'VARCHAR') "+
		"FROM (DESCRIBE SELECT * FROM "+from+")", s)
	f.types = map[string]string{}
	for _, row := range rows {
		f.columns = append(f.columns, row[0].(string))
		f.types[row[0].(string)] = row[1].(string)
	}
	return f, err
}

// addedTo finds the columns that were added to a table later. In a DuckDB file such a column is after
// columns that it precedes in the declaration. Of the Parquet files some lack it.
func (r *Reader) addedTo(ctx context.Context, s Source, t *schema.Table, is tableColumns) (addedColumns, error) {
	var names []string
	if s.File != "" {
		names = outOfOrder(t, is.columns)
	} else {
		var err error
		if names, err = r.notInAll(ctx, s, t); err != nil {
			return nil, err
		}
	}
	added := addedColumns{}
	for _, name := range names {
		added[name] = math.MaxInt64
		if is.types[name] == "" || isOperations(t) { // rows of operations tables may be rewritten at any time
			continue
		}
		rows, err := r.query(ctx, fmt.Sprintf("SELECT min(_response_id) FROM %s WHERE %s IS NOT NULL",
			s.from(t), database.Name(name)), s)
		if err != nil {
			return nil, err
		}
		if first, ok := rows[0][0].(int64); ok {
			added[name] = first
		}
	}
	return added, nil
}

// outOfOrder returns the columns that are after a column which they precede in the declaration.
func outOfOrder(t *schema.Table, have []string) (names []string) {
	place := map[string]int{}
	for i, c := range t.All() {
		place[c.Name] = i
	}
	last := -1
	for _, name := range have {
		at, ours := place[name]
		if ours && at < last {
			names = append(names, name)
		}
		last = max(last, at)
	}
	return names
}

// notInAll returns the columns that some Parquet files of the table or of its history lack. The history
// matters because the file of a current table is rewritten, while the history keeps old files.
func (r *Reader) notInAll(ctx context.Context, s Source, t *schema.Table) (names []string, err error) {
	lacking := map[string]bool{}
	for _, of := range []*schema.Table{t, t.History} {
		if of == nil || s.from(of) == "" {
			continue
		}
		everywhere, err := r.inAll(ctx, s, of)
		if err != nil {
			return nil, err
		}
		for _, name := range columnNames(of) {
			lacking[name] = lacking[name] || !everywhere[name]
		}
	}
	for _, name := range columnNames(t) {
		if lacking[name] {
			names = append(names, name)
		}
	}
	return names, nil
}

// inAll returns the columns that all Parquet files of a table have.
func (r *Reader) inAll(ctx context.Context, s Source, t *schema.Table) (map[string]bool, error) {
	rows, err := r.query(ctx, fmt.Sprintf("SELECT name FROM parquet_schema(%s) GROUP BY name "+
		"HAVING count(DISTINCT file_name) = %d", s.files(t), len(s.Parquet(t))), s)
	names := map[string]bool{}
	for _, row := range rows {
		names[row[0].(string)] = true
	}
	return names, err
}

// empty returns the added columns that lack values, because the expected rows have values before the
// first answer with one.
func (r *Reader) empty(ctx context.Context, want Source, t *schema.Table,
	added addedColumns) (names []string, err error) {
	for _, c := range t.All() {
		first, ok := added[c.Name]
		if !ok {
			continue
		}
		rows, err := r.query(ctx, fmt.Sprintf("SELECT count(*) > 0 FROM %s WHERE %s < %d AND %s IS NOT NULL",
			want.from(t), rangeColumn(t), first, database.Name(c.Name)), want)
		if err != nil {
			return nil, err
		}
		if rows[0][0] == true {
			names = append(names, c.Name)
		}
	}
	return names, nil
}
