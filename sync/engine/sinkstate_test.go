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

	"outlierd/sinks"
	"outlierd/sync/load"
	"outlierd/sync/runs"
)

// fakeSink is a sink that keeps only its watermark, and fails on request.
type fakeSink struct {
	name      string
	broken    func() bool // fails all calls while it returns true; nil for never
	readOnly  bool        // fails to write, but can be read
	mark      int64
	version   int64 // of the operations tables
	mu        sync.Mutex
	shown     int64 // the mark at the last publication
	published int
}

// reads returns what a reader sees: the published mark, and the number of publications.
func (s *fakeSink) reads() (shown int64, published int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, s.published
}

var errBroken = errors.New("no space left on device")

func (s *fakeSink) fail(asked bool) error {
	if s.broken == nil || !s.broken() || asked && s.readOnly {
		return nil
	}
	return errBroken
}

func (s *fakeSink) Name() string { return s.name }

func (s *fakeSink) Watermark(context.Context) (int64, error) { return s.mark, s.fail(true) }

func (s *fakeSink) Write(_ context.Context, b sinks.Batch) error {
	if b.Lo != s.mark {
		return errors.New("the batch does not follow")
	}
	if err := s.fail(false); err != nil {
		return err
	}
	s.mark = b.Hi
	return nil
}

func (s *fakeSink) OpsVersion(context.Context) (int64, error) { return s.version, s.fail(true) }

func (s *fakeSink) Publish(_ context.Context, ops *sinks.Ops) error {
	if err := s.fail(false); err != nil {
		return err
	}
	if ops != nil {
		for _, err := range ops.Batches {
			if err != nil {
				return err
			}
		}
		s.version = ops.Version
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = s.mark
	s.published++
	return nil
}

func (s *fakeSink) Close() error { return nil }

// between returns a function that reports whether the time is between from and to after now.
func between(from, to time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) >= from && time.Since(began) < to }
}

// serveInto runs the schedule for d with the given sinks, and returns the runs, oldest first, and the
// log.
func (w *workshop) serveInto(d time.Duration, all ...sinks.Sink) ([]runs.Run, string) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	var log strings.Builder
	e.Sinks, e.Log = all, slog.New(slog.NewTextHandler(&log, nil))
	agenda, err := e.Agenda(time.Now())
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := contextFor(w, d)
	defer cancel()
	e.Serve(ctx, agenda)
	rows, err := e.Store.Runs.List("", 0)
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

func TestRepairedSinkIsUsedAgainDuringRuns(t *testing.T) {
	t.Parallel()
	bare(t, overlappingFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee", "tea") })
		began := time.Now()
		repaired := began.Add(10 * time.Minute)
		sink := &fakeSink{name: "duckdb", readOnly: true, broken: between(5*time.Minute+30*time.Second, 10*time.Minute)}
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
		if sink.shown == 0 || sink.shown != sink.mark {
			t.Errorf("answers up to %d are published, the sink has %d", sink.shown, sink.mark)
		}
		for _, message := range []string{"sink disabled", "sink recovered"} {
			if n := strings.Count(log, message); n != 1 {
				t.Errorf("%d lines say %q, want 1", n, message)
			}
		}
	})
}

// TestRunIsPartialWhileOneSinkWorks, and names the failed one.
func TestRunIsPartialWhileOneSinkWorks(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		broken := &fakeSink{name: "parquet", broken: func() bool { return true }}
		works := &fakeSink{name: "duckdb"}
		e.Sinks = []sinks.Sink{broken, works}
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

// TestRunFailsWhileNoSinkWorks, and what it bought is not bought again.
func TestRunFailsWhileNoSinkWorks(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		sink := &fakeSink{name: "duckdb", readOnly: true, broken: func() bool { return true }}
		e.Sinks = []sinks.Sink{sink}
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

// TestNothingIsBoughtWhileNoSinkWorks for longer than sinks_down_after, even over several processes.
// Buying resumes automatically.
func TestNothingIsBoughtWhileNoSinkWorks(t *testing.T) {
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
		one := &fakeSink{name: "duckdb", readOnly: true, broken: between(90*time.Minute, 10*time.Hour+30*time.Minute)}
		two := &fakeSink{name: "parquet", readOnly: true, broken: one.broken}
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
		if pages := w.calls("search"); pages == bought || one.shown != one.mark || one.mark != two.mark {
			t.Errorf("%d pages were bought, answers up to %d and %d are shown; want buying to go on after the repair",
				pages, one.shown, two.shown)
		}
		if last := rows[len(rows)-1]; last.Status != runs.OK {
			t.Errorf("the last run is %s: %s", last.Status, last.Error)
		}
	})
}

// TestRunBeginsOnceASinkIsRepaired, however long none has worked: a new process tries the sinks before it
// refuses to buy.
func TestRunBeginsOnceASinkIsRepaired(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee") })
		sink := &fakeSink{name: "parquet", readOnly: true, broken: between(0, 8*time.Hour)}
		never := &fakeSink{name: "duckdb", broken: func() bool { return true }}
		run := func() (*runs.Run, error) {
			e, stop := w.open()
			defer stop()
			e.Sinks, e.Afresh = []sinks.Sink{never, sink}, true
			return e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		}
		if r, err := run(); err == nil {
			t.Fatalf("the run is %s while its sink fails", r.Status)
		}
		spent := w.spent()
		time.Sleep(7 * time.Hour) // the bought pages are too old to be reused
		if r, err := run(); !isSinksDown(err) || w.spent() > spent {
			t.Fatalf("run %v, error %v and %d credits, want none while no sink works", r, err, w.spent()-spent)
		}
		time.Sleep(2 * time.Hour)
		if r, err := run(); err != nil || r.Status != runs.Partial || w.spent() == spent {
			t.Errorf("error %v and %d credits after the repair, want a partial run that buys", err, w.spent()-spent)
		}
	})
}

// TestNothingIsBoughtUntilASinkWorks: before that it is unknown whether the journal and the ledger are
// complete.
func TestNothingIsBoughtUntilASinkWorks(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(jobsFile, "coffee:", "coffee:\n    every: 1h", 1), func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee") })
		sink := &fakeSink{name: "duckdb", broken: between(0, 90*time.Minute)}
		e, stop := w.open()
		e.Sinks = []sinks.Sink{sink}
		_, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		stop()
		if !isSinksDown(err) || !errors.Is(err, errBroken) {
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

// TestRunsThatEndTogetherArePublishedOnce: the cost of the published copy grows with the data, and a
// stop must be short.
func TestRunsThatEndTogetherArePublishedOnce(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString("version: 1\nservice: {url: \"sim://\", limit: 25/min}\njobs:\n")
	for _, name := range strings.Split("abcdefghijklmnopqrst", "") {
		file.WriteString("  " + name + ": {every: 1h, search: {query: [" + name + "]}, enrich: {details: {top: 40}}}\n")
	}
	bare(t, file.String(), func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, strings.Split("abcdefghijklmnopqrst", "")...) })
		sink := &fakeSink{name: "duckdb"}
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

// TestSinkAheadOfTheJournalStopsBuying: the sink failed at the start, and has answers that the journal
// does not have.
func TestSinkAheadOfTheJournalStopsBuying(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(jobsFile, "coffee:", "coffee:\n    every: 1h\n    reuse_for: 1m", 1), func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "coffee") })
		ahead := &fakeSink{name: "parquet", mark: 1000, broken: between(0, 90*time.Minute)}
		w.serveInto(85*time.Minute, &fakeSink{name: "duckdb"}, ahead)
		spent := w.spent()
		if spent == 0 {
			t.Error("nothing was bought while the other sink worked")
		}
		if _, log := w.serveInto(5*time.Hour, &fakeSink{name: "duckdb"}, ahead); w.spent() > spent || !strings.Contains(log, "scheduler stopped") {
			t.Errorf("%d credits were spent without a ledger; the log:\n%s", w.spent()-spent, log)
		}
	})
}

// TestPausedRunShowsWhyItIsPaused: the run reaches its cap while a sink recovers that has answers missing
// from the journal.
func TestPausedRunShowsWhyItIsPaused(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {search: {query: [home espresso], pages: 2}, budget: {per_run: 2}}}\n"
	bare(t, file, func(w *workshop) {
		away := true
		e, stop := w.open()
		defer stop()
		e.Sinks = []sinks.Sink{&fakeSink{name: "duckdb"}, &fakeSink{name: "parquet", mark: 1000, broken: func() bool { return away }}}
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

// TestStopLeavesALongWayToTheNextStart: a sink that must load the whole journal does not delay the end of
// the process.
func TestStopLeavesALongWayToTheNextStart(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil {
			t.Fatal(err)
		}
		end, err := e.Store.Journal.End()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		slow := &fakeSink{name: "parquet"}
		written := 0
		one := watched{Sink: slow, write: func(b sinks.Batch) {
			if written++; written == 1 {
				cancel()
			}
		}, publish: func(*sinks.Ops) {}}
		all := []sinks.Sink{one}
		for mark := range int64(5) { // batches end at the marks of other sinks
			all = append(all, &fakeSink{name: "duckdb", mark: mark + 1})
		}
		l, err := load.New(w.ctx, e.Store, all, e.log(), func() {})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Load(ctx, true); err != nil {
			t.Fatal(err)
		}
		if slow.mark == 0 || slow.mark >= 5 || written > 3 {
			t.Errorf("%d batches up to %d of %d were written", written, slow.mark, end)
		}
	})
}

// TestFailedFillIsNotRecorded: the sink may be a new one, beside the one that readers have.
func TestFailedFillIsNotRecorded(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		e.Sinks = []sinks.Sink{&fakeSink{name: "duckdb"}}
		if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{false, true} {
			e.Sinks = []sinks.Sink{&fakeSink{name: "duckdb", readOnly: readOnly, broken: func() bool { return true }}}
			if err := e.Fill(w.ctx); !errors.Is(err, errBroken) {
				t.Errorf("error %v, want that of the sink", err)
			}
			recorded, err := e.Store.Runs.Sink("duckdb")
			down, errDown := e.Store.Runs.SinksDownSince()
			if err := errors.Join(err, errDown); err != nil || recorded.Error != "" || recorded.Mark == 0 || !down.IsZero() {
				t.Errorf("the state says %+v, and that no sink works since %v (%v)", recorded, down, err)
			}
		}
		e.Sinks = []sinks.Sink{&fakeSink{name: "duckdb"}}
		if err := e.Fill(w.ctx); err != nil {
			t.Error(err)
		}
	})
}
