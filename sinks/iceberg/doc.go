// Package iceberg writes the tables as Apache Iceberg tables of format version 2. The catalog is a SQL
// database or a REST service; the files are in a folder or a bucket. Spark, Trino, DuckDB, pyiceberg
// and polars can read the tables.
//
// # Writers
//
// Several daemons may write to the same tables, each with its own state folder and journal. The column
// _instance names the writer of a row. Every table is partitioned by _instance. Append-only tables with
// the column observed_at are also partitioned by its day. A writer never changes the files of another
// writer, so commits of two writers can conflict only in their order, which a retry resolves. The key
// of a Current table in the lake is _instance together with the declared key.
//
// # Commits
//
// Iceberg commits one table at a time. Each commit also sets a table property with the id of the last
// answer of this writer in the table: the watermark of the table. A batch is committed to its tables
// one after another. Then its end is written to the properties of the table outlierd_writers, which has
// no rows: this is the watermark of the sink. If the process is killed between two of these commits,
// the same answers are written again, perhaps in a larger batch, and each table skips those that it
// already has.
//
// A commit asserts the snapshot that it is based on. If it fails, the table is loaded again. A unique
// token in the table properties shows whether the commit took effect although its response was lost. If
// it did not, and another writer has committed in the meantime, the commit is retried with the same
// data files.
//
// Rows of Current, Children and Once tables are replaced by position deletes, which all five engines
// can read, in the commit that adds the new rows. An index in memory has the positions of all rows of
// this writer, at about 70 bytes per row, so the cost of a commit depends on the size of the change
// only. The index is read from the files when a table is changed for the first time.
//
// # Maintenance
//
// Publish merges the files of a table whose rows are replaced when it has many small ones. Once a day
// it also merges the files of past days, expires old snapshots, and deletes files that no snapshot
// refers to. Merging keeps the order of the journal and touches only files of this writer.
//
// The sink needs the build tag iceberg, because the library delays every start of the program by 0.1
// seconds even when it is not used.
package iceberg

import (
	"errors"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
)

// ErrRebuild is in the error of a table that only a rebuild can repair. Without it, the cause passes or is
// repaired elsewhere.
var ErrRebuild = errors.New("'outlierd rebuild iceberg' fills the tables again from the journal")

// Options are the location of the lake and the identity of the writer.
type Options struct {
	// Catalog is the absolute path of a SQLite file, or the URL of a PostgreSQL database (postgres://…)
	// or of a REST catalog (http://… or https://…). It may contain a password.
	Catalog string

	// Warehouse is the absolute path of a folder, or s3://bucket/prefix. A REST catalog receives it as
	// the name of a warehouse, and may have a default, so that it may be "".
	Warehouse string

	Namespace string // of the tables
	Instance  string // of the writer: letters and digits, stored in the state
	Tables    []*schema.Table
	Ops       []*schema.Table

	// Env looks up environment variables: those of the AWS tools for a bucket (see package bucket),
	// ICEBERG_REST_TOKEN or ICEBERG_REST_CREDENTIAL for a REST catalog.
	Env func(string) (string, bool)

	// Patience is how long the catalog may send and receive nothing; 0 is 20 seconds.
	Patience time.Duration
}

// Rows are the rows of one writer in a lake, as copied by [Read].
type Rows struct {
	Has   sinks.Marks
	files map[string]string // table name → path of the copy of its rows
}

// Paths returns the Parquet files with the copy of a table's rows: one, or nil if the table has no
// rows.
func (r *Rows) Paths(t *schema.Table) []string {
	if path := r.files[t.Name]; path != "" {
		return []string{path}
	}
	return nil
}
