package forecast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// TestForecastCountsLaterRuns: during a long run another job is due, whose calls have a higher value and are
// made first. From the start on, the estimated end of the long run is within a tenth of the time left.
func TestForecastCountsLaterRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("makes hundreds of calls")
	}
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long:
    schedule: "55 11 * * *"
    search: {query: [home espresso], pages: 4}
    enrich: {details: {}, comments: {}}
  news:
    schedule: "5 6,12 * * *"
    search: {query: [latte art], pages: 3}
    enrich: {channel_videos: {refresh_after: 1h}, transcript: {top: 60, refresh_after: 1h}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		w.see(e, "long", "news")
		agenda, err := e.Agenda(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, 16*time.Hour)
		var serving sync.WaitGroup
		defer serving.Wait()
		defer cancel()
		serving.Go(func() { e.Serve(ctx, agenda) })
		time.Sleep(11*time.Hour + 56*time.Minute)
		var said []estimate
		for ended := false; !ended; {
			time.Sleep(30 * time.Second)
			row, err := e.Store.Runs.List("long", 1)
			if err != nil || len(row) != 1 {
				t.Fatalf("runs %+v, error %v", row, err)
			}
			ended = row[0].Status != runs.Running
			if !ended {
				said = append(said, foresee(w, e))
			} else {
				judge(t, said, row[0].Ended)
			}
		}
	})
}

// estimate is the estimated end of job long at one moment.
type estimate struct {
	at      time.Time
	queue   time.Duration // by the last row of Queue
	waiting int
}

func foresee(w *workshop, e *engine.Engine) estimate {
	rows, err := queueOf(e, "long")
	if err != nil {
		w.Fatal(err)
	}
	f := estimate{at: time.Now(), waiting: len(rows)}
	if len(rows) > 0 {
		f.queue = time.Until(rows[len(rows)-1].At)
	}
	return f
}

// judge compares the estimates at 0, 10, 50 and 90 percent of the calls with the real end.
func judge(t *testing.T, said []estimate, ended time.Time) {
	t.Helper()
	all := said[0].waiting
	for _, part := range []float64{0, 0.1, 0.5, 0.9} {
		for _, f := range said {
			if float64(all-f.waiting) < part*float64(all) || f.waiting == 0 {
				continue
			}
			truth := ended.Sub(f.at)
			if off := (f.queue - truth).Abs(); off > truth/10 {
				t.Errorf("with %d of %d calls left the estimate is %s, want %s within a tenth",
					f.waiting, all, f.queue, truth)
			}
			break
		}
	}
}

// TestTimelineOrder: one call is sent each minute, and each letter is a call of the job of that name.
func TestTimelineOrder(t *testing.T) {
	from := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return from.Add(time.Duration(n) * time.Minute) }
	place := 0
	task := func(job string, value float64, not int) *turn {
		place++
		t := &turn{Place: queue.Place{Rank: rankOf(value, from), Entity: fmt.Sprintf("%03d %s", place, job),
			Jobs: []string{job}}, calls: 1, task: true, asked: true}
		if not > 0 {
			t.NotBefore = minute(not)
		}
		return t
	}
	for name, c := range map[string]struct {
		tasks  []*turn
		coming []arrival
		busy   string
		at     []int  // when the tasks are done
		order  string // the jobs of the tasks
		before int    // calls before the last task
	}{
		"by value": {
			tasks: []*turn{task("a", 1, 0), task("b", 2, 0), task("c", 1, 0)},
			at:    []int{1, 2, 3}, order: "bac", before: 2,
		},
		"pages first": {
			tasks:  []*turn{task("a", 1, 0)},
			coming: []arrival{{job: "b", at: from, begun: true, pages: 3}},
			at:     []int{4}, order: "a", before: 3,
		},
		"later calls of higher value first, those of lower value last": {
			tasks:  []*turn{task("a", 2, 0), task("a", 2, 0)},
			coming: []arrival{{job: "b", at: minute(2), pages: 1, calls: []expected{{3, 4}, {1, 9}}}},
			at:     []int{1, 7}, order: "aa", before: 6,
		},
		"runs after the last task do not matter": {
			tasks:  []*turn{task("a", 2, 0), task("a", 2, 0)},
			coming: []arrival{{job: "b", at: minute(3), pages: 1}},
			at:     []int{1, 2}, order: "aa", before: 1,
		},
		"the next run of a job waits for this one, and starts once": {
			tasks:  []*turn{task("a", 3, 0), task("b", 2, 0), task("a", 3, 0)},
			coming: []arrival{{job: "a", at: minute(1), pages: 2}, {job: "a", at: minute(2), pages: 2}},
			busy:   "a",
			at:     []int{1, 2, 5}, order: "aab", before: 4,
		},
		"idle time is skipped": {
			tasks:  []*turn{task("a", 3, 30), task("b", 2, 0)},
			coming: []arrival{{job: "c", at: minute(10), pages: 2}},
			at:     []int{1, 30}, order: "ba", before: 3,
		},
	} {
		l := &timeline{from: from, eta: func(n int) time.Duration { return time.Duration(n) * time.Minute },
			coming: c.coming, left: map[string]int{}, busy: map[string]bool{c.busy: true}, remaining: len(c.tasks)}
		for _, t := range c.tasks {
			if t.NotBefore.IsZero() {
				l.ready = append(l.ready, t)
				l.count(t, 1)
			} else {
				l.failed = append(l.failed, t)
			}
		}
		slices.SortFunc(l.ready, func(a, b *turn) int { return a.Compare(&b.Place) })
		var at []int
		var order strings.Builder
		before := 0
		l.play(func(p placed) bool {
			at = append(at, int(p.at.Sub(from).Minutes()))
			order.WriteString(p.Entity[4:])
			before = p.before
			return true
		})
		if !slices.Equal(at, c.at) || order.String() != c.order || before != c.before {
			t.Errorf("%s: calls of %s at minutes %v, %d before the last; want %s at %v, %d",
				name, &order, at, before, c.order, c.at, c.before)
		}
	}
}

// TestExpectedCallsOfARun are those of its plan, or the average of earlier runs if there are any.
func TestExpectedCallsOfARun(t *testing.T) {
	const file = `
version: 1
service: {url: "sim://", limit: 100/min}
jobs:
  news:
    for_each: {topic: [latte art, moka pot]}
    search: {query: ["${topic}"], pages: 2}
    enrich: {transcript: {top: 10}, channel_videos: {}}
    budget: {per_run: 8}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		spec := w.config.Job("news")
		was, err := forecasts(e).expected(t.Context(), spec, time.Now())
		if err != nil || was.pages != 4 || !slices.Equal(was.calls, []expected{{3, 10}, {5, 160}}) {
			t.Errorf("without a past %+v (%v), want the 4 pages that it can pay for, 10 transcripts and the channels of 160 hits",
				was, err)
		}
		if row, err := e.Run(w.ctx, spec, engine.Manual, time.Time{}); err != nil || row.Status != runs.OK {
			t.Fatalf("%+v, error %v", row, err)
		}
		pages, transcripts, channels := w.calls(outlier.OpSearch), w.calls(outlier.OpTranscript), w.calls(outlier.OpChannelVideos)
		is, err := forecasts(e).expected(t.Context(), spec, time.Now())
		if err != nil || is.pages != pages || !slices.Equal(is.calls, []expected{{3, transcripts}, {5, channels}}) || channels >= 160 {
			t.Errorf("with a past %+v (%v), want %d pages, %d transcripts and %d channels",
				is, err, pages, transcripts, channels)
		}
	})
}
