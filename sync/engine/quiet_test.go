package engine

import (
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/runs"
)

const quietFile = `
version: 1
timezone: Europe/Berlin
service: {url: "sim://", limit: 60/min}
defaults: {reuse_for: 1m, quiet: ["22:00-06:00", sun]}
jobs:
  latest: {schedule: ["0 */3 * * *", "30 20 * * *"], search: {query: [home espresso]}}
  all: {schedule: ["0 20 * * *", "0 */5 * * *", "@daily"], catch_up: all, search: {query: [moka pot]}}
  child: {after: all, catch_up: all, search: {query: [latte art]}}
`

// TestWeeksWithQuietHours: on some evenings the network is away until quiet hours have begun, on others the process is
// down, and it starts within them. No run begins in quiet hours but those of follow-ups. The job that catches up on all
// has one run for each due time, and the other one for those by day.
func TestWeeksWithQuietHours(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	if !isPlayed(t) {
		t.Skip("another long test was chosen at random")
	}
	bare(t, quietFile, func(w *workshop) {
		zone := w.config.Timezone
		time.Sleep(time.Until(time.Date(2000, time.March, 20, 12, 0, 0, 0, zone))) // clocks change on 26 March
		began := time.Now()
		w.inspect(func(e *Engine) { w.see(e, "latest", "all", "child") })
		var rows []runs.Run
		days := 9 // with the clock change
		if *long {
			days = 21 // each of the three kinds of days is on each day of the week
		}
		for day := range days {
			until := func(hour, minute int) time.Duration {
				return time.Until(time.Date(2000, time.March, 20+day, hour, minute, 0, 0, zone))
			}
			well := w.wire
			switch day % 3 {
			case 0: // the run of 20:00 waits for the network, and the next one for that run
				w.away(time.Now().Add(until(19, 59)), until(23, 0)-until(19, 59))
			case 1:
				w.serve(until(19, 0))
				time.Sleep(until(23, 30))
			}
			rows = w.serve(until(36, 0))
			w.wire = well
		}
		records := map[string]map[int64]*runs.Run{}
		for i := range rows {
			run := &rows[i]
			if records[run.Job] == nil {
				records[run.Job] = map[int64]*runs.Run{}
			}
			if records[run.Job][run.Due.Unix()] != nil {
				t.Errorf("%s has two runs for %s", run.Job, run.Due.In(zone))
			}
			records[run.Job][run.Due.Unix()] = run
			if spec := w.config.Job("latest"); run.Trigger != string(After) && !spec.AfterQuiet(run.Started, zone).Equal(run.Started) {
				t.Errorf("%s for %s began at %s", run.Job, run.Due.In(zone), run.Started.In(zone))
			}
		}
		late := 0
		for _, name := range []string{"latest", "all"} {
			spec := w.config.Job(name)
			for due := spec.Next(began, zone); due.Before(time.Now().Add(-time.Hour)); due = spec.Next(due, zone) {
				run, child := records[name][due.Unix()], records["child"][due.Unix()]
				switch {
				case run == nil && name == "latest" && due.In(zone).Hour() > 18: // the one at the end of quiet hours is later
				case run == nil:
					t.Errorf("%s has no run for %s", name, due.In(zone))
				case run.Started.Sub(due) > 8*time.Hour:
					late++
				}
				if name == "all" && run != nil && run.Status.EndedWell() && child == nil {
					t.Errorf("no run follows that for %s", due.In(zone))
				}
			}
		}
		if late < days/4 {
			t.Errorf("%d runs waited for the end of quiet hours", late)
		}
	})
}

// TestDelayedRunWaitsOutQuietHours: when the run before it ends, quiet hours have begun, unless an edit
// removes them.
func TestDelayedRunWaitsOutQuietHours(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 4/h, paging: page}
jobs:
  slow: {schedule: "0 20,21 * * *", catch_up: all, reuse_for: 1m, search: {query: [home espresso], pages: 12}, QUIET}
`
	for name, edited := range map[string]bool{"as it was": false, "edited": true} {
		t.Run(name, func(t *testing.T) {
			bare(t, strings.Replace(file, "QUIET", "quiet: [21:20-06:00]", 1), func(w *workshop) {
				time.Sleep(19 * time.Hour)
				edits := map[time.Duration]string{}
				want := time.Date(2000, time.January, 2, 6, 0, 0, 0, time.UTC)
				if edited {
					edits[4*time.Hour] = strings.Replace(file, ", QUIET", "", 1)
					want = time.Date(2000, time.January, 1, 23, 0, 0, 0, time.UTC)
				}
				w.withSinks(func(e *Engine) { w.see(e, "slow") })
				w.reloads(12*time.Hour, edits)
				rows := w.serve(0)
				if len(rows) != 2 {
					t.Fatalf("%d runs, want 2: %+v", len(rows), rows)
				}
				first, second := rows[0], rows[1]
				if first.Started.After(second.Started) {
					first, second = second, first
				}
				if !first.Ended.After(second.Due.Add(20*time.Minute)) || second.Started.Sub(want).Abs() > time.Minute {
					t.Errorf("the first run ended %s, and the one due %s began %s, want %s", first.Ended, second.Due, second.Started, want)
				}
			})
		})
	}
}

// TestRunContinuesAfterQuietHours: the period of a run in the evening is longer than that of the next one. A process
// that starts between the two continues it at once.
func TestRunContinuesAfterQuietHours(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 4/h, paging: page}
jobs:
  slow: {SCHEDULE, quiet: [21:30-06:00], reuse_for: 1m, search: {query: [home espresso], pages: 12}}
`
	for schedule, hour := range map[string]int{`schedule: "0 12,21 * * *"`: 7, "every: 3h": 5} {
		t.Run(schedule, func(t *testing.T) {
			bare(t, strings.Replace(file, "SCHEDULE", schedule, 1), func(w *workshop) {
				time.Sleep(20 * time.Hour)
				w.withSinks(func(e *Engine) { w.see(e, "slow") })
				w.serve(75 * time.Minute)
				time.Sleep(time.Until(time.Date(2000, time.January, 2, hour, 0, 0, 0, time.UTC)))
				rows := w.serve(50 * time.Minute)
				if len(rows) != 1 || rows[0].Pages < 8 {
					t.Errorf("runs %+v, want that the one of 21:00 continued", rows)
				}
			})
		})
	}
}
