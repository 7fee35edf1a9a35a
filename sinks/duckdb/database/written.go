package database

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// Write is one that DuckDB has made to a file.
type Write struct{ At, Bytes int64 }

// recordBuffer is how many entries DuckDB gathers before it writes them to the record. By default it
// would write and sync them after each statement.
const recordBuffer = 2048

// RecordWrites lets DuckDB note in the file at record, which is made anew, what it writes into files
// that are attached from now on. DuckDB could keep the record in memory, too, but not when memory is
// short: it then waits for itself for ever, while it notes that it writes its notes to disk.
func (db *DB) RecordWrites(ctx context.Context, record string) error {
	if err := os.Remove(record); err != nil && !os.IsNotExist(err) {
		return err
	}
	_, err := db.Exec(ctx, fmt.Sprintf(`CALL enable_logging('FileSystem', level = 'trace', storage = 'file',
		storage_config = {'path': %s, 'buffer_size': %d, 'only_flush_on_full_buffer': true})`, Text(record), recordBuffer))
	if err != nil {
		return fmt.Errorf("let DuckDB record what it writes: %w", err)
	}
	return nil
}

// Written is what DuckDB has written into the file that was attached by path, according to the record.
func (db *DB) Written(ctx context.Context, record, path string) (writes []Write, err error) {
	fill := fmt.Sprintf("SELECT count(write_log('', level := 'trace', log_type := 'FileSystem')) FROM range(%d)", recordBuffer)
	if _, err := db.Exec(ctx, fill); err != nil {
		return nil, fmt.Errorf("complete the record of what DuckDB writes: %w", err)
	}
	f, err := os.Open(record)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A line of the record is CSV, and ends with JSON.
	entry := `"{""fs"":""LocalFileSystem"",""path"":""` + strings.ReplaceAll(path, `"`, `""`) + `"",""op"":""WRITE"",""bytes"":""`
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
		return nil, fmt.Errorf("read what DuckDB has written: %w", err)
	}
	return writes, nil
}
