//go:build duckdb_arrow

package duckdb

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/duckdb/duckdb-go/v2"
)

// instance is DuckDB in this process: its main database is in memory, and the
// private file is attached to it as "warehouse" while it is needed.
type instance struct {
	connector *duckdb.Connector
	conn      driver.Conn
	arrow     *duckdb.Arrow
	limit     string // of its memory, as a setting
	attached  bool
}

// longLog is how much log may gather beside the private file before it is folded into
// it. DuckDB would do so in the midst of a commit: then an error leaves open whether the
// rows are in, and memory holds both the batch and the checkpoint.
const longLog = 32 << 20

// blockSize is the size of a new file's blocks, in bytes. With DuckDB's 256 kB, the 300
// columns of our tables need more memory than their rows: while a column is written it
// has a block of its own in memory, however few its rows. DuckDB reads files with such
// blocks since 1.1.
const blockSize = 32 << 10

// start needs no network and reads no settings of the user's.
func start(ctx context.Context, o Options) (*instance, error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	in := &instance{connector: connector, limit: fmt.Sprintf("%dB", cmp.Or(o.limit, little))}
	if err := in.connect(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start DuckDB: %w", err), in.close())
	}
	return in, nil
}

func (in *instance) connect(ctx context.Context, o Options) (err error) {
	if in.conn, err = in.connector.Connect(ctx); err != nil {
		return err
	}
	if in.arrow, err = duckdb.NewArrowFromConn(in.conn); err != nil {
		return err
	}
	_, err = in.exec(ctx, fmt.Sprintf(`SET autoinstall_known_extensions = false;
		SET autoload_known_extensions = false;
		SET memory_limit = %s;
		SET threads = %d;
		SET checkpoint_threshold = '1TB';
		SET temp_directory = %s;
		SET TimeZone = 'UTC'`, text(in.limit), o.threads(), text(o.Temp)))
	return err
}

// attach opens the private file, creating it if there is none.
func (in *instance) attach(ctx context.Context, path string) error {
	if in.attached {
		return nil
	}
	if err := in.create(ctx, path); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if _, err := in.exec(ctx, "ATTACH "+text(path)+" AS warehouse"); err != nil {
		return attachError(path, err)
	}
	in.attached = true
	return nil
}

// create makes the private file, if there is none, so that it is there whole or not at
// all: a process that is killed while DuckDB makes a file leaves one that nobody can read.
func (in *instance) create(ctx context.Context, path string) error {
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		return err
	}
	temp := path + ".new"
	if err := errors.Join(remove(temp), remove(temp+".wal")); err != nil {
		return err
	}
	if _, err := in.exec(ctx, fmt.Sprintf("ATTACH %s AS made (BLOCK_SIZE %d); DETACH made", text(temp), blockSize)); err != nil {
		return err
	}
	if err := remove(path + ".wal"); err != nil { // of a file that was moved away
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

var holder = regexp.MustCompile(`Conflicting lock is held in .*?\(PID (\d+)\)`)

// attachError says what the operator can do.
func attachError(path string, err error) error {
	if m := holder.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("open %s: another program (PID %s) has it open: close that; readers use the published file", path, m[1])
	}
	if strings.Contains(err.Error(), "Could not set lock") {
		return fmt.Errorf("open %s: another program has it open: close that; readers use the published file: %w", path, err)
	}
	return fmt.Errorf("open %s: %w (if the file is damaged or from a newer version: %s)", path, err, rebuild)
}

// detach writes everything into the private file itself, so that no log is beside
// it, and lets go of the file. With it goes most of the memory.
func (in *instance) detach(ctx context.Context) error {
	if !in.attached {
		return nil
	}
	if err := in.release(ctx); err != nil {
		return err
	}
	if _, err := in.exec(ctx, "CHECKPOINT warehouse; DETACH warehouse"); err != nil {
		return fmt.Errorf("checkpoint the warehouse: %w", err)
	}
	in.attached = false
	return in.release(ctx)
}

// release gives memory that is not in use back to the system, which DuckDB does only
// when its limit is set.
func (in *instance) release(ctx context.Context) error {
	if _, err := in.exec(ctx, "SET memory_limit = "+text(in.limit)); err != nil {
		return fmt.Errorf("release DuckDB's memory: %w", err)
	}
	return nil
}

// close ends the instance; a transaction that is open is rolled back.
func (in *instance) close() error {
	var err error
	if in.conn != nil {
		err = in.conn.Close()
	}
	return errors.Join(err, in.connector.Close())
}

// exec runs statements and counts the rows that the last one changed.
func (in *instance) exec(ctx context.Context, sql string) (int64, error) {
	result, err := in.conn.(driver.ExecerContext).ExecContext(ctx, sql, nil)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query reads a small result.
func (in *instance) query(ctx context.Context, sql string) (_ [][]driver.Value, err error) {
	rows, err := in.conn.(driver.QueryerContext).QueryContext(ctx, sql, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all [][]driver.Value
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
}

// records reads a large result, a record at a time.
func (in *instance) records(ctx context.Context, sql string, each func(arrow.RecordBatch)) error {
	reader, err := in.arrow.QueryContext(ctx, sql)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		each(reader.RecordBatch())
	}
	return reader.Err()
}

// offer makes rows readable as a view, once: reading it again yields nothing and no
// error. It must not be called within a transaction, which could then not write to
// the warehouse.
func (in *instance) offer(name string, rows arrow.RecordBatch) (release func(), err error) {
	reader, err := array.NewRecordReader(rows.Schema(), []arrow.RecordBatch{rows})
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	return in.arrow.RegisterView(reader, name)
}

// text quotes a value, name an identifier.
func text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
func name(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
