package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
)

// TestServiceManagerIsNotified listens as systemd does, on a socket in the file system and on an
// abstract one, while the program itself starts and stops.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"path":     filepath.Join(t.TempDir(), "notify"),
		"abstract": fmt.Sprintf("@outlierd-test-%d", os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manager := programtest.ListenAsSystemd(t, address)
			p := &person{T: t, dir: t.TempDir()}
			p.write("version: 1\nservice: {url: \"sim://\"}\njobs:\n  one: {every: 52w, search: {query: [espresso]}}\n")
			var out bytes.Buffer
			up := p.process(t.Context(), "up")
			up.Stdout, up.Stderr = &out, &out
			up.Env = append(os.Environ(), "NOTIFY_SOCKET"+"="+address)
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			manager.Want("READY=1", "STATUS=Running the schedules")
			if err := up.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			manager.Want("STOPPING=1", "STATUS=Stopping; a call in progress may finish")
			if err := up.Wait(); err != nil {
				t.Errorf("up: %v\n%s", err, &out)
			}
		})
	}
}

// TestScheduleRunsWithoutServiceManager: if its socket does not exist, the log has one line about it.
func TestScheduleRunsWithoutServiceManager(t *testing.T) {
	t.Parallel()
	p := &person{T: t, dir: t.TempDir()}
	p.write("version: 1\nservice: {url: \"sim://\"}\njobs:\n  one: {every: 52w, search: {query: [espresso]}}\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	up := p.process(ctx, "up")
	up.Env = append(os.Environ(), "NOTIFY_SOCKET"+"="+filepath.Join(p.dir, "gone"))
	lines, err := up.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for buffer := make([]byte, 4096); !strings.Contains(log.String(), "service manager not reached"); {
		n, err := lines.Read(buffer)
		log.Write(buffer[:n])
		if err != nil {
			t.Fatalf("the log does not name the socket: %v\n%s", err, log.String())
		}
	}
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("up: %v\n%s", err, log.String())
	}
}
