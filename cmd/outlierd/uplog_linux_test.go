package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/outlier/simulator"
)

// TestUnreadLogStopsNothing: the process that reads the log of a daemon ends, or stops reading. The schedule
// continues, and the daemon stops in time with exit code 0.
func TestUnreadLogStopsNothing(t *testing.T) {
	t.Parallel() // it runs processes of its own
	for name, lost := range map[string]func(*os.File) error{
		"reader ended":   (*os.File).Close,
		"reader stalled": func(*os.File) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, simulator.Options{Seed: 5, Limit: 1_000_000})
			w.write(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
sinks: [{parquet: parquet}]
budget: {per_month: 1000}
jobs: {tea: {every: 1m, reuse_for: 1m, search: {query: [tea]}}}
`)
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			const room = 4096 // bytes, the minimum capacity of a pipe
			if _, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, room); err != nil {
				t.Fatal(err)
			}
			d := w.upWithOutput(write)
			if err := write.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReaderSize(read, 16).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := lost(read); err != nil {
				t.Fatal(err)
			}
			const runs = 12 // enough for their log lines to fill the pipe
			for until := time.Now().Add(time.Minute); w.service.Books().Total.Calls <= runs; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("%d calls were made within a minute, want one of each of %d runs",
						w.service.Books().Total.Calls, runs+1)
				}
			}
			if ended := strings.Count(w.mustRun("runs", "-o", "csv"), ",tea,ok"); ended < runs {
				t.Errorf("%d runs ended, want %d", ended, runs)
			}
			if took := d.stop(); took > longestStop || d.cmd.ProcessState.ExitCode() != 0 {
				t.Errorf("the stop took %s and ended with %s, want exit code 0 in time", took, d.cmd.ProcessState)
			}
		})
	}
}

// TestDroppedLogLinesAreCounted: a reader stalls while more lines are written than are buffered. The first line without
// space waits for a second, and later ones do not wait. When the log is read again, it has the number of dropped lines.
func TestDroppedLogLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		buffered := newBufferedLog(write)
		log := slog.New(slog.NewTextHandler(buffered, nil))
		go buffered.serve(slog.New(slog.NewTextHandler(write, nil)))
		began := time.Now()
		const lost = 7
		for range 1 + logLines + lost { // the first one is being written
			log.Info("a line")
			synctest.Wait()
		}
		if took := time.Since(began); took != logPatience {
			t.Errorf("the lines took %s, want %s", took, logPatience)
		}
		var text bytes.Buffer
		done := make(chan error)
		go func() {
			_, err := text.ReadFrom(read)
			done <- err
		}()
		if err := errors.Join(buffered.Close(), write.Close(), <-done); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(text.String(), `"a line"`); got != 1+logLines {
			t.Errorf("%d lines were written, want %d", got, 1+logLines)
		}
		if want := "because standard error was not read\" lines=7\n"; strings.Count(text.String(), want) != 1 {
			t.Errorf("the log does not contain %q exactly once", want)
		}
	})
}

// TestStalledLogDelaysTheEndByASecond: a process whose log is not read ends nevertheless.
func TestStalledLogDelaysTheEndByASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		buffered := newBufferedLog(write)
		go buffered.serve(slog.New(slog.DiscardHandler))
		if _, err := buffered.Write([]byte("a line\n")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := buffered.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != logPatience {
			t.Errorf("closing the log took %s, want %s", took, logPatience)
		}
		if err := read.Close(); err != nil { // lets the goroutine end
			t.Fatal(err)
		}
	})
}
