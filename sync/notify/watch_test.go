package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// kinds returns the events that wait for a target, in order: "failed recovered".
func (w *world) kinds(target string) string {
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

// events returns the events that wait for a target.
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
	r := runs.Run{ID: id, Job: "coffee", Trigger: "manual", Started: time.Now(), Status: runs.Running, Plan: &plan.Stored{}}
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

func TestRunsHaveEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		for i, status := range []runs.Status{
			runs.Failed, runs.Failed, runs.PausedQuota, runs.Interrupted, runs.OK, runs.OK, runs.Partial,
		} {
			r := w.begin(fmt.Sprint("run-", i))
			w.end(r, status)
			w.end(r, status) // again, as when a run was continued
		}
		if got, want := w.kinds("hook"), "failed recovered published published partial"; got != want {
			t.Errorf("events of hook: %s, want %s", got, want)
		}
		want := "started failed started failed started started started published started published started partial"
		if got := w.kinds("check"); got != want {
			t.Errorf("events of the check: %s, want %s", got, want)
		}
		if got := w.kinds("other"); got != "" {
			t.Errorf("events of other, which the job does not name: %s, want none", got)
		}
		e := w.events("hook")[0]
		if e.Job != "coffee" || e.Run != "run-0" || e.Title != "coffee failed" ||
			!strings.HasSuffix(e.Text, "\nsaid [31mfailed") || len(e.ID) != 32 {
			t.Errorf("event %+v, want the failure of run-0 without control characters", e)
		}
		w.close()
	})
}

// For any sequence of runs, a failure is one event until the status changes, and its end is one. Every successful run
// is an event.
func TestOneEventPerEpisode(t *testing.T) {
	statuses := []runs.Status{
		runs.OK, runs.OKEmpty, runs.Partial, runs.PausedBudget, runs.PausedQuota, runs.Failed, runs.Interrupted,
	}
	failures := map[runs.Status]string{runs.Partial: "partial", runs.PausedBudget: "budget_paused", runs.Failed: "failed"}
	random := testenv.Random(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		var want []string
		open := ""
		for i := range 60 {
			status := statuses[random.IntN(len(statuses))]
			w.end(w.begin(fmt.Sprint("run-", i)), status)
			switch failure := failures[status]; {
			case status == runs.OK || status == runs.OKEmpty:
				if open != "" {
					want = append(want, "recovered")
				}
				want, open = append(want, "published"), ""
			case failure != "" && failure != open:
				want, open = append(want, failure), failure
			}
		}
		if got := w.kinds("hook"); got != strings.Join(want, " ") {
			t.Errorf("events %s, want %s", got, strings.Join(want, " "))
		}
		w.close()
	})
}

// A transaction that fails leaves neither the run's end nor its events.
func TestNoEventWithoutTheRunsRecord(t *testing.T) {
	w := newWorld(t, "")
	r := w.begin("run-1")
	r.Status = runs.Failed
	undone := errors.New("undone")
	err := w.state.DB.Update(func(tx *store.Tx) error {
		return errors.Join(w.watcher.RunEnded(tx, r, false), undone)
	})
	if !errors.Is(err, undone) || w.kinds("hook") != "" {
		t.Errorf("after a rollback: error %v, events %s; want %v, and no event", err, w.kinds("hook"), undone)
	}
	w.end(r, runs.Failed)
	if got := w.kinds("hook"); got != "failed" {
		t.Errorf("events %s, want failed", got)
	}
	w.close()
}

func TestSupersededRunHasNoSecondEvent(t *testing.T) {
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
		unstarted := w.begin("unstarted") // a run that cannot start is recorded in this way
		unstarted.Status = runs.Failed
		if err := w.state.Supersede(unstarted); err != nil {
			t.Fatal(err)
		}
		if got, want := w.kinds("hook"), "failed recovered published published failed"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		w.close()
	})
}

// TestNewDifferencesAreOneEvent, also hundreds at once.
func TestNewDifferencesAreOneEvent(t *testing.T) {
	w := newWorld(t, "")
	check := func(want int, paths ...string) {
		t.Helper()
		w.update(func(tx *store.Tx) error {
			for _, path := range paths {
				seen := []schema.Drift{{Op: outlier.OpSearch, Path: path, Problem: "unknown field", Count: 1, First: time.Now(), Last: time.Now()}}
				if _, err := journal.NoteDrift(tx, seen, time.Now().UnixNano()); err != nil {
					return err
				}
			}
			return nil
		})
		for range 2 { // the second check finds no change
			if err := w.watcher.Check(w.state); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(w.events("hook")); got != want {
			t.Errorf("%d events after %d differences, want %d", got, len(paths), want)
		}
	}
	check(0)
	check(1, "a.b", "a.c")
	check(1, "a.b")
	var many []string
	for i := range 2 * MaxRows {
		many = append(many, fmt.Sprint("many.", i))
	}
	check(2, many...)
	if e := w.events("hook"); !strings.Contains(e[0].Text, "a.") || !strings.Contains(e[1].Text, fmt.Sprint("differences: ", 2+2*MaxRows, ".")) {
		t.Errorf("events %+v, want a difference, and the number of all", e)
	}
	w.close()
}

// TestBudgetIsLowBeforeItsReserve, which scheduled runs do not touch.
func TestBudgetIsLowBeforeItsReserve(t *testing.T) {
	w := newWorld(t, "budget: {per_month: 100, reserve: 25}\n")
	for _, spent := range []struct {
		credits outlier.Credits
		events  string
	}{{60, ""}, {1, "budget_low"}} {
		if err := errors.Join(w.state.Ledger.Adjust(spent.credits, "elsewhere"), w.watcher.Check(w.state)); err != nil {
			t.Fatal(err)
		}
		if got := w.kinds("other"); got != spent.events {
			t.Errorf("events %q, want %q", got, spent.events)
		}
	}
	w.close()
}

func TestOneEventPerFileEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "budget: {per_month: 100}\nbackup: {to: /mnt/copies}\n")
		w.config.Jobs[0].Notify = nil
		check := func() {
			t.Helper()
			for range 2 { // the second check finds no change
				if err := w.watcher.Check(w.state); err != nil {
					t.Fatal(err)
				}
			}
		}
		drift := func(upTo int64, path string) {
			w.update(func(tx *store.Tx) error {
				seen := []schema.Drift{{
					Op: outlier.OpSearch, Path: path, Problem: "unknown field", Count: 1, First: time.Now(), Last: time.Now(),
				}}
				_, err := journal.NoteDrift(tx, seen, upTo)
				return err
			})
		}
		check()
		time.Sleep(time.Hour)
		drift(2, "a.b")
		check()
		block := func() {
			w.update(func(tx *store.Tx) error { return ledger.SetBlock(tx, ledger.BlockKey, "", "401", time.Time{}) })
		}
		block()
		check()
		w.update(func(tx *store.Tx) error { return ledger.LiftBlock(tx, ledger.BlockKey, "") })
		check()
		time.Sleep(time.Hour)
		block()
		check()
		if err := w.state.Ledger.Adjust(81, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		check()
		if err := w.state.Ledger.Adjust(-50, "bought"); err != nil {
			t.Fatal(err)
		}
		check()
		if err := w.state.Ledger.Adjust(50, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		check()
		disable := func(sinks ...string) {
			t.Helper()
			for _, sink := range sinks {
				if err := w.state.Sinks.SetDisabled(sink, errors.New(sink+" is full")); err != nil {
					t.Fatal(err)
				}
			}
		}
		publish := func(sink string) {
			t.Helper()
			if err := w.state.Sinks.SetPublished(sink, 1); err != nil {
				t.Fatal(err)
			}
		}
		disable("parquet")
		check()
		if got := w.kinds("other"); strings.Contains(got, "sink_behind") {
			t.Errorf("events of a sink that fails for a moment: %s, want none", got)
		}
		time.Sleep(behindAfter)
		check()
		if all := w.events("other"); !strings.Contains(all[len(all)-1].Text, "parquet is full") {
			t.Errorf("the last event is %+v, want one about the sink parquet", all[len(all)-1])
		}
		disable("parquet", "duckdb")
		time.Sleep(behindAfter)
		check()
		publish("duckdb")
		check()
		publish("parquet")
		check()
		disable("parquet", "duckdb") // at the same time
		time.Sleep(behindAfter)
		check()
		disable(runs.BackupSink)
		check()
		disable(runs.BackupSink) // tried again
		check()
		if all := w.events("other"); !strings.Contains(all[len(all)-1].Text, "backup is full\nThere is no earlier one.") {
			t.Errorf("the last event is %+v, want one about the backup", all[len(all)-1])
		}
		publish(runs.BackupSink)
		check()
		w.watcher.Refused("jobs.yaml:4:3: a mistake")
		check()
		w.watcher.Refused("jobs.yaml:5:3: another mistake")
		check()
		w.close()
		w.open() // a process starts only with a valid file
		check()
		want := "schema_drift key_refused recovered key_refused budget_low " +
			"sink_behind sink_behind recovered recovered sink_behind sink_behind backup_failed recovered file_refused recovered"
		if got := w.kinds("other"); got != want {
			t.Errorf("events of other: %s, want %s", got, want)
		}
		want = "schema_drift recovered recovered recovered recovered recovered"
		if got := w.kinds("hook"); got != want {
			t.Errorf("events of hook, which selects kinds: %s, want %s", got, want)
		}
		if e := w.events("other")[0]; !strings.Contains(e.Text, "a.b") {
			t.Errorf("first event %+v, want the difference at a.b", e)
		}
		w.close()
	})
}
