package command

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
)

// keeping returns a job file with what is kept of tables.
func keeping(jobs, tables string) string {
	return strings.Replace(jobs, "jobs:", "tables: {"+tables+"}\njobs:", 1)
}

const keptWeek = "outliers_history: {keep: 7d}, comments_history: {keep: 7d}, channels_history: {keep: 7d}, trending_formats: {keep: 7d}"

// weeklyJobs request every kind of data.
const weeklyJobs = `
version: 1
service: {url: "sim://", limit: 600/min}
timezone: Europe/Berlin
jobs:
  coffee:
    schedule: "30 6 * * *"
    search: {query: [espresso, moka pot], sort: z_score desc, where: {published_at: since last success}}
    enrich: {channel_videos: {top: 2}, details: {top: 2}, comments: {top: 4}, transcript: {top: 2}}
  formats: {trending_formats: {niche: coffee}}
`

// TestOldDaysAndPrunedRows has runs on the first and second of nine days. All rows match the journal after a backup and
// an erasure. Later a daemon prunes the journal, and leaves out the first day. What is known of a key's first sighting
// stays, and each copy that is rebuilt has the rows that it had: no old day comes back, and rows of pruned answers
// stay.
func TestOldDaysAndPrunedRows(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, weeklyJobs, func(p *person) {
		began := time.Now()
		p.must("run", "coffee", "formats")
		time.Sleep(26 * time.Hour)
		p.must("run", "coffee")
		before := p.number("count(*) from outliers")
		channel := p.ask("select channel_id from channels order by channel_id limit 1")
		p.must("backup", p.dir+"/copies")
		p.must("forget", "--channel", channel, "--yes")
		if output := p.must("check", "--read-data"); strings.Count(output, "all rows match the journal") != 3 {
			p.Errorf("want three files that match the journal, got:\n%s", output)
		}

		p.write(kept(keeping(weeklyJobs, keptWeek), "3d"))
		time.Sleep(6 * 24 * time.Hour)
		p.up(time.Duration(*keptDays) * 24 * time.Hour)
		if after := p.number("count(*) from outliers"); after <= before {
			p.Errorf("%d outliers at the end, want more than %d", after, before)
		}
		if n := p.number("count(*) from outliers_history where channel_id = '" + channel + "'"); n != 0 {
			p.Errorf("%d rows of the erased channel, want none", n)
		}
		oldest := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -7)
		for _, table := range []string{"outliers_history", "trending_formats"} {
			if n := p.number(fmt.Sprintf("count(*) from %s where observed_at < '%s'", table, oldest.Format(time.RFC3339))); n > 0 {
				p.Errorf("%s has %d rows of days before %s", table, n, oldest)
			}
		}
		if n := p.number("count(*) from comments_history"); n == 0 {
			p.Error("no comments are left")
		}
		if n := p.number("count(distinct _response_id) from comments_history"); n >= p.number("count(*) from comment_counts_history") {
			p.Errorf("comments of all %d answers are left", n)
		}
		if n := p.number(fmt.Sprintf("count(*) from outliers where first_seen_at < '%s'", began.Add(24*time.Hour).UTC().Format(time.RFC3339))); n == 0 {
			p.Error("no outlier was first seen on the first day")
		}
		if p.number("count(distinct channel_id) from channels_history") != p.number("count(*) from channels") {
			p.Error("a channel that has not changed for a week has lost its row")
		}
		days, err := filepath.Glob(filepath.Join(p.place(job.SinkParquet), "outliers_history", "date=*"))
		if err != nil || len(days) == 0 || filepath.Base(days[0]) != "date="+oldest.Format(time.DateOnly) {
			p.Errorf("days of the Parquet files %v, want them to begin with %s", days, oldest)
		}
		if p.pruned() == 0 {
			p.Fatal("nothing was pruned")
		}
		p.rebuildsSame()
		output := p.must("check", "--read-data")
		if strings.Count(output, "match the journal") != 3 || strings.Count(output, "(the journal is pruned)") != 2 {
			p.Errorf("want three files that match the journal, two of them with a pruned journal, got:\n%s", output)
		}
	})
}

// TestEditedTablesNeedNoRestart: a daemon leaves out less and less is told that a rebuild is needed for more.
func TestEditedTablesNeedNoRestart(t *testing.T) {
	t.Parallel()
	fewJobs := strings.Replace(fewJobs, "jobs:", "sinks: [{duckdb: outliers.duckdb}]\njobs:", 1)
	bubble(t, fewJobs, func(p *person) {
		p.must("run", "coffee")
		ctx, stop := context.WithCancel(p.Context())
		ended, log := make(chan struct{}), ""
		go func() {
			defer close(ended)
			_, log, _ = p.do(ctx, "up")
		}()
		edit := func(text string) {
			time.Sleep(5 * time.Minute)
			p.write(text)
			time.Sleep(5 * time.Minute) // no run is due
		}
		const rows = "(select count(*) from channel_uploads) || ' ' || count(author_text) || ' ' || count(text) from comments"
		whole := p.ask("select " + rows)
		edit(keeping(fewJobs, "channel_uploads: off, comments: {columns: [text]}"))
		comments := p.number("count(text) from comments")
		if got := p.ask("select " + rows); got != fmt.Sprintf("0 0 %d", comments) || comments == 0 {
			p.Errorf("after the edit uploads, authors and texts are %s", got)
		}
		p.must("check", "--read-data")
		edit(fewJobs)
		if got := p.ask("select " + rows); got != fmt.Sprintf("0 0 %d", comments) {
			p.Errorf("without a rebuild uploads, authors and texts are %s", got)
		}
		stop()
		<-ended
		if want := `"tables":"channel_uploads, comments"`; !strings.Contains(log, want) || !strings.Contains(log, "outlierd rebuild") {
			p.Errorf("the log lacks %s:\n%s", want, log)
		}
		p.must("rebuild")
		if got := p.ask("select " + rows); got != whole {
			p.Errorf("after the rebuild uploads, authors and texts are %s, want %s", got, whole)
		}
		p.must("check")
	})
}
