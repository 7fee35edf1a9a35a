package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/sinks/bucket/buckettest"
)

const backupAddress = "s3://outliers/backups"

// bucketWorld is a world whose state is larger than one part of an upload, and a store on loopback.
type bucketWorld struct {
	*testWorld
	store *buckettest.Server
	env   []string
}

func newBucketWorld(t *testing.T) *bucketWorld {
	w := newKeptWorld(t)
	file := filepath.Join(w.dir, "data", "state", "state.db")
	if err := programtest.ExecSQLite(file, "create table filler as select randomblob(9000000) as x"); err != nil {
		t.Fatal(err)
	}
	store := buckettest.New("outliers")
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	return &bucketWorld{w, store, programtest.StoreVariables(server.URL)}
}

// try runs the program, kills it when the context ends, and returns what it printed.
func (w *bucketWorld) try(ctx context.Context, args ...string) (output string, err error) {
	cmd, out := w.command(ctx, args...)
	cmd.Env = append(cmd.Env, w.env...)
	err = cmd.Run()
	return out.String(), err
}

func (w *bucketWorld) must(args ...string) string {
	w.Helper()
	output, err := w.try(w.Context(), args...)
	if err != nil {
		w.Fatalf("outlierd %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// hasOne checks that the bucket has a single undamaged backup, and nothing else.
func (w *bucketWorld) hasOne() {
	w.Helper()
	w.isTidy()
	if n := len(w.store.Objects()); n != 1 {
		w.Errorf("the bucket has %d objects, want a copy", n)
	}
}

// isTidy checks that the newest backup is undamaged, and that no parts of others are left.
func (w *bucketWorld) isTidy() {
	w.Helper()
	w.must("backup", "--check", backupAddress)
	if n := w.store.Uploads(); n > 0 {
		w.Errorf("the bucket has %d unfinished uploads", n)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "data", "state", "tmp", "*")); err != nil || len(left) > 0 {
		w.Errorf("left in the state folder: %v (%v), want nothing", left, err)
	}
}

// TestKilledBackupKeepsThePreviousOne kills backups to a bucket and restores at every sixth of their requests,
// from a random one on, or with -long at each of them: before the store processes it, and after.
func TestKilledBackupKeepsThePreviousOne(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newBucketWorld(t)
	w.must("backup", backupAddress)
	w.must("backup", backupAddress)
	first, step := 1+testenv.Random(t).Int64N(6), int64(6)
	if *long {
		first, step = 1, 1
	}
	for _, processed := range []bool{false, true} {
		for last := first; w.killAtRequest(last, processed, "backup", backupAddress); last += step {
			w.must("backup", "--check", backupAddress)
		}
		w.isTidy()
	}
	if err := os.Rename(filepath.Join(w.dir, "data"), filepath.Join(w.dir, "lost")); err != nil {
		t.Fatal(err)
	}
	for last := first; w.killAtRequest(last, false, "restore", backupAddress, "--spent", "3"); last += step {
		if w.has("data/state") {
			t.Fatalf("killed at request %d: a state was created", last)
		}
	}
	if !w.has("data/state") || w.has("data/state.restore") {
		t.Error("the state was not restored")
	}
}

// killAtRequest runs the program and kills it at one of its requests, which the store may have processed.
// It reports whether there were as many requests.
func (w *bucketWorld) killAtRequest(last int64, processed bool, args ...string) (killed bool) {
	w.Helper()
	ctx, kill := context.WithCancel(w.Context()) // CommandContext kills with SIGKILL
	defer kill()
	var requests atomic.Int64
	w.store.SetFault(func(rw http.ResponseWriter, r *http.Request) bool {
		n := requests.Add(1)
		if n < last || n == last+1 && processed { // the request that is passed to the store comes here again
			return false
		}
		if n == last && processed {
			w.store.ServeHTTP(httptest.NewRecorder(), r)
		}
		kill()
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after it has read the body
		<-r.Context().Done()
		return true
	})
	output, err := w.try(ctx, args...)
	w.store.SetFault(nil)
	if killed = ctx.Err() != nil; !killed && err != nil {
		w.Fatalf("outlierd %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return killed
}

// TestTwoBackupsToOneBucket runs a whole backup while another one uploads. Neither removes the other, which may be the
// only one that is complete. Whether they are the first in the bucket is random; with -long both cases are tested.
func TestTwoBackupsToOneBucket(t *testing.T) {
	t.Parallel() // it runs processes of its own
	plays := []bool{true, false}
	if !*long {
		plays = []bool{testenv.Random(t).IntN(2) == 0}
	}
	for _, first := range plays {
		t.Logf("first in the bucket: %t", first)
		w := newBucketWorld(t)
		if !first {
			w.must("backup", backupAddress)
		}
		var other string
		var failed error
		w.store.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/backups/state-") {
				w.store.SetFault(nil)
				other, failed = w.try(t.Context(), "backup", backupAddress)
			}
			return false
		})
		_, _ = w.try(t.Context(), "backup", backupAddress) // the other one may have removed its parts
		if failed != nil {
			t.Fatalf("the other backup: %v\n%s", failed, other)
		}
		w.isTidy()
		if n := len(w.store.Objects()); n < 1 || n > 2 {
			t.Errorf("the bucket has %d objects, want one or both copies", n)
		}
	}
}

// TestBackupSurvivesLostAnswer: the store has the copy but answers the last request with an error, and the
// request is sent again.
func TestBackupSurvivesLostAnswer(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newBucketWorld(t)
	w.must("backup", backupAddress)
	w.store.SetFault(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.RawQuery, "uploadId") {
			return false
		}
		w.store.SetFault(nil)
		w.store.ServeHTTP(httptest.NewRecorder(), r)
		buckettest.Refuse(rw, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	output := w.must("backup", backupAddress)
	w.hasOne()
	for key := range w.store.Objects() {
		if strings.HasPrefix(key, "backups/state-") && !strings.Contains(output, key) {
			t.Errorf("the bucket has %s, but not the last backup: %s", key, output)
		}
	}
}
