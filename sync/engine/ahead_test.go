package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
)

// dueHours are the due times that run in ten hours from 00:20 on.
const dueHours = "01:00 02:00 03:00 04:00 05:00 06:00 07:00 08:00 09:00 10:00"

// TestScheduleRunsDespiteFutureRecords of a clock that was ahead: each bubble begins in the year 2000, so the
// records of the first one are in the future of the second one.
func TestScheduleRunsDespiteFutureRecords(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	for _, c := range []struct {
		ahead time.Duration
		up    bool // the schedule runs all the time, not by `run --due` each half hour
		want  string
	}{
		{2 * time.Hour, false, strings.Replace(dueHours, "03:00 ", "", 1)}, // has run already
		{2 * time.Hour, true, strings.Replace(dueHours, "03:00 ", "", 1)},
		{400 * day, false, dueHours},
		{400 * day, true, dueHours},
	} {
		t.Run(fmt.Sprintf("%s, up: %t", c.ahead, c.up), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var logged bytes.Buffer
			at := func(start time.Duration, play func(w *workshop)) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorkshop(t, `
version: 1
service: {url: "sim://", limit: 60/min}
jobs: {tea: {every: 1h, search: {query: [green tea]}}}
`)
					w.dir, w.bare, w.log = dir, true, slog.New(slog.NewTextHandler(&logged, nil))
					time.Sleep(start)
					play(w)
				})
			}
			at(10*time.Minute+c.ahead, func(w *workshop) {
				w.runLate() // the job is seen for the first time
				time.Sleep(time.Hour)
				if dues := w.runLate(); len(dues) != 1 {
					w.Errorf("while the clock is ahead %s ran, want one", dues)
				}
			})
			logged.Reset()
			at(20*time.Minute, func(w *workshop) {
				var dues []string
				for range 10*2 + 1 {
					if c.up {
						break
					}
					dues = append(dues, w.runLate()...)
					time.Sleep(30 * time.Minute)
				}
				if c.up {
					for _, row := range w.serve(10 * time.Hour)[1:] {
						dues = append(dues, row.Due.UTC().Format("15:04"))
					}
				}
				if got := strings.Join(dues, " "); got != c.want {
					w.Errorf("the due times %s ran, want %s", got, c.want)
				}
				if n := strings.Count(logged.String(), "counted as now"); n != 1 || strings.Contains(logged.String(), "failed") {
					w.Errorf("that the clock was ahead is logged %d times, want once, and no error:\n%s", n, logged.String())
				}
			})
		})
	}
}

// runLate performs the overdue runs, as `run --due` does, and returns their due times.
func (w *workshop) runLate() (dues []string) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	late, err := e.DueNow(time.Now())
	if err != nil {
		w.Fatal(err)
	}
	for _, a := range late {
		if _, err := e.Run(w.ctx, a.Spec, a.Trigger, a.Due); err != nil {
			w.Error(err)
		}
		dues = append(dues, a.Due.UTC().Format("15:04"))
	}
	return dues
}
