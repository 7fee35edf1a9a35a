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

// TableName returns the quoted name of a table in the warehouse: "ops.runs" is the table runs in the
// schema ops.
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

// column is a column as declared, or as found in the file.
type column struct {
	name, kind, comment string
	text                bool // a text whose values rarely repeat
}

// columns returns the declared columns.
func columns(t *schema.Table) []column {
	var columns []column
	for _, c := range t.All() {
		text := c.SQLType() == "VARCHAR" && !t.Repeats(c.Name)
		columns = append(columns, column{name: c.Name, kind: c.SQLType(), comment: c.Comment, text: text})
	}
	return columns
}

// definition returns the column as in CREATE TABLE. By default DuckDB compresses texts of less than 4
// kB by a dictionary and a symbol table per block. If values do not repeat, this needs three times the
// CPU time of zstd to write, more space, and more time to read. Texts in lists and structs, mostly
// addresses of pictures, do not repeat either, but DuckDB accepts no compression for such a column: see
// [DB.Checkpoint].
func (c column) definition() string {
	switch {
	case c.kind != "VARCHAR":
		return Name(c.name) + " " + c.kind
	case c.text:
		return Name(c.name) + " VARCHAR USING COMPRESSION zstd"
	}
	return Name(c.name) + " VARCHAR" + dictionaries
}

// dictionaries is the compression of texts that repeat.
const dictionaries = " USING COMPRESSION dict_fsst"

// lacksDictionaries reports whether the file has a storage version before v1.3, as one of an older version of
// this program has until its next vacuum. DuckDB then refuses to declare this compression.
func (db *DB) lacksDictionaries(ctx context.Context) (bool, error) {
	rows, err := db.Query(ctx, `SELECT coalesce(tags['storage_version'] < 'v1.3', false) FROM duckdb_databases()
		WHERE database_name = 'warehouse'`)
	if err != nil {
		return false, fmt.Errorf("read the storage version of the file: %w", err)
	}
	return rows[0][0].(bool), nil
}

// Checkpoint writes the log of the warehouse into its file. Columns of text that were declared without
// a compression get zstd if only nested ones are. In a file of an older version these include columns
// whose values repeat: their dictionaries make queries faster, so DuckDB still chooses.
func (db *DB) Checkpoint(ctx context.Context) error {
	rows, err := db.Query(ctx, "SELECT 1 FROM warehouse.outlierd.marks WHERE name = "+Text(Declared))
	if err == nil && len(rows) > 0 {
		_, err = db.Exec(ctx, "SET force_compression = 'zstd'")
	}
	if err == nil {
		_, err = db.Exec(ctx, "CHECKPOINT warehouse")
	}
	if err != nil {
		return fmt.Errorf("checkpoint the warehouse: %w", err)
	}
	return nil
}

// types returns DuckDB's own names of the declared types, by the declared name, so that they can be
// compared with the types in a file.
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
		return nil, fmt.Errorf("read the types of the declared columns: %w", err)
	}
	types := map[string]string{}
	for i, kind := range kinds {
		types[kind] = rows[0][i].(string)
	}
	return types, nil
}

// table is a table of the file.
type table struct {
	columns map[string]column // by name
	comment string
}

// readTables reads the tables of the file, by schema and name. It runs one query for all tables, because
// DuckDB scans its whole catalog for each query.
func (db *DB) readTables(ctx context.Context) (map[[2]string]table, error) {
	rows, err := db.Query(ctx,
		"SELECT schema_name, table_name, coalesce(comment, '') FROM duckdb_tables() WHERE database_name = 'warehouse'")
	if err != nil {
		return nil, fmt.Errorf("read the tables of the file: %w", err)
	}
	tables := map[[2]string]table{}
	for _, r := range rows {
		tables[[2]string{r[0].(string), r[1].(string)}] = table{columns: map[string]column{}, comment: r[2].(string)}
	}
	rows, err = db.Query(ctx, `SELECT schema_name, table_name, column_name, data_type, coalesce(comment, '')
		FROM duckdb_columns() WHERE database_name = 'warehouse'`)
	if err != nil {
		return nil, fmt.Errorf("read the columns of the file: %w", err)
	}
	for _, r := range rows {
		if t, ok := tables[[2]string{r[0].(string), r[1].(string)}]; ok { // a view has columns too
			name := r[2].(string)
			t.columns[name] = column{name: name, kind: r[3].(string), comment: r[4].(string)}
		}
	}
	return tables, nil
}

// createSchemas creates the schemas of the tables that are not in main.
const createSchemas = "CREATE SCHEMA IF NOT EXISTS warehouse.ops; CREATE SCHEMA IF NOT EXISTS warehouse.outlierd"

// createMarks creates the table of the watermarks.
const createMarks = "CREATE TABLE warehouse.outlierd.marks (name VARCHAR, id BIGINT)"

// marks is the declaration of this table.
var marks = table{
	comment: "Watermarks of the writer.",
	columns: map[string]column{
		"name": {comment: "journal, operations, vacuum or declared"},
		"id": {comment: "of journal and operations, the last answer and the last change of the operations tables " +
			"in the file; of vacuum, the time of the last vacuum in Unix seconds; " +
			"of declared, 1 if all text columns that are not nested declare their compression"},
	},
}

// markChanges returns the statements that change the table of the watermarks to its declaration.
func markChanges(have table) []string {
	var ddl []string
	if have.columns == nil {
		ddl = append(ddl, createMarks, "INSERT INTO warehouse.outlierd.marks VALUES ("+Text(Declared)+", 1)")
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

// Create creates tables and views in a new database, without rows and comments, so that SQL can be
// bound to them.
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

// Fingerprint returns a hash that changes whenever [DB.Declare] would create a different file: it
// covers the declarations of tables, views and watermarks, and the version of DuckDB.
func Fingerprint(tables []*schema.Table) string {
	all := sha256.New()
	fmt.Fprintln(all, mapping.LibraryVersion(), createSchemas)
	for _, t := range tables {
		ddl, _ := alterations(t, table{}, nil) // a missing table has no columns of another type
		fmt.Fprintln(all, ddl)
	}
	fmt.Fprintln(all, viewAlterations(viewsOf(tables), nil), markChanges(table{}))
	return hex.EncodeToString(all.Sum(nil))
}

// Declare changes the file to match the declarations. It adds missing tables and columns, and updates
// comments and views. It never drops a table or a column. A file that matches is not written to. The
// error is a [TypeError] if a column has another type than declared.
func (db *DB) Declare(ctx context.Context, tables []*schema.Table) error {
	types, err := db.types(ctx, tables)
	if err != nil {
		return err
	}
	have, err := db.readTables(ctx)
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
		all := "BEGIN; " + createSchemas + "; " + strings.Join(ddl, "; ") + "; COMMIT; CHECKPOINT warehouse"
		old, err := db.lacksDictionaries(ctx)
		if err != nil {
			return err
		}
		if old {
			all = strings.ReplaceAll(all, dictionaries, "")
		}
		if err := db.define(ctx, all); err != nil {
			return fmt.Errorf("declare tables: %w", err)
		}
	}
	return db.declareMarks(ctx)
}

// define runs hundreds of statements. Query takes two thirds of the time of Exec for them, because the
// driver then starts one goroutine that waits for ctx, instead of one per statement.
func (db *DB) define(ctx context.Context, sql string) error {
	_, err := db.Query(ctx, sql)
	return err
}

// The names in the table of the watermarks: the watermark of the journal, the version of the operations
// tables, the time of the last vacuum, and whether the columns of text were declared with their
// compression when the file was created.
const (
	Journal    = "journal"
	Operations = "operations"
	Vacuum     = "vacuum"
	Declared   = "declared"
)

// declareMarks adds missing rows to the table of the watermarks. It deletes those of each operations
// table, which an earlier version wrote and which are no longer used.
func (db *DB) declareMarks(ctx context.Context) error {
	_, err := db.Exec(ctx, `DELETE FROM warehouse.outlierd.marks WHERE name LIKE 'ops.%';
		INSERT INTO warehouse.outlierd.marks
		SELECT name, 0 FROM (VALUES (`+Text(Journal)+`), (`+Text(Operations)+`), (`+Text(Vacuum)+`)) AS v(name)
		WHERE name NOT IN (SELECT name FROM warehouse.outlierd.marks)`)
	if err != nil {
		return fmt.Errorf("declare marks: %w", err)
	}
	return nil
}

// TypeError reports a column whose type in the file differs from the declared one.
type TypeError struct{ Table, Column, Have, Want string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("table %s: column %s is %s in the file and %s in this version",
		e.Table, e.Column, e.Have, e.Want)
}

// alterations returns the statements that change a table to its declaration.
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

// viewChanges returns the statements that change the views to their declarations. DuckDB stores a view
// in a normalized form, so the declaration is normalized by a conversion to JSON and back before it is
// compared. This does not work for CROSS JOIN, which the conversion turns into a comma.
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
			AND v.sql = 'CREATE VIEW ' || regexp_replace(w.name, '^main[.]', '') || ' AS '
				|| json_deserialize_sql(json_serialize_sql(w.sql)) || ';'
		JOIN duckdb_columns() AS c ON c.database_name = 'warehouse' AND c.table_oid = v.view_oid GROUP BY ALL`)
	if err != nil {
		return nil, fmt.Errorf("read the views of the file: %w", err)
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

// viewAlterations returns the statements that create missing views and update comments. have has the
// comments of the views and of their columns by name.
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
