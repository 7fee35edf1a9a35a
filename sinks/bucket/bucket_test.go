package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

const secret = "CANARY-4711"

func env(name string) (string, bool) {
	value, ok := map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIA" + secret, "AWS_SECRET_ACCESS_KEY": secret, "AWS_ENDPOINT_URL": "https://store.test",
	}[name]
	return value, ok
}

func optionsOf(dir string, server *buckettest.Server) Options {
	return Options{Address: "s3://outliers/a/b", Record: filepath.Join(dir, "bucket.json"), Env: env, Transport: server}
}

func openSink(t testing.TB, dir string, server *buckettest.Server) *Sink {
	t.Helper()
	folder := filepath.Join(dir, "parquet")
	local, err := parquet.Open(parquet.Options{Dir: folder, Tables: sinktest.Tables(), Ops: sinktest.Ops()})
	if err != nil {
		t.Fatal(err)
	}
	return Open(local, folder, optionsOf(dir, server))
}

// later lets time pass for a sink.
func later(s *Sink, d time.Duration) {
	now := s.copy.now
	s.copy.now = func() time.Time { return now().Add(d) }
}

// found is what a reader finds who takes the names from the manifest.
func found(t testing.TB, server *buckettest.Server) (manifest, map[string][]byte) {
	t.Helper()
	objects := server.Objects()
	m, err := parseManifest(objects["a/b/"+manifestName])
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{}
	for name, o := range m.names() {
		sum := sha256.Sum256(objects["a/b/"+name])
		if hex.EncodeToString(sum[:]) != o.SHA256 {
			t.Fatalf("%s has %d bytes and not the checksum of the manifest", name, len(objects["a/b/"+name]))
		}
		content[name] = objects["a/b/"+name]
	}
	return m, content
}

// servers are the stores of the suite's folders.
var servers sync.Map

var suite = sinktest.Sink{
	Open: func(t testing.TB, dir string) sinks.Sink {
		server, _ := servers.LoadOrStore(dir, buckettest.New("outliers"))
		return openSink(t, dir, server.(*buckettest.Server))
	},
	Read: func(t testing.TB, dir string, table *schema.Table) (rows []arrow.RecordBatch) {
		server, _ := servers.Load(dir)
		if _, ok := server.(*buckettest.Server).Objects()["a/b/"+manifestName]; !ok {
			return nil
		}
		m, content := found(t, server.(*buckettest.Server))
		objects := slices.SortedFunc(slices.Values(m.Tables[table.FileName()]), func(a, b object) int { return int(a.Lo - b.Lo) })
		for _, o := range objects {
			rows = append(rows, decode(t, table, content[o.Name])...)
		}
		return rows
	},
}

// decode reads a file in the columns of a table.
func decode(t testing.TB, table *schema.Table, content []byte) (rows []arrow.RecordBatch) {
	t.Helper()
	in, err := file.NewParquetReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := pqarrow.NewFileReader(in, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	all, err := reader.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batches := array.NewTableReader(all, 0)
	for batches.Next() {
		batch := batches.RecordBatch()
		columns := make([]arrow.Array, 0, batch.NumCols())
		for _, f := range table.Stored().Fields() {
			columns = append(columns, batch.Column(batch.Schema().FieldIndices(f.Name)[0]))
		}
		rows = append(rows, array.NewRecordBatch(table.Stored(), columns, batch.NumRows()))
	}
	return rows
}

func TestSinkKeepsItsPromises(t *testing.T) { sinktest.Run(t, suite) }

// write brings some more of a journal, and publishes.
func write(t testing.TB, s *Sink, j sinktest.Journal, hi int64) error {
	t.Helper()
	lo, err := s.Watermark(t.Context())
	if err != nil {
		return err
	}
	if lo < hi {
		b := j.Batch(lo, hi)
		defer sinktest.Release(b)
		if err := s.Write(t.Context(), b); err != nil {
			return err
		}
	}
	version, err := s.OpsVersion(t.Context())
	if err != nil {
		return err
	}
	return s.Publish(t.Context(), sinktest.Runs(version, hi))
}

// checkCopy compares a bucket with the folder that it is a copy of.
func checkCopy(t testing.TB, dir string, server *buckettest.Server) manifest {
	t.Helper()
	folder, err := parquet.ReadPublished(filepath.Join(dir, "parquet"))
	if err != nil {
		t.Fatal(err)
	}
	m, _ := found(t, server)
	want := manifest{Version: manifestVersion, Watermark: folder.Watermark, Tables: objectsOf(folder)}
	if !m.same(want) {
		t.Fatalf("the bucket has %v, want %v", slices.Sorted(maps.Keys(m.names())), slices.Sorted(maps.Keys(want.names())))
	}
	return m
}

// Each request in turn is the last one of a process. Readers always find what a manifest names,
// and the next process completes the copy and leaves nothing over.
func TestCopyIsWholeWhereverItIsCutShort(t *testing.T) {
	j, step := sinktest.Sample(12), int64(1)
	if testing.Short() {
		step = 9
	}
	for last := int64(0); ; last += step {
		dir, server := t.TempDir(), buckettest.New("outliers")
		server.Put("a/b/outliers/notes.txt", []byte("of somebody else"))
		first := openSink(t, dir, server)
		if err := errors.Join(write(t, first, j, 4), write(t, first, j, 6)); err != nil {
			t.Fatal(err)
		}
		later(first, Grace) // so that objects are also deleted
		var requests atomic.Int64
		server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			refused := requests.Add(1) > last
			if refused {
				buckettest.Refuse(w, http.StatusForbidden, "AccessDenied")
			}
			return refused
		})
		err := write(t, first, j, 8)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		server.SetFault(nil)
		found(t, server)
		again := openSink(t, dir, server)
		if err := write(t, again, j, 12); err != nil {
			t.Fatalf("after %d requests: %v", last, err)
		}
		checkCopy(t, dir, server)
		later(again, 2*Grace)
		if err := errors.Join(write(t, again, j, 12), again.Close()); err != nil {
			t.Fatal(err)
		}
		m := checkCopy(t, dir, server)
		if n := len(server.Objects()); n != len(m.names())+2 {
			t.Fatalf("after %d requests: the bucket has %d objects, and the manifest names %d", last, n, len(m.names()))
		}
		if err == nil {
			return
		}
	}
}

func TestObjectsStayForReadersWhoBeganBefore(t *testing.T) {
	dir, server, j := t.TempDir(), buckettest.New("outliers"), sinktest.Sample(8)
	s := openSink(t, dir, server)
	defer s.Close()
	if err := write(t, s, j, 4); err != nil {
		t.Fatal(err)
	}
	before, _ := found(t, server)
	if err := write(t, s, j, 8); err != nil {
		t.Fatal(err)
	}
	later(s, Grace-time.Second)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for name := range before.names() {
		if server.Objects()["a/b/"+name] == nil {
			t.Errorf("%s is gone too early", name)
		}
	}
	later(s, time.Second)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if m := checkCopy(t, dir, server); len(server.Objects()) != len(m.names())+1 {
		t.Errorf("objects stay: %v", slices.Sorted(maps.Keys(server.Objects())))
	}
	server.Asked()
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if asked := server.Asked(); len(asked) > 0 {
		t.Errorf("nothing is new, and the bucket is asked: %v", asked)
	}
}

// What a bucket loses or damages is uploaded again by the next process.
func TestLostObjectsAreUploadedAgain(t *testing.T) {
	dir, server, j := t.TempDir(), buckettest.New("outliers"), sinktest.Sample(4)
	s := openSink(t, dir, server)
	if err := errors.Join(write(t, s, j, 4), s.Close()); err != nil {
		t.Fatal(err)
	}
	m, _ := found(t, server)
	for i, name := range slices.Sorted(maps.Keys(m.names())) {
		if i%2 == 0 {
			server.Put("a/b/"+name, nil)
		} else {
			server.Put("a/b/"+name, []byte("cut"))
		}
	}
	s = openSink(t, dir, server)
	if err := errors.Join(s.Publish(t.Context(), nil), s.Close()); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, dir, server)
}

func TestBucketOfAnotherFolderIsRefused(t *testing.T) {
	server, j := buckettest.New("outliers"), sinktest.Sample(8)
	dir, other := t.TempDir(), t.TempDir()
	for _, of := range []string{dir, other} {
		s := openSink(t, of, server)
		defer s.Close()
		err := write(t, s, j, 4)
		if of == dir && err != nil || of == other && (err == nil || !strings.Contains(err.Error(), "another data folder")) {
			t.Fatalf("%s: %v", of, err)
		}
	}
	// A copy of the folder, of which the other one has gone on.
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s, old := openSink(t, dir, server), openSink(t, copied, server)
	defer s.Close()
	defer old.Close()
	if err := write(t, old, j, 4); err != nil { // nothing is new, so nothing is written
		t.Fatal(err)
	}
	if err := write(t, s, j, 8); err != nil {
		t.Fatal(err)
	}
	if err := write(t, old, j, 8); err == nil || !strings.Contains(err.Error(), "PreconditionFailed") {
		t.Errorf("a manifest that has changed meanwhile: %v", err)
	}
	if err := write(t, s, j, 8); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, dir, server)
}

// A store that denies, throttles or has forgotten the credentials is named with the remedy. The
// folder goes on, and the copy is made up for later.
func TestRefusalsAreNamed(t *testing.T) {
	for _, c := range []struct {
		status     int
		code, want string
	}{
		{http.StatusForbidden, "AccessDenied", "s3:PutObject"},
		{http.StatusServiceUnavailable, "SlowDown", "it is tried again"},
		{http.StatusBadRequest, "ExpiredToken", "renew them"},
		{http.StatusForbidden, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"},
		{http.StatusNotFound, "NoSuchBucket", "create the bucket"},
	} {
		dir, server, j := t.TempDir(), buckettest.New("outliers"), sinktest.Sample(8)
		s := openSink(t, dir, server)
		server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			buckettest.Refuse(w, c.status, c.code)
			return true
		})
		err := write(t, s, j, 4)
		if err == nil || !strings.Contains(err.Error(), "copy to s3://outliers/a/b") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", c.code, err)
		}
		if mark, err := s.Watermark(t.Context()); mark != 4 || err != nil {
			t.Errorf("%s: watermark %d, %v", c.code, mark, err)
		}
		later(s, 24*time.Hour)
		server.SetFault(nil)
		if err := errors.Join(write(t, s, j, 8), s.Close()); err != nil {
			t.Errorf("%s: a day later: %v", c.code, err)
		}
		checkCopy(t, dir, server)
	}
}

func TestLostPartIsNoticed(t *testing.T) {
	content := make([]byte, 20<<20)
	rand.Read(content)
	sum := sha256.Sum256(content)
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := buckettest.New("outliers")
	there, err := openStore(optionsOf(t.TempDir(), server))
	if err != nil {
		t.Fatal(err)
	}
	o := object{Name: "outliers/current-0123456789abcdef.parquet", Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	server.Loses = func(part int) bool { return part == 2 }
	if err := there.upload(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), "tried again") {
		t.Errorf("a part was lost: %v", err)
	}
	server.Loses = nil
	if err := there.upload(t.Context(), path, o); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(server.Objects()["a/b/"+o.Name], content) {
		t.Error("the object is not what was uploaded")
	}
	// A kill leaves an upload in the middle.
	ctx, cancel := context.WithCancel(t.Context())
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("partNumber") == "2" {
			cancel()
		}
		return ctx.Err() != nil && r.Method == http.MethodDelete
	})
	if err := there.upload(ctx, path, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	server.SetFault(nil)
	if server.Uploads() == 0 {
		t.Fatal("no upload was left in the middle, so the test shows nothing")
	}
	if err := there.removeIncomplete(t.Context()); err != nil || server.Uploads() > 0 {
		t.Errorf("%d uploads are left: %v", server.Uploads(), err)
	}
}

// realStore is the address of a store with a bucket named outliers, whose credentials are in the
// environment. Without it a play is for the store in memory.
var realStore = flag.String("store", "", "address of a store that speaks S3")

// What the rest relies on: an upload in parts arrives whole, a listing has all pages, a manifest is
// replaced only if nobody else has done so, and what is deleted is gone.
func TestStoreBehaves(t *testing.T) {
	o := optionsOf(t.TempDir(), buckettest.New("outliers"))
	if *realStore != "" {
		o.Transport = nil
		o.Env = func(name string) (string, bool) {
			if name == "AWS_ENDPOINT_URL" {
				return *realStore, true
			}
			return os.LookupEnv(name)
		}
	}
	o.Address = fmt.Sprintf("s3://outliers/behaves-%d", time.Now().UnixNano())
	there, err := openStore(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, want := t.Context(), map[string]int64{}
	for i, size := range slices.Concat([]int{20<<20 + 1, partBytes, partBytes + 1}, make([]int, 1100)) {
		content := make([]byte, max(size, 100))
		rand.Read(content)
		sum := sha256.Sum256(content)
		made := object{Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
		made.Name = nameOf("outliers", parquet.File{Name: fmt.Sprintf("part-%012d-%012d.parquet", i, i), SHA256: made.SHA256})
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := there.upload(ctx, path, made); err != nil {
			t.Fatal(err)
		}
		if want[made.Name] = made.Bytes; size == 0 {
			continue
		}
		if got, err := there.sum(ctx, made.Name); err != nil || got != made.SHA256 {
			t.Errorf("%d bytes came back with the checksum %s, want %s: %v", size, got, made.SHA256, err)
		}
	}
	if got, err := there.list(ctx); err != nil || !maps.Equal(got, want) {
		t.Errorf("%d objects are listed, want %d: %v", len(got), len(want), err)
	}
	for name := range want {
		if err := there.remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := there.list(ctx); err != nil || len(got) > 0 {
		t.Errorf("%d objects are left: %v", len(got), err)
	}
	if err := there.removeIncomplete(ctx); err != nil {
		t.Error(err)
	}

	replace := func(commit int, etag string) (string, error) {
		return there.replaceManifest(ctx, fmt.Appendf(nil, `{"version": 1, "commit": %d}`, commit), etag)
	}
	first, err := replace(1, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := replace(2, first)
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"", first} {
		_, err := replace(3, old)
		if refused, ok := errors.AsType[*Refused](err); !ok || refused.Status != http.StatusPreconditionFailed {
			t.Errorf("the manifest that follows %q was replaced again: %v", old, err)
		}
	}
	m, etag, err := there.readManifest(ctx)
	if err != nil || m.Commit != 2 || etag != second {
		t.Errorf("manifest %d, %s: %v", m.Commit, etag, err)
	}
}

// A damaged file of the folder does not reach the bucket.
func TestDamagedFileStays(t *testing.T) {
	dir, server, j := t.TempDir(), buckettest.New("outliers"), sinktest.Sample(4)
	s := openSink(t, dir, server)
	defer s.Close()
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		buckettest.Refuse(w, http.StatusForbidden, "AccessDenied")
		return true
	})
	if err := write(t, s, j, 4); err == nil {
		t.Fatal("a bucket that denies was used")
	}
	server.SetFault(nil)
	folder, err := parquet.ReadPublished(filepath.Join(dir, "parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var damaged string
	for table, files := range folder.Tables {
		damaged = filepath.Join(dir, "parquet", table, files[0].Name)
	}
	content, err := os.ReadFile(damaged)
	if err == nil {
		content[len(content)/2]++
		err = os.WriteFile(damaged, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = s.Publish(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "rebuild parquet") {
		t.Errorf("damaged file: %v", err)
	}
	if server.Objects()["a/b/"+manifestName] != nil {
		t.Error("the manifest names a damaged object")
	}
}

// A store that takes a request and never answers is given up.
func TestHangingStore(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	o := optionsOf(t.TempDir(), nil)
	o.Transport = network(20 * time.Millisecond)
	o.Env = func(name string) (string, bool) {
		if name == "AWS_ENDPOINT_URL" {
			return fmt.Sprintf("http://%s", listener.Addr()), true
		}
		return env(name)
	}
	there, err := openStore(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := there.list(t.Context()); !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("a store that hangs: %v", err)
	}
	if !o.Transport.(*mortal).ended.Load() {
		t.Error("the request would be sent again")
	}
}

func TestCredentialsAreFoundInTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		want      string
	}{
		{map[string]string{"AWS_ACCESS_KEY_ID": "a"}, "must both be set"},
		{map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"}, "no credentials"},
		{map[string]string{"AWS_ENDPOINT_URL": "minio:9000"}, "https://"},
		{map[string]string{"AWS_ENDPOINT_URL": "https://user:" + secret + "@minio"}, "https://"},
	} {
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		o := optionsOf(t.TempDir(), nil)
		o.Env = func(name string) (string, bool) { value, ok := c.variables[name]; return value, ok }
		if _, err := openStore(o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v: %v", c.variables, err)
		}
	}
}
