package database

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// column is a column as the declaration wants it.
type column struct{ name, kind, comment string }

// columns are the declared columns; types as DuckDB itself writes them, so that
// they can be compared with what a file has.
func (db *DB) columns(ctx context.Context, t *schema.Table) ([]column, error) {
	var columns []column
	var kinds []string
	for _, f := range t.Stored().Fields() {
		c := column{name: f.Name, kind: schema.SQLType(f.Type)}
		if i := slices.IndexFunc(t.Columns, func(d schema.Column) bool { return d.Name == f.Name }); i >= 0 {
			c.comment = t.Columns[i].Comment
			if t.Columns[i].JSON {
				c.kind = "JSON"
			}
		}
		columns = append(columns, c)
		kinds = append(kinds, "typeof(NULL::"+c.kind+")")
	}
	row, err := db.Query(ctx, "SELECT "+strings.Join(kinds, ", "))
	if err != nil {
		return nil, fmt.Errorf("types of table %s: %w", t.Name, err)
	}
	for i := range columns {
		columns[i].kind = row[0][i].(string)
	}
	return columns, nil
}

// found is a column of the file.
type found struct{ kind, comment string }

// Declare brings the file to the declarations: tables and columns that it lacks
// are added, comments and views follow, and no table is ever narrowed or dropped. A
// file that agrees is not written to.
func (db *DB) Declare(ctx context.Context, tables []*schema.Table) error {
	ddl := []string{"CREATE SCHEMA IF NOT EXISTS warehouse.ops", "CREATE SCHEMA IF NOT EXISTS warehouse.outlierd"}
	for _, t := range tables {
		changes, err := db.alterations(ctx, t)
		if err != nil {
			return err
		}
		ddl = append(ddl, changes...)
	}
	for _, v := range viewsOf(tables) {
		changes, err := db.view(ctx, v)
		if err != nil {
			return err
		}
		ddl = append(ddl, changes...)
	}
	marks, err := db.Query(ctx, "SELECT 1 FROM duckdb_tables() WHERE database_name = 'warehouse' AND schema_name = 'outlierd'")
	if err != nil {
		return err
	}
	if len(marks) == 0 {
		ddl = append(ddl, "CREATE TABLE warehouse.outlierd.marks (name VARCHAR, id BIGINT)",
			"COMMENT ON TABLE warehouse.outlierd.marks IS "+
				Text("How far the writer has come: the answers of the journal, the changes of the operations tables."))
	}
	if len(ddl) > 2 {
		if _, err := db.Exec(ctx, "BEGIN; "+strings.Join(ddl, "; ")+"; COMMIT; CHECKPOINT warehouse"); err != nil {
			return fmt.Errorf("declare tables: %w", err)
		}
	}
	return db.declareMarks(ctx)
}

// The marks: the watermark, and the version of the operations tables.
const (
	Journal    = "journal"
	Operations = "operations"
)

// declareMarks gives the journal and the operations tables a row to count db. A file of an
// earlier version has a mark for each of these tables, which says nothing of their changes.
func (db *DB) declareMarks(ctx context.Context) error {
	_, err := db.Exec(ctx, `DELETE FROM warehouse.outlierd.marks WHERE name LIKE 'ops.%';
		INSERT INTO warehouse.outlierd.marks SELECT name, 0 FROM (VALUES (`+Text(Journal)+`), (`+Text(Operations)+`)) AS v(name)
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
func (db *DB) alterations(ctx context.Context, t *schema.Table) ([]string, error) {
	want, err := db.columns(ctx, t)
	if err != nil {
		return nil, err
	}
	have, comment, err := db.found(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(have) == 0 {
		return create(t, want), nil
	}
	var ddl []string
	for _, c := range want {
		old, ok := have[c.name]
		if ok && old.kind != c.kind {
			return nil, &TypeError{Table: t.Name, Column: c.name, Have: old.kind, Want: c.kind}
		}
		if !ok {
			ddl = append(ddl, "ALTER TABLE "+TableName(t)+" ADD COLUMN "+Name(c.name)+" "+c.kind)
		}
		if old.comment != c.comment {
			ddl = append(ddl, "COMMENT ON COLUMN "+TableName(t)+"."+Name(c.name)+" IS "+Text(c.comment))
		}
	}
	if comment != t.Comment {
		ddl = append(ddl, "COMMENT ON TABLE "+TableName(t)+" IS "+Text(t.Comment))
	}
	return ddl, nil
}

// view gives the statements that bring a view to its declaration. DuckDB keeps the
// definition in words of its own, so the two are compared in these.
func (db *DB) view(ctx context.Context, v View) ([]string, error) {
	space, view, _ := strings.Cut(v.Name, ".")
	rows, err := db.Query(ctx, `SELECT coalesce(comment, '') = `+Text(v.Comment)+`
		FROM duckdb_views() WHERE database_name = 'warehouse' AND schema_name = `+Text(space)+` AND view_name = `+Text(view)+`
		AND sql = 'CREATE VIEW `+v.Name+` AS ' || json_deserialize_sql(json_serialize_sql(`+Text(v.SQL)+`)) || ';'`)
	if err != nil {
		return nil, fmt.Errorf("definition of view %s: %w", v.Name, err)
	}
	comment := "COMMENT ON VIEW warehouse." + v.Name + " IS " + Text(v.Comment)
	switch {
	case len(rows) == 0:
		return []string{"CREATE OR REPLACE VIEW warehouse." + v.Name + " AS " + v.SQL, comment}, nil
	case rows[0][0] != true:
		return []string{comment}, nil
	}
	return nil, nil
}

func create(t *schema.Table, columns []column) []string {
	var lines []string
	ddl := []string{""}
	for _, c := range columns {
		lines = append(lines, Name(c.name)+" "+c.kind)
		if c.comment != "" {
			ddl = append(ddl, "COMMENT ON COLUMN "+TableName(t)+"."+Name(c.name)+" IS "+Text(c.comment))
		}
	}
	ddl[0] = "CREATE TABLE " + TableName(t) + " (" + strings.Join(lines, ", ") + ")"
	if t.Comment != "" {
		ddl = append(ddl, "COMMENT ON TABLE "+TableName(t)+" IS "+Text(t.Comment))
	}
	return ddl
}

// found reads what the file has of a table; no columns if it has no such table.
func (db *DB) found(ctx context.Context, t *schema.Table) (map[string]found, string, error) {
	space, table := split(t)
	where := "WHERE database_name = 'warehouse' AND schema_name = " + Text(space) + " AND table_name = " + Text(table)
	rows, err := db.Query(ctx, "SELECT column_name, data_type, coalesce(comment, '') FROM duckdb_columns() "+where)
	if err != nil {
		return nil, "", fmt.Errorf("columns of table %s: %w", t.Name, err)
	}
	columns := map[string]found{}
	for _, r := range rows {
		columns[r[0].(string)] = found{kind: r[1].(string), comment: r[2].(string)}
	}
	rows, err = db.Query(ctx, "SELECT coalesce(comment, '') FROM duckdb_tables() "+where)
	if err != nil {
		return nil, "", fmt.Errorf("comment of table %s: %w", t.Name, err)
	}
	if len(rows) == 0 {
		return columns, "", nil
	}
	return columns, rows[0][0].(string), nil
}
