package sinktest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	_ "unsafe" // for linkname

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// Main runs the tests of a package with [testenv.Prepare] and [CopyNewWarehouses]. TestMain calls it.
func Main(m *testing.M) {
	testenv.Prepare()
	defer CopyNewWarehouses()()
	m.Run()
}

// BlankWarehouses is an environment variable with the folder of [CopyNewWarehouses], for child processes.
const BlankWarehouses = "OUTLIERD_TEST_WAREHOUSES"

// CopyNewWarehouses lets this process and its children declare the tables of a new warehouse once, and copy that file for
// each further one: the tables with their comments take a third of the CPU time of a short run. The returned function
// removes the files.
func CopyNewWarehouses() (remove func()) {
	folder := os.Getenv(BlankWarehouses)
	remove = func() {}
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "warehouses"); err == nil {
			err = os.Setenv(BlankWarehouses, folder)
		}
		if err != nil {
			panic(err)
		}
		remove = func() { os.RemoveAll(folder) }
	}
	create := newFile
	newFile = func(ctx context.Context, db *database.DB, path string, tables []*schema.Table) error {
		blank := filepath.Join(folder, hashOf(tables))
		content, err := os.ReadFile(blank)
		if os.IsNotExist(err) {
			return declareFirst(ctx, create, db, path, tables, blank)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err == nil {
			_, err = db.Exec(ctx, fmt.Sprintf("ATTACH %s AS made; UPDATE made.outlierd.marks SET id = %d WHERE name = %s; DETACH made",
				database.Text(path), rand.Int64(), database.Text(database.Warehouse)))
		}
		return err
	}
	return remove
}

type createFile = func(ctx context.Context, db *database.DB, path string, tables []*schema.Table) error

// newFile is what the warehouse makes its file with.
//
//go:linkname newFile outlierd/sinks/warehouse.newFile
var newFile createFile

// declareFirst makes a file as the warehouse does, declares the tables, and keeps a copy as blank.
func declareFirst(ctx context.Context, create createFile, db *database.DB, path string, tables []*schema.Table, blank string) error {
	err := create(ctx, db, path, tables)
	if err == nil {
		err = db.Attach(ctx, path)
	}
	if err == nil {
		err = db.Declare(ctx, tables, "")
		_, detached := db.Exec(ctx, "DETACH warehouse")
		err = errors.Join(err, detached)
	}
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	unfinished, err := os.CreateTemp(filepath.Dir(blank), "")
	if err != nil {
		return err
	}
	_, err = unfinished.Write(content)
	return errors.Join(err, unfinished.Close(), os.Rename(unfinished.Name(), blank))
}

// hashOf returns a hash of what is declared of tables.
func hashOf(tables []*schema.Table) string {
	hash := sha256.New()
	for _, t := range tables {
		fmt.Fprintf(hash, "%q %q ", t.Name, t.Comment)
		for _, c := range t.All() {
			fmt.Fprintf(hash, "%q %q %q %t ", c.Name, c.SQLType(), c.Comment, t.Repeats(c.Name))
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}
