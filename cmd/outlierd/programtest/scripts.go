package programtest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/database"
)

// Scripts runs the program as a user would, by the scripts in a folder.
func Scripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			address, free, err := ReservePort()
			env.Defer(free)
			env.Setenv("FREE", address)
			env.Setenv(patientCommands, "yes")
			env.Setenv("GOGC", os.Getenv("GOGC")) // scripts do not get the environment of the tests
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor, "waitport": waitPort, "fetch": fetch, "sqlite": sqlite, "books": books, "mount": mount,
			"document": document, "duckdb": duckdbFileChanged, "store": bucketStore, "flip": flip, "holding": holding,
			"breakoff": breakOff,
		},
		Condition: func(name string) (bool, error) {
			if name != "mount" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			dir := t.TempDir()
			if exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "none", dir).Run() != nil {
				return false, nil
			}
			return true, exec.CommandContext(t.Context(), "umount", dir).Run()
		},
	})
}

// ReservePort returns an address on loopback that no other process gets for port 0 until free is called. It refuses
// connections until a process listens at it, which works because both sockets allow its reuse.
func ReservePort() (address string, free func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", func() {}, err
	}
	syscall.CloseOnExec(socket)
	free = func() { syscall.Close(socket) }
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		return "", free, err
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		return "", free, err
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port), free, nil
}

// waitFor waits until a file exists and contains a text, if one is given.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: waitfor file [text]")
	}
	want := strings.Join(args[1:], "")
	var content []byte
	inTime(ts, func() (there bool) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil {
			content = text
		}
		return err == nil && len(text) > 0 && strings.Contains(string(text), want)
	}, func() string { return fmt.Sprintf("%s does not have %q; it has:\n%s", args[0], want, content) })
}

// inTime waits until there returns true, or fails the script with what is missing.
func inTime(ts *testscript.TestScript, there func() bool, missing func() string) {
	for end := time.Now().Add(MaxWait); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("after %s %s", MaxWait, missing())
		}
	}
}

// waitPort waits until a process listens at an address.
func waitPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitport address")
	}
	inTime(ts, func() bool {
		conn, err := net.Dial("tcp", args[0])
		if err == nil {
			ts.Check(conn.Close())
		}
		return err == nil
	}, func() string { return "nothing listens at " + args[0] })
}

// fetch writes the answer of a URL to a file.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	method := http.MethodGet
	if len(args) > 0 && args[0] == http.MethodPost {
		method, args = http.MethodPost, args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fetch [POST] url file ['name: value'...]")
	}
	request, err := http.NewRequest(method, args[0], nil)
	ts.Check(err)
	for _, header := range args[2:] {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o644))
}

// sqlite changes a database without the program.
func sqlite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sqlite file statement")
	}
	ts.Check(ExecSQLite(ts.MkAbs(args[0]), args[1]))
}

// ExecSQLite runs a statement on a SQLite file without the program.
func ExecSQLite(path, statement string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}

// books writes the credits that a simulator charged, less refunds, to a file.
func books(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: books url key file")
	}
	req, err := http.NewRequest(http.MethodGet, args[0]+"/_simulator/books", nil)
	ts.Check(err)
	req.Header.Set("Authorization", "Api-Key "+args[1])
	answer, err := http.DefaultClient.Do(req)
	ts.Check(err)
	var b simulator.Books
	ts.Check(json.NewDecoder(answer.Body).Decode(&b))
	ts.Check(answer.Body.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), fmt.Appendf(nil, "spent\n%d\n", b.Total.Spent()), 0o644))
}

// document checks that standard output is one JSON document, and that it contains a text.
func document(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: document [text]")
	}
	out := ts.ReadFile("stdout")
	var v any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		ts.Fatalf("standard output is not a JSON document: %v\n%s", err, out)
	}
	if want := strings.Join(args, ""); !strings.Contains(out, want) {
		ts.Fatalf("%q is not in %s", want, out)
	}
}

// mount mounts a file system with a size in MB at a folder, or changes its size.
func mount(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mount folder megabytes")
	}
	dir, how := ts.MkAbs(args[0]), "size="+args[1]+"m"
	if exec.Command("mountpoint", "-q", dir).Run() == nil {
		how += ",remount"
	} else {
		ts.Check(os.MkdirAll(dir, 0o755))
		ts.Defer(func() { ts.Check(exec.Command("umount", dir).Run()) })
	}
	ts.Check(exec.Command("mount", "-t", "tmpfs", "-o", how, "tmpfs", dir).Run())
}

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

// FilesWith returns the files below a folder, or the file itself, that contain one of the texts: in their bytes, in
// a row that DuckDB reads, since Parquet and DuckDB compress them, or in a compressed answer of the state.
func FilesWith(top string, texts ...string) (found []string, err error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if entry.Name() == "state.db" {
			answers, err := answersOf(path)
			if err != nil {
				return err
			}
			content = append(content, answers...)
		}
		rows, err := rowsOf(db, path, content)
		if err != nil {
			return err
		}
		content = append(content, rows...)
		if slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(content, []byte(text)) }) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// answersOf returns the compressed answers of a state, each decompressed as far as it goes.
func answersOf(path string) (all []byte, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Query("SELECT encoding, body FROM responses WHERE encoding <> ''")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var encoding string
		var body []byte
		if err := rows.Scan(&encoding, &body); err != nil {
			return nil, err
		}
		var plain io.Reader
		if encoding == "zstd" {
			plain, err = zstd.NewReader(bytes.NewReader(body))
		} else {
			plain, err = gzip.NewReader(bytes.NewReader(body))
		}
		if err != nil {
			return nil, err
		}
		text, _ := io.ReadAll(plain) // what broke off ends with an error
		all = append(all, text...)
	}
	return all, rows.Err()
}

// rowsOf returns the rows of a Parquet or DuckDB file as text; nothing for other files.
func rowsOf(db *sql.DB, path string, content []byte) (text []byte, err error) {
	to, err := os.MkdirTemp("", "rows-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	switch {
	case bytes.HasPrefix(content, []byte("PAR1")):
		_, err = db.Exec(fmt.Sprintf("COPY (FROM read_parquet(%s, hive_partitioning = false)) TO %s (FORMAT csv)",
			database.Text(path), database.Text(filepath.Join(to, "rows.csv"))))
	case len(content) > 12 && string(content[8:12]) == "DUCK":
		_, err = db.Exec(fmt.Sprintf("ATTACH %s AS searched (READ_ONLY); EXPORT DATABASE searched TO %s; DETACH searched",
			database.Text(path), database.Text(to)))
	}
	names, failed := filepath.Glob(filepath.Join(to, "*.csv"))
	for _, name := range names {
		rows, err := os.ReadFile(name)
		text, failed = append(text, rows...), errors.Join(failed, err)
	}
	return text, errors.Join(err, failed)
}

// holding checks that a file below a folder contains one of the texts, each of which is the content of a text file;
// or with ! that no file does.
func holding(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] holding folder textfile...")
	}
	var texts []string
	for _, file := range args[1:] {
		text := strings.TrimSpace(ts.ReadFile(file))
		if text == "" {
			ts.Fatalf("%s is empty", file)
		}
		texts = append(texts, text)
	}
	found, err := FilesWith(ts.MkAbs(args[0]), texts...)
	ts.Check(err)
	if neg && len(found) > 0 {
		ts.Fatalf("%q: in %v, want no file", texts, found)
	}
	if !neg && len(found) == 0 {
		ts.Fatalf("%q: in no file below %s, want at least one", texts, args[0])
	}
}
