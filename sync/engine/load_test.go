package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sinks"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/marks"
	"outlierd/sync/ops"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// TestStopDuringAFlushLosesNothing: a signal during a sink's write must not leave a gap below its
// watermark.
func TestStopDuringAFlushLosesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, searchFile, func(w *workshop) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		defer cancel(nil)
		e, stop := w.open()
		e.Line.Warehouse = interrupted{e.Line.Warehouse, func() { cancel(errors.New("asked to stop")) }}
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

// TestRunReportsAFailedPublication: readers of the other sink see which one is behind.
func TestRunReportsAFailedPublication(t *testing.T) {
	t.Parallel()
	bubble(t, searchFile+"    enrich: {transcript: {top: 12}}\n", func(w *workshop) {
		e, stop := w.open()
		e.Line.Copies[1] = unpublished{e.Line.Copies[1]}
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		stop()
		if err != nil || row.Status != runs.Partial {
			t.Fatalf("status %s, error %v; want a partial run", row.Status, err)
		}
		if got := w.count("select count(*) from ops.runs where status = 'partial' and error like '%publish sink parquet%'"); got != 1 {
			t.Error("the sink that was published does not tell of the other one")
		}
		if got := w.count("select count(*) from missing"); int64(got) != row.Missing {
			t.Errorf("the run counts %d missing, the table has %d", row.Missing, got)
		}
	})
}

// TestFailingSinkAffectsNoOther: the run's end is recorded twice, first as a success.
func TestFailingSinkAffectsNoOther(t *testing.T) {
	t.Parallel()
	bubble(t, "version: 1\nservice: {url: \"sim://\"}\njobs: {one: {search: {query: [tea]}}}\n", func(w *workshop) {
		e, stop := w.open()
		defer stop()
		e.Line.Copies[0] = unpublished{e.Line.Copies[0]}
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.Status != runs.Partial || !strings.Contains(row.Error, "sink duckdb") || strings.Contains(row.Error, "sink parquet") {
			t.Fatalf("status %s: %s, error %v; want a partial run that names the one sink", row.Status, row.Error, err)
		}
	})
}

// unpublished is a copy that cannot be published.
type unpublished struct{ sinks.Copy }

func (unpublished) Publish(context.Context) error {
	return errors.New("publish: the folder is gone")
}

// interrupted is a warehouse that stops the run while it writes.
type interrupted struct {
	sinks.Warehouse
	stop func()
}

func (s interrupted) Write(ctx context.Context, b sinks.Batch) error {
	s.stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.Warehouse.Write(ctx, b)
}

func TestRepairedSinkCatchesUp(t *testing.T) {
	t.Parallel()
	bubble(t, searchFile, func(w *workshop) {
		w.mustRun(runs.OK)
		if err := os.RemoveAll(filepath.Join(w.data(), "parquet")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(w.data(), "state", "warehouse.duckdb")); err != nil {
			t.Fatal(err)
		}
		before := w.service.Books().Total.Calls
		time.Sleep(7 * time.Hour) // recent answers would be reused
		w.mustRun(runs.OK)
		if got := w.count("select count(*) from outliers_history"); got != 160 {
			t.Errorf("%d sightings, want 160: those of both runs, the first from the journal", got)
		}
		if calls := w.service.Books().Total.Calls - before; calls > 2 {
			t.Errorf("%d calls; want the 2 pages: catching up must not cost any", calls)
		}
	})
}

// TestUncertainClockLeavesOutNoDays: the service has not confirmed that weeks have passed, so no row is deleted for its age.
func TestUncertainClockLeavesOutNoDays(t *testing.T) {
	t.Parallel()
	single(t, searchFile, func(w *workshop) {
		w.mustRun(runs.OK)
		time.Sleep(30 * 24 * time.Hour)
		w.asks = true
		e, stop := w.open()
		defer stop()
		e.Line.Tables = func() []job.Table { return []job.Table{{Name: "outliers_history", Keep: 7 * 24 * time.Hour}} }
		l, err := load.New(w.ctx, e.Store, e.Line, e.log(), func() {})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct{ due, rows bool }{{false, true}, {true, false}} {
			due, err := l.OmitDue()
			err = errors.Join(err, l.Publish(w.ctx))
			if n := w.count("select count(*) from outliers_history"); err != nil || due != want.due || n > 0 != want.rows {
				t.Errorf("%d rows, due %t, %v; want %+v", n, due, err, want)
			}
			e.Store.Clock.Confirm()
		}
	})
}

// TestMovedDataFolderStaysAway: a copy that is tried again would make its folder, which keeps the moved one from
// being put back.
func TestMovedDataFolderStaysAway(t *testing.T) {
	t.Parallel()
	bubble(t, searchFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		e.Line.Copies = e.Line.Copies[1:] // the Parquet folder
		l, err := load.New(w.ctx, e.Store, e.Line, e.log(), func() {})
		if err != nil {
			t.Fatal(err)
		}
		aside := w.data() + ".aside"
		if err := errors.Join(os.Rename(w.data(), aside), l.Publish(w.ctx), l.Retry(w.ctx, true)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, w.data()); err != nil || l.Disabled() == 0 {
			t.Fatalf("%d sinks disabled; put back: %v", l.Disabled(), err)
		}
		if err := l.Retry(w.ctx, true); err != nil || l.Disabled() > 0 {
			t.Errorf("once it is back: %v, %v", err, l.Problems())
		}
	})
}

func TestRunRefusesSinkAheadOfJournal(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	single(t, searchFile, func(w *workshop) {
		w.mustRun(runs.OK)
		for _, name := range []string{"state.db", "state.db-wal", "state.db-shm", "sent.json"} {
			if err := os.Remove(filepath.Join(w.data(), "state", name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		before := w.service.Books().Total.Calls
		_, err := w.run()
		if _, ok := errors.AsType[*load.AheadError](err); !ok {
			t.Errorf("error %v, want an *load.AheadError", err)
		}
		if after := w.service.Books().Total.Calls; after != before {
			t.Errorf("%d calls were made without a ledger", after-before)
		}
	})
}

// TestJournalIsDurableBeforeSinkWrites: after a kill at any write of a sink, the state has everything that
// the sink was given.
func TestJournalIsDurableBeforeSinkWrites(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		batches, published := 0, 0
		durable := func() int64 {
			kept, err := state.Peek(w.ctx, filepath.Join(w.data(), "state"), state.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			last := int64(0)
			for entry, err := range kept.Journal.After(0) {
				if err != nil {
					t.Fatal(err)
				}
				last = entry.ID
			}
			return last
		}
		e.Line = w.line(&fakeCopy{name: "duckdb"})
		w.fake.write = func(b sinks.Batch) {
			batches++
			if kept := durable(); kept < b.Hi {
				t.Errorf("answers up to %d are written, and the journal would have %d after a kill", b.Hi, kept)
			}
		}
		w.fake.ops = func(shown *sinks.Ops) {
			published++
			kept, err := state.Peek(w.ctx, filepath.Join(w.data(), "state"), state.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			if news, err := ops.Since(kept.DB, shown.Since); err != nil || news.Version < shown.Version {
				t.Errorf("version %d of the operations tables is published, and the state would have %d after a kill, %v",
					shown.Version, news.Version, err)
			}
		}
		if _, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if batches == 0 || published == 0 {
			t.Errorf("%d batches, %d publications: this test shows nothing", batches, published)
		}
	})
}

// slowToPublish publishes slowly, and records when it began and ended.
type slowToPublish struct {
	*fakeCopy
	takes        time.Duration
	began, ended []time.Time
}

func (s *slowToPublish) Publish(ctx context.Context) error {
	s.began = append(s.began, time.Now())
	time.Sleep(s.takes)
	s.ended = append(s.ended, time.Now())
	return s.fakeCopy.Publish(ctx)
}

// TestPublishingTakesLimitedTime: at most a twentieth of the time of a run, however large the file is.
func TestPublishingTakesLimitedTime(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
jobs:
  one: {search: {query: [home espresso], pages: 3}, enrich: {details: {top: 120}}}
`
	bare(t, file, func(w *workshop) {
		sink := &slowToPublish{fakeCopy: &fakeCopy{name: "duckdb"}, takes: 9 * time.Second}
		w.withSinks(func(e *Engine) {
			e.Line = w.line(sink.fakeCopy)
			e.Line.Copies[0] = sink
			if row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || row.Status != runs.OK {
				w.Errorf("run %+v, error %v", row, err)
			}
		})
		if len(sink.began) < 4 {
			t.Fatalf("%d publications, want several while the run goes on", len(sink.began))
		}
		for i, began := range sink.began[1 : len(sink.began)-1] { // the last one is at the end of the run
			if between := began.Sub(sink.ended[i]); between < 20*sink.takes {
				t.Errorf("publication %d began %v after the last one, which took %v", i+1, between, sink.takes)
			}
		}
	})
}

// TestHitsArePublishedBeforeEnrichment is done: once, ten seconds after the last page of a run.
func TestHitsArePublishedBeforeEnrichment(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
jobs:
  one: {schedule: "@hourly", search: {query: [home espresso], pages: 3}, enrich: {details: {top: 30}}}
`
	for name, run := range map[string]func(w *workshop, sink *fakeCopy){
		"by hand": func(w *workshop, sink *fakeCopy) {
			w.withSinks(func(e *Engine) {
				e.Line = w.line(sink)
				if row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || row.Status != runs.OK {
					w.Errorf("run %+v, error %v", row, err)
				}
			})
		},
		"on a schedule": func(w *workshop, sink *fakeCopy) {
			w.withSinks(func(e *Engine) { w.see(e, "one") })
			time.Sleep(time.Hour)
			if rows, _ := w.serveInto(10*time.Minute, sink); len(rows) != 1 || rows[0].Status != runs.OK {
				w.Errorf("runs %+v", rows)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, file, func(w *workshop) {
				sink := &fakeCopy{name: "duckdb"}
				var shown, before, after atomic.Int64
				searches := 0
				well := w.wire
				w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.HasPrefix(r.URL.Path, "/search/") {
						if searches++; searches == 3 {
							_, times := sink.reads()
							before.Store(int64(times))
							time.AfterFunc(11*time.Second, func() {
								mark, times := sink.reads()
								shown.Store(mark)
								after.Store(int64(times))
							})
						}
					}
					return well.RoundTrip(r)
				})
				run(w, sink)
				if published := after.Load() - before.Load(); shown.Load() < 3 || published != 1 {
					t.Errorf("readers were shown %d answers in %d times, want the 3 pages at least, at once",
						shown.Load(), published)
				}
			})
		})
	}
}

// TestMarksArePublishedWithinSeconds: by an idle daemon, together with those made just before, and never again
// without a change.
func TestMarksArePublishedWithinSeconds(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://"}
jobs:
  one: {schedule: "0 0 1 1 *", search: {query: [home espresso]}}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) {
			sink := &fakeCopy{name: "duckdb"}
			e.Line = w.line(sink)
			if _, err := e.Agenda(time.Now()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(w.ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				e.Serve(ctx)
			}()
			time.Sleep(10 * time.Minute)
			_, before := sink.reads()
			mark := func(video string) {
				err := e.Store.DB.Update(func(tx *store.Tx) error {
					_, err := marks.Apply(tx, marks.Edit{Videos: []string{video}, Star: new(true)})
					return err
				})
				if err != nil {
					t.Error(err)
				}
				e.PublishSoon()
			}
			mark("video-00001") // shown at once, as the last publication was long ago
			synctest.Wait()
			if _, n := sink.reads(); n != before+1 {
				t.Errorf("%d publications at once, want 1", n-before)
			}
			for i := range 30 {
				mark(fmt.Sprintf("video-%05d", i))
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			if _, n := sink.reads(); n != before+2 {
				t.Errorf("%d publications after ten seconds, want 2", n-before)
			}
			time.Sleep(time.Hour)
			if _, n := sink.reads(); n != before+2 {
				t.Errorf("%d publications after an hour, want 2", n-before)
			}
			stop()
			<-ended
		})
	})
}
