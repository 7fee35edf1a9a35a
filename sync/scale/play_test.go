package scale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/bucket"
	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sinks/parquet"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/testenv"
)

// begin is when recorded plays begin, on a Thursday.
var begin = time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC)

// Played is what the engine did in a play.
type Played struct {
	Days         int                           `json:"days"`
	Calls        map[outlier.Operation]float64 `json:"calls"`
	Credits      float64                       `json:"credits"`
	Rows         map[string]float64            `json:"rows"`
	Publications float64                       `json:"publications"`
	Bytes        Bytes                         `json:"bytes"`
	BytesOf      map[string]float64            `json:"bytes_of"` // Parquet of each table
	Files        float64                       `json:"files"`    // of Parquet
	Bucket       Asked                         `json:"bucket"`
	CPU          float64                       `json:"cpu"`               // seconds, with those of the simulator
	Commits      map[string]float64            `json:"commits,omitempty"` // to the lake, by table

	Service Service `json:"service"` // as far as the answers show it
}

// Asked counts the requests to a bucket.
type Asked struct {
	Put    float64            `json:"put"`
	Get    float64            `json:"get"`
	List   float64            `json:"list"`
	Delete float64            `json:"delete"`
	Sent   float64            `json:"sent"`           // bytes
	Puts   map[string]float64 `json:"puts,omitempty"` // by the folder of the table

	Commits float64 `json:"commits,omitempty"` // of a lake
}

// counter counts publications.
type counter struct {
	sinks.Sink
	publications *float64
}

func (c counter) Publish(ctx context.Context, ops *sinks.Ops) error {
	*c.publications++
	return c.Sink.Publish(ctx, ops)
}

// meter counts the requests to a bucket.
type meter struct {
	wire http.RoundTripper
	mu   sync.Mutex
	Asked
}

func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	switch {
	case r.Method == http.MethodPut || r.Method == http.MethodPost:
		m.Put++
		m.Sent += float64(max(0, r.ContentLength))
		folder, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/outliers/a/"), "/")
		m.Puts[folder]++
	case r.Method == http.MethodDelete:
		m.Delete++
	case r.URL.Query().Has("list-type") || r.URL.Query().Has("uploads") || r.URL.Query().Has("location"):
		m.List++
	default:
		m.Get++
	}
	m.mu.Unlock()
	return m.wire.RoundTrip(r)
}

// openLake opens a lake, and returns a function that counts its commits by table. The build tag iceberg sets it.
var openLake = func(t *testing.T, dir string) (sinks.Sink, func() map[string]float64) {
	t.Fatal("build with the tag iceberg")
	return nil, nil
}

// play lets the engine keep the schedules of a job file for some days of virtual time, with the DuckDB sink and
// a bucket, or a lake in its place.
func play(t *testing.T, file string, seed uint64, from time.Time, days int, lake bool) (p Played) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(from))
		dir := t.TempDir()
		config := parse(t, file)
		service := simulator.New(simulator.Options{Seed: seed, Key: "a-key-for-tests"})
		store, err := state.Open(t.Context(), filepath.Join(dir, "state"), state.Options{
			Service: "sim://", Location: config.Timezone, Renews: config.Budget.Renews, Judge: engine.Judge(), MinFree: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, store.Close)
		store.Ledger.ConfirmClock()
		limiter, err := pace.Open(config.Service.Limit, pace.Options{Path: filepath.Join(dir, "state", "pace.json")})
		if err != nil {
			t.Fatal(err)
		}
		key, err := outlier.NewKey("a-key-for-tests")
		if err != nil {
			t.Fatal(err)
		}
		published := filepath.Join(dir, "outliers.duckdb")
		duck, err := duckdb.Open(t.Context(), duckdb.Options{
			Private: filepath.Join(dir, "state", "warehouse.duckdb"), Published: published,
			Temp: filepath.Join(dir, "state", "tmp"), Tables: schema.Tables(), Ops: schema.OpsTables(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, duck.Close)
		folder := filepath.Join(dir, "parquet")
		files, err := parquet.Open(parquet.Options{Dir: folder, Tables: schema.Tables(), Ops: schema.OpsTables()})
		if err != nil {
			t.Fatal(err)
		}
		all := []sinks.Sink{counter{duck, &p.Publications}}
		commits := func() map[string]float64 { return nil }
		wire := &meter{wire: buckettest.New("outliers"), Asked: Asked{Puts: map[string]float64{}}}
		copied := bucket.Open(files, folder, bucket.Options{
			Address: "s3://outliers/a", Record: filepath.Join(dir, "state", "bucket.json"), Env: env, Transport: wire,
		})
		defer closing(t, copied.Close)
		if lake {
			s, count := openLake(t, dir)
			defer closing(t, s.Close)
			all, commits = append(all, s), count
		} else {
			all = append(all, copied)
		}
		e := &engine.Engine{
			Config: config, Store: store, Pace: limiter, Sinks: all,
			Client: &outlier.Client{URL: "http://localhost", Key: key, Pacer: limiter, Transport: service.Transport()},
			IDs: func(ctx context.Context, sql, column string) ([]string, error) {
				return query.IDs{Path: published, Column: column, Now: time.Now()}.Query(ctx, sql)
			},
		}
		if err := e.NoteJobs(); err != nil {
			t.Fatal(err)
		}
		agenda, err := e.Agenda(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p.Days = days
		began := cpu(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(days)*24*time.Hour)
		defer cancel()
		e.Serve(ctx, agenda)
		p.CPU = cpu(t) - began

		books := service.Books()
		p.Calls, p.Credits = map[outlier.Operation]float64{}, float64(books.Total.Spent())
		for op, totals := range books.Operations {
			p.Calls[op] = float64(totals.Calls)
		}
		p.Bucket = wire.Asked
		db, err := database.Open(t.Context(), database.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, db.Close)
		if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(published)+" AS warehouse (READ_ONLY); USE warehouse"); err != nil {
			t.Fatal(err)
		}
		ask := func(sql string) map[string]float64 { return answers(t, db, sql) }
		p.Rows, p.BytesOf = map[string]float64{}, map[string]float64{}
		for _, table := range append(schema.Tables(), schema.OpsTables()...) {
			p.Rows[table.Name] = ask("select '', count(*) from " + table.Name)[""]
			p.BytesOf[table.Name], _ = size(t, filepath.Join(folder, table.FileName()))
		}
		p.Bytes.State, _ = size(t, filepath.Join(dir, "state", "state.db"))
		p.Bytes.DuckDB, _ = size(t, published)
		p.Bytes.Parquet, p.Files = size(t, folder)
		p.Service = observe(ask)
		p.Commits = commits()
	})
	return p
}

func TestMain(m *testing.M) {
	testenv.Prepare()
	os.Exit(m.Run())
}

func parse(t *testing.T, file string) *job.Config {
	t.Helper()
	path := filepath.Join("testdata", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := job.Parse(path, text, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func env(name string) (string, bool) {
	value, ok := map[string]string{
		"AWS_ENDPOINT_URL": "http://bucket.test", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
	}[name]
	return value, ok
}

func closing(t *testing.T, stop func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// cpu returns the CPU time of the process so far, in seconds.
func cpu(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// size returns the bytes and the number of files in a folder, or of one file, without files that were
// replaced and are deleted later.
func size(t *testing.T, path string) (bytes, files float64) {
	t.Helper()
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a table without rows
		}
		if err != nil || entry.IsDir() || strings.Contains(path, "/_compacted/") {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes, files = bytes+float64(info.Size()), files+1
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}

// answers returns the rows of a query of the published file, each of a text and a number.
func answers(t *testing.T, db *database.DB, sql string) map[string]float64 {
	t.Helper()
	rows, err := db.Query(t.Context(), "select first(a), sum(b)::double from ("+sql+") as t(a, b) group by a")
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	all := map[string]float64{}
	for _, values := range rows {
		if n, ok := values[1].(float64); ok {
			all[fmt.Sprint(values[0])] = n
		}
	}
	return all
}
