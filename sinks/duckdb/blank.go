//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
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

// publishBlank makes both files of a new sink from the blank one. It needs no DuckDB, which would take
// longer to start, to publish and to stop than all of its work in a small first run.
func (s *Sink) publishBlank() error {
	blank := s.options.blankOf()
	if blank == nil || blank.has != s.fingerprint {
		return nil
	}
	for _, path := range []string{s.options.Private, s.options.Published} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			return err
		}
	}
	if _, err := create(s.options.Private, blank.write); err != nil {
		return err
	}
	s.copies = nil // those of files that were deleted
	if err := s.show(); err != nil {
		return fmt.Errorf("publish %s: %w", s.options.Published, err)
	}
	s.dirty = false
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
