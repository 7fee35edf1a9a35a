package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// priceList has a line per job: its name and what a run of it may cost.
func priceList(ctx context.Context, e *engine.Engine) string {
	var b strings.Builder
	for i := range e.Config.Jobs {
		fmt.Fprintf(&b, "  %s\n", laterLine(ctx, e, &e.Config.Jobs[i]))
	}
	return strings.TrimRight(b.String(), "\n")
}

// beforehand says what is about to happen: a new run and its price, or an old one
// that goes on as it was meant when it began, and the price of what it has left.
func beforehand(ctx context.Context, e *engine.Engine, spec *job.Spec, old *state.Run) string {
	if old == nil {
		return planLine(ctx, e, spec)
	}
	line := fmt.Sprintf("%s: continuing the run of %s", spec.Name, old.Started.In(e.Config.Timezone).Format("2006-01-02 15:04 MST"))
	switch {
	case old.Overridden:
		line += " with " + plain(engine.Flags(old))
	case old.Config != spec.Hash:
		line += fmt.Sprintf(" as %s said it then; what it says now applies from the next run on", e.Config.Path)
	}
	f, err := e.Forecast(ctx, spec.Name)
	if err != nil || len(f.Jobs) != 1 || f.Jobs[0].Continues != old.ID || f.Jobs[0].Problem != "" {
		return line // the run itself says what is wrong
	}
	return line + "\n  left to do: " + costText(e, f.Jobs[0].Worst.Cost)
}

// planLine tells the worst case of a run that begins now in all three scarcities: credits,
// requests, time.
func planLine(ctx context.Context, e *engine.Engine, spec *job.Spec) string {
	cost, err := e.WorstCase(ctx, spec)
	if err != nil {
		return cannotRun(spec, err)
	}
	line := spec.Name + ": " + costText(e, cost)
	if len(spec.SQL()) > 0 {
		line += ", for what its SQL finds now"
	}
	return line
}

// laterLine tells the worst case of a run that is to come. What the SQL of a job finds may
// be more by the time that it runs.
func laterLine(ctx context.Context, e *engine.Engine, spec *job.Spec) string {
	cost, assumed, err := e.WorstCaseLater(ctx, spec)
	if err != nil {
		return cannotRun(spec, err)
	}
	line := spec.Name + ": " + costText(e, cost)
	switch {
	case assumed:
		line += ", if its SQL finds one row; now it finds none"
	case len(spec.SQL()) > 0:
		line += ", for what its SQL finds now"
	}
	return line + capsText(e.Config, spec, cost.Credits)
}

func cannotRun(spec *job.Spec, err error) string {
	return fmt.Sprintf("%s: cannot run now: %s", spec.Name, plain(strings.TrimPrefix(err.Error(), "job "+spec.Name+": ")))
}

// capsText names the caps, besides the run's own, that allow less than a run may cost.
func capsText(config *job.Config, spec *job.Spec, credits outlier.Credits) (text string) {
	all := config.Budget
	for _, c := range []struct {
		name, each string
		most       *outlier.Credits
	}{
		{"budget.per_day", "a day", all.PerDay},
		{"its per_month", "a cycle", spec.Budget.PerMonth},
		{"budget.per_month", "a cycle", available(config)},
	} {
		if c.most != nil && *c.most < credits {
			text += fmt.Sprintf("; %s allows %d %s", c.name, *c.most, c.each)
		}
	}
	return text
}

// available is what runs may spend in a cycle without the reserve; nil for no cap.
func available(config *job.Config) *outlier.Credits {
	month := config.Budget.PerMonth
	if month != nil && config.Budget.Reserve != nil {
		month = new(*month - *config.Budget.Reserve)
	}
	return month
}

// costText is a worst case in words, at the pace that counts.
func costText(e *engine.Engine, cost engine.Cost) string {
	credits := count(cost.Credits, "credit")
	if cost.Credits > 0 && cost.Lost > cost.Credits {
		credits += fmt.Sprintf(" (%d if answers are lost)", cost.Lost)
	}
	return fmt.Sprintf("at most %s, %s, %s at %s", credits, count(cost.Requests, "request"), spell(e.Time(cost.Requests)), e.PaceText())
}

// withoutState lets work be priced that has no state yet, or whose state is not
// asked: in the record of the engine nothing ever happened.
func withoutState(ctx context.Context, config *job.Config, work func(*engine.Engine) error) (err error) {
	p := &program{Engine: &engine.Engine{Config: config, IDs: seedsOnce(config)}}
	defer func() { err = errors.Join(err, p.Close()) }()
	if _, err := p.invent(ctx); err != nil {
		return err
	}
	return work(p.Engine)
}
