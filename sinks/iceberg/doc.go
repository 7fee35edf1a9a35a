// Package iceberg writes the tables into a lake: Apache Iceberg tables, format version 2, whose
// catalog is a SQL database or a REST service and whose files are in a folder or a bucket. Spark,
// Trino, DuckDB, pyiceberg and polars read them.
//
// # Writers
//
// Several daemons fill the same tables, each with a state folder and a journal of its own. The
// column _instance names the writer of a row, and all tables are partitioned by it first, those
// that only grow also by the day of observed_at, where they have that column. A writer changes no
// file of another one, so that commits of two writers never conflict in what they mean, only in
// their order. The key of a Current table in the lake is _instance and the key.
//
// # Commits
//
// Iceberg commits one table at a time. Each commit of a table has, beside the files, a table
// property with the last answer of this writer that the table holds. A batch goes into its tables
// one after another; then the table outlierd_writers, which has properties alone, takes the end of the
// batch: that is the watermark of the sink. After a kill between two tables the same answers come again,
// perhaps as part of a larger batch, and each table leaves out those that it has.
//
// A commit asserts the snapshot that it was made for. When it fails for whatever reason, the table is
// loaded again, and a token in its properties tells whether this very commit is in it after all: an answer of
// the catalog may be lost. If not, and another writer came first, it is tried again with the same
// data files.
//
// Rows of Current, Children and Once tables are replaced by position deletes, which all five
// engines read, in the commit that adds the new rows. The places of all rows of this writer are kept in
// memory, 16 bytes and their hash each, so that a commit costs as much as it changes. They are read from
// the files when a table is first changed.
//
// # Maintenance
//
// A publication merges the files of a table whose rows are replaced, once there are many small ones. Once a
// day it merges the files of days that are over, expires old snapshots, and deletes files that no snapshot has.
// The order of the journal is kept. Only files of this writer are merged.
//
// All of it needs the build tag iceberg: the library makes every start of the program slower by a
// tenth of a second, used or not.
package iceberg

import "outlierd/schema"

// Options say where the lake is, and who writes.
type Options struct {
	// Catalog is the absolute path of a SQLite file, or an address: postgres://… of a PostgreSQL
	// database, http://… or https://… of a REST catalog. It may hold a password.
	Catalog string

	// Warehouse is an absolute folder or s3://bucket/prefix. It may be "" with a REST catalog that has
	// one of its own; otherwise that takes it as the name of a warehouse.
	Warehouse string

	Namespace string // of the tables
	Instance  string // of the writer: letters and digits that the state keeps
	Tables    []*schema.Table
	Ops       []*schema.Table

	// Env is the environment: the variables of AWS's own tools for a bucket (see package bucket),
	// ICEBERG_REST_TOKEN or ICEBERG_REST_CREDENTIAL for a REST catalog.
	Env func(string) (string, bool)
}

// Found is what a lake has of a writer.
type Found struct {
	Watermark, OpsVersion int64

	// Waiting are the tables, by name, that have rows of a batch which has not come into all tables: the
	// next one to write ends it.
	Waiting map[string]bool

	files map[string]string // by table: the copy of its rows
}

// Paths are the files with the copy of a table's rows; none if it has no rows.
func (f *Found) Paths(t *schema.Table) []string {
	if path := f.files[t.Name]; path != "" {
		return []string{path}
	}
	return nil
}
