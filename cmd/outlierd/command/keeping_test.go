package command

import (
	"context"
	"flag"
	"fmt"
	"time"
)

var keptDays = flag.Int("kept-days", 2, "how many days the daemon of TestRebuiltSinksHaveTheSameRowsAfterAMonthOfPruning runs")

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
