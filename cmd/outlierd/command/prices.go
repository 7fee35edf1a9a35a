package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// forecasts returns a reader of forecasts for the program.
func (p *program) forecasts() *forecast.Reader {
	r := &forecast.Reader{Reader: p.Engine.Facts(), Pace: p.Engine.Pace, Kept: p.server != nil}
	if store := p.Engine.Store; store != nil && store.DB.Holder() != nil {
		r.Kept = store.DB.Holder().IsDaemon()
	}
	if p.Engine.Client != nil {
		r.Key = p.Engine.Client.Key.Fingerprint()
	}
	return r
}

// read calls f with the program as it is now: with the state in one transaction, and the job file in use. It waits
// for no call of the daemon, and f changes nothing.
func (p *program) read(f func(seen *program) error) error {
	s, err := p.Engine.Store.Snapshot()
	if err != nil {
		return err
	}
	seen := &program{Engine: p.Engine.Reading(s, cmp.Or(p.inUse.Load(), p.Engine.Config)), server: p.server}
	return errors.Join(f(seen), s.Close())
}

// priceList returns a line per job: its name and the maximum cost of a run.
func priceList(ctx context.Context, r *forecast.Reader) (lines []string) {
	for i := range r.Config.Jobs {
		spec := &r.Config.Jobs[i]
		line, _, cost := priceLine(ctx, r, spec, true)
		lines = append(lines, line+capsText(r.Config, spec, cost.Credits))
	}
	return lines
}

// describeStart describes the run that is about to start, with its price, or the old run that continues
// with its original settings, and the price of its remaining work.
func describeStart(ctx context.Context, r *forecast.Reader, spec *job.Spec, old *runs.Run) string {
	if old == nil {
		return planLine(ctx, r, spec)
	}
	line := fmt.Sprintf("%s: continuing the run of %s", job.Shown(spec.Name),
		old.Started.In(r.Config.Timezone).Format("2006-01-02 15:04 MST"))
	switch {
	case old.Overridden:
		line += " with " + term.Plain(facts.Flags(old))
	case old.Request != spec.Request:
		line += fmt.Sprintf(" with %s as it was then; its changes apply from the next run on", r.Config.Path)
	}
	f, err := r.Forecast(ctx, spec.Name)
	if err != nil || len(f.Jobs) != 1 || f.Jobs[0].Continues != old.ID || f.Jobs[0].Problem != "" {
		return line // the run reports the error
	}
	return line + "\n  left to do: " + costText(r, f.Jobs[0].Worst.Cost)
}

// planLine returns the worst case of a run that starts now, in credits, requests and time, and the scans that it waits for.
func planLine(ctx context.Context, r *forecast.Reader, spec *job.Spec) string {
	line, p, _ := priceLine(ctx, r, spec, false)
	if p == nil {
		return line
	}
	joined, err := r.Joins(p)
	if err != nil {
		return cannotRun(spec, err)
	}
	for _, scan := range joined {
		line += fmt.Sprintf("\n  waits for the scan %s, and reads it", report.StartedBy(scan.Job, scan.Intended.In(r.Config.Timezone)))
	}
	return line
}

// priceLine returns the worst case of a run with its plan, which is nil if it cannot run. By the time of a later run, its SQL may find more.
func priceLine(ctx context.Context, r *forecast.Reader, spec *job.Spec, later bool) (string, *plan.Plan, plan.Cost) {
	p, cost, err := r.WorstCase(ctx, spec, later)
	if err != nil {
		return cannotRun(spec, err), nil, cost
	}
	line := job.Shown(spec.Name) + ": " + costText(r, cost)
	switch {
	case p.Assumed:
		line += ", if its SQL finds one row; it finds none now"
	case len(spec.SQL()) > 0:
		line += ", for what its SQL finds now"
	}
	return line, p, cost
}

func cannotRun(spec *job.Spec, err error) string {
	if unknown, ok := errors.AsType[*job.UnknownChannelsError](err); ok && len(unknown.Videos()) > 0 {
		return fmt.Sprintf("%s: a run first asks for the channel of %s, which is free", job.Shown(spec.Name),
			strings.Join(unknown.Videos(), ", "))
	}
	return fmt.Sprintf("%s: cannot run now: %s", job.Shown(spec.Name),
		term.Plain(strings.TrimPrefix(err.Error(), "job "+spec.Name+": ")))
}

// capsText names the caps, other than the run's own, that allow less than the run may cost.
func capsText(config *job.Config, spec *job.Spec, credits outlier.Credits) (text string) {
	all := config.Budget
	for _, c := range []struct {
		name, each string
		most       *outlier.Credits
	}{
		{"budget.per_day", "a day", all.PerDay},
		{"its per_month", "a cycle", spec.Budget.PerMonth},
		{"budget.per_month", "a cycle", all.Scheduled()},
	} {
		if c.most != nil && *c.most < credits {
			text += fmt.Sprintf("; %s allows %d %s", c.name, *c.most, c.each)
		}
	}
	return text
}

// costText formats a worst case, at the current pace.
func costText(r *forecast.Reader, cost plan.Cost) string {
	credits := term.Count(cost.Credits, "credit")
	if cost.Credits > 0 && cost.Lost > cost.Credits {
		credits += fmt.Sprintf(" (%d if answers are lost)", cost.Lost)
	}
	return fmt.Sprintf("at most %s, %s, %s at %s", credits, term.Count(cost.Requests, "request"),
		term.Duration(r.Time(cost.Requests)), r.PaceText())
}
