package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

func runCommand(o *options) *cobra.Command {
	var all, due, reserve bool
	c := &cobra.Command{
		Use:   "run [JOB…]",
		Short: "Run jobs now, one after another",
		Long: `Run jobs now, one after another. Without a name the only job is run; where there
are several, they are listed with what they may cost.

A run that was killed, stopped or paused by a cap is continued: no page is bought
twice. What becomes of a run is its exit code: 0 ok, 3 partial (some calls failed
and stay queued), 4 stopped by a budget, 1 failed, 7 the key was refused.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			if all && (due || len(names) > 0) || due && len(names) > 0 {
				return usageError{errors.New("name jobs, or say --all, or say --due; not more than one of these")}
			}
			return o.runJobs(c.Context(), config, func(p *program) ([]engine.Appointment, error) {
				p.UseReserve = reserve
				switch {
				case due:
					return dueNow(p, time.Now())
				case all:
					return byHand(config.Jobs), nil
				default:
					return o.named(config, names)
				}
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "run every job of the file")
	c.Flags().BoolVar(&due, "due", false, "run what is due, for a clock outside such as a CronJob")
	c.Flags().BoolVar(&reserve, "use-reserve", false, "let this run spend the part of the budget that is kept back")
	return c
}

// runJobs opens the program, performs what is to be done and reports. The worst
// status of all runs decides the exit code; a run that cannot go on stops the rest
// only if the reason is not the job's own.
func (o *options) runJobs(ctx context.Context, config *job.Config, which func(*program) ([]engine.Appointment, error)) (err error) {
	log, err := o.logger()
	if err != nil {
		return err
	}
	p, err := o.open(ctx, config, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	todo, err := which(p)
	if err != nil {
		return err
	}
	if len(todo) == 0 {
		fmt.Fprintln(o.out, "nothing is due")
	}
	var errs []error
	for _, a := range todo {
		if err := o.runJob(ctx, p, a); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || len(errs) > 0 && everybodys(errs[len(errs)-1]) {
			break
		}
	}
	return worst(errs)
}

// everybodys reports whether an error is not the job's own: the next job would only
// meet it again.
func everybodys(err error) bool {
	if _, short := errors.AsType[*state.LowSpaceError](err); short {
		return true
	}
	if _, ahead := errors.AsType[*engine.AheadError](err); ahead {
		return true
	}
	refused, ok := errors.AsType[*outlier.Error](err)
	return ok && refused.Kind == outlier.Unauthorized
}

// runJob performs one run under the eyes of whoever watches.
func (o *options) runJob(ctx context.Context, p *program, a engine.Appointment) error {
	old, err := p.Continues(a.Spec, a.Due)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.out, beforehand(a.Spec, p.Config, old))
	stop := o.watch(p.Engine)
	row, failed := p.Run(ctx, a.Spec, a.Trigger, a.Due)
	stop()
	if row != nil && row.Status != state.Running {
		queued, err := p.Store.Queued(state.Filter{Job: row.Job})
		if err != nil {
			return errors.Join(failed, err)
		}
		o.report(p.Config, row, queued)
	}
	if failed != nil {
		return fmt.Errorf("job %s: %w", a.Spec.Name, failed)
	}
	if row.Status != state.OK && row.Status != state.OKEmpty {
		return statusError{row.Status}
	}
	return nil
}

// worst picks what the exit code is to tell: an error over a run that failed, that
// over one that was cut short, and that over a partial one. Errors are told all;
// the statuses beside them stand in the summaries already.
func worst(errs []error) error {
	var untold []error
	var status error
	rank := []state.Status{state.Partial, state.PausedBudget, state.Failed}
	highest := -1
	for _, err := range errs {
		s, ok := errors.AsType[statusError](err)
		if !ok {
			untold = append(untold, err)
		} else if at := slices.Index(rank, s.Status); status == nil || at > highest {
			status, highest = err, at
		}
	}
	if len(untold) > 0 {
		return errors.Join(untold...)
	}
	return status
}

// named finds the jobs that were asked for; without a name, the only one.
func (o *options) named(config *job.Config, names []string) ([]engine.Appointment, error) {
	if len(names) == 0 && len(config.Jobs) == 1 {
		return byHand(config.Jobs), nil
	}
	if len(names) == 0 {
		return nil, usageError{fmt.Errorf("%s has several jobs; name one, or say --all:\n%s", config.Path, priceList(config))}
	}
	var specs []job.Spec
	for _, name := range names {
		i := slices.IndexFunc(config.Jobs, func(s job.Spec) bool { return s.Name == name })
		if i < 0 {
			return nil, usageError{fmt.Errorf("%s has no job %q; it has:\n%s", config.Path, name, priceList(config))}
		}
		specs = append(specs, config.Jobs[i])
	}
	return byHand(specs), nil
}

func byHand(specs []job.Spec) []engine.Appointment {
	var all []engine.Appointment
	for i := range specs {
		all = append(all, engine.Appointment{Spec: &specs[i], Trigger: engine.Manual})
	}
	return all
}

// dueNow are the appointments that have passed.
func dueNow(p *program, now time.Time) ([]engine.Appointment, error) {
	agenda, err := p.Agenda(now)
	if err != nil {
		return nil, err
	}
	var due []engine.Appointment
	for _, a := range agenda {
		if !a.Due.After(now) {
			due = append(due, *a)
		}
	}
	return due, nil
}

// priceList has a line per job: its name and what a run of it may cost.
func priceList(config *job.Config) string {
	var b strings.Builder
	for i := range config.Jobs {
		fmt.Fprintf(&b, "  %s\n", planLine(&config.Jobs[i], config))
	}
	return strings.TrimRight(b.String(), "\n")
}

// beforehand says what is about to happen: a new run and its price, or an old one
// that goes on as it was meant when it began.
func beforehand(spec *job.Spec, config *job.Config, old *state.Run) string {
	if old == nil {
		return planLine(spec, config)
	}
	line := fmt.Sprintf("%s: continuing the run of %s", spec.Name, old.Started.In(config.Timezone).Format("2006-01-02 15:04"))
	if old.Config != spec.Hash {
		line += fmt.Sprintf(" as %s said it then; what it says now applies from the next run on", config.Path)
	}
	return line
}

// planLine tells a job's worst case in all three scarcities: credits, requests, time.
func planLine(spec *job.Spec, config *job.Config) string {
	cost, limit := engine.WorstCase(spec), config.Service.Limit
	credits := count(cost.Credits, "credit")
	if cost.Lost > cost.Credits {
		credits += fmt.Sprintf(" (%d if answers are lost)", cost.Lost)
	}
	minutes := time.Duration(cost.Requests) * limit.Window / time.Duration(limit.Requests)
	return fmt.Sprintf("%s: at most %s, %s, %s at %s", spec.Name, credits, count(cost.Requests, "request"), spell(minutes), limit)
}

// report tells how a run ended and where its rows are.
func (o *options) report(config *job.Config, row *state.Run, queued int) {
	fmt.Fprintf(o.out, "%s %s  %s in %s   run %s\n", mark(row.Status), row.Job, row.Status, spell(row.Ended.Sub(row.Started)), row.ID)
	columns, _ := o.screen()
	for _, facts := range [][]string{found(row), undone(row, queued), tableCounts(row.Rows)} {
		if len(facts) > 0 {
			fmt.Fprint(o.out, joined(facts, columns))
		}
	}
	if row.Error != "" {
		fmt.Fprintf(o.out, "  %s\n", plain(row.Error))
	}
	for _, s := range config.Sinks {
		fmt.Fprintf(o.out, "  %s\n", relative(sinkPath(config, s)))
	}
}

// found is what a run brought and what it cost.
func found(row *state.Run) []string {
	facts := []string{
		fmt.Sprintf("%s on %s, %d new", count(row.Hits, "hit"), count(row.Pages, "page"), row.NewHits),
		count(row.Requests, "request"), count(row.Credits, "credit") + " spent",
	}
	if row.Refunded > 0 {
		facts = append(facts, fmt.Sprintf("%d refunded", row.Refunded))
	}
	return facts
}

// undone is what a run asked for and did not get.
func undone(row *state.Run, queued int) []string {
	var facts []string
	if row.Missing > 0 {
		facts = append(facts, count(row.Missing, "call")+" found nothing")
	}
	if row.Failures > 0 {
		facts = append(facts, count(row.Failures, "call")+" failed")
	}
	if queued > 0 {
		facts = append(facts, count(queued, "call")+" left for the next run")
	}
	return facts
}

// count is a number of things, in the singular if it is one.
func count[N int | int64 | outlier.Credits](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// joined puts facts on one line, or at a terminal on as many as they need.
func joined(facts []string, columns int) string {
	const indent, between = "  ", " · "
	var out strings.Builder
	line := indent + facts[0]
	for _, fact := range facts[1:] {
		if next := line + between + fact; columns == 0 || width(next) < columns {
			line = next
			continue
		}
		out.WriteString(line + "\n")
		line = indent + fact
	}
	return out.String() + line + "\n"
}

func mark(s state.Status) string {
	switch s {
	case state.OK, state.OKEmpty:
		return "✓"
	case state.Partial, state.PausedBudget:
		return "!"
	}
	return "✗"
}

// tableCounts lists what was loaded, leaving out the histories, which repeat it.
func tableCounts(rows map[string]int64) []string {
	var counts []string
	for name, n := range rows {
		if n > 0 && !strings.HasSuffix(name, "_history") {
			counts = append(counts, fmt.Sprintf("%s %d", name, n))
		}
	}
	slices.Sort(counts)
	if len(counts) > 0 {
		counts[0] = "rows " + counts[0]
	}
	return counts
}

// relative shortens a path below the working folder, for reading and for pasting.
func relative(path string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}

// spell is a duration as a person says it: seconds up to two minutes, then minutes,
// then hours.
func spell(d time.Duration) string {
	switch {
	case d.Round(time.Second) < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d.Round(time.Minute) < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
