package command

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/state/statetest"
)

// opened runs work with the program for the job file.
func (p *person) opened(work func(*program) error) {
	p.Helper()
	g := newGlobals(world{out: p.Output(), err: p.Output(), env: p.env, network: p.connect()})
	g.config, g.logLevel, g.logFormat = filepath.Join(p.dir, "jobs.yaml"), "info", "json"
	config, err := g.load()
	if err == nil {
		err = g.with(p.Context(), config, toBuy, work)
	}
	if err != nil {
		p.Error(err)
	}
}

// twoServices is a network with two addresses, each of which has a simulator that accepts any key.
type twoServices struct {
	service *simulator.Service
	keys    map[string][]string // that each host received, without repetitions
}

func (n *twoServices) RoundTrip(r *http.Request) (*http.Response, error) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Api-Key ")
	if got := n.keys[r.URL.Host]; !slices.Contains(got, key) {
		n.keys[r.URL.Host] = append(got, key)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Api-Key any")
	return n.service.Transport().RoundTrip(r)
}

// TestKeyAloneIsReadAgain edits the job file and the key while `up` runs: a new key is used, but never with another
// address, nor from a file that cannot be read.
func TestKeyAloneIsReadAgain(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "https://one.example", key: "${file:key}", limit: 600/min}
budget: {per_month: 1000}
sinks: [{parquet: parquet}]
jobs: {tea: {every: 1h, reuse_for: 1m, search: {query: tea, where: {z_score: 1000..}}}}
`
	bubble(t, file, func(p *person) {
		both := &twoServices{simulator.New(simulator.Options{Seed: 1, Key: "any"}), map[string][]string{}}
		p.network = func(string) (http.RoundTripper, error) { return both, nil }
		jobs, key := filepath.Join(p.dir, "jobs.yaml"), filepath.Join(p.dir, "key")
		write := func(path, text string) {
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Error(err)
			}
		}
		other := strings.Replace(file, "one.example", "two.example", 1)
		type edit struct {
			name   string
			edit   func()
			reason string // why the old key stays in use; "" if the new one is used
		}
		unreadable := []edit{
			{"no file", func() { _ = os.Remove(jobs) }, "does not exist"},
			{"a folder", func() { _ = os.Mkdir(jobs, 0o700) }, "not a regular file"},
			{"a huge file", func() { write(jobs, file+strings.Repeat("# much\n", 1<<18)) }, "has more than"},
			{"no key file", func() { _ = os.Remove(key); write(jobs, file) }, "the file key does not exist"},
			{"a password in the address", func() {
				write(key, "none")
				write(jobs, strings.Replace(file, "one.example", "me:secret@two.example", 1))
			}, "user and password"},
		}
		for _, e := range unreadable {
			e.edit()
			_, err := readKey(jobs, p.env, job.Service{URL: "https://one.example"})
			if err == nil || !strings.Contains(err.Error(), e.reason) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want an error with %q, and no password", e.name, err, e.reason)
			}
		}
		write(key, "first")
		write(jobs, file)
		edits := []edit{
			{"a key alone", func() { write(key, "second") }, ""},
			{"half a file", func() { write(key, "third"); write(jobs, file[:60]) }, "key not read again"},
			{"another address and key", func() { write(jobs, other) }, "service.url is now https://two.example, and this process uses https://one.example"},
			{"the address back, and a key", func() { write(key, "fourth"); write(jobs, file) }, ""},
		}
		ctx, stop := context.WithCancel(p.Context())
		go func() {
			defer stop()
			time.Sleep(90 * time.Minute)
			for _, e := range edits {
				e.edit()
				time.Sleep(time.Hour)
			}
		}()
		_, log, code := p.do(ctx, "up", "--log-format", "json")
		if code != exitDone {
			t.Errorf("exit code %d, want %d", code, exitDone)
		}
		want := map[string][]string{"one.example": {"first", "second", "fourth"}}
		if diff := cmp.Diff(want, both.keys); diff != "" {
			t.Errorf("keys by address (-want +got):\n%s", diff)
		}
		refused := 0
		for _, e := range edits {
			if e.reason != "" {
				refused++
				if n := strings.Count(log, e.reason); n == 0 {
					t.Errorf("%s: the log does not contain %q", e.name, e.reason)
				}
			}
		}
		if n := strings.Count(log, "key not read again"); n != refused {
			t.Errorf("%d log lines about a key that was not read, want one for each of %d edits", n, refused)
		}
	})
}

func TestFileDecidesWhatStaysQueued(t *testing.T) {
	t.Parallel()
	p := &person{T: t, dir: t.TempDir(), env: os.LookupEnv}
	file := func(job string) { p.write(`{version: 1, service: {url: "sim://"}, jobs: {` + job + `}}`) }
	queued := func() (n int) {
		p.opened(func(prog *program) (err error) {
			n, err = prog.Engine.Store.Queue.Queued(queue.Filter{})
			return err
		})
		return n
	}
	file(`tea: {search: {query: tea}, enrich: {details: {}, comments: {}}}`)
	p.opened(func(prog *program) error {
		statetest.Enqueue(t, prog.Engine.Store, []queue.Task{
			{Op: outlier.OpDetails, Entity: "v1", Job: "tea"}, {Op: outlier.OpComments, Entity: "v1", Job: "tea"},
			{Op: outlier.OpDetails, Entity: "v2", Job: "once:search"},
		}...)
		return nil
	})
	if n := queued(); n != 3 {
		t.Errorf("%d calls are queued while all are wanted", n)
	}
	file(`chai: {was: tea, search: {query: tea}, enrich: {details: {}}}`)
	if n := queued(); n != 2 {
		t.Errorf("%d calls are queued after comments were taken out and the job was renamed", n)
	}
	file(`mate: {search: {query: mate}}`)
	if n := queued(); n != 1 {
		t.Errorf("%d calls are queued after the job has gone", n)
	}
}

// TestSimulatorReadsListsAsSent with each value of service.arrays: all queries of a list are used.
func TestSimulatorReadsListsAsSent(t *testing.T) {
	t.Parallel()
	hits := map[string]string{}
	for _, arrays := range []string{"repeat", "bracket", "comma"} {
		bubble(t, "{version: 1, service: {url: 'sim://', arrays: "+arrays+"}, sinks: [{duckdb: outliers.duckdb}], jobs: {tea: {search: {query: tea}}}}", func(p *person) {
			p.must("search", "home espresso", "minecraft")
			hits[arrays] = p.ask("select string_agg(video_id, ' ' order by rank) from outliers_history")
		})
	}
	if hits["repeat"] == "" || hits["bracket"] != hits["repeat"] || hits["comma"] != hits["repeat"] {
		t.Errorf("the hits are %v", hits)
	}
}

// TestForgetNamesUnlistedLake: a lake that the job file listed before is not erased.
func TestForgetNamesUnlistedLake(t *testing.T) {
	t.Parallel()
	p := &person{T: t, dir: t.TempDir(), env: os.LookupEnv}
	p.write(nothingConfigured)
	p.begin()
	forget := []string{"forget", "--dry-run", "--video", "dQw4w9WgXcQ"}
	if out := p.must(forget...); strings.Contains(out, "any more") {
		t.Errorf("without a lake: %s", out)
	}
	p.opened(func(p *program) error {
		lake := &job.Lake{Catalog: "postgres://me:secret@db.example.com/lake?password=secret&sslmode=disable", Namespace: "old"}
		return p.Engine.Store.Sinks.AddPlace("iceberg", lake.Place())
	})
	out := p.must(forget...)
	if !strings.Contains(out, "writes namespace old of the lake postgres://db.example.com/lake?sslmode=disable any more") {
		t.Errorf("with one: %s", out)
	}
}

// TestKeyReloadKeepsTimeZone, which the screen of `up` reads meanwhile, and whose change needs a restart.
func TestKeyReloadKeepsTimeZone(t *testing.T) {
	t.Parallel()
	const file = "version: 1\ntimezone: Asia/Tokyo\nservice: {url: \"https://one.example\", key: \"${KEY}\"}\n" +
		"budget: {per_month: 10}\nsinks: [{parquet: parquet}]\njobs: {tea: {search: {query: tea}}}\n"
	g := newGlobals(world{env: func(name string) (string, bool) { return "any", name == "KEY" }})
	g.config = filepath.Join(t.TempDir(), "jobs.yaml")
	for _, zone := range []string{"Asia/Tokyo", "Europe/Berlin"} {
		text := strings.Replace(file, "Asia/Tokyo", zone, 1)
		if err := os.WriteFile(g.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if g.out.zone == nil {
			if _, err := g.load(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readKey(g.config, g.world.env, job.Service{URL: "https://one.example"}); err != nil || g.out.zone.String() != "Asia/Tokyo" {
			t.Errorf("the time zone is %s (%v) once the key was read from a file with %s", g.out.zone, err, zone)
		}
	}
}

func TestDuckDBMemoryIsASize(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "512MB": 512e6, "2GB": 2e9, "512": -1, "GB": -1, "-1GB": -1, "80%": -1, "4MB": -1, "9999999999GB": -1} {
		got, err := duckdbMemory(func(string) (string, bool) { return text, text != "" })
		if (err == nil) != (want >= 0) || err == nil && got != want || err != nil && !strings.Contains(err.Error(), "OUTLIERD_DUCKDB_MEMORY") {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
}
