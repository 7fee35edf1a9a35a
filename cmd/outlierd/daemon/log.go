package daemon

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// # The log
//
// Standard error may be a pipe that is not read: a container runtime whose disk is full, a pager, a
// collector that hangs. A write to it then blocks. The schedule must not wait for it, or nothing would
// be bought and SIGTERM would not end the process. So a goroutine writes the log, and when that is
// blocked, lines are dropped and counted.

// Limits of the queued lines, and of the time to wait: for room in the queue, and at the end of the
// process.
const (
	maxLines   = 4096
	logTimeout = time.Second
)

// A Log is a writer of log lines that does not block for long.
type Log struct {
	w       io.Writer
	lines   chan []byte
	dropped atomic.Int64 // lines dropped since the last one that was written
	closing chan struct{}
	done    chan struct{}
}

// NewLog returns a log that writes to w once [Log.Run] is called.
func NewLog(w io.Writer) *Log {
	return &Log{w: w, lines: make(chan []byte, maxLines), closing: make(chan struct{}),
		done: make(chan struct{})}
}

// Write passes a line on. It waits only for the first line that finds no room: a burst of lines is not
// a blocked reader.
func (l *Log) Write(line []byte) (int, error) {
	kept := bytes.Clone(line)
	select {
	case l.lines <- kept:
		return len(line), nil
	default:
	}
	timeout := logTimeout
	if l.dropped.Load() > 0 {
		timeout = 0
	}
	select {
	case l.lines <- kept:
	case <-time.After(timeout):
		l.dropped.Add(1)
	}
	return len(line), nil
}

// Run writes the lines until Close is called. It reports dropped lines to log, which writes to the
// same place.
func (l *Log) Run(log *slog.Logger) {
	defer close(l.done)
	write := func(line []byte) {
		_, _ = l.w.Write(line) // there is nowhere to report the error
		if n := l.dropped.Swap(0); n > 0 {
			log.Warn("log lines dropped, because standard error was not read", "lines", n)
		}
	}
	for {
		select {
		case line := <-l.lines:
			write(line)
		case <-l.closing:
			for len(l.lines) > 0 {
				write(<-l.lines)
			}
			return
		}
	}
}

// Close waits until the lines are written, but not for a reader that is blocked.
func (l *Log) Close() error {
	close(l.closing)
	select {
	case <-l.done:
	case <-time.After(logTimeout):
	}
	return nil
}
