package engine

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// workshop is a data folder and a service to fill it from. Opening an engine on
// it, closing it and opening another is what a restart is.
type workshop struct {
	*testing.T
	dir     string
	service *simulator.Service
	wire    http.RoundTripper // the service's, unless a test puts itself in between
	config  *job.Config
	ctx     context.Context
}

const testKey = "a-key-for-tests"

// jobsFile is the job that most tests run.
const jobsFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  coffee:
    search:
      query: [home espresso]
      sort: z_score desc
      pages: 2
    enrich:
      channel_videos: {top: 3}
      details: {top: 4}
      comments: {top: 3}
      transcript: {top: 5}
    budget: {per_run: 20}
`

func newWorkshop(t *testing.T, file string) *workshop {
	t.Helper()
	w := &workshop{T: t, dir: t.TempDir(), ctx: t.Context()}
	w.service = simulator.New(simulator.Options{Seed: 1, Key: testKey})
	w.wire = w.service.Transport()
	w.use(file)
	return w
}

// use replaces the job file.
func (w *workshop) use(file string) {
	w.Helper()
	none := func(string) (string, bool) { return "", false }
	config, err := job.Parse(filepath.Join(w.dir, "jobs.yaml"), []byte(file), none)
	if err != nil {
		w.Fatal(err)
	}
	w.config = config
}

// open starts an engine; the returned function stops it.
func (w *workshop) open() (*Engine, func()) {
	w.Helper()
	folder := filepath.Join(w.config.Data, "state")
	store, err := state.Open(w.ctx, folder, state.Options{Service: w.config.Service.URL, Location: w.config.Timezone})
	if err != nil {
		w.Fatal(err)
	}
	limiter, err := pace.Open(w.config.Service.Limit, pace.Options{Path: filepath.Join(folder, "pace.json")})
	if err != nil {
		w.Fatal(err)
	}
	duck, err := duckdb.Open(w.ctx, duckdb.Options{
		Private: filepath.Join(folder, "warehouse.duckdb"), Published: w.duckdb(),
		Temp: filepath.Join(folder, "tmp"), Tables: schema.Tables(), Ops: schema.OpsTables(),
	})
	if err != nil {
		w.Fatal(err)
	}
	files, err := parquet.Open(parquet.Options{Dir: filepath.Join(w.config.Data, "parquet"), Tables: schema.Tables(), Ops: schema.OpsTables()})
	if err != nil {
		w.Fatal(err)
	}
	key, err := outlier.NewKey(testKey)
	if err != nil {
		w.Fatal(err)
	}
	e := &Engine{
		Config: w.config, Store: store, Pace: limiter, Sinks: []sinks.Sink{duck, files},
		Client: &outlier.Client{URL: "http://localhost", Key: key, Pacer: limiter, Transport: w.wire},
	}
	return e, func() {
		if err := errors.Join(duck.Close(), files.Close(), store.Close()); err != nil {
			w.Error(err)
		}
	}
}

func (w *workshop) duckdb() string { return filepath.Join(w.config.Data, "outliers.duckdb") }

// run performs the only job once, in an engine of its own.
func (w *workshop) run() (*state.Run, error) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	return e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
}

// mustRun is run for tests that expect the given end.
func (w *workshop) mustRun(want state.Status) *state.Run {
	w.Helper()
	row, err := w.run()
	if err != nil || row.Status != want {
		w.Fatalf("run ended as %+v with error %v, want status %s", row, err, want)
	}
	return row
}

// count asks the published file for one number.
func (w *workshop) count(query string) (n int) {
	w.Helper()
	err := duckdb.Query(w.ctx, w.duckdb(), query, func([]string) error { return nil }, func(values []any) error {
		switch v := values[0].(type) {
		case int64:
			n = int(v)
		case int32:
			n = int(v)
		default:
			return errors.New("the query's answer is not a number")
		}
		return nil
	})
	if err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return n
}

// bubble runs a test in virtual time: waiting for the service costs nothing.
//
// Arrow keeps its compressors in a pool. One that was made in another bubble holds
// a channel of that bubble and may not be used in this one; two collections empty
// the pool.
func bubble(t *testing.T, file string, test func(w *workshop)) {
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) { test(newWorkshop(t, file)) })
}

func TestRunBuysPagesAndAsksAboutTheBestHits(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		row := w.mustRun(state.OK)
		books := w.service.Books()
		if got := books.Total.Spent(); row.Credits != got || got != 4 {
			t.Errorf("the run says %d credits, the service %d, want 4", row.Credits, got)
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
			t.Errorf("the service refused %d calls and met unknown parameters %v", books.Total.Refused, books.UnknownParams)
		}
	})
}

func TestAnswerThatMeansNoneIsRemembered(t *testing.T) {
	bubble(t, strings.ReplaceAll(jobsFile, "transcript: {top: 5}", "transcript: {top: 80}"), func(w *workshop) {
		row := w.mustRun(state.OK)
		if row.Missing == 0 {
			t.Fatal("the library has a transcript for every one of 80 videos; the test needs one without")
		}
		if got := w.count("select count(*) from missing where endpoint = 'transcript'"); int64(got) != row.Missing {
			t.Errorf("table missing has %d transcripts, the run says %d", got, row.Missing)
		}
		before := w.service.Books().Operations[outlier.OpTranscript].Calls
		w.mustRun(state.OK)
		if again := w.service.Books().Operations[outlier.OpTranscript].Calls - before; again != 0 {
			t.Errorf("the second run asked for %d transcripts; they never change and none had come up", again)
		}
	})
}

func TestSecondRunBuysOnlyWhatMayHaveChanged(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.mustRun(state.OK)
		first := w.service.Books()
		time.Sleep(25 * time.Hour) // details are fresh for a day, channels for a week
		w.mustRun(state.OK)
		second := w.service.Books()
		calls := func(op outlier.Operation) int { return second.Operations[op].Calls - first.Operations[op].Calls }
		if calls(outlier.OpSearch) != 2 {
			t.Errorf("%d pages, want 2: hits change from day to day", calls(outlier.OpSearch))
		}
		changed := w.count(`select count(*) from (
			select unnest(list(video_id order by rank)[:5]) v from outliers_history group by _run_id) where v is not null`)
		if changed == 0 {
			t.Error("no hits at all")
		}
		if calls(outlier.OpTranscript) > 2 || calls(outlier.OpChannelVideos) > 2 {
			t.Errorf("%d transcripts and %d channels were fetched again", calls(outlier.OpTranscript), calls(outlier.OpChannelVideos))
		}
		if calls(outlier.OpDetails) == 0 {
			t.Error("no details were fetched again although they were a day old")
		}
	})
}

func TestCapPausesTheRunAndTheNextOneGoesOn(t *testing.T) {
	file := strings.Replace(jobsFile, "jobs:", "budget: {per_month: 400, per_day: 2}\njobs:", 1)
	bubble(t, file, func(w *workshop) {
		time.Sleep(13 * time.Hour) // the bubble begins at midnight
		row := w.mustRun(state.PausedBudget)
		if row.Pages != 1 || !strings.Contains(row.Error, "per_day") {
			t.Errorf("%d pages, error %q; want one page and the name of the cap", row.Pages, row.Error)
		}
		time.Sleep(13 * time.Hour) // the next day, and less than a day after the start
		next := w.mustRun(state.OK)
		if next.ID != row.ID || next.Pages != 2 {
			t.Errorf("run %s has %d pages, want run %s to go on to 2", next.ID, next.Pages, row.ID)
		}
		if spent := w.service.Books().Total.Spent(); spent != 4 {
			t.Errorf("the service was paid %d credits, want 4", spent)
		}
	})
}

func TestFailedCallsStayQueuedAndTheRunIsPartial(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		for range maxAttempts {
			w.service.FailNext(outlier.OpComments, simulator.GatewayPage)
		}
		row := w.mustRun(state.Partial)
		if row.Failures != 1 {
			t.Errorf("%d failures, want 1", row.Failures)
		}
		time.Sleep(time.Hour)
		w.mustRun(state.OK)
		if got := w.count("select count(distinct video_id) from comment_counts"); got < 3 {
			t.Errorf("comments of %d videos, want those of all 3", got)
		}
	})
}

func TestServiceThatIsIllEndsTheRun(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.wire = afterPages(w.wire, func() *http.Response { return page(http.StatusBadGateway, "text/html", "<html>no</html>") })
		_, err := w.run()
		if err == nil || !strings.Contains(err.Error(), "in a row") {
			t.Errorf("error %v, want one that speaks of calls failing in a row", err)
		}
		if calls := w.service.Books().Total.Calls; calls != 2 {
			t.Errorf("the service itself was called %d times, want 2", calls)
		}
	})
}

// afterPages lets searches through and answers everything else itself.
func afterPages(wire http.RoundTripper, answer func() *http.Response) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/search/") {
			return wire.RoundTrip(r)
		}
		connect(r)
		return answer(), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnswersLostOnTheWireAreHeld: what nobody can prove to be free is counted.
func TestAnswersLostOnTheWireAreHeld(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.DropAnswer)
		row := w.mustRun(state.OK)
		if row.Credits != 6 {
			t.Errorf("the run holds %d credits, want 6: two pages and an answer that was lost", row.Credits)
		}
		if got := w.count("select count(*) from ops.credits where outcome = 'unknown'"); got != 1 {
			t.Errorf("%d unknown rows in the ledger, want 1", got)
		}
	})
}

func TestUnreadableAnswerIsKeptAndNotBoughtAgain(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.Garbage)
		_, err := w.run()
		if err == nil {
			t.Fatal("the run ended well although a page was no search answer")
		}
		if calls := w.service.Books().Operations[outlier.OpSearch].Calls; calls != 1 {
			t.Errorf("%d search calls, want 1", calls)
		}
	})
}

func TestStopKeepsTheRunOpenAndPublishesWhatIsThere(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
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
		if err == nil || row.Status != state.Running {
			t.Fatalf("status %s, error %v; want an unfinished run", row.Status, err)
		}
		if got := w.count("select count(*) from outliers"); got != 80 {
			t.Errorf("%d outliers are published, want the 80 that were bought", got)
		}
		w.wire = w.service.Transport()
		next := w.mustRun(state.OK)
		if next.ID != row.ID {
			t.Errorf("run %s began although %s was unfinished", next.ID, row.ID)
		}
		if spent := w.service.Books().Total.Spent(); spent != 4 {
			t.Errorf("%d credits, want 4", spent)
		}
	})
}

// TestStopDuringAFlushLosesNothing: a signal that comes while a sink writes must not
// leave a hole below its watermark.
func TestStopDuringAFlushLosesNothing(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		defer cancel(nil)
		e, stop := w.open()
		for i, sink := range e.Sinks {
			e.Sinks[i] = interrupted{Sink: sink, stop: func() { cancel(errors.New("asked to stop")) }}
		}
		_, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil && !errors.Is(err, context.Cause(ctx)) {
			t.Error(err)
		}
		stop()
		if got := w.count("select count(*) from outliers"); got != 80 {
			t.Errorf("%d outliers are published, want the 80 of the batch that was under way", got)
		}
	})
}

// TestRunThatCannotBePublishedSaysSo: those who can still be told are told.
func TestRunThatCannotBePublishedSaysSo(t *testing.T) {
	bubble(t, strings.ReplaceAll(jobsFile, "transcript: {top: 5}", "transcript: {top: 40}"), func(w *workshop) {
		e, stop := w.open()
		e.Sinks[1] = unpublished{e.Sinks[1]}
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		stop()
		if err == nil || row.Status != state.Failed {
			t.Fatalf("status %s, error %v; want a failure", row.Status, err)
		}
		if got := w.count("select count(*) from ops.runs where status = 'failed' and error like '%publish%'"); got != 1 {
			t.Error("the sink that could be published tells nothing of the failure")
		}
		if got := w.count("select count(*) from missing"); int64(got) != row.Missing {
			t.Errorf("the run says that %d are missing, the table has %d", row.Missing, got)
		}
		if next := w.mustRun(state.OK); next.ID != row.ID || next.Missing != row.Missing {
			t.Errorf("run %s with %d missing, want run %s to go on with %d", next.ID, next.Missing, row.ID, row.Missing)
		}
	})
}

// unpublished is a sink that cannot publish.
type unpublished struct{ sinks.Sink }

func (unpublished) Publish(context.Context, []sinks.Ops) error {
	return errors.New("publish: the folder is gone")
}

// interrupted is a sink during whose writing a stop is asked for.
type interrupted struct {
	sinks.Sink
	stop func()
}

func (s interrupted) Write(ctx context.Context, b sinks.Batch) error {
	s.stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.Sink.Write(ctx, b)
}

func TestSinkThatWasAwayCatchesUp(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.mustRun(state.OK)
		if err := os.RemoveAll(filepath.Join(w.config.Data, "parquet")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(w.config.Data, "state", "warehouse.duckdb")); err != nil {
			t.Fatal(err)
		}
		before := w.service.Books().Total.Calls
		time.Sleep(7 * time.Hour) // an answer of the last hours would not be bought again
		w.mustRun(state.OK)
		if got := w.count("select count(*) from outliers_history"); got != 160 {
			t.Errorf("%d sightings, want 160: those of both runs, the first from the journal", got)
		}
		if calls := w.service.Books().Total.Calls - before; calls > 2 {
			t.Errorf("%d calls; want the 2 pages: catching up must not cost any", calls)
		}
	})
}

func TestSinkAheadOfTheJournalIsRefused(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.mustRun(state.OK)
		for _, name := range []string{"state.db", "state.db-wal", "state.db-shm"} {
			if err := os.Remove(filepath.Join(w.config.Data, "state", name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		before := w.service.Books().Total.Calls
		_, err := w.run()
		if _, ok := errors.AsType[*AheadError](err); !ok {
			t.Errorf("error %v, want an *AheadError", err)
		}
		if after := w.service.Books().Total.Calls; after != before {
			t.Errorf("%d calls were made without a ledger", after-before)
		}
	})
}

// TestFailuresThatPassAreContinued: each of these ends a run with one clear message;
// when the trouble is over the same run goes on, and no page is bought twice.
func TestFailuresThatPassAreContinued(t *testing.T) {
	for _, test := range []struct {
		fault   simulator.Fault
		message string
		held    outlier.Credits // for answers that may have been charged
	}{
		{simulator.Unreachable, "not sent", 0},
		{simulator.ServerError, "500", 0},
		{simulator.GatewayPage, "502", 2 * maxAttempts},
		{simulator.HTMLPage, "not an answer of the service", 2},
		{simulator.CutBody, "broke off", 2 * maxAttempts},
		{simulator.DropAnswer, "not answered", 2 * maxAttempts},
		{simulator.Unauthorized, "nauthorized", 0},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			bubble(t, jobsFile, func(w *workshop) {
				for range maxAttempts {
					w.service.FailNext(outlier.OpSearch, test.fault)
				}
				row, err := w.run()
				if err == nil || row.Status != state.Failed || !strings.Contains(err.Error(), test.message) {
					t.Fatalf("status %s, error %v; want a failure that says %q", row.Status, err, test.message)
				}
				if row.Credits != test.held {
					t.Errorf("%d credits are held, want %d", row.Credits, test.held)
				}
				if test.fault == simulator.Unauthorized || test.fault == simulator.HTMLPage { // one was enough; forget the others
					w.service = simulator.New(simulator.Options{Seed: 1, Key: testKey})
					w.wire = w.service.Transport()
				}
				next := w.mustRun(state.OK)
				if next.ID != row.ID || next.Credits != test.held+4 {
					t.Errorf("run %s holds %d credits, want run %s to go on and hold %d", next.ID, next.Credits, row.ID, test.held+4)
				}
				if spent := w.service.Books().Total.Spent(); spent > next.Credits { // of the service that is there now
					t.Errorf("the service charged %d credits, the run holds %d", spent, next.Credits)
				}
			})
		})
	}
}

// TestServiceOutOfCreditsPausesTheRun: 402 is the service's own cap.
func TestServiceOutOfCreditsPausesTheRun(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.NoCredits)
		row := w.mustRun(state.PausedBudget)
		if row.Credits != 0 || row.Error == "" {
			t.Errorf("%d credits, error %q; want none, and the service's words", row.Credits, row.Error)
		}
		calls := w.service.Books().Total.Calls
		if again := w.mustRun(state.PausedBudget); again.ID != row.ID || w.service.Books().Total.Calls != calls {
			t.Errorf("the refusal stands until the cycle turns, and %d calls were made", w.service.Books().Total.Calls-calls)
		}
		e, stop := w.open()
		err := e.ResumeSpending()
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if next := w.mustRun(state.OK); next.ID != row.ID {
			t.Error("the next run did not continue the paused one")
		}
	})
}

// TestOneCallADayTriesWhetherThereAreCreditsAgain: nobody has to remember the latch.
func TestOneCallADayTriesWhetherThereAreCreditsAgain(t *testing.T) {
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  hourly: {every: 1h, search: {query: [home espresso]}, enrich: {details: {top: 1}}}
`
	bubble(t, file, func(w *workshop) {
		time.Sleep(3 * 24 * time.Hour)
		w.service.FailNext(outlier.OpSearch, simulator.NoCredits)
		runs := w.serve(20 * time.Hour)
		if calls := w.service.Books().Operations[outlier.OpSearch].Calls; calls != 1 {
			t.Errorf("%d searches were sent on the first day, want the one that was refused", calls)
		}
		w.serve(10 * time.Hour)
		if spent := w.service.Books().Total.Spent(); spent == 0 {
			t.Errorf("nothing was bought after a day; the first runs were %+v", runs[:2])
		}
	})
}

// TestRefusalForThePaceIsWaitedOut: a 429 costs time and nothing else.
func TestRefusalForThePaceIsWaitedOut(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.RateLimited)
		w.service.FailNext(outlier.OpComments, simulator.RateLimited)
		row := w.mustRun(state.OK)
		if row.Credits != 4 || row.Failures != 0 {
			t.Errorf("%d credits and %d failures, want 4 and none", row.Credits, row.Failures)
		}
	})
}

// TestProgressCanBeWatched: whoever watches sees the run move, and stands in nobody's way.
func TestProgressCanBeWatched(t *testing.T) {
	bubble(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		ctx, cancel := context.WithCancel(w.ctx)
		most := 0
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for pause(ctx, time.Second) == nil {
				p, err := e.Progress()
				if err != nil {
					t.Error(err)
				}
				if p.Run == "" {
					continue
				}
				if done := p.Done + len(p.Searches); done < most {
					t.Errorf("progress fell from %d to %d", most, done)
				} else {
					most = done
				}
				if left := p.Remaining(); left < 0 || left > 10*time.Minute {
					t.Errorf("%s left, of a run of 17 calls at 10 a minute", left)
				}
			}
		})
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		cancel()
		watcher.Wait()
		if err != nil || row.Status != state.OK || most < 5 {
			t.Errorf("status %s, error %v, progress up to %d", row.Status, err, most)
		}
	})
}
