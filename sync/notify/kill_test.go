package notify

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Environment variables that make the test binary deliver events until it is killed.
const (
	childDir     = "OUTLIERD_TEST_NOTIFY_DIR"
	childAddress = "OUTLIERD_TEST_NOTIFY_ADDRESS"
)

const childEvents = 8

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := deliverAll(dir, os.Getenv(childAddress)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := trust(certified); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.Prepare()
	os.Exit(m.Run())
}

// deliverAll puts events in the outbox of a state folder and sends them.
func deliverAll(dir, address string) error {
	src := "version: 1\nservice: {url: \"sim://\"}\njobs: {a: {search: {query: x}}}\nnotify: {hook: {webhook: \"" + address + "\"}}\n"
	config, err := job.Parse("jobs.yaml", []byte(src), os.LookupEnv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opened, err := state.Open(context.Background(), dir, state.Options{})
	if err != nil {
		return err
	}
	w := NewWatcher(config, log)
	err = opened.DB.Update(func(tx *store.Tx) error {
		for i := range childEvents {
			if err := w.putEvents(tx, []string{"hook"}, Event{ID: fmt.Sprint(i), Kind: Failed, Title: "x"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	d := Deliverer{Store: opened.DB, Ledger: opened.Ledger, Targets: config.Targets, Log: log,
		Sender: &Sender{Transport: http.DefaultTransport, Redact: keepText}}
	d.Flush(context.Background())
	return opened.Close()
}

// A process that is killed before or after its receiver answers loses no event. It sends an event
// twice only if it was killed after the answer.
func TestEveryEventArrivesDespiteKills(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var child *exec.Cmd
	accepted, before, after := map[string]int{}, 3, 3
	server := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := idIn(t, r)
		if before > 0 {
			before--
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
			return
		}
		accepted[id]++
		a.WriteHeader(http.StatusOK)
		if after > 0 {
			after--
			if err := http.NewResponseController(a).Flush(); err != nil {
				t.Error(err)
			}
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}))
	defer server.Close()
	killed := 0
	for {
		mu.Lock()
		child = exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir, childAddress+"="+server.URL)
		child.Stderr = os.Stderr
		err := child.Start()
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		err = child.Wait()
		if err == nil {
			break
		}
		if child.ProcessState.ExitCode() != -1 {
			t.Fatalf("the process failed before it was killed: %v", err)
		}
		killed++
	}
	server.Close() // waits until the last requests are counted
	if killed == 0 {
		t.Error("no process was killed, want at least one")
	}
	sum := 0
	for i := range childEvents {
		n := accepted[fmt.Sprint(i)]
		if sum += n; n == 0 {
			t.Errorf("event %d did not arrive", i)
		}
	}
	if sum > childEvents+3 {
		t.Errorf("%d deliveries of %d events, want at most 3 that are repeated", sum, childEvents)
	}
	t.Logf("killed %d times; %d deliveries of %d events", killed, sum, childEvents)
}
