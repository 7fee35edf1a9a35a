package engine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/runs"
)

// A run buys its pages and enriches their best hits.
func TestRunEnrichesBestHits(t *testing.T) {
	t.Parallel()
	single(t, jobsFile, func(w *workshop) {
		row := w.mustRun(runs.OK)
		books := w.service.Books()
		if got := books.Total.Spent(); row.Credits != got || got != 4 {
			t.Errorf("the run counts %d credits, the service %d, want 4", row.Credits, got)
		}
		if row.Hits != 80 || w.count("select count(*) from outliers") != 80 {
			t.Errorf("%d hits and %d rows, want 80 each", row.Hits, w.count("select count(*) from outliers"))
		}
		for op, most := range map[outlier.Operation]int{
			outlier.OpSearch: 2, outlier.OpChannelVideos: 3, outlier.OpDetails: 4, outlier.OpComments: 3, outlier.OpTranscript: 5,
		} {
			if got := books.Operations[op].Calls; got == 0 || got > most {
				t.Errorf("%d %s calls, want 1 to %d", got, op, most)
			}
		}
		if books.Total.Refused > 0 || len(books.UnknownParams) > 0 {
			t.Errorf("the service refused %d calls and met unknown parameters %v",
				books.Total.Refused, books.UnknownParams)
		}
	})
}

// TestEmptyAnswerIsRemembered: the record of a run counts those before a kill, too, and the next run does not ask
// again.
func TestEmptyAnswerIsRemembered(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	single(t, searchFile+"    enrich: {transcript: {top: 25}}\n", func(w *workshop) {
		if !w.kill(17, beforePace) {
			t.Fatal("the run ended before the kill")
		}
		before := w.count("select count(*) from missing")
		row := w.mustRun(runs.OK)
		got := w.count("select count(*) from missing where endpoint = 'transcript'")
		if int64(got) != row.Missing || got == before || before == 0 {
			t.Errorf("the run counts %d missing, the table has %d transcripts, and had %d before the kill", row.Missing, got, before)
		}
		asked := w.calls(outlier.OpTranscript)
		w.mustRun(runs.OK)
		if again := w.calls(outlier.OpTranscript) - asked; again != 0 {
			t.Errorf("the second run asked for %d transcripts; they never change and none had come up", again)
		}
	})
}

// A second run buys only what may have changed since the first.
func TestSecondRunBuysOnlyStaleData(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.mustRun(runs.OK)
		first := w.service.Books()
		time.Sleep(25 * time.Hour) // details are fresh for a day, channels for a week
		w.mustRun(runs.OK)
		second := w.service.Books()
		calls := func(op outlier.Operation) int { return second.Operations[op].Calls - first.Operations[op].Calls }
		if calls(outlier.OpSearch) != 2 {
			t.Errorf("%d pages, want 2: hits change from day to day", calls(outlier.OpSearch))
		}
		if calls(outlier.OpTranscript) > 2 || calls(outlier.OpChannelVideos) > 2 {
			t.Errorf("%d transcripts and %d channels were fetched again",
				calls(outlier.OpTranscript), calls(outlier.OpChannelVideos))
		}
		if calls(outlier.OpDetails) == 0 {
			t.Error("no details were fetched again although they were a day old")
		}
	})
}

// A cap pauses the run, and the next start continues it.
func TestNextRunContinuesCappedRun(t *testing.T) {
	t.Parallel()
	file := strings.Replace(jobsFile, "jobs:", "budget: {per_month: 400, per_day: 2}\njobs:", 1)
	bare(t, file, func(w *workshop) {
		time.Sleep(13 * time.Hour) // the bubble begins at midnight
		row := w.mustRun(runs.PausedBudget)
		if row.Pages != 1 || !strings.Contains(row.Error, "per_day") {
			t.Errorf("%d pages, error %q; want one page and the name of the cap", row.Pages, row.Error)
		}
		time.Sleep(13 * time.Hour) // the next day, and less than a day after the start
		next := w.mustRun(runs.OK)
		if next.ID != row.ID || next.Pages != 2 {
			t.Errorf("run %s has %d pages, want run %s to go on to 2", next.ID, next.Pages, row.ID)
		}
		if spent := w.service.Books().Total.Spent(); spent != 4 {
			t.Errorf("the service was paid %d credits, want 4", spent)
		}
	})
}

// A stop publishes what the run has bought and leaves it unfinished, so that the next start continues it.
func TestStoppedRunPublishesItsHits(t *testing.T) {
	t.Parallel()
	single(t, jobsFile, func(w *workshop) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/video/") {
				cancel(errors.New("asked to stop"))
			}
			return w.service.Transport().RoundTrip(r)
		})
		e, stop := w.open()
		row, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
		stop()
		if err == nil || row.Status != runs.Interrupted {
			t.Fatalf("status %s, error %v; want an unfinished run", row.Status, err)
		}
		if got := w.count("select count(*) from outliers"); got != 80 {
			t.Errorf("%d outliers are published, want the 80 that were bought", got)
		}
		w.wire = w.service.Transport()
		next := w.mustRun(runs.OK)
		if next.ID != row.ID {
			t.Errorf("run %s began although %s was unfinished", next.ID, row.ID)
		}
		if spent := w.service.Books().Total.Spent(); spent != 4 {
			t.Errorf("%d credits, want 4", spent)
		}
	})
}

// TestProgressCanBeWatched: a watcher sees the progress of the run, and delays nothing.
func TestProgressCanBeWatched(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		ctx, cancel := context.WithCancel(w.ctx)
		most := 0
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for sleep(ctx, time.Second) == nil {
				p, err := newestProgress(e)
				if err != nil {
					t.Error(err)
				}
				if p.Run == "" {
					continue
				}
				if done := p.Done + p.Searches.Pages; done < most {
					t.Errorf("progress fell from %d to %d", most, done)
				} else {
					most = done
				}
				if left := p.Left; left < 0 || left > 10*time.Minute {
					t.Errorf("%s left, of a run of 17 calls at 10 a minute", left)
				}
			}
		})
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		cancel()
		watcher.Wait()
		if err != nil || row.Status != runs.OK || most < 5 {
			t.Errorf("status %s, error %v, progress up to %d", row.Status, err, most)
		}
	})
}
