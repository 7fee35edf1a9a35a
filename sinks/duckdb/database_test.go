package duckdb_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

func start(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// newFile attaches a new file as the warehouse.
func newFile(t *testing.T, db *database.DB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "new.duckdb")
	_, err := db.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS made ("+database.NewFile+"); DETACH made")
	if err == nil {
		err = db.Attach(t.Context(), path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNumbersArePacked: DuckDB packs numbers of 8 bytes only into blocks that are large enough.
func TestNumbersArePacked(t *testing.T) {
	db := start(t)
	newFile(t, db)
	_, err := db.Exec(t.Context(), `CREATE TABLE warehouse.numbers AS
			SELECT hash(i) % 1000 AS n, TIMESTAMP '2026-01-01' + to_seconds(i) AS at FROM range(5000) AS r(i);
		CHECKPOINT warehouse`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(t.Context(), `SELECT column_name, compression FROM pragma_storage_info('warehouse.numbers')
		WHERE segment_type <> 'VALIDITY' AND compression <> 'BitPacking'`)
	if err != nil || len(rows) > 0 {
		t.Errorf("columns that are not packed: %v, %v", rows, err)
	}
}

// TestTextsAreKeptWithoutDictionary unless they repeat.
func TestTextsAreKeptWithoutDictionary(t *testing.T) {
	db := start(t)
	newFile(t, db)
	if err := db.Declare(t.Context(), database.NewDeclarations(schema.AllTables(), false), ""); err != nil {
		t.Fatal(err)
	}
	_, err := db.Exec(t.Context(), `INSERT INTO warehouse.transcript_events (video_id, position, text)
			SELECT 'dQw4w9WgXcQ', i, 'line ' || i || ' of what is said' FROM range(5000) AS r(i);
		INSERT INTO warehouse.comments (video_id, author_thumbnails)
			SELECT 'dQw4w9WgXcQ', [{url: 'https://pictures.example/' || md5(i::varchar), width: 48, height: 48}] FROM range(5000) AS r(i)`)
	if err := errors.Join(err, db.Checkpoint(t.Context())); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]string{
		"transcript_events": "text ZSTD, video_id DICT_FSST", "comments": "author_thumbnails ZSTD, video_id DICT_FSST",
	} {
		rows, err := db.Query(t.Context(), `SELECT string_agg(DISTINCT column_name || ' ' || compression, ', ' ORDER BY column_name || ' ' || compression)
			FROM pragma_storage_info('warehouse.`+table+`') WHERE segment_type = 'VARCHAR'
			AND column_name IN ('video_id', if('`+table+`' = 'comments', 'author_thumbnails', 'text'))`)
		if err != nil || rows[0][0] != want {
			t.Errorf("%s: %v, %v, want %s", table, rows, err, want)
		}
	}
}

// TestCopyNoticesDamage in any block that is in use.
func TestCopyNoticesDamage(t *testing.T) {
	db := start(t)
	path := newFile(t, db)
	_, err := db.Exec(t.Context(), "CREATE TABLE warehouse.texts AS SELECT md5(i::VARCHAR) AS text FROM range(20000) AS r(i); CHECKPOINT warehouse; DETACH warehouse")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := database.Copy(path, to, 0o444); err != nil {
		t.Fatal(err)
	}
	if made, err := os.ReadFile(to); err != nil || string(made) != string(whole) {
		t.Errorf("the copy differs: %v", err)
	}
	random := testenv.Random(t)
	for at := 3 * 4096; at < len(whole); at += 64 << 10 {
		damaged := []byte(string(whole))
		damaged[at+8+random.IntN(64<<10-8)] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := database.Copy(path, to, 0o444); !database.Damaged(err) {
			t.Errorf("damage in the block at %d: %v", at, err)
		}
	}
	if _, err := os.Stat(to); err != nil { // a copy that failed replaces nothing
		t.Error(err)
	}
}

func TestQuotingKeepsHostileNamesApart(t *testing.T) {
	db := start(t)
	for _, hostile := range []string{"plain", "select", `a"b`, "it's", `"; DROP TABLE x; --`, "two words", "🎬"} {
		rows, err := db.Query(t.Context(), "SELECT * FROM (SELECT "+database.Text(hostile)+" AS "+database.Name(hostile)+") WHERE "+database.Name(hostile)+" = "+database.Text(hostile))
		if err != nil || len(rows) != 1 || rows[0][0] != hostile {
			t.Errorf("%q came back as %v, %v", hostile, rows, err)
		}
	}
}

func TestEveryLackOfMemoryIsRecognized(t *testing.T) {
	for _, text := range []string{
		"Out of Memory Error: could not allocate block of size 256.0 KiB (60.9 MiB/61.0 MiB used)",
		`TransactionContext Error: Failed to commit: Checkpoint failed for database "warehouse". The database has been invalidated. ` +
			"Original error: failed to pin block of size 256.0 KiB (60.7 MiB/61.0 MiB used)",
		"IO Error: Failed to allocate block of 262144 bytes (bad allocation)",
		"Out of Memory Error: failed to allocate data of size 16.0 MiB (60.0 MiB/61.0 MiB used)",
		"Out of Memory Error: Failed to change memory limit to 1000000: could not free up enough memory for the new limit",
		"std::bad_alloc",
	} {
		if !database.OutOfMemory(errors.New(text)) {
			t.Errorf("%q was not recognized", text)
		}
	}
	for _, text := range []string{"", "Constraint Error: Duplicate key", "IO Error: No space left on device"} {
		if database.OutOfMemory(errors.New(text)) {
			t.Errorf("%q is no lack of memory", text)
		}
	}
}

// TestThreadsFollowTheOptions: the default is one thread, whatever the number of processors.
func TestThreadsFollowTheOptions(t *testing.T) {
	t.Parallel()
	for threads, want := range map[int]string{0: "1", 1: "1", 3: "3"} {
		db, err := database.Open(t.Context(), database.Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		rows, err := db.Query(t.Context(), "select current_setting('threads')::varchar")
		if err != nil || fmt.Sprint(rows) != "[["+want+"]]" {
			t.Errorf("%d threads: %v, %v, want %s", threads, rows, err, want)
		}
	}
}

// beNarrow starts DuckDB.
func beNarrow(string) error {
	db, err := database.Open(ctx, database.Options{})
	if err != nil {
		return err
	}
	return db.Close()
}

// TestTooSmallAddressSpaceIsRefused: DuckDB would seem to hang, or abort the process.
func TestTooSmallAddressSpaceIsRefused(t *testing.T) {
	testenv.RacesLittle(t) // the detector needs address space for itself
	narrow := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -v 1900000 && exec "$0"`, os.Args[0])
	narrow.Env = append(os.Environ(), role+"=narrow:")
	said, err := narrow.CombinedOutput()
	const want = "the address space is limited to 1855MB (ulimit -v), and 1907MB are needed: raise that limit"
	if err == nil || !strings.Contains(string(said), want) {
		t.Errorf("%v, %q, want %q", err, said, want)
	}
}
