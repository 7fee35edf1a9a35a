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
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

const secret = "CANARY-4711"

func env(name string) (string, bool) {
	value, ok := map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIA" + secret, "AWS_SECRET_ACCESS_KEY": secret, "AWS_ENDPOINT_URL": "https://store.test",
		"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_SAS_TOKEN": "?sp=rwdl&se=2126-11-02T10:00:00Z&sig=" + secret,
	}[name]
	return value, ok
}

func optionsOf(dir string, server *buckettest.Server) Options {
	return Options{Address: server.Scheme + "://outliers/a/b", Record: filepath.Join(dir, "bucket.json"), Env: env, Transport: server}
}

func TestMain(m *testing.M) {
	testenv.Prepare()
	m.Run()
}

// stores are the kinds of stores. The build tag azure adds one.
var stores = []func(bucket string) *buckettest.Server{buckettest.New}

// eachStore runs a test for each kind of store.
func eachStore(t *testing.T, test func(t *testing.T, blank func() *buckettest.Server)) {
	t.Parallel()
	for _, blank := range stores {
		t.Run(blank("").Scheme, func(t *testing.T) {
			t.Parallel()
			test(t, func() *buckettest.Server { return blank("outliers") })
		})
	}
}

// line is a warehouse with a folder and a bucket.
type line struct {
	*Copy
	warehouse *warehouse.Warehouse
}

func (l *line) Close() error { return errors.Join(l.Copy.Close(), l.warehouse.Close()) }

func openLine(dir string, server *buckettest.Server) *line {
	w := warehouse.New(sinktest.Options(dir))
	return &line{openCopy(dir, w, server), w}
}

// openWithout opens the line below dir with a bucket that it has not written to.
func openWithout(t *testing.T, dir string, server *buckettest.Server) *line {
	t.Helper()
	if err := os.RemoveAll(optionsOf(dir, server).Record); err != nil {
		t.Fatal(err)
	}
	return openLine(dir, server)
}

func openCopy(dir string, w *warehouse.Warehouse, server *buckettest.Server) *Copy {
	folder := filepath.Join(dir, "parquet")
	local := parquet.New(w, parquet.Options{Dir: folder})
	return Open(local, folder, optionsOf(dir, server))
}

// later moves the clock of a line forward.
func later(l *line, d time.Duration) {
	now := l.bucket.now
	l.bucket.now = func() time.Time { return now().Add(d) }
}

// found returns the manifest and the content of its objects, like a reader. It checks their checksums.
func found(t testing.TB, server *buckettest.Server) (manifest, map[string][]byte) {
	t.Helper()
	objects := server.Objects()
	m, err := parseManifest(objects["a/b/"+parquet.ManifestName])
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{}
	for name, o := range m.All() {
		sum := sha256.Sum256(objects["a/b/"+name])
		if hex.EncodeToString(sum[:]) != o.SHA256 {
			t.Fatalf("%s has %d bytes and not the checksum of the manifest", name, len(objects["a/b/"+name]))
		}
		content[name] = objects["a/b/"+name]
	}
	return m, content
}

// suite returns a [sinktest.Open] whose copies are read from the bucket.
func suite(blank func() *buckettest.Server) sinktest.Open {
	var servers sync.Map // folder of the suite → store
	return func(t testing.TB, dir string, w *warehouse.Warehouse) sinktest.Copy {
		made, _ := servers.LoadOrStore(dir, blank())
		server := made.(*buckettest.Server)
		return sinktest.Copy{Copy: openCopy(dir, w, server), Read: func(t testing.TB, table *schema.Table) []sinktest.Row {
			if server.Objects()["a/b/"+parquet.ManifestName] == nil {
				return nil
			}
			m, content := found(t, server)
			var paths []string
			for i, o := range m.Tables[table.FileName()] {
				path := filepath.Join(t.TempDir(), fmt.Sprint(i))
				if err := os.WriteFile(path, content[o.Name], 0o600); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, database.Text(path))
			}
			if paths == nil {
				return nil
			}
			return sinktest.Query(t, table, "read_parquet(["+strings.Join(paths, ", ")+"])")
		}}
	}
}

// TestCopyFulfilsTheContract runs the suite with one kind of store, at random. What differs between the kinds
// has tests of its own.
func TestCopyFulfilsTheContract(t *testing.T) {
	t.Parallel()
	blank := stores[testenv.Random(t).IntN(len(stores))]
	t.Run(blank("").Scheme, func(t *testing.T) {
		sinktest.Run(t, suite(func() *buckettest.Server { return blank("outliers") }))
	})
}

// write writes the journal from the watermark to hi, and publishes.
func write(t testing.TB, l *line, j sinktest.Journal, hi int64) error {
	t.Helper()
	marks, err := l.warehouse.Marks(t.Context())
	if err != nil {
		return err
	}
	if marks.Answers < hi {
		b := j.Batch(marks.Answers, hi)
		defer sinktest.Release(b)
		err := errors.Join(l.warehouse.Write(t.Context(), b), l.warehouse.WriteOps(t.Context(), sinktest.Runs(marks.Ops, hi)))
		if err != nil {
			return err
		}
	}
	return l.Publish(t.Context())
}

// checkCopy compares a bucket with the folder that was copied to it.
func checkCopy(t testing.TB, dir string, server *buckettest.Server) manifest {
	t.Helper()
	folder, err := parquet.ReadPublished(filepath.Join(dir, "parquet"))
	if err != nil {
		t.Fatal(err)
	}
	m, _ := found(t, server)
	want := inBucket(folder)
	if !sameObjects(m.Manifest, want) {
		t.Fatalf("the bucket has %v, want %v", slices.Sorted(maps.Keys(m.All())), slices.Sorted(maps.Keys(want.All())))
	}
	return m
}

var everyRequest = flag.Bool("every-request", false, "stop a process after each request, not after a random one in twenty")

// TestInterruptedCopyStaysWhole stops a process after each request in turn: readers always find the objects
// of the manifest, and the next process completes the copy and deletes all other objects.
func TestInterruptedCopyStaysWhole(t *testing.T) {
	eachStore(t, testCopyIsWholeWhereverItIsCutShort)
}

func testCopyIsWholeWhereverItIsCutShort(t *testing.T, blank func() *buckettest.Server) {
	j, step := sinktest.Sample(12), int64(20)
	if *everyRequest {
		step = 1
	}
	for last := testenv.Random(t).Int64N(step); ; last += step {
		dir, server := t.TempDir(), blank()
		server.Put("a/b/outliers/notes.txt", []byte("of somebody else"))
		first := openLine(dir, server)
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
		again := openLine(dir, server)
		if err := write(t, again, j, 12); err != nil {
			t.Fatalf("after %d requests: %v", last, err)
		}
		checkCopy(t, dir, server)
		later(again, 2*Grace)
		if err := errors.Join(write(t, again, j, 12), again.Close()); err != nil {
			t.Fatal(err)
		}
		m := checkCopy(t, dir, server)
		if n := len(server.Objects()); n != len(m.All())+2 {
			t.Fatalf("after %d requests: the bucket has %d objects, and the manifest names %d", last, n, len(m.All()))
		}
		if err == nil {
			return
		}
	}
}

func TestObjectsStayForEarlierReaders(t *testing.T) {
	eachStore(t, testObjectsStayForReadersWhoBeganBefore)
}

func testObjectsStayForReadersWhoBeganBefore(t *testing.T, blank func() *buckettest.Server) {
	dir, server, j := t.TempDir(), blank(), sinktest.Sample(8)
	s := openLine(dir, server)
	defer s.Close()
	if err := write(t, s, j, 4); err != nil {
		t.Fatal(err)
	}
	before, _ := found(t, server)
	if err := write(t, s, j, 8); err != nil {
		t.Fatal(err)
	}
	later(s, Grace-time.Second)
	if err := s.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range before.All() {
		if server.Objects()["a/b/"+name] == nil {
			t.Errorf("%s is gone too early", name)
		}
	}
	later(s, time.Second)
	if err := s.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := checkCopy(t, dir, server); len(server.Objects()) != len(m.All())+1 {
		t.Errorf("objects stay: %v", slices.Sorted(maps.Keys(server.Objects())))
	}
	server.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		t.Errorf("nothing is new, and the bucket is asked: %s %s", r.Method, r.URL)
		return false
	})
	if err := s.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What a bucket loses or damages is uploaded again by the next process.
func TestLostObjectsAreUploadedAgain(t *testing.T) { eachStore(t, testLostObjectsAreUploadedAgain) }

func testLostObjectsAreUploadedAgain(t *testing.T, blank func() *buckettest.Server) {
	dir, server, j := t.TempDir(), blank(), sinktest.Sample(4)
	s := openLine(dir, server)
	if err := errors.Join(write(t, s, j, 4), s.Close()); err != nil {
		t.Fatal(err)
	}
	m, _ := found(t, server)
	for i, name := range slices.Sorted(maps.Keys(m.All())) {
		if i%2 == 0 {
			server.Put("a/b/"+name, nil)
		} else {
			server.Put("a/b/"+name, []byte("cut"))
		}
	}
	s = openLine(dir, server)
	if err := errors.Join(s.Publish(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, dir, server)
}

func TestBucketOfAnotherFolderIsRefused(t *testing.T) {
	eachStore(t, testBucketOfAnotherFolderIsRefused)
}

func testBucketOfAnotherFolderIsRefused(t *testing.T, blank func() *buckettest.Server) {
	server, j := blank(), sinktest.Sample(8)
	dir, other := t.TempDir(), t.TempDir()
	for _, of := range []string{dir, other} {
		s := openLine(of, server)
		defer s.Close()
		err := write(t, s, j, 4)
		if of == dir && err != nil || of == other && (err == nil || !strings.Contains(err.Error(), "another data folder")) {
			t.Fatalf("%s: %v", of, err)
		}
	}
	// A copy of the folder, which stays behind the original.
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s, old := openLine(dir, server), openLine(copied, server)
	defer s.Close()
	defer old.Close()
	if err := write(t, old, j, 4); err != nil { // nothing is new, so nothing is written
		t.Fatal(err)
	}
	if err := write(t, s, j, 8); err != nil {
		t.Fatal(err)
	}
	if err := write(t, old, j, 8); err == nil || !strings.Contains(err.Error(), "another process has replaced it") {
		t.Errorf("a manifest that has changed meanwhile: %v", err)
	}
	if err := write(t, s, j, 8); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, dir, server)
}

// TestCheckBesidePublication: a check that begins before a commit and reads the manifest after it finds nothing wrong.
func TestCheckBesidePublication(t *testing.T) { eachStore(t, testCheckBesidePublication) }

func testCheckBesidePublication(t *testing.T, blank func() *buckettest.Server) {
	dir, server, j := t.TempDir(), blank(), sinktest.Sample(8)
	l := openLine(dir, server)
	defer l.Close()
	if err := write(t, l, j, 4); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	server.SetFault(func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() {
			server.SetFault(nil)
			if err := write(t, l, j, 8); err != nil {
				t.Error(err)
			}
		})
		return false
	})
	r, err := New(filepath.Join(dir, "parquet"), optionsOf(dir, server)).Check(t.Context(), true)
	if err != nil || len(r.Problems) > 0 || r.Answers != 8 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestLostAnswerOfManifest: the store replaces the manifest, and its answer is lost, so that the library sends it
// again and is refused.
func TestLostAnswerOfManifest(t *testing.T) { eachStore(t, testLostAnswerOfManifest) }

func testLostAnswerOfManifest(t *testing.T, blank func() *buckettest.Server) {
	dir, server, j := t.TempDir(), blank(), sinktest.Sample(8)
	l := openLine(dir, server)
	defer l.Close()
	for _, hi := range []int64{4, 8} {
		lost := 0
		fault := func(w http.ResponseWriter, r *http.Request) bool {
			if lost > 0 || r.Method != http.MethodPut || !strings.Contains(r.URL.Path, parquet.ManifestName) {
				return false
			}
			lost++
			server.ServeHTTP(httptest.NewRecorder(), r)
			buckettest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		}
		server.SetFault(fault)
		if err := write(t, l, j, hi); err != nil || lost == 0 {
			t.Errorf("%d answers were lost: %v", lost, err)
		}
		checkCopy(t, dir, server)
	}
}

// refusals are errors of stores, and what their message contains. The build tag azure adds some.
var refusals = []refusal{
	{buckettest.New, http.StatusForbidden, "AccessDenied", "s3:PutObject"},
	{buckettest.New, http.StatusServiceUnavailable, "SlowDown", "try again later"},
	{buckettest.New, http.StatusBadRequest, "ExpiredToken", "renew them"},
	{buckettest.New, http.StatusForbidden, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"},
	{buckettest.New, http.StatusNotFound, "NoSuchBucket", "create the bucket"},
}

type refusal struct {
	blank      func(bucket string) *buckettest.Server
	status     int
	code, want string
}

// TestRefusalsAreNamed: errors of a store about permissions, load and credentials have a remedy. The
// folder is written nevertheless, and the copy is completed later.
func TestRefusalsAreNamed(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	dir, j := t.TempDir(), sinktest.Sample(2*len(refusals))
	for i, c := range refusals {
		hi, server := int64(2*i+1), c.blank("outliers")
		s := openWithout(t, dir, server)
		server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			buckettest.Refuse(w, c.status, c.code)
			return true
		})
		err := write(t, s, j, hi)
		if err == nil || !strings.Contains(err.Error(), "copy to "+server.Scheme+"://outliers/a/b") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", c.code, err)
		}
		if shows, err := s.Shows(t.Context()); shows.Answers != hi || err != nil {
			t.Errorf("%s: the folder shows %v, %v", c.code, shows, err)
		}
		later(s, 24*time.Hour)
		server.SetFault(nil)
		if err := errors.Join(write(t, s, j, hi+1), s.Close()); err != nil {
			t.Errorf("%s: a day later: %v", c.code, err)
		}
		checkCopy(t, dir, server)
	}
}

func TestLostPartIsNoticed(t *testing.T) { eachStore(t, testLostPartIsNoticed) }

func testLostPartIsNoticed(t *testing.T, blank func() *buckettest.Server) {
	content := make([]byte, partBytes+1)
	rand.Read(content)
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := blank()
	s, err := openObjects(optionsOf(t.TempDir(), server))
	if err != nil {
		t.Fatal(err)
	}
	const name = "outliers/part-000000000001-0123456789abcdef.parquet"
	server.SetLoses(func(part int) bool { return part == 2 })
	if err := s.Put(t.Context(), path, name); err == nil || !strings.Contains(err.Error(), "try again later") {
		t.Errorf("a part was lost: %v", err)
	}
	server.SetLoses(nil)
	if err := s.Put(t.Context(), path, name); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(server.Objects()["a/b/"+name], content) {
		t.Error("the object is not what was uploaded")
	}
	// A kill leaves an upload in the middle.
	ctx, cancel := context.WithCancel(t.Context())
	var parts atomic.Int64
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if query := r.URL.Query(); (query.Has("partNumber") || query.Get("comp") == "block") && parts.Add(1) == 2 {
			cancel()
		}
		return ctx.Err() != nil && r.Method == http.MethodDelete
	})
	if err := s.Put(ctx, path, name); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	server.SetFault(nil)
	if server.Uploads() == 0 {
		t.Fatal("no upload was left in the middle, so the test shows nothing")
	}
	if err := s.Put(t.Context(), path, name); err != nil || server.Uploads() > 0 {
		t.Errorf("%d uploads are left: %v", server.Uploads(), err)
	}
}

// TestInterruptedUploadIsDeleted: a kill leaves parts of an object that no manifest names any more. Azure itself
// deletes them.
func TestInterruptedUploadIsDeleted(t *testing.T) {
	t.Parallel()
	dir, server := t.TempDir(), buckettest.New("outliers")
	s, err := openObjects(optionsOf(dir, server))
	if err != nil {
		t.Fatal(err)
	}
	core := minio.Core{Client: s.client.(*s3).client}
	for _, name := range []string{"outliers/part-000000000001-0123456789abcdef.parquet", "of-somebody-else"} {
		if _, err := core.NewMultipartUpload(t.Context(), "outliers", "a/b/"+name, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l := openLine(dir, server)
	if err := errors.Join(write(t, l, sinktest.Sample(4), 4), l.Close()); err != nil || server.Uploads() != 1 {
		t.Errorf("%d uploads are left, want the one of somebody else: %v", server.Uploads(), err)
	}
	checkCopy(t, dir, server)
}

// TestDamagedUploadIsRefused: a store does not keep an upload that was damaged during the transfer.
func TestDamagedUploadIsRefused(t *testing.T) { eachStore(t, testDamagedUploadIsRefused) }

func testDamagedUploadIsRefused(t *testing.T, blank func() *buckettest.Server) {
	for _, size := range []int{100, 2*partBytes + 1} {
		content := make([]byte, size)
		rand.Read(content)
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		server := blank()
		o := optionsOf(t.TempDir(), server)
		o.Transport = damaging{server}
		s, err := openObjects(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), path, "outliers/part-000000000001-0123456789abcdef.parquet"); err == nil || !strings.Contains(err.Error(), "damaged in transit; try again later") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if len(server.Objects()) > 0 {
			t.Errorf("%d bytes: what was damaged is kept", size)
		}
	}
}

// damaging is a transport that changes a byte of each upload.
type damaging struct{ server *buckettest.Server }

func (d damaging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return d.server.RoundTrip(r)
}

// realStore makes TestStoreBehaves use a real store with a bucket named outliers, whose address and
// credentials are in the environment. By default it uses the stores in memory.
var realStore = flag.String("store", "", "s3 or az: the kind of a store that the environment names")

func TestStoreBehaves(t *testing.T) {
	if *realStore != "" {
		storeBehaves(t, *realStore, Options{Env: os.LookupEnv})
		return
	}
	eachStore(t, func(t *testing.T, blank func() *buckettest.Server) {
		server := blank()
		storeBehaves(t, server.Scheme, Options{Env: env, Transport: server})
	})
}

// storeBehaves tests what this package requires of a store: multipart uploads arrive whole, a listing
// has all pages, a manifest is replaced only if it has not changed, and deleted objects are gone.
func storeBehaves(t *testing.T, scheme string, o Options) {
	o.Address = fmt.Sprintf("%s://outliers/behaves-%d", scheme, time.Now().UnixNano())
	s, err := openObjects(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, want, path := t.Context(), map[string]int64{}, filepath.Join(t.TempDir(), "file")
	for i, size := range slices.Concat([]int{2*partBytes + 1, partBytes, partBytes + 1}, make([]int, 1000)) {
		content := make([]byte, max(size, 100))
		rand.Read(content)
		sum := sha256.Sum256(content)
		made := parquet.File{Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
		made.Name = nameOf(parquet.File{Name: fmt.Sprintf("outliers/part-%012d.parquet", i), SHA256: made.SHA256})
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, path, made.Name); err != nil {
			t.Fatal(err)
		}
		if want[made.Name] = made.Bytes; size == 0 {
			continue
		}
		if got, _, err := s.ReadFile(ctx, made.Name); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes came back as %d others: %v", size, len(got), err)
		}
	}
	if got, err := s.listObjects(ctx); err != nil || !maps.Equal(got, want) {
		t.Errorf("%d objects are listed, want %d: %v", len(got), len(want), err)
	}
	for name := range want {
		if err := s.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.listObjects(ctx); err != nil || len(got) > 0 {
		t.Errorf("%d objects are left: %v", len(got), err)
	}

	replace := func(commit int, etag string) (string, error) {
		return s.Replace(ctx, parquet.ManifestName, fmt.Appendf(nil, `{"version": %d, "commit": %d}`, parquet.ManifestVersion, commit), etag)
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
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("the manifest that follows %q was replaced again: %v", old, err)
		}
	}
	m, etag, err := s.readManifest(ctx)
	if err != nil || m.Commit != 2 || etag != second {
		t.Errorf("manifest %d, %s: %v", m.Commit, etag, err)
	}
}

// TestDamagedManifestIsWrittenAgain: the message says what to do about it, and that helps.
func TestDamagedManifestIsWrittenAgain(t *testing.T) {
	eachStore(t, testDamagedManifestIsWrittenAgain)
}

func testDamagedManifestIsWrittenAgain(t *testing.T, blank func() *buckettest.Server) {
	dir, server, j := t.TempDir(), blank(), sinktest.Sample(8)
	l := openLine(dir, server)
	if err := errors.Join(write(t, l, j, 4), l.Close()); err != nil {
		t.Fatal(err)
	}
	const key = "a/b/" + parquet.ManifestName
	server.Put(key, server.Objects()[key][:100])
	l = openLine(dir, server)
	defer l.Close()
	if err := write(t, l, j, 8); err == nil || !strings.Contains(err.Error(), "delete it, and it is written again") {
		t.Errorf("got %v", err)
	}
	server.Put(key, nil)
	if err := write(t, l, j, 8); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, dir, server)
}

// TestDamagedFileStays: a damaged file of the folder is not uploaded. It is written again once it is removed.
func TestDamagedFileStays(t *testing.T) { eachStore(t, testDamagedFileStays) }

func testDamagedFileStays(t *testing.T, blank func() *buckettest.Server) {
	dir, server, j := t.TempDir(), blank(), sinktest.Sample(4)
	s := openLine(dir, server)
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
	for name := range folder.All() {
		damaged = filepath.Join(dir, "parquet", name)
	}
	content, err := os.ReadFile(damaged)
	if err == nil {
		content[len(content)/2]++
		err = os.WriteFile(damaged, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = s.Publish(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is damaged (it does not have the checksum of the manifest): remove it") {
		t.Errorf("damaged file: %v", err)
	}
	if server.Objects()["a/b/"+parquet.ManifestName] != nil {
		t.Error("the manifest names a damaged object")
	}
	if err := errors.Join(os.Remove(damaged), s.Publish(t.Context())); err != nil {
		t.Errorf("after the file was removed: %v", err)
	}
	checkCopy(t, dir, server)
}

// TestHangingStore: a request to a store that never responds fails, and is not retried.
func TestHangingStore(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, blank := range stores {
		scheme := blank("").Scheme
		transport := Network(20 * time.Millisecond)
		s, err := openObjects(Options{
			Address: scheme + "://outliers/a/b", Transport: transport,
			Env: func(name string) (string, bool) {
				if name == "AWS_ENDPOINT_URL" || name == "AZURE_STORAGE_SERVICE_ENDPOINT" {
					return fmt.Sprintf("http://%s", listener.Addr()), true
				}
				return env(name)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.listObjects(t.Context())
		if !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "check the network and A") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: a store that hangs: %v", scheme, err)
		}
		if !transport.(*failFast).timedOut.Load() {
			t.Errorf("%s: the request would be sent again", scheme)
		}
	}
}

// TestAnotherServerIsNoStore: a proxy that answers everything with a page of its own, to log in for
// example, or another server at the store's address. Nothing counts as uploaded, and all is uploaded later.
func TestAnotherServerIsNoStore(t *testing.T) { eachStore(t, testAnotherServerIsNoStore) }

func testAnotherServerIsNoStore(t *testing.T, blank func() *buckettest.Server) {
	dir, j := t.TempDir(), sinktest.Sample(10)
	for i, c := range []struct {
		kind, body string
		from       int64 // the first request with this response: of a manifest, a listing or an upload
	}{
		{"text/html; charset=utf-8", "<!doctype html><html><body>Please log in</body></html>", 0},
		{"text/html", "<html/>", 1},
		{"text/html", "", 4},
		{"application/json", "{}", 0},
		{"application/xml", "<another/>", 1},
	} {
		var requests atomic.Int64
		hi, server := int64(2*i+1), blank()
		s := openWithout(t, dir, server)
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			if requests.Add(1) <= c.from {
				return false
			}
			w.Header().Set("Content-Type", c.kind)
			io.WriteString(w, c.body)
			return true
		})
		err := write(t, s, j, hi)
		want := "check the network and A"
		if err == nil || !strings.Contains(err.Error(), "copy to "+server.Scheme+"://outliers/a/b: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s from request %d on: error %v, want %q", c.kind, c.from+1, err, want)
		}
		later(s, 24*time.Hour)
		server.SetFault(nil)
		if err := errors.Join(write(t, s, j, hi+1), s.Close()); err != nil {
			t.Errorf("a day later: %v", err)
		}
		checkCopy(t, dir, server)
	}
}

// badVariables are environments that are refused, and what the message contains. The build tag azure adds some.
var badVariables = []environment{
	{"s3", map[string]string{"AWS_ACCESS_KEY_ID": "a"}, "must both be set"},
	{"s3", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"}, "no credentials"},
	{"s3", map[string]string{"AWS_ENDPOINT_URL": "minio:9000"}, "https://"},
	{"s3", map[string]string{"AWS_ENDPOINT_URL": "https://user:" + secret + "@minio"}, "https://"},
}

type environment struct {
	scheme    string
	variables map[string]string
	want      string
}

func TestCredentialsAreFoundInTheEnvironment(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, c := range badVariables {
		o := Options{Address: c.scheme + "://outliers/a/b"}
		o.Env = func(name string) (string, bool) { value, ok := c.variables[name]; return value, ok }
		if _, err := openObjects(o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v: %v", c.variables, err)
		}
	}
}
