package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// told is what waits for a target, in order: "failed recovered".
func (w *world) told(target string) string {
	w.Helper()
	var kinds []string
	err := w.state.DB.View(func(tx *store.Tx) (err error) {
		kinds, err = store.List(tx, func(k *string) []any { return []any{k} },
			`SELECT kind FROM notify_outbox WHERE target = ? ORDER BY id`, target)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(kinds, " ")
}

// events are what waits for a target.
func (w *world) events(target string) (all []Event) {
	w.Helper()
	err := w.state.DB.View(func(tx *store.Tx) error {
		texts, err := store.List(tx, func(text *string) []any { return []any{text} },
			`SELECT payload FROM notify_outbox WHERE target = ? ORDER BY id`, target)
		for _, text := range texts {
			var e Event
			err = errors.Join(err, json.Unmarshal([]byte(text), &e))
			all = append(all, e)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

func (w *world) begin(id string) runs.Run {
	w.Helper()
	r := runs.Run{ID: id, Job: "coffee", Trigger: "manual", Started: time.Now(), Status: runs.Running, Plan: []byte("{}")}
	if err := w.state.Runs.Begin(r, nil); err != nil {
		w.Fatal(err)
	}
	return r
}

// end records how a run ends, a second later.
func (w *world) end(r runs.Run, status runs.Status) {
	w.Helper()
	time.Sleep(time.Second)
	r.Status, r.Ended, r.Error = status, time.Now(), "said \x1b[31m"+string(status)
	if err := w.state.Finish(r); err != nil {
		w.Fatal(err)
	}
}

func TestRunsAreToldWithTheirRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		for i, status := range []runs.Status{runs.Failed, runs.Failed, runs.PausedQuota, runs.Interrupted, runs.OK, runs.OK, runs.Partial} {
			r := w.begin(fmt.Sprint("run-", i))
			w.end(r, status)
			w.end(r, status) // as of a run that went on
		}
		if got := w.told("hook"); got != "failed recovered published published partial" {
			t.Errorf("hook is told %s", got)
		}
		if got := w.told("check"); got != "started failed started failed started started started published started published started partial" {
			t.Errorf("the check is told %s", got)
		}
		if got := w.told("other"); got != "" {
			t.Errorf("other, which the job does not name, is told %s", got)
		}
		e := w.events("hook")[0]
		if e.Job != "coffee" || e.Run != "run-0" || e.Title != "coffee failed" || !strings.HasSuffix(e.Text, "\nsaid [31mfailed") || len(e.ID) != 32 {
			t.Errorf("got %+v", e)
		}
		w.close()
	})
}

// A unit of work that fails leaves neither the run's end nor its events.
func TestNoEventIsToldOfWhatDidNotHappen(t *testing.T) {
	w := newWorld(t, "")
	r := w.begin("run-1")
	r.Status = runs.Failed
	undone := errors.New("undone")
	err := w.state.DB.Update(func(tx *store.Tx) error {
		return errors.Join(w.watcher.RunEnded(tx, r, false), undone)
	})
	if !errors.Is(err, undone) || w.told("hook") != "" {
		t.Errorf("got %v, told %s", err, w.told("hook"))
	}
	w.end(r, runs.Failed)
	if got := w.told("hook"); got != "failed" {
		t.Errorf("told %s", got)
	}
	w.close()
}

func TestAnOldRunThatIsSupersededIsNotToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		old := w.begin("old")
		w.end(old, runs.Failed)
		w.end(w.begin("new"), runs.OK)
		old.Status = runs.Failed
		if err := w.state.Supersede(old); err != nil {
			t.Fatal(err)
		}
		w.end(w.begin("newer"), runs.OK)
		unstarted := w.begin("unstarted") // one that could not start is recorded in this way
		unstarted.Status = runs.Failed
		if err := w.state.Supersede(unstarted); err != nil {
			t.Fatal(err)
		}
		if got := w.told("hook"); got != "failed recovered published published failed" {
			t.Errorf("told %s", got)
		}
		w.close()
	})
}

func TestWhatHoldsForTheFileIsToldOncePerEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "budget: {per_month: 100}\n")
		w.config.Jobs[0].Notify = nil
		look := func() {
			t.Helper()
			for range 2 { // the second look has nothing to tell
				if err := w.watcher.Look(w.state); err != nil {
					t.Fatal(err)
				}
			}
		}
		drift := func(upTo int64, path string) {
			w.update(func(tx *store.Tx) error {
				seen := []journal.Drift{{Op: outlier.OpSearch, Path: path, Problem: "unknown field", Count: 1, First: time.Now(), Last: time.Now()}}
				_, err := journal.NoteDrift(tx, seen, upTo)
				return err
			})
		}
		drift(1, "known.before")
		look()
		time.Sleep(time.Hour)
		drift(2, "a.b")
		look()
		block := func() {
			w.update(func(tx *store.Tx) error { return ledger.SetBlock(tx, ledger.BlockKey, "", "401", time.Time{}) })
		}
		block()
		look()
		w.update(func(tx *store.Tx) error { return ledger.LiftBlock(tx, ledger.BlockKey, "") })
		look()
		time.Sleep(time.Hour)
		block()
		look()
		if err := w.state.Ledger.Adjust(81, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		look()
		if err := w.state.Ledger.Adjust(-50, "bought"); err != nil {
			t.Fatal(err)
		}
		look()
		if err := w.state.Ledger.Adjust(50, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		look()
		disable := func(sinks ...string) {
			t.Helper()
			for _, sink := range sinks {
				if err := w.state.Runs.SinkDisabled(sink, errors.New(sink+" is full")); err != nil {
					t.Fatal(err)
				}
			}
		}
		publish := func(sink string) {
			t.Helper()
			if err := w.state.Runs.SinkPublished(sink, 1); err != nil {
				t.Fatal(err)
			}
		}
		disable("parquet")
		look()
		if got := w.told("other"); strings.Contains(got, "sink_behind") {
			t.Errorf("a sink that fails for a moment is told: %s", got)
		}
		time.Sleep(behindAfter)
		look()
		if all := w.events("other"); !strings.Contains(all[len(all)-1].Text, "parquet is full") {
			t.Errorf("told %+v", all[len(all)-1])
		}
		disable("parquet", "duckdb")
		time.Sleep(behindAfter)
		look()
		publish("duckdb")
		look()
		publish("parquet")
		look()
		disable("parquet", "duckdb") // in one moment
		time.Sleep(behindAfter)
		look()
		w.watcher.Refused("jobs.yaml:4:3: a mistake")
		look()
		w.watcher.Refused("jobs.yaml:5:3: another mistake")
		look()
		w.close()
		w.open() // with a file that is valid, else it would not have started
		look()
		if got := w.told("other"); got != "schema_drift key_refused recovered key_refused budget_low "+
			"sink_behind sink_behind recovered recovered sink_behind sink_behind file_refused recovered" {
			t.Errorf("told %s", got)
		}
		if got := w.told("hook"); got != "schema_drift recovered recovered recovered recovered" {
			t.Errorf("hook, which chooses, is told %s", got)
		}
		if e := w.events("other")[0]; !strings.Contains(e.Text, "a.b") {
			t.Errorf("got %+v", e)
		}
		w.close()
	})
}
