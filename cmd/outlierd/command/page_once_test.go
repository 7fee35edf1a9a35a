package command

import (
	"context"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/page"
)

const onceJobs = `
version: 1
service: {url: "sim://"}
sinks: [{duckdb: outliers.duckdb}]
budget: {per_month: 26}
jobs:
  coffee: {search: {query: moka pot, sort: z_score desc, pages: 1}}
`

// serving runs work beside the schedule of the program.
func (p *person) serving(work func(context.Context, *program)) {
	p.Helper()
	p.opened(func(prog *program) error {
		ctx, stop := context.WithCancel(p.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			prog.Engine.Serve(ctx)
		}()
		<-prog.Engine.Keeping()
		work(ctx, prog)
		stop()
		<-ended
		return nil
	})
}

// TestPageMakesOneOffRequests: each in two steps, within the budget of the cycle.
func TestPageMakesOneOffRequests(t *testing.T) {
	t.Parallel()
	bubble(t, onceJobs, func(p *person) {
		p.must("run", "coffee")
		video := strings.Fields(p.must("sql", "-o", "csv", "select video_id from outliers order by z_score desc, video_id limit 1"))[1]
		run := strings.Fields(p.must("sql", "-o", "csv", "select run_id from ops.runs"))[1]
		p.serving(func(ctx context.Context, prog *program) {
			for _, c := range []struct {
				asked  page.Action
				button string // "" if it is refused
				says   string // what it does, or why it is refused
			}{
				{page.Action{Verb: page.LookAlikes, By: "thumbnail_video_id", Video: video}, "Search: at most 2 credits", "It buys the first page of hits, at most 40."},
				{page.Action{Verb: page.LookAlikes, By: "thumbnail_video_id", Video: video}, "Search: free", "Its first page of hits was bought a short time ago."},
				{page.Action{Verb: page.LookAlikes, By: "title", Title: "the <b>best</b> ${moka} pot"}, "Search: at most 2 credits", "It buys the first page of hits, at most 40."},
				{page.Action{Verb: page.Transcript, Video: video}, "Fetch it: free", ""},
				{page.Action{Verb: page.BuyRest, Run: run}, "Buy it: at most 22 credits", "coffee: the rest of run "},
				{page.Action{Verb: page.SearchOnce, Query: "latte art"}, "", "at most 2 credits, and the budget of this cycle leaves 0"},
				{page.Action{Verb: page.BuyRest, Run: run}, "", "left nothing to buy"},
				{page.Action{Verb: page.BuyRest, Run: "no-run"}, "", "not found"},
				{page.Action{Verb: page.LookAlikes, By: "colour", Video: video}, "", "look-alikes by"},
				{page.Action{Verb: page.LookAlikes, By: "video_id", Video: "no id"}, "", "neither a video id"},
				{page.Action{Verb: page.SearchOnce}, "", "enter what to search for"},
			} {
				offer, err := prog.offerAction(ctx, c.asked)
				if c.button == "" {
					if err == nil || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%+v: offered %+v, %v; want a refusal with %q", c.asked, offer, err, c.says)
					}
					continue
				}
				if err != nil || offer.Button != c.button || offer.Seen == "" || !strings.HasPrefix(strings.Join(offer.Says, " "), c.says) {
					t.Errorf("%+v: offered %+v, %v; want %q, which says %q", c.asked, offer, err, c.button, c.says)
					continue
				}
				next, err := offer.Do(ctx)
				if err != nil {
					t.Errorf("%+v: %v", c.asked, err)
					continue
				}
				p.awaitEnd(prog, strings.TrimPrefix(next, "/runs/"))
			}
		})
		if got := p.must("sql", "-o", "csv", "select distinct video_id from transcript_events"); !strings.Contains(got, video) {
			t.Errorf("transcripts of %q, want that of %s", got, video)
		}
	})
}

// awaitEnd waits until a run has ended well.
func (p *person) awaitEnd(prog *program, id string) {
	p.Helper()
	for {
		row, err := prog.Engine.Store.Runs.Get(id)
		if err != nil || row == nil {
			p.Fatalf("run %s: %v, %v", id, row, err)
		}
		if !row.Ended.IsZero() {
			if row.Status != "ok" && row.Status != "ok_empty" {
				p.Errorf("run %s of %s: %s, %s", id, row.Job, row.Status, row.Error)
			}
			return
		}
		time.Sleep(time.Second) // of the bubble
	}
}

// TestFollowedChannelsAreReadByJobs whose SQL selects their tag, as docs/views.md shows.
func TestFollowedChannelsAreReadByJobs(t *testing.T) {
	t.Parallel()
	const rivals = `
  rivals: {channels: {id: {sql: "select channel_id from outliers join marks using (video_id) where list_contains(tags, 'follow')"}}}`
	bubble(t, onceJobs+rivals, func(p *person) {
		p.must("run", "coffee")
		video := strings.Fields(p.must("sql", "-o", "csv", "select video_id from outliers order by z_score desc, video_id limit 1"))[1]
		p.must("mark", "--tag", "follow", video)
		p.must("run", "rivals")
		if got := p.must("sql", "-o", "csv", "select count(*) from followed"); !strings.HasSuffix(strings.TrimSpace(got), "1") {
			t.Errorf("followed channels: %q, want one", got)
		}
	})
}

// TestNowAndMoneyLookAhead: when jobs are due, how the disk fills, and what the next runs cost.
func TestNowAndMoneyLookAhead(t *testing.T) {
	t.Parallel()
	jobs := strings.Replace(onceJobs, "coffee: {", "coffee: {every: 6h, ", 1)
	bubble(t, jobs, func(p *person) {
		look := func() (*page.Now, *page.Money) {
			var now *page.Now
			var money *page.Money
			p.opened(func(prog *program) (err error) {
				l := &looking{read: prog.read, zone: time.UTC, tables: page.NewTables("", time.UTC)}
				if now, err = l.readNow(p.Context(), prog); err == nil {
					money, err = l.readMoney(p.Context())
				}
				return err
			})
			return now, money
		}
		p.must("run", "coffee")
		now, money := look()
		if due := now.Rows[0].DueAt; len(due) != 3 {
			t.Errorf("due within a day at %v, want three times", due)
		}
		if disk := now.Stats()[4]; !strings.HasPrefix(disk.More, "data folder ") || strings.Contains(disk.More, "a week") {
			t.Errorf("on the first day: %+v", disk)
		}
		if next := money.Forecast.Jobs; len(next) != 1 || next[0].Job != "coffee" || next[0].Worst.Credits != 2 || next[0].Expected.Credits != 2 || next[0].Runs == 0 {
			t.Errorf("the next runs: %+v", next)
		}
		time.Sleep(10 * 24 * time.Hour)
		p.must("run", "coffee", "--again", "--yes")
		if now, _ = look(); !strings.Contains(now.Stats()[4].More, ", ≈ +") {
			t.Errorf("after ten days: %+v", now.Stats()[4])
		}
	})
}
