package database

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

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
// [DB.Attach].
func (c column) definition() string {
	switch {
	case c.kind != "VARCHAR":
		return Name(c.name) + " " + c.kind
	case c.text:
		return Name(c.name) + " VARCHAR USING COMPRESSION zstd"
	}
	return Name(c.name) + " VARCHAR USING COMPRESSION dict_fsst"
}

// Attach opens the file at path for writing as the warehouse. Texts whose compression is not declared are those
// in lists and structs, and get zstd.
func (db *DB) Attach(ctx context.Context, path string) error {
	_, err := db.Exec(ctx, "SET force_compression = 'zstd'; ATTACH "+Text(path)+" AS warehouse")
	return err
}

// Checkpoint writes the log of the warehouse into its file.
func (db *DB) Checkpoint(ctx context.Context) error {
	if _, err := db.Exec(ctx, "CHECKPOINT warehouse"); err != nil {
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

// createOwn creates the schemas of the tables that are not in main, and the tables of the writer.
const createOwn = `CREATE SCHEMA IF NOT EXISTS warehouse.ops; CREATE SCHEMA IF NOT EXISTS warehouse.outlierd;
	CREATE TABLE IF NOT EXISTS warehouse.outlierd.marks (name VARCHAR, id BIGINT);
	COMMENT ON TABLE warehouse.outlierd.marks IS 'What the writer knows about the file.';
	COMMENT ON COLUMN warehouse.outlierd.marks.name IS 'journal, operations, warehouse, vacuum or declared';
	COMMENT ON COLUMN warehouse.outlierd.marks.id IS 'of journal and operations, the last answer and the last change '
		'of the operations tables in the file; of warehouse, a random number, which every copy of the file has; '
		'of vacuum, the time of the last vacuum in Unix seconds; of declared, a hash of the declarations';
	CREATE TABLE IF NOT EXISTS warehouse.outlierd.deleted (table_name VARCHAR, "placing" BIGINT, version BIGINT, hash UBIGINT);
	COMMENT ON TABLE warehouse.outlierd.deleted IS 'Rows that were deleted and not replaced.';
	COMMENT ON COLUMN warehouse.outlierd.deleted.table_name IS 'their table';
	COMMENT ON COLUMN warehouse.outlierd.deleted."placing" IS 'their _first_response_id; in operations tables their id';
	COMMENT ON COLUMN warehouse.outlierd.deleted.version IS 'answer or change that deleted them';
	COMMENT ON COLUMN warehouse.outlierd.deleted.hash IS 'of their key, or of their parent; not of operations tables'`

// Create creates tables and views in a new database, without rows and comments, so that SQL can be
// bound to them.
func (db *DB) Create(ctx context.Context, tables []*schema.Table) error {
	ddl := []string{createOwn}
	for _, t := range tables {
		ddl = append(ddl, create(t))
	}
	for _, v := range viewsOf(tables) {
		ddl = append(ddl, createView(v))
	}
	if _, err := db.Query(ctx, "BEGIN; "+strings.Join(ddl, "; ")+"; COMMIT"); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// Declare changes the file to match the declarations. It adds missing tables and columns, and updates
// comments and views. It never drops a table or a column. A file that this version has declared is not
// looked through again. The error is a [TypeError] if a column has another type than declared.
func (db *DB) Declare(ctx context.Context, tables []*schema.Table) error {
	hash := hashOf(tables)
	if marks, err := db.Marks(ctx); err == nil && marks[Declared] == hash {
		return nil
	}
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
	ddl = append(ddl, fmt.Sprintf(`INSERT INTO warehouse.outlierd.marks
		SELECT * FROM (VALUES (%s, 0), (%s, 0), (%s, 0), (%s, 0), (%s, %d)) AS v(name, id)
		WHERE name NOT IN (SELECT name FROM warehouse.outlierd.marks)`,
		Text(Journal), Text(Operations), Text(Vacuum), Text(Declared), Text(Warehouse), rand.Int64()),
		fmt.Sprintf("UPDATE warehouse.outlierd.marks SET id = %d WHERE name = %s", hash, Text(Declared)))
	// Query takes two thirds of the time of Exec for hundreds of statements, because the driver then
	// starts one goroutine that waits for ctx, instead of one per statement.
	all := "BEGIN; " + createOwn + "; " + strings.Join(ddl, "; ") + "; COMMIT; CHECKPOINT warehouse"
	if _, err := db.Query(ctx, all); err != nil {
		return fmt.Errorf("declare tables: %w", err)
	}
	return nil
}

// hashOf returns a hash that changes whenever [DB.Declare] would create a different file.
func hashOf(tables []*schema.Table) int64 {
	all := sha256.New()
	fmt.Fprintln(all, Version(), createOwn, viewAlterations(viewsOf(tables), nil))
	for _, t := range tables {
		ddl, _ := alterations(t, table{}, nil) // a missing table has no columns of another type
		fmt.Fprintln(all, ddl)
	}
	return int64(binary.LittleEndian.Uint64(all.Sum(nil)))
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
