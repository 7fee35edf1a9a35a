package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sinks"
	"outlierd/sync/load"
	"outlierd/sync/runs"
)

// fakeWarehouse is a warehouse that keeps only its marks.
type fakeWarehouse struct {
	has    sinks.Marks
	broken func() bool         // fails all calls while it returns true; nil for never
	write  func(b sinks.Batch) // called before a batch is written; may be nil
	ops    func(o *sinks.Ops)  // the same for operations tables
}

func (f *fakeWarehouse) fail() error {
	if f.broken != nil && f.broken() {
		return errBroken
	}
	return nil
}

func (f *fakeWarehouse) Marks(ctx context.Context) (sinks.Marks, error) {
	f.has.Warehouse = "fake"
	return f.has, errors.Join(ctx.Err(), f.fail())
}

func (f *fakeWarehouse) Write(_ context.Context, b sinks.Batch) error {
	if f.write != nil {
		f.write(b)
	}
	if err := f.fail(); err != nil {
		return err
	}
	if b.Lo != f.has.Answers {
		return errors.New("the batch does not follow")
	}
	f.has.Answers = b.Hi
	return nil
}

func (f *fakeWarehouse) Omit(_ context.Context, more sinks.Omitted) error {
	f.has.Omitted = more.String()
	return f.fail()
}

func (f *fakeWarehouse) WriteOps(_ context.Context, o *sinks.Ops) error {
	if f.ops != nil {
		f.ops(o)
	}
	for _, err := range o.Rows {
		if err != nil {
			return err
		}
	}
	f.has.Ops = o.Version
	return f.fail()
}

func (f *fakeWarehouse) Refill(context.Context, int64, func(sinks.Marks) int64) error {
	return errors.New("no copy has the rows")
}

func (f *fakeWarehouse) Bytes() int64 { return 0 }

func (f *fakeWarehouse) Close() error { return nil }

// fakeCopy is a copy that keeps only its marks, and fails on request.
type fakeCopy struct {
	name      string
	broken    func() bool // fails all calls while it returns true; nil for never
	readOnly  bool        // cannot be published, but tells its marks
	shows     sinks.Marks
	of        sinks.Warehouse
	mu        sync.Mutex
	shown     int64 // the same as in shows, for other goroutines
	published int
}

// reads returns what a reader sees: the published mark, and the number of publications.
func (f *fakeCopy) reads() (shown int64, published int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown, f.published
}

var errBroken = errors.New("no space left on device")

func (f *fakeCopy) fail(asked bool) error {
	if f.broken == nil || !f.broken() || asked && f.readOnly {
		return nil
	}
	return errBroken
}

func (f *fakeCopy) Name() string { return f.name }

func (f *fakeCopy) Shows(context.Context) (sinks.Marks, error) { return f.shows, f.fail(true) }

func (f *fakeCopy) Publish(ctx context.Context) (err error) {
	if err := f.fail(false); err != nil {
		return err
	}
	if f.shows, err = f.of.Marks(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown = f.shows.Answers
	f.published++
	return nil
}

func (f *fakeCopy) Close() error { return nil }

// line returns a line with the given copies of the workshop's fake warehouse, which lasts as long as the
// workshop.
func (w *workshop) line(copies ...*fakeCopy) load.Line {
	line := load.Line{Warehouse: &w.fake}
	for _, c := range copies {
		c.of = &w.fake
		line.Copies = append(line.Copies, c)
	}
	return line
}

// between returns a function that reports whether the time is between from and to after now.
func between(from, to time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) >= from && time.Since(began) < to }
}

// serveInto runs the schedule for d with the given copies, and returns the runs, oldest first, and the
// log.
func (w *workshop) serveInto(d time.Duration, copies ...*fakeCopy) ([]runs.Run, string) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	var log strings.Builder
	e.Line, e.Log = w.line(copies...), slog.New(slog.NewTextHandler(&log, nil))
	if _, err := e.Agenda(time.Now()); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := contextFor(w, d)
	defer cancel()
	e.Serve(ctx)
	rows, err := e.Store.Runs.List(runs.Filter{}, 0)
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(rows)
	return rows, log.String()
}

// overlappingFile has two jobs whose runs overlap, so that there is always a run in progress.
const overlappingFile = `
version: 1
service: {url: "sim://", limit: 20/min}
jobs:
  coffee: {every: 1m, reuse_for: 1m, search: {query: [home espresso]}, enrich: {details: {top: 12, refresh_after: 1m}}}
  tea: {every: 1m, reuse_for: 1m, search: {query: [green tea]}, enrich: {details: {top: 12, refresh_after: 1m}}}
`

func TestRepairedSinkResumesDuringRuns(t *testing.T) {
	t.Parallel()
	bare(t, overlappingFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee", "tea") })
		began := time.Now()
		repaired := began.Add(10 * time.Minute)
		sink := &fakeCopy{name: "duckdb", readOnly: true, broken: between(5*time.Minute+30*time.Second, 10*time.Minute)}
		after := 0
		rows, log := w.serveInto(16*time.Minute, sink)
		for _, r := range rows {
			switch {
			case r.Status == runs.Interrupted:
			case r.Ended.Before(repaired):
			case r.Status != runs.OK && !strings.HasSuffix(r.Error, "the next run of the job is due"):
				t.Errorf("the run due %s ended %s as %s: %s", r.Due, r.Ended, r.Status, r.Error)
			default:
				after++
			}
		}
		if after == 0 {
			t.Error("no run ended after the repair: this test shows nothing")
		}
		if has := w.fake.has.Answers; sink.shown == 0 || sink.shown != has {
			t.Errorf("answers up to %d are published, the warehouse has %d", sink.shown, has)
		}
		for _, message := range []string{"sink disabled", "sink recovered"} {
			if n := strings.Count(log, message); n != 1 {
				t.Errorf("%d lines say %q, want 1", n, message)
			}
		}
	})
}

// TestFailedSinkMakesRunPartial while another sink works, and the run names the failed one.
func TestFailedSinkMakesRunPartial(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		broken := &fakeCopy{name: "parquet", broken: func() bool { return true }}
		works := &fakeCopy{name: "duckdb"}
		e.Line = w.line(broken, works)
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.Status != runs.Partial || !strings.Contains(row.Error, "sink parquet") {
			t.Fatalf("status %s, %q, error %v; want a partial run that names the sink", row.Status, row.Error, err)
		}
		if end, err := e.Store.Journal.End(); err != nil || works.shown != end {
			t.Errorf("the sink that works shows answers up to %d of %d, %v", works.shown, end, err)
		}
		broken.broken = nil
		time.Sleep(7 * time.Hour)
		if row, err = e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || row.Status != runs.OK {
			t.Fatalf("status %s, error %v after the repair", row.Status, err)
		}
		if broken.shown != works.shown {
			t.Errorf("after the repair one sink shows answers up to %d, the other up to %d", broken.shown, works.shown)
		}
	})
}

// TestRestoredStateKnowsItsOwnAnswers: a warehouse with an old version that has lost its process before anything was
// published is not taken for one of the state that was lost.
func TestRestoredStateKnowsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		e.Line = w.line(&fakeCopy{name: "duckdb"})
		if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Store.Restored(); err != nil {
			t.Fatal(err)
		}
		written := false
		w.fake.write = func(b sinks.Batch) {
			written = true
			if err := load.CheckMarks(e.Store, "warehouse", sinks.Marks{Answers: b.Hi, Ops: w.fake.has.Ops}); err != nil {
				t.Errorf("killed after answer %d: %v", b.Hi, err)
			}
		}
		time.Sleep(7 * time.Hour)
		if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || !written {
			t.Errorf("answers are written: %t, %v", written, err)
		}
	})
}

// TestLostWarehouseHidesNoRows: while it is filled again, its copies stay as they are, also if there is a new one.
func TestLostWarehouseHidesNoRows(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		old, added := &fakeCopy{name: "duckdb"}, &fakeCopy{name: "parquet"}
		e.Line = w.line(old)
		if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || old.shown == 0 {
			t.Fatalf("answers up to %d are shown, %v", old.shown, err)
		}
		w.fake.has = sinks.Marks{}
		shown, published := old.reads()
		l, err := load.New(w.ctx, e.Store, w.line(old, added), e.log(), func() {})
		if err != nil || old.shown != shown || old.published != published || added.published != 1 {
			t.Fatalf("with an empty warehouse, answers up to %d of %d are shown (%v), and the new copy was published %d times, want once",
				old.shown, shown, err, added.published)
		}
		if err := errors.Join(l.Load(w.ctx), l.Publish(w.ctx)); err != nil || old.shown != shown || added.shown != shown {
			t.Errorf("afterwards, answers up to %d and %d of %d are shown (%v)", old.shown, added.shown, shown, err)
		}
	})
}

// TestRunFailsWhileNoSinkWorks, and what it bought is not bought again.
func TestRunFailsWhileNoSinkWorks(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		sink := &fakeCopy{name: "duckdb", shows: sinks.Marks{Warehouse: "fake"}, readOnly: true, broken: func() bool { return true }}
		e.Line = w.line(sink)
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err == nil || row.Status != runs.Failed || row.Pages != 2 {
			t.Fatalf("status %s with %d pages, error %v; want a failed run with its pages", row.Status, row.Pages, err)
		}
		spent := w.spent()
		sink.broken = nil
		again, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || again.ID != row.ID || again.Status != runs.OK {
			t.Fatalf("run %s ended as %s, error %v; want run %s to end well", again.ID, again.Status, err, row.ID)
		}
		if end, err := e.Store.Journal.End(); err != nil || sink.shown != end || w.spent() != spent {
			t.Errorf("answers up to %d of %d are shown, %v; %d credits were spent after the repair",
				sink.shown, end, err, w.spent()-spent)
		}
	})
}

// TestEveryCopyFailsWithTheWarehouse: status and notifications read the state of the copies.
func TestEveryCopyFailsWithTheWarehouse(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		e.Line = w.line(&fakeCopy{name: "duckdb"}, &fakeCopy{name: "parquet"})
		for _, fails := range []bool{false, true, false} {
			w.fake.broken = func() bool { return fails }
			_, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if (err != nil) != fails {
				t.Errorf("error %v, want one: %t", err, fails)
			}
			for _, name := range []string{"duckdb", "parquet"} {
				now, err := e.Store.Sinks.State(name)
				if err != nil || strings.Contains(now.Error, errBroken.Error()) != fails || now.Since.IsZero() == fails {
					t.Errorf("%s fails since %s with %q (%v), want that it fails: %t", name, now.Since, now.Error, err, fails)
				}
			}
		}
	})
}

// TestSinksDownAfterStopsBuying once all sinks have failed for that long, even over several processes, and
// buying resumes automatically.
func TestSinksDownAfterStopsBuying(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://"}
sinks_down_after: 2h
jobs:
  hourly: {every: 1h, reuse_for: 1m, search: {query: [home espresso]}}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "hourly") })
		began := time.Now()
		one := &fakeCopy{name: "duckdb", readOnly: true, broken: between(90*time.Minute, 10*time.Hour+30*time.Minute)}
		two := &fakeCopy{name: "parquet", readOnly: true, broken: one.broken}
		bought := 0
		for process := range 5 { // each runs for an hour and a half
			w.serveInto(90*time.Minute, one, two)
			if pages := w.calls("search"); process == 2 {
				bought = pages // until 4:30: no sink has worked since 2:00, when there was something to write
			} else if process > 2 && pages > bought || pages == 0 {
				t.Errorf("%d pages were bought until %s, %d of them until 4:30", pages, time.Since(began), bought)
			}
		}
		rows, _ := w.serveInto(4*time.Hour, one, two)
		if end := began.Add(11*time.Hour + 30*time.Minute); !time.Now().Equal(end) {
			t.Fatalf("it is %s, want %s", time.Now(), end)
		}
		if pages := w.calls("search"); pages == bought || one.shown != w.fake.has.Answers || two.shown != one.shown {
			t.Errorf("%d pages were bought, answers up to %d and %d are shown; want buying to go on after the repair",
				pages, one.shown, two.shown)
		}
		if last := rows[len(rows)-1]; last.Status != runs.OK {
			t.Errorf("the last run is %s: %s", last.Status, last.Error)
		}
	})
}

// TestNewProcessRetriesSinksBeforeRefusing to buy: a run begins once a sink is repaired, however long all
// sinks had failed.
func TestNewProcessRetriesSinksBeforeRefusing(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee") })
		sink := &fakeCopy{name: "parquet", readOnly: true, broken: between(0, 8*time.Hour)}
		never := &fakeCopy{name: "duckdb", broken: func() bool { return true }}
		run := func() (*runs.Run, error) {
			e, stop := w.open()
			defer stop()
			e.Line = w.line(never, sink)
			return e.Perform(w.ctx, &Order{Spec: &w.config.Jobs[0], Trigger: Manual, Afresh: true})
		}
		if r, err := run(); err == nil {
			t.Fatalf("the run is %s while its sink fails", r.Status)
		}
		spent := w.spent()
		time.Sleep(7 * time.Hour) // the bought pages are too old to be reused
		if r, err := run(); !isA[*load.SinksDownError](err) || w.spent() > spent {
			t.Fatalf("run %v, error %v and %d credits, want none while no sink works", r, err, w.spent()-spent)
		}
		time.Sleep(2 * time.Hour)
		if r, err := run(); err != nil || r.Status != runs.Partial || w.spent() == spent {
			t.Errorf("error %v and %d credits after the repair, want a partial run that buys", err, w.spent()-spent)
		}
	})
}

// TestBuyingWaitsForFirstWorkingSink: before that it is unknown whether the journal and the ledger are
// complete.
func TestBuyingWaitsForFirstWorkingSink(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(jobsFile, "coffee:", "coffee:\n    every: 1h", 1), func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee") })
		sink := &fakeCopy{name: "duckdb", broken: between(0, 90*time.Minute)}
		e, stop := w.open()
		e.Line = w.line(sink)
		_, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		stop()
		if !isA[*load.SinksDownError](err) || !errors.Is(err, errBroken) {
			t.Errorf("error %v, want that no sink works, and why", err)
		}
		if w.serveInto(80*time.Minute, sink); w.spent() > 0 {
			t.Errorf("%d credits were spent though no sink had answered", w.spent())
		}
		if w.serveInto(30*time.Minute, sink); w.spent() == 0 {
			t.Error("nothing was bought after the sink had answered")
		}
	})
}

// TestRunsEndingTogetherPublishOnce: the cost of the published copy grows with the data, and a stop must be
// short.
func TestRunsEndingTogetherPublishOnce(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString("version: 1\nservice: {url: \"sim://\", limit: 25/min}\njobs:\n")
	for _, name := range strings.Split("abcdefghijklmnopqrst", "") {
		file.WriteString("  " + name + ": {every: 1h, search: {query: [" + name + "]}, enrich: {details: {top: 40}}}\n")
	}
	bare(t, file.String(), func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, strings.Split("abcdefghijklmnopqrst", "")...) })
		sink := &fakeCopy{name: "duckdb"}
		counted := make(chan int, 1)
		go func() {
			time.Sleep(62*time.Minute + 55*time.Second)
			_, published := sink.reads()
			counted <- published
		}()
		running := 0
		rows, _ := w.serveInto(63*time.Minute, sink)
		for _, r := range rows {
			if r.Status == runs.Interrupted {
				running++
			}
		}
		_, published := sink.reads()
		if published -= <-counted; running != 20 || published != 1 {
			t.Errorf("%d runs were stopped, and published %d times; want 20, once", running, published)
		}
	})
}

// TestSinkAheadOfJournalStopsBuying: the sink failed at the start, and has answers that the journal does not
// have.
func TestSinkAheadOfJournalStopsBuying(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(jobsFile, "coffee:", "coffee:\n    every: 1h\n    reuse_for: 1m", 1), func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee") })
		ahead := &fakeCopy{name: "parquet", shows: sinks.Marks{Warehouse: "other", Answers: 1000}, broken: between(0, 90*time.Minute)}
		w.serveInto(85*time.Minute, &fakeCopy{name: "duckdb"}, ahead)
		spent := w.spent()
		if spent == 0 {
			t.Error("nothing was bought while the other sink worked")
		}
		if _, log := w.serveInto(5*time.Hour, &fakeCopy{name: "duckdb"}, ahead); w.spent() > spent || !strings.Contains(log, "scheduler stopped") {
			t.Errorf("%d credits were spent without a ledger; the log:\n%s", w.spent()-spent, log)
		}
	})
}

// TestPausedRunStatesItsReason: the run reaches its cap while a sink recovers that has answers missing from
// the journal.
func TestPausedRunStatesItsReason(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {search: {query: [home espresso], pages: 2}, budget: {per_run: 2}}}\n"
	bare(t, file, func(w *workshop) {
		away := true
		e, stop := w.open()
		defer stop()
		e.Line = w.line(&fakeCopy{name: "duckdb"}, &fakeCopy{name: "parquet", shows: sinks.Marks{Warehouse: "other", Answers: 1000}, broken: func() bool { return away }})
		wire := w.service.Transport()
		e.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			away = false
			return wire.RoundTrip(r)
		})
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if _, ahead := errors.AsType[*load.AheadError](err); !ahead || row.Status != runs.PausedBudget {
			t.Errorf("status %s, error %v; want a paused run and an *load.AheadError", row.Status, err)
		}
	})
}

// TestStopDefersLargeWarehouseLoad to the next start: a warehouse that must load the whole journal does not
// delay the end of the process.
func TestStopDefersLargeWarehouseLoad(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bare(t, "version: 1\nservice: {url: \"sim://\", limit: 600/min, paging: page}\njobs: {one: {search: {query: [x], pages: 10}}}\n", func(w *workshop) {
		w.wire = largePages(t, 50<<10)
		w.withSinks(func(e *Engine) {
			if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil {
				t.Fatal(err)
			}
		})
		e, stop := w.open()
		defer stop()
		end, err := e.Store.Journal.End()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		written := 0
		line := w.line()
		w.fake.write = func(sinks.Batch) { written++; cancel() }
		l, err := load.New(w.ctx, e.Store, line, e.log(), func() {})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Load(ctx); err != nil {
			t.Fatal(err)
		}
		if has := w.fake.has.Answers; has == 0 || has >= end || written > 2 {
			t.Errorf("%d batches up to %d of %d were written", written, has, end)
		}
	})
}

// TestStopDisablesNoSink: a sink is not interrupted while it tells its marks, which would look like a failure.
func TestStopDisablesNoSink(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		if _, err := load.New(ctx, e.Store, w.line(&fakeCopy{name: "a"}), e.log(), func() {}); err != nil {
			t.Error(err)
		}
		if s, err := e.Store.Sinks.State("a"); err != nil || s.Error != "" {
			t.Errorf("the sink is disabled: %+v, error %v", s, err)
		}
	})
}
