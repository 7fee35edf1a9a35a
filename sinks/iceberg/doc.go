// Package iceberg registers the warehouse's rows as Apache Iceberg tables of format version 2. The catalog
// is a SQL database or a REST service; the files are in a folder or a bucket. Spark, Trino, DuckDB, pyiceberg
// and polars can read the tables.
//
// # Files
//
// The lake has a Parquet copy of its own, a folder made by package parquet: the staging folder. Its files
// have the column _instance and the field ids of the tables. A publication makes that folder equal to the
// warehouse, brings its files to the tables' location, under names with their checksum, and lists them:
//
//	<location>/data/<instance>/<table>/part-<lo>-<sum>.parquet
//
// A file at the location never changes. The rows of a table are those of the listed files; none is
// deleted in another way.
//
// # Writers
//
// Several daemons may fill the same tables, each with its own state folder. The column _instance names the
// writer of a row, and every table is partitioned by it alone. A writer replaces only its own files, so
// commits of two writers can conflict only in their order, which a retry resolves.
//
// # Commits
//
// One commit to each changed table replaces the files that the staging folder no longer lists by the new ones.
// At the end the marks of the copy, and a digest of each list, become a property of the last table. A
// publication that was interrupted is completed by the next one, which compares the lists.
//
// A commit asserts the snapshot that it is based on. If it fails, the table is loaded and compared again, so it
// does not matter whether a commit whose answer was lost took effect.
//
// What is written to the location, also manifests and metadata of the library, is written down before, in the staging
// folder. Files of it that the table does not need are removed after the next commit that succeeds.
//
// A commit also expires snapshots that are older than a day, and after a rebuild all older ones, with the files
// that they alone have. Once a day the listed files are looked for, and those that are gone are stored again.
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

// ErrRebuild is in the error of a lake that does not hold what was published. Without it, the cause passes or
// is repaired elsewhere.
var ErrRebuild = errors.New("'outlierd rebuild' fills the tables again")

// Options are the location of the lake and the identity of the writer.
type Options struct {
	// Catalog is the absolute path of a SQLite file, or the URL of a PostgreSQL database (postgres://…)
	// or of a REST catalog (http://… or https://…). It may contain a password.
	Catalog string

	// Warehouse is the absolute path of a folder, or s3://bucket/prefix. A REST catalog receives it as
	// the name of a warehouse, and may have a default, so that it may be "".
	Warehouse string

	Staging   string // folder of the files before they are brought to the lake
	Namespace string // of the tables
	Instance  string // of the writer: letters and digits, stored in the state
	Tables    []*schema.Table

	Opened func() error // called when the tables are there, before they receive rows; nil for nothing

	// Env looks up environment variables: those of the AWS tools for a bucket (see package bucket),
	// ICEBERG_REST_TOKEN or ICEBERG_REST_CREDENTIAL for a REST catalog.
	Env func(string) (string, bool)

	// Patience is how long the catalog may send and receive nothing; 0 is 20 seconds.
	Patience time.Duration
}

// Rows are the files of one writer in a lake, as found by [Read].
type Rows struct {
	Has   sinks.Marks
	files map[string][]string // by table: paths of its files
}

// Paths returns the Parquet files with a table's rows.
func (r *Rows) Paths(t *schema.Table) []string { return r.files[t.Name] }
