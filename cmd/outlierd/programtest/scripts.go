package programtest

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/outlier/simulator"
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
			"overlay": overlay, "breakoff": breakOff,
		},
		Condition: func(name string) (bool, error) {
			how := map[string][]string{"mount": {"tmpfs"}, "overlay": {"overlay", "-o", "lowerdir=/usr:/etc"}}[name]
			if how == nil {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			dir := t.TempDir()
			if exec.CommandContext(t.Context(), "mount", append(append([]string{"-t"}, how...), "none", dir)...).Run() != nil {
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
	for end := time.Now().Add(WaitMost); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("after %s %s", WaitMost, missing())
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

// overlay mounts an overlay file system at a folder. A second folder, on a file system that can be an upper layer, has
// its lower layer in "lower"; its upper layer is made beside that.
func overlay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: overlay folder layers")
	}
	dir, layers := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	ts.Check(errors.Join(os.MkdirAll(dir, 0o755), os.Mkdir(layers+"/upper", 0o755), os.Mkdir(layers+"/work", 0o755)))
	how := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", layers)
	ts.Check(exec.Command("mount", "-t", "overlay", "-o", how, "overlay", dir).Run())
	ts.Defer(func() { ts.Check(exec.Command("umount", "-l", dir).Run()) })
}
