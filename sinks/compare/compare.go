// Package compare compares the tables of the warehouse or of a copy with one another, and with tables
// rebuilt from the journal. DuckDB reads both.
//
// Tables are compared by ranges of answers. DuckDB counts the rows of each range and adds up their
// hashes; only the rows of ranges that differ are compared one by one. So memory does not grow with
// the tables.
package compare

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// Source is the location of tables: a DuckDB file or Parquet files.
type Source struct {
	Name    string                         // in messages
	File    string                         // path of the DuckDB file; "" for Parquet files
	Parquet func(t *schema.Table) []string // returns the paths of the files of a table
}

// from returns the SQL of a table in FROM. A table without files has no rows.
func (s Source) from(t *schema.Table) string {
	if s.File != "" {
		return strings.Replace(database.TableName(t), "warehouse", database.Name(s.File), 1)
	}
	var files, columns []string
	for _, path := range s.Parquet(t) {
		files = append(files, database.Text(path))
	}
	if files != nil {
		return "read_parquet([" + strings.Join(files, ", ") + "], union_by_name = true, hive_partitioning = false)"
	}
	for _, c := range t.All() {
		columns = append(columns, "NULL::"+c.SQLType()+" AS "+database.Name(c.Name))
	}
	return "(SELECT " + strings.Join(columns, ", ") + " WHERE false)"
}

// maxMemory is the limit of DuckDB's buffers, in bytes.
const maxMemory = 256 << 20

// Reader reads tables. After an error it restarts DuckDB, because a damaged block makes an instance
// unusable.
type Reader struct {
	options  database.Options
	db       *database.DB
	attached map[string]bool // paths of files
}

// Open returns a reader. It starts DuckDB when it is first used. Data that does not fit into memory
// goes to the folder temp.
func Open(temp string) *Reader {
	return &Reader{options: database.Options{Memory: maxMemory, Threads: runtime.GOMAXPROCS(0), Temp: temp}}
}

// Close stops DuckDB.
func (r *Reader) Close() error {
	if r.db == nil {
		return nil
	}
	err := r.db.Close()
	r.db = nil
	return err
}

// attachAndQuery attaches the files of sources, runs a query, and closes DuckDB after an error.
func (r *Reader) attachAndQuery(ctx context.Context, sql string, of ...Source) (rows [][]driver.Value, err error) {
	if err = r.attachFiles(ctx, of); err == nil {
		rows, err = r.db.Query(ctx, sql)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return rows, nil
}

// attachFiles starts DuckDB, unless it runs, and attaches the files of sources.
func (r *Reader) attachFiles(ctx context.Context, of []Source) (err error) {
	if r.db == nil {
		if r.db, err = database.Open(ctx, r.options); err != nil {
			return err
		}
		r.attached = map[string]bool{}
	}
	for _, s := range of {
		if s.File == "" || r.attached[s.File] {
			continue
		}
		attach := "ATTACH " + database.Text(s.File) + " AS " + database.Name(s.File) + " (READ_ONLY)"
		if _, err := r.db.Exec(ctx, attach); err != nil {
			return err
		}
		r.attached[s.File] = true
	}
	return nil
}

// Rows has the number of rows of a table, and the ids of the first and last answer that they come from, or of the first
// and last row of an operations table. All are 0 for an empty table.
type Rows struct{ Count, First, Last int64 }

// Rows counts the rows of a table.
func (r *Reader) Rows(ctx context.Context, s Source, t *schema.Table) (n Rows, err error) {
	rows, err := r.attachAndQuery(ctx, fmt.Sprintf("SELECT count(*), coalesce(min(%[1]s), 0), coalesce(max(%[1]s), 0) FROM %s",
		rangeColumn(t), s.from(t)), s)
	if err == nil {
		n = Rows{rows[0][0].(int64), rows[0][1].(int64), rows[0][2].(int64)}
	}
	return n, err
}

// Difference is the result of the comparison of a table with the expected rows.
type Difference struct {
	Rows     int64    // number of expected rows
	Missing  int64    // expected rows that the table lacks
	Surplus  int64    // rows that are not expected
	Changed  int64    // rows with other values than expected
	Examples []string // the first differences: their kind and key
}

// Any reports whether there is a difference.
func (d Difference) Any() bool { return d.Missing+d.Surplus+d.Changed > 0 }

// String returns the numbers of differences: "2 missing, 1 changed".
func (d Difference) String() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{d.Missing, "missing"}, {d.Surplus, "unexpected"}, {d.Changed, "changed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// rangeSize is the size of a range: in answers, or in rows of an operations table.
const rangeSize = 1000

// rangeColumn returns the column that divides a table into ranges: the id of the answer, or of the row in
// an operations table, which is derived from the state and not from the journal.
func rangeColumn(t *schema.Table) string {
	if t.IsOps() {
		return t.Key[0]
	}
	return "_response_id"
}

// Compare compares a table of have with the expected rows of want. It ignores the rows of an operations table with the
// ids in but. It returns an error if the columns or their types differ.
func (r *Reader) Compare(ctx context.Context, want, have Source, t *schema.Table, but ...int64) (d Difference, err error) {
	number, where := rangeColumn(t), "true"
	if len(but) > 0 {
		where = number + " NOT IN (" + strings.ReplaceAll(strings.Trim(fmt.Sprint(but), "[]"), " ", ", ") + ")"
	}
	names := database.Names("", columnNames(t))
	sums := func(from string) string {
		return fmt.Sprintf("SELECT %s // %d AS part, count(*) AS n, sum(hash(typeof(row(%s)), %s)) AS sum FROM (SELECT %s "+
			"FROM %s WHERE %s) GROUP BY ALL", number, rangeSize, names, names, columnsOf(t), from, where)
	}
	parts, err := r.attachAndQuery(ctx, fmt.Sprintf(`SELECT coalesce(w.part, h.part), coalesce(w.n, 0), w.n IS NOT DISTINCT FROM h.n AND w.sum IS NOT DISTINCT FROM h.sum
		FROM (%s) AS w FULL JOIN (%s) AS h ON w.part IS NOT DISTINCT FROM h.part ORDER BY ALL`, sums(want.from(t)), sums(have.from(t))), want, have)
	if err != nil || len(parts) == 0 || slices.ContainsFunc(parts, func(part []driver.Value) bool { return !part[2].(bool) }) {
		err = cmp.Or(r.compareColumns(ctx, want, have, t), err)
	}
	if err != nil {
		return d, err
	}
	for _, part := range parts {
		d.Rows += part[1].(int64)
		if same := part[2].(bool); same {
			continue
		}
		within := number + " IS NULL"
		if n, ok := part[0].(int64); ok {
			within = fmt.Sprintf("%s BETWEEN %d AND %d", number, n*rangeSize, (n+1)*rangeSize-1)
		}
		one, err := r.findDifferences(ctx, want, have, t, within+" AND "+where)
		if err != nil {
			return d, err
		}
		d.add(one)
	}
	return d, nil
}

func (d *Difference) add(o Difference) {
	d.Missing, d.Surplus, d.Changed = d.Missing+o.Missing, d.Surplus+o.Surplus, d.Changed+o.Changed
	d.Examples = append(d.Examples, o.Examples...)
	d.Examples = d.Examples[:min(len(d.Examples), maxExamples)]
}

// maxExamples is the maximum number of examples per table.
const maxExamples = 3

// compareColumns returns an error if the table lacks a column, or has one of another type: another version
// of the program has written it. JSON is text in Parquet.
func (r *Reader) compareColumns(ctx context.Context, want, have Source, t *schema.Table) error {
	var names []string
	for _, name := range columnNames(t) {
		names = append(names, database.Text(name))
	}
	types := func(s Source) string {
		return "(SELECT column_name, replace(column_type, 'JSON', 'VARCHAR') AS type FROM (DESCRIBE SELECT * FROM " + s.from(t) + "))"
	}
	rows, err := r.attachAndQuery(ctx, fmt.Sprintf(`SELECT column_name, w.type, h.type FROM %s AS w LEFT JOIN %s AS h USING (column_name)
		WHERE column_name IN (%s) AND w.type IS DISTINCT FROM h.type ORDER BY ALL LIMIT 1`,
		types(want), types(have), strings.Join(names, ", ")), want, have)
	switch {
	case err != nil || len(rows) == 0:
		return err
	case rows[0][2] == nil:
		return fmt.Errorf("column %s is missing", rows[0][0])
	}
	return fmt.Errorf("column %s has type %s instead of %s", rows[0][0], rows[0][2], rows[0][1])
}

// findDifferences compares the rows of one range.
func (r *Reader) findDifferences(ctx context.Context, want, have Source, t *schema.Table, within string) (d Difference, err error) {
	rows := func(s Source) string { return "SELECT " + columnsOf(t) + " FROM " + s.from(t) + " WHERE " + within }
	key := t.Key
	if number := rangeColumn(t); !slices.Contains(key, number) {
		key = append(slices.Clone(key), number)
	}
	found, err := r.attachAndQuery(ctx, fmt.Sprintf(`WITH missing AS (%[1]s EXCEPT ALL %[2]s),
		surplus AS (%[2]s EXCEPT ALL %[1]s),
		counted AS (SELECT %[3]s, sum(m)::BIGINT AS m, sum(s)::BIGINT AS s FROM
			(SELECT %[3]s, 1 AS m, 0 AS s FROM missing UNION ALL SELECT %[3]s, 0, 1 FROM surplus) GROUP BY ALL)
		SELECT m, s, least(m, s), %[4]s FROM counted
		ORDER BY ALL`, rows(want), rows(have), database.Names("", key), keyText(key)), want, have)
	if err != nil {
		return d, err
	}
	for _, row := range found {
		m, s, both := row[0].(int64), row[1].(int64), row[2].(int64)
		one := Difference{Missing: m - both, Surplus: s - both, Changed: both}
		one.Examples = []string{one.String() + ": " + row[3].(string)}
		d.add(one)
	}
	return d, nil
}
