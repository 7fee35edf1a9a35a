package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// TestJournalAnswersIdenticalRequests of any job: within reuse_for they cost no credits and no request, and
// their hits count like others.
func TestJournalAnswersIdenticalRequests(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  first: {search: {query: [home espresso], pages: 2}}
  second: {search: {query: [home espresso], pages: 3}, enrich: {details: {top: 3}}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		run := func(spec *job.Spec) *runs.Run {
			row, err := e.Run(w.ctx, spec, Manual, time.Time{})
			if err != nil || row.Status != runs.OK {
				t.Fatalf("status %s, error %v", row.Status, err)
			}
			return row
		}
		run(w.config.Job("first"))
		time.Sleep(5 * time.Hour)
		row := run(w.config.Job("second"))
		if w.calls(outlier.OpSearch) != 3 || row.Credits != 2 || row.Pages != 3 || row.Hits != 120 || w.calls(outlier.OpDetails) != 3 {
			t.Errorf("%d searches in all, %d credits for %d pages with %d hits and %d details; want 3, and 2 for 3 with 120 and 3",
				w.calls(outlier.OpSearch), row.Credits, row.Pages, row.Hits, w.calls(outlier.OpDetails))
		}
		again, err := w.config.Job("second").With(job.Overrides{Again: true})
		if err != nil {
			t.Fatal(err)
		}
		if row := run(&again); row.Credits != 6 {
			t.Errorf("%d credits with --again, want 6", row.Credits)
		}
		time.Sleep(6*time.Hour + time.Minute)
		if row := run(w.config.Job("first")); row.Credits != 4 {
			t.Errorf("%d credits after six hours, want 4", row.Credits)
		}
	})
}

// TestSameSeedsAreBoughtOnce within refresh_after, and other seeds are bought.
func TestSameSeedsAreBoughtOnce(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  like: {related: {title: [moka pot, latte art], refresh_after: 3d}}
`
	bare(t, file, func(w *workshop) {
		for _, step := range []struct {
			after time.Duration
			file  string
			want  runs.Status
			spent outlier.Credits
		}{
			{0, file, runs.OK, 2},
			{2 * day, file, runs.OKEmpty, 2},
			{0, strings.Replace(file, "moka pot, latte art", "latte art, moka pot", 1), runs.OKEmpty, 2}, // the same set
			{0, strings.Replace(file, "moka pot, latte art", "latte art", 1), runs.OK, 4},
			{day + time.Minute, file, runs.OK, 6},
		} {
			time.Sleep(step.after)
			w.use(step.file)
			if w.mustRun(step.want); w.spent() != step.spent {
				t.Errorf("%d credits in all, want %d", w.spent(), step.spent)
			}
		}
	})
}

// TestEqualAgeAndIntervalAsksAgain: a job that is due as often as its answers age asks each time, also if its calls are
// sent somewhat later after one due time than after the next.
func TestEqualAgeAndIntervalAsksAgain(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  reused: {every: 6h, search: {query: [moka pot]}}
  alike: {every: 7d, related: {title: [moka pot], refresh_after: 7d}}
  enriched: {every: 1d, reuse_for: 1m, search: {query: [moka pot]}, enrich: {details: {top: 3, refresh_after: 1d}}}
`
	for name, want := range map[string]map[outlier.Operation]int{
		"reused":   {outlier.OpSearch: 4},
		"alike":    {outlier.OpRelated: 4},
		"enriched": {outlier.OpSearch: 4, outlier.OpDetails: 12},
	} {
		bare(t, file, func(w *workshop) {
			spec := w.config.Job(name)
			e, stop := w.open()
			defer stop()
			due := time.Now().Truncate(spec.Every)
			for _, late := range []time.Duration{time.Second, 10 * time.Minute, time.Minute, 0} {
				due = due.Add(spec.Every)
				time.Sleep(time.Until(due.Add(late)))
				if _, err := e.Run(w.ctx, spec, Scheduled, due); err != nil {
					t.Fatal(err)
				}
			}
			for op, n := range want {
				if got := w.calls(op); got != n {
					t.Errorf("%s: %d calls of %s in 4 runs, want %d", name, got, op, n)
				}
			}
		})
	}
}

// TestCutRunBuysSeedsOnce: after a cap has cut the run, its seeds are not bought again, because their first
// page was bought.
func TestCutRunBuysSeedsOnce(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  like: {related: {title: [moka pot], pages: 3, refresh_after: 14d}, budget: {per_run: 2}}
`
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.PausedBudget)
		for range 3 {
			time.Sleep(25 * time.Hour)
			w.mustRun(runs.OKEmpty)
		}
		if w.spent() != 2 {
			t.Errorf("%d credits, want the 2 of the first run", w.spent())
		}
	})
}

// TestFreshHitsKeepTheirRank: they count among the top hits, and no other hit takes their place.
func TestFreshHitsKeepTheirRank(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {reuse_for: 6h, search: {query: [home espresso]}, enrich: {details: {top: 5}, channel_videos: {top: 5}}}
`
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		videos, channels := w.calls(outlier.OpDetails), w.calls(outlier.OpChannelVideos)
		if videos != 5 || channels == 0 || channels > 5 {
			t.Errorf("%d details and %d channels of the top 5", videos, channels)
		}
		time.Sleep(time.Hour)
		w.mustRun(runs.OK) // of the same page
		if w.calls(outlier.OpDetails) != videos || w.calls(outlier.OpChannelVideos) != channels {
			t.Errorf("%d details and %d channels after a second run, want none more",
				w.calls(outlier.OpDetails), w.calls(outlier.OpChannelVideos))
		}
	})
}

// TestOnlyMatchingHitsAreEnriched: enrich.where is applied first, then the limit per value of for_each,
// then the limit for all. The other hits keep their rows.
func TestOnlyMatchingHitsAreEnriched(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
filters: {large: {view_count: 20000..}}
jobs:
  one:
    for_each: {topic: [home espresso, moka pot, latte art]}
    search: {query: "${topic}", where: {type: video}}
    enrich:
      where: {use: large, published_at: last 60d}
      details: {top: 5, top_per_item: 2}
      transcript: {top_per_item: 1}
`
	single(t, file, func(w *workshop) {
		w.inspect(func(e *Engine) {
			_, cost, err := forecasts(e).WorstCase(w.ctx, &w.config.Jobs[0], false)
			if err != nil || cost.Requests != 3+5+3 {
				w.Errorf("the worst case is %+v (%v), want 3 pages, 5 details and 3 transcripts", cost, err)
			}
			f, err := forecasts(e).Forecast(w.ctx)
			if err != nil {
				w.Fatal(err)
			}
			if got := strings.Join(f.Jobs[0].Where, ", "); !strings.Contains(got, "view_count 20000..") || !strings.Contains(got, "published_at ") {
				w.Errorf("the plan says %q of which hits are enriched", got)
			}
		})
		row := w.mustRun(runs.OK)
		wanted := `select video_id from (select video_id, item, z_score from outliers_history
				where view_count >= 20000 and published_at >= date_trunc('day', observed_at) - interval 60 day
				qualify row_number() over (partition by item order by z_score desc nulls last, video_id) <= %d)
			group by video_id order by max(z_score) desc nulls last, video_id limit %d`
		asked := `select entity from ops.requests where operation = '%s'`
		for _, c := range []struct {
			op         outlier.Operation
			each, most int
		}{{outlier.OpDetails, 2, 5}, {outlier.OpTranscript, 1, 99}} {
			want, got := w.rows(fmt.Sprintf(wanted, c.each, c.most)), w.rows(fmt.Sprintf(asked, c.op))
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) || len(got) == 0 {
				w.Errorf("%s of %v, want %v", c.op, got, want)
			}
		}
		if small := w.count("select count(*) from outliers where view_count < 20000"); small == 0 || w.distinct(row) != w.count("select count(*) from outliers") {
			w.Errorf("%d hits that are not wanted of %d hits", small, w.distinct(row))
		}
		w.use(strings.Replace(file, "20000..", "30000..", 1))
		w.inspect(func(e *Engine) {
			f, err := forecasts(e).Forecast(w.ctx)
			if err != nil {
				w.Fatal(err)
			}
			if want := "enrich.where.view_count 20000.. → 30000.."; !slices.Contains(f.Jobs[0].Changes, want) {
				w.Errorf("the plan says %q of the changes, want %q", f.Jobs[0].Changes, want)
			}
		})
	})
}

func TestNothingIsEnrichedWithoutEnrich(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		w.mustRun(runs.OK)
		if calls := w.service.Books().Total.Calls; calls != 1 {
			t.Errorf("%d calls, want the page alone", calls)
		}
	})
}

// TestPagesCountPerSearch: pages are limited for each combination of values, and hits and credits for all of
// them together.
func TestPagesCountPerSearch(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one:
    for_each: {topic: [espresso, moka], place: [home, shop]}
    search: {query: ["${topic} ${place}"], pages: 2}
    enrich: {details: {top: 6}}
    budget: {per_run: CAP}
`
	t.Run("enough", func(t *testing.T) {
		bare(t, strings.Replace(file, "CAP", "16", 1), func(w *workshop) {
			row := w.mustRun(runs.OK)
			if row.Pages != 8 || w.calls(outlier.OpDetails) != 6 {
				t.Errorf("%d pages and %d details, want 8 and 6", row.Pages, w.calls(outlier.OpDetails))
			}
			var items []string
			for _, step := range w.steps(row) {
				items = append(items, step.Item)
			}
			if got := fmt.Sprint(items); got != "[espresso / home espresso / shop moka / home moka / shop]" {
				t.Errorf("searches for %s, want the cross product in the order of the file", got)
			}
		})
	})
	t.Run("a cap cuts depth and not topics", func(t *testing.T) {
		bare(t, strings.Replace(file, "CAP", "10", 1), func(w *workshop) {
			row := w.mustRun(runs.PausedBudget)
			for i, step := range w.steps(row) {
				want := []int{2, 1, 1, 1}[i]
				if step.Pages != want || want == 1 && step.Left != 1 { // the first one was complete
					t.Errorf("%s: %d pages and %d left, want %d of 2", step.Item, step.Pages, step.Left, want)
				}
			}
		})
	})
}
