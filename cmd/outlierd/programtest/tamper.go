package programtest

import (
	"database/sql"
	"os"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/rogpeppe/go-internal/testscript"
)

// duckdbFileChanged runs a statement on a DuckDB file without the program.
func duckdbFileChanged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: duckdb file statement")
	}
	path := ts.MkAbs(args[0])
	if err := os.Chmod(path, 0o644); !os.IsNotExist(err) {
		ts.Check(err)
	}
	db, err := sql.Open("duckdb", path)
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(err)
	ts.Check(db.Close())
}

// flipEvery is the distance between the bits that flip changes, in bytes: a single one could be in an unused block of
// DuckDB.
const flipEvery = 32 << 10

// flip changes one bit in the middle of each 32 KiB of a file.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: flip file")
	}
	path := ts.MkAbs(args[0])
	ts.Check(os.Chmod(path, 0o644))
	content, err := os.ReadFile(path)
	ts.Check(err)
	for begin := 0; begin < len(content); begin += flipEvery {
		content[(begin+min(begin+flipEvery, len(content)))/2] ^= 1
	}
	ts.Check(os.WriteFile(path, content, 0o644))
}
