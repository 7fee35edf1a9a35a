package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	_ "unsafe" // for linkname

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/outlier/simulator"
)

// TestMain runs the tests, or the program: scripts and other tests run the test binary as `outlierd`.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"outlierd": func() {
		if os.Getenv(shortMinutes) != "" {
			durationUnits['m'] = time.Second
		}
		if os.Getenv(patientCommands) != "" {
			askFor = waitMost
		}
		os.Exit(Main())
	}})
}

// tests runs the tests, if this process is not the program.
type tests struct{ *testing.M }

func (t tests) Run() int {
	decompress()
	// Commands are short: by default Go would collect garbage once already while their packages are initialized,
	// which is a quarter of the CPU of starting one.
	if os.Getenv("GOGC") == "" {
		if err := os.Setenv("GOGC", "400"); err != nil {
			panic(err)
		}
	}
	// Many tests wait for processes, so that more of them at a time use all processors. A flag on the command line, which
	// is parsed later, overrides this.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	return t.M.Run()
}

// shortMinutes is an environment variable that lets the minutes of the job file last a second, so that tests of
// schedules are short.
const shortMinutes = "OUTLIERD_TEST_SHORT_MINUTES"

// patientCommands is an environment variable that lets commands wait longer for a daemon, for tests on a busy machine.
const patientCommands = "OUTLIERD_TEST_PATIENCE"

//go:linkname durationUnits outlierd/sync/job.units
var durationUnits map[byte]time.Duration

// decompress creates Arrow's decompressor outside of any bubble of virtual time: it is shared by all tests and has
// channels, which must not belong to the bubble of the first one.
func decompress() {
	codec, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		panic(err)
	}
	text := []byte("made outside of any bubble")
	codec.Decode(make([]byte, len(text)), codec.Encode(nil, text))
}

// TestScripts runs the program as a user would.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			address, free, err := reservePort()
			env.Defer(free)
			env.Setenv("FREE", address)
			env.Setenv(patientCommands, "yes")
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor, "waitport": waitPort, "fetch": fetch, "sqlite": sqlite, "books": books, "mount": mount,
			"document": document, "duckdb": duckdbFileChanged, "store": bucketStore, "flip": flip, "holding": holding,
		},
		Condition: func(name string) (bool, error) {
			if name != "mount" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			dir := t.TempDir()
			if exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "tmpfs", dir).Run() != nil {
				return false, nil
			}
			return true, exec.CommandContext(t.Context(), "umount", dir).Run()
		},
	})
}

// reservePort returns an address on loopback that no other process gets for port 0 until free is called. It refuses
// connections until a process listens at it, which works because both sockets allow its reuse.
func reservePort() (address string, free func(), err error) {
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

// waitMost is the maximum wait for what takes seconds on an idle machine.
const waitMost = 2 * time.Minute

// inTime waits until there returns true, or fails the script with what is missing.
func inTime(ts *testscript.TestScript, there func() bool, missing func() string) {
	for end := time.Now().Add(waitMost); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("after %s %s", waitMost, missing())
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
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fetch url file")
	}
	answer, err := http.Get(args[0])
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
	ts.Check(sqliteExec(ts.MkAbs(args[0]), args[1]))
}

func sqliteExec(path, statement string) error {
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
