package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/forecast"
)

// # up at a terminal
//
// At a terminal, `up` prints when each job is due, and then redraws a block below the log: running
// jobs, pace, next due jobs, budget. Elsewhere there is only the log, with a line per event.

// The block is redrawn every second. The status is read less often.
const (
	liveRedraw = time.Second
	liveLook   = 5 * time.Second
)

// announce prints when each job is due: as a table at a terminal, otherwise in the log.
func (o *options) announce(p *program, agenda []*engine.DueRun) error {
	zone := p.Engine.Config.Timezone
	if !term.Is(o.world.out) {
		for _, a := range agenda {
			if a.Paused != nil {
				p.Engine.Log.Info("job paused", append(a.Attrs(zone), "paused", pauseText(a.Paused, zone))...)
				continue
			}
			p.Engine.Log.Info("job scheduled", append(a.Attrs(zone), "trigger", a.Trigger)...)
		}
		return nil
	}
	if len(agenda) == 0 {
		return nil
	}
	rows, err := term.NewPrinter("table", o.world.out, o.look(), []string{"job", "due", "note"})
	if err != nil {
		return err
	}
	earlier := func(a, b *engine.DueRun) int { return a.Begins.Compare(b.Begins) }
	for _, a := range slices.SortedStableFunc(slices.Values(agenda), earlier) {
		note := ""
		switch {
		case a.Paused != nil:
			note = pauseText(a.Paused, zone)
		case a.Trigger == engine.CatchUp:
			note = "was missed, and runs now"
		case a.Begins.After(a.Due):
			note = "begins " + a.Begins.In(zone).Format("15:04:05")
		}
		if err := rows.Row([]any{a.Spec.Name, a.Due, note}); err != nil {
			return err
		}
	}
	return rows.Close()
}

// live draws the block until the returned function is called. It draws nothing if standard output is
// not a terminal.
func (o *options) live(ctx context.Context, p *program) (stop func()) {
	if !o.redraws() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var drawing sync.WaitGroup
	drawing.Go(func() {
		var status *forecast.Status
		var looked time.Time
		seen := "" // the run in progress at the last reading
		failed := rate.Sometimes{Interval: unknownEvery}
		for tick := time.NewTicker(liveRedraw); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			progress, err := p.Engine.Progress()
			if time.Since(looked) >= liveLook || progress.Run != seen {
				unread := p.read(func(seen *program) (err error) {
					status, err = seen.forecasts().Status()
					return err
				})
				looked, seen, err = time.Now(), progress.Run, errors.Join(err, unread)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrNotServing) {
				failed.Do(func() { p.Engine.Log.Warn("progress unknown", "err", err) })
			}
			if status != nil {
				o.block.Draw(func(rows int) []string { return liveLines(status, progress, time.Now(), o.zone, rows) })
			}
		}
	})
	return func() { cancel(); drawing.Wait(); o.block.Erase() }
}

// liveLines returns the text of the block. If there are more jobs than room for them, it shows the first
// ones and counts the others.
func liveLines(s *forecast.Status, run engine.Progress, now time.Time, zone *time.Location, room int) []string {
	p := &planPrinter{zone: zone}
	rest := []string{"next     " + p.nextDues(s, now), "budget   " + budgetLine(s), "pace     " + paceText(run, now)}
	var busy []string
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Doing != forecast.JobIdle || j.Queued > 0 {
			busy = append(busy, busyLine(j, run, now))
		}
	}
	if len(busy) == 0 {
		busy = []string{"idle     nothing runs and nothing is queued"}
	}
	if most := max(1, room-len(rest)); len(busy) > most {
		more := len(busy) - most + 1
		busy = append(busy[:most-1], "and "+term.Count(more, "more job"))
	}
	return append(busy, rest...)
}

// busyLine describes what a job is doing, with more details for the run of the last call.
func busyLine(j *forecast.JobStatus, run engine.Progress, at time.Time) string {
	facts := []string{now(j)}
	if j.Run == run.Run && j.Run != "" {
		pages, hits := 0, 0
		for i := range run.Searches {
			pages, hits = pages+run.Searches[i].Pages, hits+run.Searches[i].Hits
		}
		facts = append(facts, term.Clock(at.Sub(run.Started)), term.Count(pages, "page"), term.Count(hits, "hit"))
		if total := run.Done + run.Queued; total > 0 {
			facts = append(facts, fmt.Sprintf("%d/%d calls", run.Done, total))
		}
	}
	if j.Doing == forecast.JobWaiting && j.Why != "" {
		facts = append(facts, j.Why)
	}
	return term.Pad(term.Clip(j.Job, nameWidth), nameWidth) + " " + strings.Join(facts, " · ")
}

// nextShown is the number of due jobs shown.
const nextShown = 3

// nextDues lists the jobs that are due next.
func (p *planPrinter) nextDues(s *forecast.Status, at time.Time) string {
	var due []*forecast.JobStatus
	for i := range s.Jobs {
		if j := &s.Jobs[i]; !j.Disabled && j.After == "" && !j.Due.IsZero() {
			due = append(due, j)
		}
	}
	begins := func(j *forecast.JobStatus) time.Time {
		if j.Begins.IsZero() {
			return j.Due
		}
		return j.Begins
	}
	slices.SortStableFunc(due, func(a, b *forecast.JobStatus) int {
		return cmp.Or(begins(a).Compare(begins(b)), strings.Compare(a.Job, b.Job))
	})
	var parts []string
	for _, j := range due[:min(len(due), nextShown)] {
		parts = append(parts, fmt.Sprintf("%s at %s", term.Clip(j.Job, nameWidth), p.short(begins(j), at)))
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}
