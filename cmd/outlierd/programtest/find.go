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
	"slices"
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
		rows, err := rowsOf(db, path, content)
		if err != nil {
			return err
		}
		content = append(content, rows...)
		if slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(content, []byte(text)) }) {
			found = append(found, path)
		}
		return nil
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

// rowsOf returns the rows of a Parquet or DuckDB file as text; nothing for other files.
func rowsOf(db *sql.DB, path string, content []byte) (text []byte, err error) {
	to, err := os.MkdirTemp("", "rows-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	switch {
	case bytes.HasPrefix(content, []byte("PAR1")):
		_, err = db.Exec(fmt.Sprintf("COPY (FROM read_parquet(%s, hive_partitioning = false)) TO %s (FORMAT csv)",
			database.Text(path), database.Text(filepath.Join(to, "rows.csv"))))
	case len(content) > 12 && string(content[8:12]) == "DUCK":
		_, err = db.Exec(fmt.Sprintf("ATTACH %s AS searched (READ_ONLY); EXPORT DATABASE searched TO %s; DETACH searched",
			database.Text(path), database.Text(to)))
	}
	names, failed := filepath.Glob(filepath.Join(to, "*.csv"))
	for _, name := range names {
		rows, err := os.ReadFile(name)
		text, failed = append(text, rows...), errors.Join(failed, err)
	}
	return text, errors.Join(err, failed)
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
