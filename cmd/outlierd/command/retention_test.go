package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/cmd/outlierd/report"
	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/check"
	"outlierd/sync/job"
)

// kept returns a job file with a retention.
func kept(jobs, retention string) string {
	return strings.Replace(jobs, "jobs:", "retention: {journal: "+retention+"}\njobs:", 1)
}

// fewJobs store rows in most tables.
const fewJobs = `
version: 1
service: {url: "sim://"}
timezone: Europe/Berlin
jobs:
  coffee: {schedule: "30 6 * * *", search: {query: [espresso], sort: z_score desc}, enrich: {channel_videos: {top: 2}, comments: {top: 4}}}
`

// hitsJobs store rows of hits alone.
const hitsJobs = `
version: 1
service: {url: "sim://"}
jobs:
  coffee: {search: {query: [espresso], sort: z_score desc}}
`

// pruned returns the id of the last pruned answer.
func (p *person) pruned() (upTo int64) {
	p.Helper()
	p.opened(func(o *program) (err error) {
		upTo, err = o.Engine.Store.Journal.Pruned()
		return err
	})
	return upTo
}

// place returns the path of a sink.
func (p *person) place(kind string) string {
	return filepath.Join(p.dir, "data", map[string]string{job.SinkDuckDB: "outliers.duckdb", job.SinkParquet: "parquet"}[kind])
}

// copied copies the present files of a sink, and returns the path of the copy.
func (p *person) copied(kind string) string {
	p.Helper()
	from := p.place(kind)
	to := filepath.Join(p.dir, "copy of "+kind)
	if err := os.RemoveAll(to); err != nil {
		p.Fatal(err)
	}
	if kind == job.SinkParquet {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			p.Fatal(err)
		}
		return to
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
	return to
}

// holdsSame compares the rows of two sinks of any kind.
func (p *person) holdsSame(wantKind, want, haveKind, have string) {
	p.Helper()
	reader := compare.Open(filepath.Join(p.dir, "sort"))
	defer reader.Close()
	ctx := context.Background()
	open := func(kind, path string) check.Tables {
		if kind == job.SinkDuckDB {
			return openFile(ctx, kind, path, "")
		}
		return openFolder(ctx, path, "", false)
	}
	a, b := open(wantKind, want), open(haveKind, have)
	if len(a.Problems)+len(b.Problems) > 0 {
		p.Fatal(a.Problems, b.Problems)
	}
	hasRows := false
	for _, t := range schema.Tables() {
		d, err := reader.Compare(ctx, a.Source, b.Source, t)
		if err != nil {
			p.Fatal(err)
		}
		if d.Any() {
			p.Errorf("%s: %s: %s\n%s", report.Path(have), t.Name, d, strings.Join(d.Examples, "\n"))
		}
		if hasRows {
			continue
		}
		n, err := reader.Rows(ctx, b.Source, t)
		if err != nil {
			p.Fatal(err)
		}
		hasRows = n.Count > 0
	}
	if !hasRows {
		p.Errorf("%s has no rows", have)
	}
}

// rebuildsSame rebuilds the tables, and compares the rows of each copy with those before.
func (p *person) rebuildsSame() {
	p.Helper()
	kinds := []string{job.SinkDuckDB, job.SinkParquet}
	before := map[string]string{}
	for _, kind := range kinds {
		before[kind] = p.copied(kind)
	}
	p.must("rebuild")
	for _, kind := range kinds {
		p.holdsSame(kind, before[kind], kind, p.place(kind))
	}
}

// pruning is what prunes leaves, which is the same in all tests: they begin at the same time.
var pruning struct {
	sync.Once
	data  fstest.MapFS // the data folder
	ended time.Time
	upTo  int64
}

// prunes runs the job on two days, and prunes the answers of the first one. All tests but the first get a copy of that.
func (p *person) prunes() (upTo int64) {
	p.Helper()
	data := filepath.Join(p.dir, "data")
	pruning.Do(func() {
		p.must("run", "coffee")
		time.Sleep(26 * time.Hour)
		p.must("run", "coffee")
		p.must("prune")
		pruning.data, pruning.ended, pruning.upTo = programtest.ReadFolder(p, data), time.Now(), p.pruned()
	})
	if pruning.upTo == 0 {
		p.Fatal("nothing was pruned")
	}
	time.Sleep(time.Until(pruning.ended))
	p.lose("")
	if err := os.CopyFS(data, pruning.data); err != nil {
		p.Fatal(err)
	}
	return pruning.upTo
}

// An erasure also removes rows whose answers the journal has pruned.
func TestErasureReachesPrunedRows(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, kept(fewJobs, "1d"), func(p *person) {
		p.prunes()
		// A channel with a video in the oldest rows, and an author of comments elsewhere.
		channel := p.ask("select channel_id from outliers_history where channel_id in (select channel_id from channel_uploads) order by _response_id limit 1")
		video := p.ask("select video_id from outliers_history where channel_id = '" + channel + "' order by _response_id limit 1")
		author := p.ask("select author_channel_id from comments_history where video_id not in (select video_id from outliers_history where channel_id = '" +
			channel + "') order by _response_id limit 1")
		before := p.number("count(*) from outliers_history")
		p.must("forget", "--channel", channel, "--author", author, "--yes")
		for _, kind := range []string{job.SinkDuckDB, job.SinkParquet} {
			p.lacks(kind, channel, video)
		}
		if n := p.number("count(*) from comments_history where author_channel_id = '" + author + "'"); n != 0 {
			p.Errorf("%d comments of the author, want none", n)
		}
		if after := p.number("count(*) from outliers_history"); after < before/2 || after >= before {
			p.Errorf("%d of %d hits remain after the erasure", after, before)
		}
		p.must("check")
	})
}

// lacks checks that no row of a sink contains one of the texts, in any column.
func (p *person) lacks(kind string, texts ...string) {
	p.Helper()
	db, err := database.Open(p.Context(), database.Options{Memory: 128 << 20, Threads: 1, Temp: filepath.Join(p.dir, "sort")})
	if err != nil {
		p.Fatal(err)
	}
	defer db.Close()
	if kind == job.SinkDuckDB {
		if _, err := db.Exec(p.Context(), "ATTACH "+database.Text(p.place(kind))+" AS warehouse (READ_ONLY)"); err != nil {
			p.Fatal(err)
		}
	}
	for _, t := range schema.Tables() {
		from := database.TableName(t)
		if kind == job.SinkParquet {
			files := filepath.Join(p.place(kind), t.FileName(), "**", "*.parquet")
			if isMissing(filepath.Join(p.place(kind), t.FileName())) {
				continue
			}
			from = "read_parquet(" + database.Text(files) + ", union_by_name = true)"
		}
		for _, text := range texts {
			rows, err := db.Query(p.Context(), "SELECT count(*) FROM "+from+" AS t WHERE CAST(t AS VARCHAR) LIKE "+database.Text("%"+text+"%"))
			if err != nil {
				p.Fatal(err)
			}
			if n := rows[0][0].(int64); n > 0 {
				p.Errorf("sink %s: %d rows of table %s have %s", kind, n, t.Name, text)
			}
		}
	}
}

// lose removes files of the data folder.
func (p *person) lose(names ...string) {
	p.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(p.dir, "data", name)); err != nil {
			p.Fatal(err)
		}
	}
}

// damage changes a byte in the middle of a file below the data folder.
func (p *person) damage(name string) {
	p.Helper()
	path := filepath.Join(p.dir, "data", name)
	text, err := os.ReadFile(path)
	if err == nil {
		text[len(text)/2]++
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
}

func TestAnyCopyRestoresPrunedRows(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, kept(fewJobs, "1d"), func(p *person) {
		p.prunes()
		before := p.copied(job.SinkParquet)
		const own = "state/warehouse.duckdb"
		cases := []struct {
			harm func()
			heal []string
			sink string // one that was lost, or is made again
		}{
			{func() { p.lose(own) }, []string{"rebuild"}, job.SinkParquet},
			{func() { p.damage(own) }, []string{"rebuild"}, job.SinkDuckDB},
			{func() { p.lose(own, "outliers.duckdb") }, []string{"rebuild"}, job.SinkDuckDB},
			{func() { p.lose(own, "outliers.duckdb") }, []string{"run", "coffee"}, job.SinkDuckDB}, // nothing is new
			{func() { p.lose(own, "parquet") }, []string{"run", "coffee"}, job.SinkParquet},
		}
		some := testenv.Random(t).Perm(len(cases))
		if !*long {
			some = some[:1]
		}
		for _, i := range some {
			t.Logf("case %d", i)
			cases[i].harm()
			p.must(cases[i].heal...)
			p.holdsSame(job.SinkParquet, before, cases[i].sink, p.place(cases[i].sink))
		}
		p.must("check")
	})
}

// If no copy has the pruned rows, a command fails with a remedy instead of replacing the sink.
func TestLostRowsAreNotReplaced(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, kept(fewJobs, "1d"), func(p *person) {
		pruned := p.prunes()
		before := p.copied(job.SinkParquet)
		p.lose("state/warehouse.duckdb", "outliers.duckdb", "parquet/outliers_history")
		for _, command := range [][]string{{"rebuild"}, {"run", "coffee", "--again"}} {
			stderr := p.refused(exitFailed, command...)
			for _, want := range []string{"the journal is pruned up to", "is missing", "'outlierd rebuild --without-pruned'"} {
				if !strings.Contains(stderr, want) {
					p.Errorf("%q is not in:\n%s", want, stderr)
				}
			}
		}

		// Put back by hand, the folder is taken by the next run.
		if err := os.CopyFS(filepath.Join(p.place(job.SinkParquet), "outliers_history"), os.DirFS(filepath.Join(before, "outliers_history"))); err != nil {
			p.Fatal(err)
		}
		p.must("run", "coffee")
		p.holdsSame(job.SinkParquet, before, job.SinkDuckDB, p.place(job.SinkDuckDB))

		p.lose("state/warehouse.duckdb", "outliers.duckdb", "parquet")
		p.must("rebuild", "--without-pruned")
		if first := p.number("min(_response_id) from outliers_history"); int64(first) <= pruned {
			p.Errorf("the first row is of answer %d, want one after %d, up to which the journal is pruned", first, pruned)
		}
		p.must("check")
	})
}

// TestPrunedRowsOutliveAnOlderBackup: when the state is lost, the copies, which are ahead of the restored journal,
// alone have them. When all is lost, a copy of the published file has those from before the backup.
func TestPrunedRowsOutliveAnOlderBackup(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, kept(fewJobs, "1d"), func(p *person) {
		p.prunes()
		before, tables := p.copied(job.SinkParquet), p.copied(job.SinkDuckDB)
		copies := filepath.Join(p.dir, "copies")
		p.must("backup", copies)
		p.must("run", "coffee", "--again") // the backup does not have it
		p.lose("state")
		p.must("restore", copies, "--spent", "2")
		const remedy = "or let 'outlierd rebuild' replace them"
		if said := p.refused(exitFailed, "run", "coffee"); !strings.Contains(said, remedy) {
			p.Errorf("a run beside copies of the lost state: %q, want %q", said, remedy)
		}
		p.must("rebuild")
		p.holdsSame(job.SinkParquet, before, job.SinkParquet, p.place(job.SinkParquet))

		if err := os.RemoveAll(filepath.Join(p.dir, "data")); err != nil {
			p.Fatal(err)
		}
		p.must("restore", copies, "--spent", "2")
		p.refused(exitFailed, "rebuild")
		if err := os.Rename(tables, p.place(job.SinkDuckDB)); err != nil {
			p.Fatal(err)
		}
		p.must("rebuild")
		p.holdsSame(job.SinkParquet, before, job.SinkParquet, p.place(job.SinkParquet))
		p.must("run", "coffee", "--again")
		p.must("check")
	})
}

// TestFirstSightingsOutlivePruningAndRestore, imported ones, too: the histories, which the job file cuts short, no
// longer have them, the warehouse is lost with the state, and Parquet is the only copy.
func TestFirstSightingsOutlivePruningAndRestore(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	jobs := strings.Replace(kept(hitsJobs, "1d"), "jobs:", "tables: {outliers_history: {keep: 7d}}\njobs:", 1)
	bubble(t, jobs, func(p *person) {
		p.must("run", "coffee")
		list := filepath.Join(p.dir, "seen.csv")
		p.must("export", "select video_id, first_seen_at - interval 1 year as first_seen_at from outliers", "--to", list)
		p.must("import", list)
		time.Sleep(5 * 24 * time.Hour)
		p.must("run", "coffee")
		time.Sleep(4 * 24 * time.Hour)
		p.must("run", "coffee")
		p.must("prune")
		p.must("run", "coffee", "--again")
		if p.number("count(*) from outliers where first_seen_at = imported_seen_at") == 0 {
			p.Fatal("no video has the time that was imported")
		}
		before := p.copied(job.SinkParquet)
		p.must("backup", filepath.Join(p.dir, "copies"))
		p.write(strings.Replace(jobs, "jobs:", "sinks: [{parquet: parquet}]\njobs:", 1)) // only this copy is left
		p.lose("state", "outliers.duckdb")
		p.must("restore", filepath.Join(p.dir, "copies"), "--spent", "0")
		p.must("rebuild")
		p.holdsSame(job.SinkParquet, before, job.SinkParquet, p.place(job.SinkParquet))
		p.lose("state/warehouse.duckdb") // once more, when the restored state has answers of its own
		p.must("run", "coffee", "--again")
		p.must("check")
	})
}
