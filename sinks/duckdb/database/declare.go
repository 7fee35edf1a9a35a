package database

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"outlierd/schema"
)

// TableName returns the quoted name of a table in the warehouse: "ops.runs" is the table runs in the
// schema ops.
func TableName(t *schema.Table) string {
	space, table := splitName(t)
	return "warehouse." + Name(space) + "." + Name(table)
}

func splitName(t *schema.Table) (space, table string) {
	if space, table, ok := strings.Cut(t.Name, "."); ok {
		return space, table
	}
	return "main", t.Name
}

// columnDefinition returns a column as in CREATE TABLE. By default DuckDB compresses texts of less than 4
// kB by a dictionary and a symbol table per block. If values do not repeat, this needs three times the
// CPU time of zstd to write, more space, and more time to read. Texts in lists and structs, mostly
// addresses of pictures, do not repeat either, but DuckDB accepts no compression for such a column: see
// [DB.Attach].
func columnDefinition(t *schema.Table, c schema.Column) string {
	switch {
	case c.SQLType() != "VARCHAR":
		return Name(c.Name) + " " + c.SQLType()
	case t.Repeats(c.Name):
		return Name(c.Name) + " VARCHAR USING COMPRESSION dict_fsst"
	}
	return Name(c.Name) + " VARCHAR USING COMPRESSION zstd"
}

// Attach opens the file at path for writing as the warehouse. Texts whose compression is not declared are those
// in lists and structs, and get zstd.
func (db *DB) Attach(ctx context.Context, path string) error {
	_, err := db.Exec(ctx, "SET force_compression = 'zstd'; ATTACH "+Text(path)+" AS warehouse ("+rowGroups+")")
	return err
}

// Detach detaches the file, and returns the memory that it took to the system.
func (db *DB) Detach(ctx context.Context) error {
	if _, err := db.Exec(ctx, "DETACH warehouse"); err != nil {
		return fmt.Errorf("detach the warehouse: %w", err)
	}
	return db.Release(ctx)
}

// Checkpoint writes the log of the warehouse into its file.
func (db *DB) Checkpoint(ctx context.Context) error {
	if _, err := db.Exec(ctx, "CHECKPOINT warehouse"); err != nil {
		return fmt.Errorf("checkpoint the warehouse: %w", err)
	}
	return nil
}

// createOwn creates the schemas of the tables that are not in main, and the tables of the writer.
const createOwn = `CREATE SCHEMA IF NOT EXISTS warehouse.ops; CREATE SCHEMA IF NOT EXISTS warehouse.outlierd;
	CREATE TABLE IF NOT EXISTS warehouse.outlierd.marks (name VARCHAR, id BIGINT, text VARCHAR);
	COMMENT ON TABLE warehouse.outlierd.marks IS 'What the writer knows about the file.';
	COMMENT ON COLUMN warehouse.outlierd.marks.name IS 'journal, operations, warehouse, vacuum, published, declared or omitted';
	COMMENT ON COLUMN warehouse.outlierd.marks.id IS 'of journal and operations, the last answer and the last change '
		'of the operations tables in the file; of warehouse, a random number, which every copy of the file has; '
		'of vacuum, the time of the last vacuum in Unix seconds; of published, the number of checkpoints of the '
		'published file; of declared, a hash of the declarations';
	COMMENT ON COLUMN warehouse.outlierd.marks.text IS 'of omitted, the rows and columns that are not kept, as JSON';
	CREATE TABLE IF NOT EXISTS warehouse.outlierd.deleted (table_name VARCHAR, "placing" BIGINT, version BIGINT, hash UBIGINT);
	COMMENT ON TABLE warehouse.outlierd.deleted IS 'Rows that were deleted and not replaced.';
	COMMENT ON COLUMN warehouse.outlierd.deleted.table_name IS 'their table';
	COMMENT ON COLUMN warehouse.outlierd.deleted."placing" IS 'their _first_response_id; in operations tables their id';
	COMMENT ON COLUMN warehouse.outlierd.deleted.version IS 'answer or change that deleted them';
	COMMENT ON COLUMN warehouse.outlierd.deleted.hash IS 'of their key, or of their parent; not of operations tables'`

// Declarations are the tables and views that a file has.
type Declarations struct {
	tables []*schema.Table
	ddl    []string
	hash   int64
}

// NewDeclarations returns the declarations of tables, and of the views that read only these. Comments take two thirds
// of the time of [DB.Declare], and a database that no person reads needs none.
func NewDeclarations(tables []*schema.Table, commented bool) *Declarations {
	views := viewsOf(tables)
	ddl := createTables(tables)
	for _, v := range views {
		ddl = append(ddl, "CREATE OR REPLACE VIEW warehouse."+v.Name+" AS "+v.SQL)
	}
	if commented {
		ddl = append(ddl, commentsOn(tables, views)...)
	}
	all := sha256.Sum256([]byte(Version() + createOwn + strings.Join(ddl, "; ")))
	return &Declarations{tables, ddl, int64(binary.LittleEndian.Uint64(all[:]))}
}

// Declare changes the file to match the declarations. It adds missing tables and columns, and replaces comments and
// views. It never drops a table or a column. A file that this version has declared is not looked through again. A
// column that has another type than declared is an error with the remedy.
func (db *DB) Declare(ctx context.Context, d *Declarations, remedy string) error {
	marks, err := db.Marks(ctx)
	if err == nil && marks.Declared == d.hash {
		return nil
	}
	ddl := []string{"BEGIN", createOwn}
	if err == nil { // a file of another version
		ddl = append(ddl, addColumns(d.tables)...)
		if err := db.checkTypes(ctx, d.tables, remedy); err != nil {
			return err
		}
	}
	ddl = append(ddl, d.ddl...)
	ddl = append(ddl, fmt.Sprintf(`INSERT INTO warehouse.outlierd.marks
		SELECT *, NULL FROM (VALUES (%s, 0), (%s, 0), (%s, 0), (%s, 0), (%s, 0), (%s, 0), (%s, %d)) AS v(name, id)
		WHERE name NOT IN (SELECT name FROM warehouse.outlierd.marks)`,
		Text(Journal), Text(Operations), Text(Vacuum), Text(Declared), Text(Omitted), Text(Published), Text(Warehouse), rand.Int64()),
		fmt.Sprintf("UPDATE warehouse.outlierd.marks SET id = %d WHERE name = %s", d.hash, Text(Declared)),
		"COMMIT", "CHECKPOINT warehouse", "PRAGMA enable_optimizer")
	// These statements leave nothing to optimize, and to look for it takes a third of their time.
	//
	// Query takes two thirds of the time of Exec for hundreds of statements, because the driver then
	// starts one goroutine that waits for ctx, instead of one per statement.
	if _, err := db.Query(ctx, "PRAGMA disable_optimizer; "+strings.Join(ddl, "; ")); err != nil {
		return fmt.Errorf("declare tables: %w", err)
	}
	return nil
}

// checkTypes returns an error with the remedy if a column of the file does not have the declared type. It runs one
// query for all tables, because DuckDB scans its whole catalog for each query.
func (db *DB) checkTypes(ctx context.Context, tables []*schema.Table, remedy string) error {
	var declared []string
	for _, t := range tables {
		space, name := splitName(t)
		for _, c := range t.All() {
			declared = append(declared, fmt.Sprintf("(%s, %s, %s, typeof(NULL::%s))", Text(space), Text(name), Text(c.Name), c.SQLType()))
		}
	}
	rows, err := db.Query(ctx, `SELECT c.schema_name || '.' || c.table_name, c.column_name, c.data_type, d.type
		FROM (VALUES `+strings.Join(declared, ", ")+`) AS d(schema_name, table_name, column_name, type)
		JOIN duckdb_columns() AS c USING (schema_name, table_name, column_name)
		WHERE c.database_name = 'warehouse' AND c.data_type <> d.type LIMIT 1`)
	if err != nil {
		return fmt.Errorf("read the columns of the file: %w", err)
	}
	for _, r := range rows {
		return fmt.Errorf("table %s: column %s is %s in the file and %s in this version: %s", r[0], r[1], r[2], r[3], remedy)
	}
	return nil
}

// createTables returns the statements that create the tables which a file lacks.
func createTables(tables []*schema.Table) (ddl []string) {
	for _, t := range tables {
		var lines []string
		for _, c := range t.All() {
			lines = append(lines, columnDefinition(t, c))
		}
		ddl = append(ddl, "CREATE TABLE IF NOT EXISTS "+TableName(t)+" ("+strings.Join(lines, ", ")+")")
	}
	return ddl
}

// addColumns returns the statements that add the columns which tables of a file lack.
func addColumns(tables []*schema.Table) (ddl []string) {
	for _, t := range tables {
		for _, c := range t.All() {
			ddl = append(ddl, "ALTER TABLE IF EXISTS "+TableName(t)+" ADD COLUMN IF NOT EXISTS "+columnDefinition(t, c))
		}
	}
	return ddl
}

// commentsOn returns the statements that replace the comments of tables and views.
func commentsOn(tables []*schema.Table, views []View) (ddl []string) {
	for _, t := range tables {
		ddl = append(ddl, "COMMENT ON TABLE "+TableName(t)+" IS "+Text(t.Comment))
		for _, c := range t.All() {
			ddl = append(ddl, commentOn(t, c))
		}
	}
	for _, v := range views {
		ddl = append(ddl, "COMMENT ON VIEW warehouse."+v.Name+" IS "+Text(v.Comment))
		for _, c := range v.Columns {
			ddl = append(ddl, "COMMENT ON COLUMN warehouse."+v.Name+"."+Name(c.Name)+" IS "+Text(c.Comment))
		}
	}
	return ddl
}

// EmptyColumn returns the statements that make all values of a column NULL. They cost the same for any number of rows,
// and keep the order of these. The column is then the last one of the table.
func EmptyColumn(t *schema.Table, c schema.Column) []string {
	return []string{
		"ALTER TABLE " + TableName(t) + " DROP COLUMN " + Name(c.Name),
		"ALTER TABLE " + TableName(t) + " ADD COLUMN " + columnDefinition(t, c),
		commentOn(t, c),
	}
}

func commentOn(t *schema.Table, c schema.Column) string {
	return "COMMENT ON COLUMN " + TableName(t) + "." + Name(c.Name) + " IS " + Text(c.Comment)
}
