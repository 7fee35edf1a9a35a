//go:build iceberg

package scale

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/iceberg"
	"outlierd/sinks/sinktest"
)

func init() {
	openLake = func(t *testing.T, dir string) (sinks.Sink, func() map[string]float64) {
		files := filepath.Join(dir, "lake")
		s := lakeAt(t, dir, files, nil)
		return s, func() map[string]float64 { return commitsIn(t, files) }
	}
}

func lakeAt(t testing.TB, dir, files string, env map[string]string) sinks.Sink {
	return lakeOf(t, "a", dir, files, env)
}

func lakeOf(t testing.TB, instance, dir, files string, env map[string]string) sinks.Sink {
	t.Helper()
	s, err := iceberg.Open(t.Context(), iceberg.Options{
		Catalog: filepath.Join(dir, "catalog.db"), Warehouse: files, Namespace: "outlierd", Instance: instance,
		Tables: schema.Tables(), Ops: schema.OpsTables(),
		Env: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commitsIn counts the commits to each table by its metadata files: they are numbered, and the first one
// is written when the table is created.
func commitsIn(t *testing.T, files string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	paths, err := filepath.Glob(filepath.Join(files, "outlierd", "*", "metadata", "*.metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		number, _, _ := strings.Cut(filepath.Base(path), "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%s has no number", path)
		}
		table := strings.Replace(filepath.Base(filepath.Dir(filepath.Dir(path))), "ops_", "ops.", 1)
		all[table] = max(all[table], float64(n))
	}
	return all
}

// TestLakeCommits counts what commits to a lake in a bucket ask of the bucket, and records it with
// `-play commits`.
func TestLakeCommits(t *testing.T) {
	if *again != "commits" {
		t.Skip("without -play commits")
	}
	store := buckettest.New("lake")
	var mu sync.Mutex
	asked := map[string]float64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.Method]++
		mu.Unlock()
		answer := httptest.NewRecorder()
		store.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		if r.Method == http.MethodGet && answer.Code == http.StatusOK && r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(answer.Body.Bytes()))
			return
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	defer server.Close()
	s := lakeAt(t, t.TempDir(), "s3://lake/files", map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
	})
	defer closing(t, s.Close)
	clear(asked)
	const batches = 200
	for lo := range int64(batches) {
		b := sinktest.Hits(lo, lo+1)
		err := s.Write(t.Context(), b)
		sinktest.Release(b)
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, "commits", Asked{Commits: 3 * batches, // outliers, their history, and the table of writers
		Put: asked[http.MethodPut], Get: asked[http.MethodGet] + asked[http.MethodHead], Delete: asked[http.MethodDelete]})
}

// BenchmarkLakeWriters measures how many batches of two tables a lake takes in a second, by the number of concurrent
// writers. The catalog is a SQLite file, and the files are on this machine.
func BenchmarkLakeWriters(b *testing.B) {
	for _, writers := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			dir, batches := b.TempDir(), 0
			var all []sinks.Sink
			for i := range writers {
				s := lakeOf(b, fmt.Sprintf("%016x", i), dir, filepath.Join(dir, "files"), nil)
				defer s.Close()
				all = append(all, s)
			}
			lo := int64(0)
			for b.Loop() {
				var work sync.WaitGroup
				for _, s := range all {
					work.Go(func() {
						batch := sinktest.Hits(lo, lo+1)
						defer sinktest.Release(batch)
						if err := s.Write(b.Context(), batch); err != nil {
							b.Error(err)
						}
					})
				}
				work.Wait()
				batches += writers
				lo++
			}
			b.ReportMetric(float64(batches)/b.Elapsed().Seconds(), "batches/s")
		})
	}
}
