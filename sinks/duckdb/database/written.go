package database

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// Write is a write of DuckDB to a file: its offset and its length, in bytes.
type Write struct{ At, Bytes int64 }

// recordBuffer is the number of entries that DuckDB buffers before it writes them to the log file. By
// default it writes and syncs the file after each statement. [DB.Written] fills the buffer with other entries,
// so a larger one is not better.
const recordBuffer = 256

// RecordWrites makes DuckDB log its writes to files that are attached from now on. It replaces the log
// file at record. A log in memory is not an option: when memory is short, DuckDB deadlocks when it logs
// that it writes the log to disk.
//
// DuckDB opens the log file, and creates its folder, when it first writes to it. It is made to do that now: if the
// folder was moved in the meantime, a new one would take its place.
func (db *DB) RecordWrites(ctx context.Context, record string) error {
	f, err := os.OpenFile(record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	enable := `CALL enable_logging('FileSystem', level = 'trace', storage = 'file',
		storage_config = {'path': %s, 'buffer_size': %d, 'only_flush_on_full_buffer': true});`
	_, err = db.Exec(ctx, fmt.Sprintf(enable, Text(record), 1)+
		`SELECT write_log('', level := 'trace', log_type := 'FileSystem');`+
		fmt.Sprintf(enable, Text(record), recordBuffer))
	if err != nil {
		return fmt.Errorf("start DuckDB's log of its writes: %w", err)
	}
	return nil
}

// Written reads the log file at record, and returns the writes to the file that was attached by path.
func (db *DB) Written(ctx context.Context, record, path string) (writes []Write, err error) {
	fill := fmt.Sprintf(`SELECT count(write_log('', level := 'trace', log_type := 'FileSystem'))
		FROM range(%d)`, recordBuffer)
	if _, err := db.Exec(ctx, fill); err != nil {
		return nil, fmt.Errorf("flush DuckDB's log of its writes: %w", err)
	}
	f, err := os.Open(record)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A line of the log is CSV whose last field is JSON.
	entry := `"{""fs"":""LocalFileSystem"",""path"":""` + strings.ReplaceAll(path, `"`, `""`) +
		`"",""op"":""WRITE"",""bytes"":""`
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, numbers, found := strings.Cut(lines.Text(), entry)
		if !found {
			continue
		}
		var w Write
		if _, err := fmt.Sscanf(numbers, `%d"",""pos"":""%d""}"`, &w.Bytes, &w.At); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", record, lines.Text(), err)
		}
		writes = append(writes, w)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read DuckDB's log of its writes: %w", err)
	}
	return writes, nil
}
