package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/serve"
)

var long = flag.Bool("long", false, "play every case, in place of some by chance")

// person runs commands in a folder with a job file, in virtual time: the program runs in this process,
// against the simulator.
type person struct {
	*testing.T
	dir string
	in  string // standard input
	env func(string) (string, bool)

	network func(caFile string) (http.RoundTripper, error)       // nil for the network of the system
	dial    func(context.Context, string) (*serve.Client, error) // of assistants, to the daemon; nil by its socket
}

// bubble runs a test with a person who has a job file.
func bubble(t *testing.T, jobs string, test func(p *person)) {
	synctest.Test(t, func(t *testing.T) {
		p := &person{T: t, dir: t.TempDir(), env: func(string) (string, bool) { return "", false }}
		p.write(jobs)
		p.begin()
		test(p)
	})
}

// begun has the state before the first call, with a warehouse without rows. The first test that needs it makes it, and
// the others begin with a copy: declaring all tables is a third of what a short command takes.
var begun struct {
	sync.Once
	files fstest.MapFS
}

// begin lets a person begin with such a state.
func (p *person) begin() {
	p.Helper()
	begun.Do(func() {
		first := &person{T: p.T, dir: p.TempDir(), env: p.env}
		first.write(nothingConfigured)
		first.opened(func(prog *program) error {
			_, err := prog.Engine.Line.Warehouse.Marks(p.Context())
			return err
		})
		begun.files = programtest.ReadFolder(p, filepath.Join(first.dir, "data"))
	})
	if err := os.CopyFS(filepath.Join(p.dir, "data"), begun.files); err != nil || len(begun.files) == 0 {
		p.Fatalf("copy %d files: %v", len(begun.files), err)
	}
}

func (p *person) write(jobs string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "jobs.yaml"), []byte(jobs), 0o644); err != nil {
		p.Fatal(err)
	}
}

// do runs a command and returns its standard output, its standard error and its exit code.
func (p *person) do(ctx context.Context, args ...string) (out, stderr string, code int) {
	p.Helper()
	var o, e bytes.Buffer
	code = run(ctx, append([]string{"-c", filepath.Join(p.dir, "jobs.yaml")}, args...), world{
		in: strings.NewReader(p.in), out: &o, err: &e, env: p.env, network: p.connect(),
	})
	return o.String(), e.String(), code
}

// connect returns the network of the program.
func (p *person) connect() func(caFile string) (http.RoundTripper, error) {
	if p.network != nil {
		return p.network
	}
	return newTransport
}

// process returns a command, ready to start as a process of its own.
func (p *person) process(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "outlierd", args...)
	cmd.Dir = p.dir
	return cmd
}

// must runs a command that must succeed, and returns its standard output.
func (p *person) must(args ...string) string {
	p.Helper()
	out, stderr, code := p.do(p.Context(), args...)
	if code != exitDone {
		p.Fatalf("outlierd %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, stderr)
	}
	return out
}

// refused runs a command that must fail with an exit code, and returns its standard error.
func (p *person) refused(code int, args ...string) string {
	p.Helper()
	out, stderr, got := p.do(p.Context(), args...)
	if got != code {
		p.Fatalf("outlierd %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, stderr)
	}
	return stderr
}

// ask returns the rows of a query of the published file: its values between commas.
func (p *person) ask(text string) string {
	p.Helper()
	var rows []string
	err := query.Run(p.Context(), p.place(job.SinkDuckDB), text, nil, func(values []any) error {
		var row []string
		for _, v := range values {
			row = append(row, fmt.Sprint(v))
		}
		rows = append(rows, strings.Join(row, ","))
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
	return strings.Join(rows, "\n")
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	programtest.Contains(t, text, parts...)
}
