//go:build duckdb_arrow

package sinks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
	"outlierd/testenv"
)

var warehouses = flag.String("warehouses", "", "sizes in MB of further DuckDB files that are built from nothing, as 500,2000")

// fillVariable is the environment variable that makes this binary fill the sinks. Its value is "megabytes
// folder".
const fillVariable = "OUTLIERD_SINKS_FILLING"

func TestMain(m *testing.M) {
	what, dir, _ := strings.Cut(os.Getenv(fillVariable), " ")
	if what == "" {
		testenv.Prepare()
		os.Exit(m.Run())
	}
	if err := fillWarehouse(what, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestFillingSinksStaysWithinMemoryLimits fills both sinks from scratch, in a process of its own, and
// compares its peak memory with the numbers in docs/querying.md.
func TestFillingSinksStaysWithinMemoryLimits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak is read from /proc")
	}
	if testing.Short() {
		t.Skip("it takes seconds, and is about a program without the race detector, which takes memory of its own")
	}
	sizes := []string{"14"}
	if *warehouses != "" {
		sizes = append(sizes, strings.Split(*warehouses, ",")...)
	}
	for _, size := range sizes {
		t.Run(size+"MB", func(t *testing.T) {
			megabytes, err := strconv.ParseInt(size, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			limit := int64(224) // MB
			switch {
			case megabytes > 1000:
				limit = 800
			case megabytes > 100:
				limit = 400
			case megabytes > 25:
				limit = 256
			}
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), fillVariable+"="+size+" "+dir)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := os.Stat(filepath.Join(dir, "outliers.duckdb"))
			if err != nil {
				t.Fatal(err)
			}
			peak, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			t.Logf("DuckDB file %d MB, peak %d MB, %v, CPU %v", info.Size()>>20, peak>>20,
				time.Since(began).Round(time.Second/10), cpu.Round(time.Second/10))
			if peak > limit<<20 {
				t.Errorf("building a file of %d MB took %d MB of memory, not %d", info.Size()>>20, peak>>20, limit)
			}
		})
	}
}

// fillWarehouse fills a DuckDB file of about size megabytes, and Parquet files with the same rows, with
// Go's memory limits of the program. It prints the peak memory of this process, in bytes.
func fillWarehouse(size, dir string) (err error) {
	debug.SetMemoryLimit(48 << 20)
	debug.SetGCPercent(400)
	ctx := context.Background()
	megabytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	one, err := duckdb.Open(ctx, duckdb.Options{
		Private: filepath.Join(dir, "warehouse.duckdb"), Published: filepath.Join(dir, "outliers.duckdb"), Temp: filepath.Join(dir, "tmp"),
		Tables: schema.Tables(), Ops: schema.OpsTables(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.Close()) }()
	other, err := parquet.Open(parquet.Options{Dir: filepath.Join(dir, "parquet"), Tables: schema.Tables(), Ops: schema.OpsTables()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	both := []sinks.Sink{one, other}
	end := megabytes << 20 / sinktest.WarehouseAnswer
	for lo := int64(0); lo < end; {
		b := sinktest.Warehouse(lo, min(lo+150, end)) // about 8 MB
		for _, s := range both {
			if err := s.Write(ctx, b); err != nil {
				return err
			}
		}
		sinktest.Release(b)
		lo = b.Hi
	}
	for _, s := range both {
		if err := s.Publish(ctx, nil); err != nil {
			return err
		}
	}
	return printPeak()
}

func printPeak() error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			fmt.Println(kib << 10)
			return nil
		}
	}
	return errors.New("/proc/self/status does not name the peak")
}
