package engine

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// namingFile has a job that names channels, one that considers answers fresh for a week, and one of
// videos.
const namingFile = `
version: 1
service: {url: "sim://", limit: 10/min}
lists: {rivals: [%s]}
jobs:
  rivals: {every: 8h, channels: {id: {list: rivals}, fetch: channel_videos}}
  weekly: {every: 8h, channels: {id: {list: rivals}, fetch: channel_videos, refresh_after: 7d}}
  saved: {every: 8h, videos: {id: [%s], fetch: [details, transcript]}}
`

// naming sets namingFile as the job file, or only one of its jobs, with two channels and a video that the
// service has.
func (w *workshop) naming(only string) {
	w.Helper()
	w.use(`{version: 1, service: {url: "sim://", limit: 10/min}, jobs: {one: {search: {query: espresso}}}}`)
	row := w.mustRun(runs.OK)
	var channels []string
	video := ""
	w.inspect(func(e *Engine) {
		hits, err := e.Store.Hits.Best(row.ID, runs.Choice{Most: 40, Desc: true})
		if err != nil {
			w.Fatal(err)
		}
		for _, hit := range hits {
			if !slices.Contains(channels, hit.ChannelID) && len(channels) < 2 {
				channels = append(channels, hit.ChannelID)
			}
			video = hit.VideoID
		}
	})
	w.use(fmt.Sprintf(namingFile, strings.Join(channels, ", "), strconv.Quote(video)))
	if only != "" {
		w.config.Jobs = []job.Spec{*w.config.Job(only)}
	}
}

// fetched returns how many calls of each kind were made since it was called last.
func (w *workshop) fetched(before map[outlier.Operation]int) map[outlier.Operation]int {
	since := map[outlier.Operation]int{}
	for _, op := range []outlier.Operation{outlier.OpChannelVideos, outlier.OpChannelShorts, outlier.OpDetails, outlier.OpTranscript} {
		if n := w.calls(op) - before[op]; n > 0 {
			since[op] = n
		}
		before[op] = w.calls(op)
	}
	return since
}

// TestDueJobRefetchesNamedEntities, here every eight hours, unless the job sets a maximum age of answers.
// Data that never changes is fetched once.
func TestDueJobRefetchesNamedEntities(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[outlier.Operation]int{
		"rivals": {outlier.OpChannelVideos: 6},
		"weekly": {outlier.OpChannelVideos: 2},
		"saved":  {outlier.OpDetails: 3, outlier.OpTranscript: 1},
	} {
		bare(t, jobsFile, func(w *workshop) {
			w.naming(name)
			w.withSinks(func(e *Engine) { w.see(e, name) })
			rows := w.serve(24*time.Hour + time.Minute)
			if got := w.fetched(map[outlier.Operation]int{}); len(rows) != 4 || !maps.Equal(got, want) {
				t.Errorf("%s has asked for %v in %d runs of a day, want %v in 3", name, got, len(rows)-1, want)
			}
		})
	}
}

// TestAnswersSinceDueTimeAreFresh, or since the start of a manual run: after a kill, a run makes only the
// remaining calls, without those that another job has made in between.
func TestAnswersSinceDueTimeAreFresh(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.naming("")
		before := map[outlier.Operation]int{}
		run := func(name string, due time.Time, killed bool, want int) {
			t.Helper()
			e, stop := w.open()
			defer stop()
			ctx, cancel := context.WithCancel(w.ctx)
			defer cancel()
			if killed {
				e.Client.Transport = stopAfter(w.wire, 0, cancel)
			}
			trigger := Scheduled
			if due.IsZero() {
				trigger = Manual
			}
			row, err := e.Run(ctx, w.config.Job(name), trigger, due)
			if row == nil {
				t.Fatal(err)
			}
			calls := 0
			for _, n := range w.fetched(before) {
				calls += n
			}
			if calls != want {
				t.Errorf("run of %s due %s, ended as %s, has made %d calls, want %d",
					name, due, row.Status, calls, want)
			}
		}
		run("rivals", time.Time{}, false, 2)
		time.Sleep(time.Minute)
		run("rivals", time.Time{}, false, 2) // a user wants it now

		due := time.Now()
		time.Sleep(10 * time.Minute)         // the run is late
		run("weekly", due, false, 0)         // has fresh answers of this week
		run("rivals", due, true, 1)          // makes one call, and is killed
		time.Sleep(20 * time.Minute)         // its answers stay fresh
		run("rivals", time.Time{}, false, 1) // continues

		due = time.Now()
		time.Sleep(time.Minute)
		run("rivals", time.Time{}, false, 2)
		run("rivals", due, false, 0) // the later run covers the due time that has passed
	})
}

// TestEntityRunReportsSkippedCalls: a run of named entities reports them at its end, too.
func TestEntityRunReportsSkippedCalls(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.naming("weekly")
		for _, want := range []int64{0, 2} {
			e, stop := w.open()
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil || row.Skipped != want {
				t.Errorf("%d were skipped as fresh (%v), want %d", row.Skipped, err, want)
			}
			stop()
			time.Sleep(time.Minute)
		}
	})
}

// TestRunReportsCallsSkippedAsFresh, without those that it has made itself.
func TestRunReportsCallsSkippedAsFresh(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  coffee: {reuse_for: 1m, search: {query: [home espresso]}, enrich: {details: {top: 3}, comments: {top: 4, refresh_after: 3d}, transcript: {top: 2}}}
`
	bare(t, file, func(w *workshop) {
		skipped := func(killed bool, want int64) {
			t.Helper()
			e, stop := w.open()
			defer stop()
			ctx, cancel := context.WithCancel(w.ctx)
			defer cancel()
			if killed {
				e.Client.Transport = stopAfter(w.wire, 3, cancel)
			}
			row, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
			if row == nil {
				t.Fatal(err)
			}
			if row.Skipped != want {
				t.Errorf("%d were skipped as fresh, want %d", row.Skipped, want)
			}
		}
		skipped(true, 0) // after a page and three calls
		time.Sleep(time.Minute)
		skipped(false, 0) // its own calls were not skipped
		time.Sleep(2 * time.Minute)
		skipped(false, 9)
		time.Sleep(25 * time.Hour)
		row := w.mustRun(runs.OK)
		if row.Requests < 4 {
			t.Errorf("%d requests a day later; want the details again", row.Requests)
		}
	})
}

// stopAfter calls stop during the call after the given number, once the service has received it, so that
// the call is certain to be made.
func stopAfter(wire http.RoundTripper, calls int, stop func()) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := wire.RoundTrip(r)
		if calls--; calls < 0 {
			stop()
		}
		return answer, err
	})
}
