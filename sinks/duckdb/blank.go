//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	_ "embed"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"outlierd/schema"
)

// blank is a file with all tables and views and without rows. Declaring them takes DuckDB a quarter
// of a second, mostly for the comments of 700 columns. A file made from it is declared all the same,
// as one of an older version would be, so that it need not be of this one;
// TestBlankFileHasWhatIsDeclared makes it anew.
//
//go:embed blank.duckdb.zst
var blank []byte

// allTables reports whether the sink has the tables that are in blank.
func (o *Options) allTables() bool {
	return slices.Equal(o.Tables, schema.Tables()) && slices.Equal(o.Ops, schema.OpsTables())
}

func writeBlank(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	content, err := zstd.NewReader(bytes.NewReader(blank), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer content.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}
