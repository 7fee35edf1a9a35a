package daemon

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDroppedLogLinesAreCounted: a reader stalls while more lines are written than are buffered. The first line without
// space waits for a second, and later ones do not wait. When the log is read again, it has the number of dropped lines.
func TestDroppedLogLinesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		buffered := NewLog(write)
		log := slog.New(slog.NewTextHandler(buffered, nil))
		go buffered.Run(slog.New(slog.NewTextHandler(write, nil)))
		began := time.Now()
		const lost = 7
		for range 1 + maxLines + lost { // the first one is being written
			log.Info("a line")
			synctest.Wait()
		}
		if took := time.Since(began); took != logTimeout {
			t.Errorf("the lines took %s, want %s", took, logTimeout)
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
		if got := strings.Count(text.String(), `"a line"`); got != 1+maxLines {
			t.Errorf("%d lines were written, want %d", got, 1+maxLines)
		}
		if want := "because standard error was not read\" lines=7\n"; strings.Count(text.String(), want) != 1 {
			t.Errorf("the log does not contain %q exactly once", want)
		}
	})
}

// TestStalledLogDelaysEndBriefly, by a second: a process whose log is not read ends nevertheless.
func TestStalledLogDelaysEndBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		buffered := NewLog(write)
		go buffered.Run(slog.New(slog.DiscardHandler))
		if _, err := buffered.Write([]byte("a line\n")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := buffered.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != logTimeout {
			t.Errorf("closing the log took %s, want %s", took, logTimeout)
		}
		if err := read.Close(); err != nil { // lets the goroutine end
			t.Fatal(err)
		}
	})
}
