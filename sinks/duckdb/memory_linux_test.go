package duckdb_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

var warehouses = flag.String("warehouses", "", "sizes in MB of further DuckDB files that are built from nothing, as 500,2000")

// TestFillingStaysWithinMemory fills a warehouse from scratch and publishes it, in a process of its own, and
// compares its peak memory with limits that leave room in the containers of docs/querying.md.
func TestFillingStaysWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds, and is about a program without the race detector, which takes memory of its own")
	}
	sizes := []string{"8"}
	if *warehouses != "" {
		sizes = append(sizes, strings.Split(*warehouses, ",")...)
	}
	for _, size := range sizes {
		t.Run(size+"MB", func(t *testing.T) {
			megabytes, err := strconv.ParseInt(size, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			limit := int64(240) // MB
			switch {
			case megabytes > 1000:
				limit = 800
			case megabytes > 100:
				limit = 400
			case megabytes > 25:
				limit = 256
			}
			dir, began := t.TempDir(), time.Now()
			p := spawn(t, "filler", dir)
			fmt.Fprintln(p.in, size)
			peak := parseMark(t, p.says(t))
			if err := p.Wait(); err != nil {
				t.Fatalf("%v %s", err, p.errors)
			}
			info, err := os.Stat(published(dir))
			if err != nil {
				t.Fatal(err)
			}
			cpu := p.ProcessState.UserTime() + p.ProcessState.SystemTime()
			t.Logf("DuckDB file %d MB, peak %d MB, %v, CPU %v", info.Size()>>20, peak>>20,
				time.Since(began).Round(time.Second/10), cpu.Round(time.Second/10))
			if peak > limit<<20 {
				t.Errorf("building a file of %d MB took %d MB of memory, not %d", info.Size()>>20, peak>>20, limit)
			}
		})
	}
}

// beFiller fills a warehouse of about as many megabytes as its input says, with Go's memory limits of the program, and
// publishes it. It says the peak memory of this process, in bytes.
func beFiller(dir string) (err error) {
	debug.SetMemoryLimit(48 << 20)
	debug.SetGCPercent(400)
	var megabytes int64
	if _, err := fmt.Scan(&megabytes); err != nil {
		return err
	}
	o := sinktest.Options(dir)
	o.Tables, o.Uncommented = schema.AllTables(), false
	w := warehouse.New(o)
	defer func() { err = errors.Join(err, w.Close()) }()
	end := megabytes << 20 / sinktest.WarehouseAnswer
	for lo := int64(0); lo < end; {
		b := sinktest.Warehouse(lo, min(lo+150, end)) // about 8 MB
		err := w.Write(ctx, b)
		sinktest.Release(b)
		if err != nil {
			return err
		}
		lo = b.Hi
	}
	if err := duckdb.New(w, published(dir), o.Temp).Publish(ctx); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			say(kib << 10)
			return nil
		}
	}
	return errors.New("/proc/self/status does not name the peak")
}
