package statetest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"
)

var (
	answers = flag.Int("answers", 1_000_000, "answers in the journal of a large state")
	queued  = flag.Int("queued", 100_800, "calls in the queue of a large state")
)

//go:embed fill.sql
var fillSQL string

// Large makes dir a large state folder: state.db with -answers rows in the journal and
// -queued calls, and everything that belongs to them. The jobs are named job-00 to
// job-39. The newest call was made when the state was first generated, which takes a
// minute or two; the result is kept in the folder for temporary files and copied from
// there, also by later processes, for a day.
//
// create makes an empty state folder, with the options of the caller, and closes it.
func Large(tb testing.TB, dir string, create func(dir string) error) {
	tb.Helper()
	LargeOf(tb, dir, *answers, *queued, create)
}

// LargeJobs is a job file with two of the forty jobs of a large state, one of them with 300 searches.
var LargeJobs = strings.ReplaceAll(`
version: 1
service: {url: "https://service.test", key: "${OUTLIERD_KEY}", limit: 10/min}
budget: {per_month: 10000, pace: even}
jobs:
  job-00:
    every: 6h
    for_each: {topic: [TOPICS]}
    search: {query: ["${topic}"], pages: 2, where: {published_at: "since last success, overlap 14d, first 30d"}}
    enrich: {details: {}, comments: {}, transcript: {}}
  job-01:
    schedule: "30 6 * * *"
    search: {query: [home espresso]}
    enrich: {details: {}, transcript: {top: 10}}
`, "TOPICS", strings.Join(largeTopics(), ", "))

func largeTopics() (topics []string) {
	for n := range 300 {
		topics = append(topics, "topic number "+strings.Repeat("i", n%7)+string(rune('a'+n%26))+string(rune('a'+n/26)))
	}
	return topics
}

// LargeOf is [Large] with the given sizes.
func LargeOf(tb testing.TB, dir string, answers, queued int, create func(dir string) error) {
	tb.Helper()
	master, err := generated(tb, answers, queued, create)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = copyFile(filepath.Join(dir, "state.db"), master)
	}
	if err != nil {
		tb.Fatalf("make a state of %d answers and %d calls: %v", answers, queued, err)
	}
}

// generated is the path of a state with the schema that create makes, generated
// unless an earlier benchmark of today has done so.
func generated(tb testing.TB, answers, queued int, create func(dir string) error) (string, error) {
	empty := filepath.Join(tb.TempDir(), "state")
	if err := create(empty); err != nil {
		return "", err
	}
	made := filepath.Join(empty, "state.db")
	schema, err := schemaOf(tb.Context(), made)
	if err != nil {
		return "", err
	}
	id := sha256.Sum256([]byte(schema + fillSQL + time.Now().UTC().Format(time.DateOnly)))
	cache := filepath.Join(os.TempDir(), fmt.Sprintf("outlierd-statetest-%d", os.Getuid()))
	kept := filepath.Join(cache, fmt.Sprintf("%d-%d-%x.db", answers, queued, id[:4]))
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	forgetOld(cache)
	if err := fill(tb.Context(), made, answers, queued); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	// Another process may do the same; both results are good.
	mine := fmt.Sprintf("%s.%d", kept, os.Getpid())
	if err := copyFile(mine, made); err != nil {
		return "", err
	}
	return kept, os.Rename(mine, kept)
}

// forgetOld removes the states of earlier days, and those whose making was broken off.
func forgetOld(cache string) {
	all, _ := filepath.Glob(filepath.Join(cache, "*"))
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(path)
		}
	}
}

func schemaOf(ctx context.Context, path string) (schema string, err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return "", err
	}
	err = db.QueryRowContext(ctx, `SELECT group_concat(sql) FROM sqlite_schema`).Scan(&schema)
	return schema, errors.Join(err, db.Close())
}

func init() {
	sqlite.MustRegisterDeterministicScalarFunction("statetest_sum", 1,
		func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			body, _ := args[0].(string)
			sum := sha256.Sum256([]byte(body))
			return sum[:], nil
		})
}

// fill writes the history into an empty state. Triggers and indexes are taken away
// for that long.
func fill(ctx context.Context, path string, answers, queued int) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(off)&_pragma=synchronous(off)"+
		"&_pragma=cache_size(-262144)&_pragma=temp_store(memory)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	restore, err := stripped(ctx, db)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, fillSQL, answers, queued, time.Now().UnixMicro()); err != nil {
		return fmt.Errorf("fill.sql: %w", err)
	}
	for _, statement := range restore {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	for _, statement := range []string{`COMMIT`, `PRAGMA journal_mode = wal`} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// stripped drops all indexes and triggers and returns the statements that make them
// again.
func stripped(ctx context.Context, db *sql.DB) (restore []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT type, name, sql FROM sqlite_schema
		WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY type, rowid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var drop []string
	for rows.Next() {
		var kind, name, statement string
		if err := rows.Scan(&kind, &name, &statement); err != nil {
			return nil, err
		}
		drop = append(drop, fmt.Sprintf("DROP %s %s", kind, name))
		restore = append(restore, statement)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, statement := range drop {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return restore, nil
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
