package command

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var keptDays = flag.Int("kept-days", 2, "how many days the daemon of TestBothSinksHaveTheSameRowsAfterAMonth runs")

// monthlyJobs request every kind of data repeatedly, so that histories have more rows than current tables.
const monthlyJobs = `
version: 1
service: {url: "sim://", limit: 600/min}
timezone: Europe/Berlin
budget: {per_month: 3000}
jobs:
  coffee:
    schedule: "30 6 * * *"
    search: {query: [espresso, moka pot], sort: z_score desc, where: {published_at: since last success}}
    enrich: {channel_videos: {top: 5}, details: {top: 10}, comments: {top: 8}, transcript: {top: 5}}
  tea:
    every: 36h
    search: {query: [green tea], pages: 2}
    enrich: {comments: {top: 5, refresh_after: 2d}, details: {top: 5, refresh_after: 1d}}
  formats: {schedule: "0 7 * * mon", trending_formats: {niche: coffee}}
`

// TestBothSinksHaveTheSameRowsAfterAMonth runs a daemon for days of virtual time, erases a channel and makes a backup
// halfway, and then compares all rows of both sinks with the journal.
func TestBothSinksHaveTheSameRowsAfterAMonth(t *testing.T) {
	t.Parallel()
	bubble(t, monthlyJobs, func(p *person) {
		half := time.Duration(*keptDays) * 12 * time.Hour
		p.up(half)
		before := p.number("count(*) from outliers")
		channel := p.ask("select channel_id from channels order by channel_id limit 1")
		p.must("backup", p.dir+"/copies")
		p.must("forget", "--channel", channel, "--yes")
		p.up(half)
		if after := p.number("count(*) from outliers"); after <= before {
			t.Errorf("%d outliers at the end, want more than %d", after, before)
		}
		if n := p.number(fmt.Sprintf("count(*) from outliers_history where channel_id = '%s'", channel)); n != 0 {
			t.Errorf("%d rows of the erased channel, want none", n)
		}
		output := p.must("check", "--read-data")
		if strings.Count(output, "all rows match the journal") != 3 {
			t.Errorf("want three files that match the journal, got:\n%s", output)
		}
		t.Log(output)
	})
}

// up runs a daemon for a while.
func (p *person) up(long time.Duration) {
	p.Helper()
	ctx, stop := context.WithTimeout(p.Context(), long)
	defer stop()
	if _, stderr, code := p.do(ctx, "up"); code != exitDone {
		p.Fatalf("exit code %d, want %d\n%s", code, exitDone, stderr)
	}
}

func (p *person) number(query string) (n int) {
	p.Helper()
	if _, err := fmt.Sscan(p.ask("select "+query), &n); err != nil {
		p.Fatal(err)
	}
	return n
}
