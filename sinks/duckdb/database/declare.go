package database

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"outlierd/schema"
)

// TableName is a table's name in the warehouse: "ops.runs" is runs in the schema ops.
func TableName(t *schema.Table) string {
	space, table := split(t)
	return "warehouse." + Name(space) + "." + Name(table)
}

func split(t *schema.Table) (space, table string) {
	if space, table, ok := strings.Cut(t.Name, "."); ok {
		return space, table
	}
	return "main", t.Name
}

// column is a column as the declaration wants it, or as the file has it.
type column struct {
	name, kind, comment string
	text                bool // whose values hardly ever repeat
}

// columns are the declared columns.
func columns(t *schema.Table) []column {
	var columns []column
	for _, c := range t.All() {
		text := c.SQLType() == "VARCHAR" && !t.Repeats(c.Name)
		columns = append(columns, column{name: c.Name, kind: c.SQLType(), comment: c.Comment, text: text})
	}
	return columns
}

// definition is a column in the words of CREATE TABLE. Left to itself, DuckDB keeps texts of less than
// 4 kB in a dictionary, and makes a table of symbols for each block: where values do not repeat, that
// takes three times the processor time of zstd to write, more space, and longer to read.
func (c column) definition() string {
	if c.text {
		return Name(c.name) + " " + c.kind + " USING COMPRESSION zstd"
	}
	return Name(c.name) + " " + c.kind
}

// types are the names by which DuckDB itself calls the types of the declared columns, so
// that they can be compared with what a file has.
func (db *DB) types(ctx context.Context, tables []*schema.Table) (map[string]string, error) {
	var kinds, calls []string
	for _, t := range tables {
		for _, c := range columns(t) {
			if !slices.Contains(kinds, c.kind) {
				kinds = append(kinds, c.kind)
				calls = append(calls, "typeof(NULL::"+c.kind+")")
			}
		}
	}
	rows, err := db.Query(ctx, "SELECT "+strings.Join(calls, ", "))
	if err != nil {
		return nil, fmt.Errorf("types of the declared columns: %w", err)
	}
	types := map[string]string{}
	for i, kind := range kinds {
		types[kind] = rows[0][i].(string)
	}
	return types, nil
}

// table is a table of the file, its columns by name.
type table struct {
	columns map[string]column
	comment string
}

// found reads the tables that the file has, by schema and name. It asks once for all: DuckDB
// goes through its whole catalog for each such query.
func (db *DB) found(ctx context.Context) (map[[2]string]table, error) {
	rows, err := db.Query(ctx, "SELECT schema_name, table_name, coalesce(comment, '') FROM duckdb_tables() WHERE database_name = 'warehouse'")
	if err != nil {
		return nil, fmt.Errorf("tables of the file: %w", err)
	}
	tables := map[[2]string]table{}
	for _, r := range rows {
		tables[[2]string{r[0].(string), r[1].(string)}] = table{columns: map[string]column{}, comment: r[2].(string)}
	}
	rows, err = db.Query(ctx, `SELECT schema_name, table_name, column_name, data_type, coalesce(comment, '')
		FROM duckdb_columns() WHERE database_name = 'warehouse'`)
	if err != nil {
		return nil, fmt.Errorf("columns of the file: %w", err)
	}
	for _, r := range rows {
		if t, ok := tables[[2]string{r[0].(string), r[1].(string)}]; ok { // a view has columns too
			name := r[2].(string)
			t.columns[name] = column{name: name, kind: r[3].(string), comment: r[4].(string)}
		}
	}
	return tables, nil
}

// createSchemas makes room for the tables that are not in main.
const createSchemas = "CREATE SCHEMA IF NOT EXISTS warehouse.ops; CREATE SCHEMA IF NOT EXISTS warehouse.outlierd"

// createMarks makes the table of the watermark and its like.
const createMarks = "CREATE TABLE warehouse.outlierd.marks (name VARCHAR, id BIGINT)"

// marks is that table as the declaration wants it.
var marks = table{
	comment: "How far the writer has come.",
	columns: map[string]column{
		"name": {comment: "journal, operations for the operations tables, or vacuum"},
		"id":   {comment: "the last answer of the journal, or change of the operations tables, that the file holds; for vacuum, when it was made last, in Unix seconds"},
	},
}

// markChanges are the statements that bring the marks to their declaration.
func markChanges(have table) []string {
	var ddl []string
	if have.columns == nil {
		ddl = append(ddl, createMarks)
	}
	if have.comment != marks.comment {
		ddl = append(ddl, "COMMENT ON TABLE warehouse.outlierd.marks IS "+Text(marks.comment))
	}
	for _, name := range slices.Sorted(maps.Keys(marks.columns)) {
		if comment := marks.columns[name].comment; have.columns[name].comment != comment {
			ddl = append(ddl, "COMMENT ON COLUMN warehouse.outlierd.marks."+name+" IS "+Text(comment))
		}
	}
	return ddl
}

// Create makes tables and views in a new database, without rows and without comments, so
// that SQL can be bound to them.
func (db *DB) Create(ctx context.Context, tables []*schema.Table) error {
	ddl := []string{createSchemas, createMarks}
	for _, t := range tables {
		ddl = append(ddl, create(t))
	}
	for _, v := range viewsOf(tables) {
		ddl = append(ddl, createView(v))
	}
	if err := db.define(ctx, "BEGIN; "+strings.Join(ddl, "; ")+"; COMMIT"); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// Fingerprint changes with what [DB.Declare] makes of an empty file: with the declarations of tables,
// views and marks, and with the DuckDB that keeps them.
func Fingerprint(tables []*schema.Table) string {
	all := sha256.New()
	fmt.Fprintln(all, mapping.LibraryVersion(), createSchemas)
	for _, t := range tables {
		ddl, _ := alterations(t, table{}, nil) // of a table that is not there, no column has another type
		fmt.Fprintln(all, ddl)
	}
	fmt.Fprintln(all, viewAlterations(viewsOf(tables), nil), markChanges(table{}))
	return hex.EncodeToString(all.Sum(nil))
}

// Declare brings the file to the declarations: tables and columns that it lacks
// are added, comments and views follow, and no table is ever narrowed or dropped. A
// file that agrees is not written to.
func (db *DB) Declare(ctx context.Context, tables []*schema.Table) error {
	types, err := db.types(ctx, tables)
	if err != nil {
		return err
	}
	have, err := db.found(ctx)
	if err != nil {
		return err
	}
	var ddl []string
	for _, t := range tables {
		space, name := split(t)
		changes, err := alterations(t, have[[2]string{space, name}], types)
		if err != nil {
			return err
		}
		ddl = append(ddl, changes...)
	}
	changes, err := db.viewChanges(ctx, viewsOf(tables))
	if err != nil {
		return err
	}
	ddl = append(ddl, changes...)
	ddl = append(ddl, markChanges(have[[2]string{"outlierd", "marks"}])...)
	if len(ddl) > 0 {
		if err := db.define(ctx, "BEGIN; "+createSchemas+"; "+strings.Join(ddl, "; ")+"; COMMIT; CHECKPOINT warehouse"); err != nil {
			return fmt.Errorf("declare tables: %w", err)
		}
	}
	return db.declareMarks(ctx)
}

// define runs hundreds of statements. As a query they take two thirds of the time: the driver then
// waits for the end of ctx once, and not with a goroutine for each.
func (db *DB) define(ctx context.Context, sql string) error {
	_, err := db.Query(ctx, sql)
	return err
}

// The marks: the watermark, the version of the operations tables, and the time of the last vacuum.
const (
	Journal    = "journal"
	Operations = "operations"
	Vacuum     = "vacuum"
)

// declareMarks gives each mark a row. A file of an
// earlier version has a mark for each of these tables, which says nothing of their changes.
func (db *DB) declareMarks(ctx context.Context) error {
	_, err := db.Exec(ctx, `DELETE FROM warehouse.outlierd.marks WHERE name LIKE 'ops.%';
		INSERT INTO warehouse.outlierd.marks SELECT name, 0 FROM (VALUES (`+Text(Journal)+`), (`+Text(Operations)+`), (`+Text(Vacuum)+`)) AS v(name)
		WHERE name NOT IN (SELECT name FROM warehouse.outlierd.marks)`)
	if err != nil {
		return fmt.Errorf("declare marks: %w", err)
	}
	return nil
}

// TypeError says that a column of the file has another type than this version declares.
type TypeError struct{ Table, Column, Have, Want string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("table %s: column %s is %s in the file and %s in this version", e.Table, e.Column, e.Have, e.Want)
}

// alterations are the statements that bring one table to its declaration.
func alterations(t *schema.Table, have table, types map[string]string) ([]string, error) {
	var ddl []string
	exists := len(have.columns) > 0
	if !exists {
		ddl = append(ddl, create(t))
	}
	for _, c := range columns(t) {
		old, ok := have.columns[c.name]
		if kind := types[c.kind]; ok && old.kind != kind {
			return nil, &TypeError{Table: t.Name, Column: c.name, Have: old.kind, Want: kind}
		}
		if exists && !ok {
			ddl = append(ddl, "ALTER TABLE "+TableName(t)+" ADD COLUMN "+c.definition())
		}
		if old.comment != c.comment {
			ddl = append(ddl, "COMMENT ON COLUMN "+TableName(t)+"."+Name(c.name)+" IS "+Text(c.comment))
		}
	}
	if have.comment != t.Comment {
		ddl = append(ddl, "COMMENT ON TABLE "+TableName(t)+" IS "+Text(t.Comment))
	}
	return ddl, nil
}

// viewChanges are the statements that bring the views to their declarations. DuckDB keeps a
// definition in words of its own, so the two are compared in these. They are the same only without
// CROSS JOIN, which JSON has as a comma.
func (db *DB) viewChanges(ctx context.Context, views []View) ([]string, error) {
	if len(views) == 0 {
		return nil, nil
	}
	var wanted []string
	for i, v := range views {
		wanted = append(wanted, fmt.Sprintf("(%d, %s, %s)", i, Text(v.Name), Text(v.SQL)))
	}
	rows, err := db.Query(ctx, `SELECT w.nth, coalesce(v.comment, ''), list([c.column_name, coalesce(c.comment, '')])
		FROM (VALUES `+strings.Join(wanted, ", ")+`) AS w(nth, name, sql)
		JOIN duckdb_views() AS v ON v.database_name = 'warehouse' AND v.schema_name || '.' || v.view_name = w.name
			AND v.sql = 'CREATE VIEW ' || regexp_replace(w.name, '^main[.]', '') || ' AS ' || json_deserialize_sql(json_serialize_sql(w.sql)) || ';'
		JOIN duckdb_columns() AS c ON c.database_name = 'warehouse' AND c.table_oid = v.view_oid GROUP BY ALL`)
	if err != nil {
		return nil, fmt.Errorf("definitions of the views: %w", err)
	}
	have := map[string]string{}
	for _, r := range rows {
		v := views[r[0].(int32)]
		have[v.Name] = r[1].(string)
		for _, column := range r[2].([]any) {
			pair := column.([]any)
			have[v.Name+"."+pair[0].(string)] = pair[1].(string)
		}
	}
	return viewAlterations(views, have), nil
}

// viewAlterations are the statements that make the views that a file does not have as declared, and bring
// comments to their declarations. have has the comments of views and columns by name.
func viewAlterations(views []View, have map[string]string) (ddl []string) {
	for _, v := range views {
		if _, ok := have[v.Name]; !ok {
			ddl = append(ddl, createView(v))
		}
		if have[v.Name] != v.Comment {
			ddl = append(ddl, "COMMENT ON VIEW warehouse."+v.Name+" IS "+Text(v.Comment))
		}
		for _, c := range v.Columns {
			if have[v.Name+"."+c.Name] != c.Comment {
				ddl = append(ddl, "COMMENT ON COLUMN warehouse."+v.Name+"."+Name(c.Name)+" IS "+Text(c.Comment))
			}
		}
	}
	return ddl
}

func create(t *schema.Table) string {
	var lines []string
	for _, c := range columns(t) {
		lines = append(lines, c.definition())
	}
	return "CREATE TABLE " + TableName(t) + " (" + strings.Join(lines, ", ") + ")"
}

func createView(v View) string {
	return "CREATE OR REPLACE VIEW warehouse." + v.Name + " AS " + v.SQL
}
