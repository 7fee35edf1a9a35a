package programtest

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/sinks/duckdb/database"
)

// FilesWith returns the files below a folder, or the file itself, that contain one of the texts: in their bytes, in
// a row that DuckDB reads, since Parquet and DuckDB compress them, or in a compressed answer of the state.
func FilesWith(top string, texts ...string) (found []string, err error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if entry.Name() == "state.db" {
			answers, err := answersOf(path)
			if err != nil {
				return err
			}
			content = append(content, answers...)
		}
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				found = append(found, path)
				return nil
			}
		}
		has, err := rowsHave(db, path, content, texts)
		if has {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

// answersOf returns the compressed answers of a state, each decompressed as far as it goes.
func answersOf(path string) (all []byte, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Query("SELECT encoding, body FROM responses WHERE encoding <> ''")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var encoding string
		var body []byte
		if err := rows.Scan(&encoding, &body); err != nil {
			return nil, err
		}
		var plain io.Reader
		if encoding == "zstd" {
			plain, err = zstd.NewReader(bytes.NewReader(body))
		} else {
			plain, err = gzip.NewReader(bytes.NewReader(body))
		}
		if err != nil {
			return nil, err
		}
		text, _ := io.ReadAll(plain) // what broke off ends with an error
		all = append(all, text...)
	}
	return all, rows.Err()
}

// rowsHave reports whether a row of a Parquet or DuckDB file contains one of the texts.
func rowsHave(db *sql.DB, path string, content []byte, texts []string) (has bool, err error) {
	tables := []string{"read_parquet(" + database.Text(path) + ", hive_partitioning = false)"}
	switch {
	case len(content) > 12 && string(content[8:12]) == "DUCK":
		if _, err := db.Exec("ATTACH " + database.Text(path) + " AS searched (READ_ONLY)"); err != nil {
			return false, err
		}
		defer func() {
			_, late := db.Exec("DETACH searched")
			err = errors.Join(err, late)
		}()
		if tables, err = tablesOf(db); err != nil {
			return false, err
		}
	case !bytes.HasPrefix(content, []byte("PAR1")):
		return false, nil
	}
	for _, table := range tables {
		var conditions []string
		for _, text := range texts {
			conditions = append(conditions, "contains(r::VARCHAR, "+database.Text(text)+")")
		}
		query := fmt.Sprintf("SELECT count(*) > 0 FROM (SELECT r FROM %s AS r) WHERE %s",
			table, strings.Join(conditions, " OR "))
		if err := db.QueryRow(query).Scan(&has); err != nil || has {
			return has, err
		}
	}
	return false, nil
}

// tablesOf returns the tables of the file that is attached as searched.
func tablesOf(db *sql.DB) (tables []string, err error) {
	rows, err := db.Query("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'searched'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var space, name string
		if err := rows.Scan(&space, &name); err != nil {
			return nil, err
		}
		tables = append(tables, "searched."+database.Name(space)+"."+database.Name(name))
	}
	return tables, rows.Err()
}

// holding checks that a file below a folder contains one of the texts, each of which is the content of a text file;
// or with ! that no file does.
func holding(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] holding folder textfile...")
	}
	var texts []string
	for _, file := range args[1:] {
		text := strings.TrimSpace(ts.ReadFile(file))
		if text == "" {
			ts.Fatalf("%s is empty", file)
		}
		texts = append(texts, text)
	}
	found, err := FilesWith(ts.MkAbs(args[0]), texts...)
	ts.Check(err)
	if neg && len(found) > 0 {
		ts.Fatalf("%q: in %v, want no file", texts, found)
	}
	if !neg && len(found) == 0 {
		ts.Fatalf("%q: in no file below %s, want at least one", texts, args[0])
	}
}
