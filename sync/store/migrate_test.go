package store

import (
	stdsql "database/sql"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrationIsWholeOrNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := stdsql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	first := `CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('kept')`
	second := `ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 3`
	broken := `ALTER TABLE notes ADD COLUMN more TEXT; THIS IS NO SQL`
	if err := migrateFile(t.Context(), db, path, Options{Migrations: []string{first}}); err != nil {
		t.Fatal(err)
	}
	if err := migrateFile(t.Context(), db, path, Options{Migrations: []string{first, second, broken}}); err == nil {
		t.Fatal("a migration that is no SQL succeeded")
	}
	var text string
	var stars, version, columns int
	if err := db.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil || version != 1 {
		t.Errorf("the version is %d (%v), want 1: a reader must meanwhile find the old version or the latest", version, err)
	}
	if err := migrateFile(t.Context(), db, path, Options{Migrations: []string{first, second}}); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(`SELECT text, stars FROM notes`).Scan(&text, &stars); err != nil || text != "kept" || stars != 3 {
		t.Errorf("got %q %d (%v), want the old row with the new column", text, stars, err)
	}
	if err := db.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil || version != 2 {
		t.Errorf("the version is %d (%v), want 2", version, err)
	}
	if err := db.QueryRow(`SELECT count(*) FROM pragma_table_info('notes')`).Scan(&columns); err != nil || columns != 2 {
		t.Errorf("there are %d columns (%v), want 2", columns, err)
	}
}

// TestTablesWithoutTheirMarkAreRefused: development versions changed the first step, whose tables have no versions.
func TestTablesWithoutTheirMarkAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := stdsql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, test := range []struct {
		first   string
		refused bool
	}{
		{"CREATE TABLE notes (text TEXT)", false},
		{"-- What people write.\nCREATE TABLE notes (text  TEXT) -- as text", false},
		{"CREATE TABLE notes (text TEXT, stars INTEGER)", true},
	} {
		err := migrateFile(t.Context(), db, path, Options{Migrations: []string{test.first}})
		if refused := err != nil && strings.Contains(err.Error(), "before 0.1.0"); refused != test.refused {
			t.Errorf("with %s: error %v, want it refused: %v", test.first, err, test.refused)
		}
	}
}
