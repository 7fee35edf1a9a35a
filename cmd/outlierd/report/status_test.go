package report

import (
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// everyStatus has a job in each state.
func everyStatus() *forecast.Status {
	at := day(21, 9)
	full := func(scope ledger.Scope, period string, most, left outlier.Credits) facts.CapBalance {
		return facts.CapBalance{Scope: scope, Period: period, Max: &most, Left: &left}
	}
	return &forecast.Status{
		At: at, Process: &forecast.Process{PID: 4711, Command: "outlierd up", Since: day(20, 8)},
		Jobs: []forecast.JobStatus{
			{Job: "coffee", Doing: forecast.JobRunning, Why: "3 calls before it", Queued: 38, Due: day(22, 6),
				Last: &runs.Run{ID: "01a1fe45", Status: runs.Running, Started: day(21, 8)}},
			{Job: "rivals", Doing: forecast.JobIdle, Due: day(21, 12), Begins: day(21, 12).Add(7 * time.Minute),
				Last:   &runs.Run{Status: runs.OKEmpty, Started: day(21, 6), Ended: day(21, 6)},
				Streak: &runs.Streak{Status: runs.OKEmpty, Runs: 5, Since: day(16, 6)}},
			{Job: "niche", Doing: forecast.JobWaiting, Why: "a cap is reached: the cap for the day\x1b[2J", Due: day(20, 0), Overdue: true,
				Last: &runs.Run{Status: runs.PausedBudget, Started: day(19, 0), Ended: day(19, 0), Hits: 40, NewHits: 12}},
			{Job: "kin", After: "coffee", Doing: forecast.JobIdle, Due: day(22, 6)},
			{Job: "paused", Doing: forecast.JobIdle, Paused: &runs.Pause{Job: "paused", Until: day(25, 8), Why: "holidays"}},
			{Job: "old", Disabled: true, Doing: forecast.JobIdle},
			{Job: "asked", Doing: forecast.JobIdle, Queued: 1, Last: &runs.Run{Status: runs.OK, Started: day(21, 7), Ended: day(21, 7), Hits: 40},
				Streak: &runs.Streak{Status: runs.OK, Runs: runs.MaxStreak, Since: day(1, 7)}},
		},
		Queue:   forecast.QueueStatus{Calls: 39, Pages: 1, Done: day(21, 10)},
		Budget:  []facts.CapBalance{full(ledger.ScopeMonth, "2026-11-14", 400, 338), {Scope: ledger.ScopeDay, Period: "2026-11-21", Held: 6}},
		Refused: []ledger.Block{{Kind: ledger.BlockKey, Reason: "Unauthorized", Since: day(20, 8)}},
		Pace:    forecast.PaceStatus{Pace: "10/min", Next: at.Add(6 * time.Second)},
		Sinks: []forecast.SinkStatus{
			{Sink: "duckdb", Known: true, SinkState: runs.SinkState{Mark: 90, Published: at.Add(-time.Minute)}},
			{Sink: "parquet", Known: true, Behind: 12, Since: day(21, 8), SinkState: runs.SinkState{Mark: 78, Published: day(20, 8), Error: "the disk is full", Since: day(21, 8)}},
			{Sink: "iceberg", Known: true, SinkState: runs.SinkState{Mark: 90, Published: day(20, 8), Error: "a folder is in its place", Since: day(21, 8)}},
		},
		Newest:  at.Add(-2 * time.Minute),
		Failure: &runs.Run{ID: "01a204a9-80a2-7f39-9aaa-7d62707c727b", Job: "once:search", Ended: day(20, 6), Error: "the service\nrefused the key"},
	}
}

func TestStatusForPeople(t *testing.T) {
	t.Parallel()
	got := Status(everyStatus(), term.Options{Screen: 120, Zone: time.UTC})
	golden(t, "status.golden", got)
	if strings.ContainsRune(got, '\x1b') {
		t.Error("the status contains an escape sequence")
	}
}
