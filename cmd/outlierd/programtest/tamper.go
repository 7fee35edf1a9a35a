package programtest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
		ts.Fatalf("usage: flip file, which may be a pattern for one file")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d files match %s, want one", len(found), args[0])
	}
	path := found[0]
	ts.Check(os.Chmod(path, 0o644))
	content, err := os.ReadFile(path)
	ts.Check(err)
	for begin := 0; begin < len(content); begin += flipEvery {
		content[(begin+min(begin+flipEvery, len(content)))/2] ^= 1
	}
	ts.Check(os.WriteFile(path, content, 0o644))
}

// breakOff adds to a state an answer that broke off while it was received: compressed, with a text 200 times.
func breakOff(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: breakoff file textfile")
	}
	text := fmt.Sprintf(`{"id":"%s"},`, strings.TrimSpace(ts.ReadFile(args[1])))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := fmt.Fprintf(z, `{"hits":[%s`, strings.Repeat(text, 200))
	ts.Check(err)
	ts.Check(z.Flush())
	ts.Check(ExecSQLite(ts.MkAbs(args[0]), fmt.Sprintf(`INSERT INTO responses (run, job, step, op, entity, params,
		item, page, rank_base, sent_at, received_at, http_status, outcome, encoding, sum, body)
		SELECT run, job, step, op, '', '', '', page, rank_base, sent_at, received_at, 200, 'unknown', 'gzip', x'%x', x'%x'
		FROM responses LIMIT 1`, sha256.Sum256(b.Bytes()), b.Bytes())))
}
