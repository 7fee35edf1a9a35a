// Package programtest runs the program in tests: as the commands of scripts, and as processes of Go tests. The test
// binary itself is the program.
package programtest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	_ "unsafe" // for linkname

	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// Main runs the tests of a package, or the program: scripts and other tests run the test binary as `outlierd`.
// Each package with such tests calls it as its TestMain, with the program's Main.
func Main(m *testing.M, program func() int) {
	programs["outlierd"] = func() {
		if os.Getenv(ShortMinutes) != "" {
			durationUnits['m'] = time.Second
		}
		if os.Getenv(patientCommands) != "" {
			askFor = MaxWait
		}
		code := program()
		if to := os.Getenv(StatusFile); to != "" {
			status, err := os.ReadFile("/proc/self/status")
			if err := errors.Join(err, os.WriteFile(to, status, 0o644)); err != nil {
				panic(err)
			}
		}
		os.Exit(code)
	}
	testscript.Main(tests{m}, programs)
}

// programs are the commands that the test binary runs as, by their names.
var programs = map[string]func(){}

// tests runs the tests, if this process is not the program.
type tests struct{ *testing.M }

func (t tests) Run() int {
	testenv.Prepare()
	// Most tests wait for processes: more of them at a time use all processors. A flag on the command line, which is
	// parsed later, overrides this.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	// Commands are short: by default Go would collect garbage once already while their packages are initialized,
	// which is a quarter of the CPU of starting one.
	if os.Getenv("GOGC") == "" {
		if err := os.Setenv("GOGC", "400"); err != nil {
			panic(err)
		}
	}
	return t.M.Run()
}

// ShortMinutes is an environment variable that lets the minutes of the job file last a second, so that tests of
// schedules are short.
const ShortMinutes = "OUTLIERD_TEST_SHORT_MINUTES"

// StatusFile is an environment variable with the path of a file to which the program copies /proc/self/status when it
// ends. VmHWM is its peak memory; that of the kernel for an ended process includes the peak of its parent.
const StatusFile = "OUTLIERD_TEST_STATUS"

// patientCommands is an environment variable that lets commands wait longer for a daemon, for tests on a busy machine.
const patientCommands = "OUTLIERD_TEST_PATIENCE"

// MaxWait is the maximum wait for what takes seconds on an idle machine.
const MaxWait = 2 * time.Minute

// Both are variables of the program that only tests change.
//
//go:linkname durationUnits outlierd/sync/job.units
var durationUnits map[byte]time.Duration

//go:linkname askFor outlierd/cmd/outlierd/command.askFor
var askFor time.Duration

// ReadFolder returns the files of a folder, which [os.CopyFS] writes to others.
func ReadFolder(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// DuckDBAlone lets a job file have no Parquet files, which a test that does not look at them need not wait for.
const DuckDBAlone = "sinks: [{duckdb: outliers.duckdb}]\n"

// Searches returns a job file with [DuckDBAlone] and three searches of so many pages. They enrich the top hits, or with
// 0 all. The address and the key of the service come from OUTLIERD_URL and OUTLIERD_KEY.
func Searches(pages, top int) string {
	var b strings.Builder
	b.WriteString("version: 1\n" +
		"service: {url: \"${OUTLIERD_URL}\", key: \"${OUTLIERD_KEY}\", limit: 1000000/min}\n" +
		"budget: {per_month: 1000}\n" +
		DuckDBAlone +
		"jobs:\n")
	limit := ""
	if top > 0 {
		limit = fmt.Sprintf("top: %d", top)
	}
	for i, query := range []string{"home espresso", "moka pot", "minecraft"} {
		fmt.Fprintf(&b, "  search-%d:\n    search: {query: [%s], sort: z_score desc, pages: %d}\n", i, query, pages)
		b.WriteString("    enrich:\n      sort: z_score desc\n")
		for _, op := range []string{"channel_videos", "channel_shorts", "details", "comments", "transcript"} {
			fmt.Fprintf(&b, "      %s: {%s}\n", op, limit)
		}
	}
	return b.String()
}

// Contains fails the test for each part that is not in a text.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// LoseStarts lets a service lose its next answers to starts of scans. It returns a function that lists the scans that
// were started.
func LoseStarts(service *simulator.Service) (started func() []string) {
	for range 9 {
		service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
	}
	return func() (ids []string) {
		for _, call := range service.Books().Calls {
			if call.Scan != "" {
				ids = append(ids, call.Scan)
			}
		}
		return ids
	}
}

// ServiceManager is the receiving end of a socket of systemd's protocol.
type ServiceManager struct {
	testing.TB
	socket *net.UnixConn
}

// ListenAsSystemd returns the receiver at an address, which may be abstract: "@name".
func ListenAsSystemd(t testing.TB, address string) *ServiceManager {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &ServiceManager{TB: t, socket: socket}
}

// Want waits for the next datagram, which must have exactly these states.
func (m *ServiceManager) Want(states ...string) {
	m.Helper()
	datagram := make([]byte, 4096)
	if err := m.socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.Fatal(err)
	}
	n, err := m.socket.Read(datagram)
	if err != nil {
		m.Fatal(err)
	}
	if got := strings.Split(string(datagram[:n]), "\n"); !slices.Equal(got, states) {
		m.Errorf("the service manager received %q, want %q", got, states)
	}
}
