//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	_ "embed"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"outlierd/schema"
)

// The embedded blank file may come from an older version: if its fingerprint differs from that of the
// declarations, files made from it get the missing declarations like any older file.
// TestBlankFileHasWhatIsDeclared generates both embedded files.
var (
	//go:embed blank.duckdb.zst
	blankContent []byte
	//go:embed blank.fingerprint
	blankFingerprint string
)

// blankOf returns the blank file for new files of the sink; nil for an empty file.
func (o *Options) blankOf() *blankFile {
	if o.blank != nil {
		return o.blank()
	}
	if slices.Equal(o.Tables, schema.Tables()) && slices.Equal(o.Ops, schema.OpsTables()) {
		return &blankFile{content: blankContent, has: strings.TrimSpace(blankFingerprint)}
	}
	return nil
}

// write writes the blank file to path.
func (b *blankFile) write(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	content, err := zstd.NewReader(bytes.NewReader(b.content), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer content.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}
