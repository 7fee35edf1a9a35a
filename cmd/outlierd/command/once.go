package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/yamltree"
)

// # One-off requests
//
// search, related, channel and similar commands are jobs without an entry in the file. They use the
// same ledger, journal and tables as all runs, and `run --continue` continues them. They differ in two ways: they
// never continue an earlier run, which was about something else, and their rows are printed. Standard output is for
// the rows, and messages about the run go to standard error.

// showing is a run whose rows are printed.
type showing struct {
	program *program
	spec    *job.Spec
	row     *runs.Run
}

// onceSpec returns the job of a one-off request. Its mistakes are mistakes of the command line.
func onceSpec(config *job.Config, once job.OneOff, changes job.Overrides) (*job.Spec, error) {
	spec, err := config.Asked(job.Asked{Once: &once, Changes: &changes})
	if err != nil {
		return nil, usageError{nameMistakes(config.Path, err)}
	}
	return spec, nil
}

// nameMistakes reports the mistakes of a one-off job without their places, because the command line has no lines.
// Mistakes of the job file itself keep them.
func nameMistakes(file string, err error) error {
	mistakes, ok := errors.AsType[yamltree.Mistakes](err)
	if !ok {
		return err
	}
	var lines []string
	for _, m := range mistakes {
		line := m.String()
		if m.File != file {
			line = strings.TrimPrefix(line, m.Place.String()+": ")
		}
		lines = append(lines, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// run performs a request and prints its rows. Before anything is spent it makes sure that they can be printed.
func (o *oneOff) run(ctx context.Context, g *globals) error {
	config, err := g.loadForOnce()
	if err != nil {
		return err
	}
	once := o.request()
	once.Assistant = g.spending.assistant
	spec, err := onceSpec(config, once, job.Overrides{Again: o.afresh})
	if err != nil {
		return err
	}
	if published(config) == "" {
		return noFile(config) // there would be nothing to print
	}
	aside := g.aside()
	if g.spending.dryRun {
		aside = g // the prices are the result
	}
	s := showing{spec: spec}
	which := func(by *runner) ([]jobRun, error) {
		s.program = by.p
		todo := []jobRun{{Order: engine.Order{Spec: spec, Trigger: engine.Manual, Afresh: true}}}
		if err := by.findNamedChannels(ctx, spec); err != nil || o.before == nil || g.spending.dryRun {
			return todo, err
		}
		return todo, o.before(ctx, s)
	}
	return spend(ctx, aside, config, which, func(by *runner, ctx context.Context, todo []jobRun) error {
		var failed error
		if s.row, failed = by.runJob(ctx, todo[0]); s.row == nil {
			return failed
		}
		g.spending.ended = s.row.Error
		if s.row.Status.Open() {
			return by.goOn(cmp.Or(failed, context.Cause(ctx)), s.row, nil)
		}
		if !report.EndedEmpty(s.row) { // a refused run has no result, not even an empty one
			text, err := o.show(ctx, s)
			if err == nil {
				err = printQuery(ctx, g, config, text, query.Run)
			}
			if err != nil {
				return selectWorst([]error{failed, err})
			}
		}
		if s.row.Status == runs.PausedBudget {
			again := ""
			if o.afresh { // which would buy the pages that arrived once more
				again = " without --again"
			}
			fmt.Fprintf(g.world.err, "To continue, repeat the command%s when the budget allows\n", again)
		}
		return failed
	})
}

// findNamedChannels finds the channels that a job names and whose ids the tables do not have.
func (r *runner) findNamedChannels(ctx context.Context, spec *job.Spec) error {
	_, _, err := r.p.forecasts().WorstCase(ctx, spec, false)
	unknown, ok := errors.AsType[*job.UnknownChannelsError](err)
	if !ok {
		return nil // the run reports other errors
	}
	if r.g.spending.dryRun {
		price := r.p.Engine.Config.Service.Prices.Of(outlier.OpFindChannels, "")
		r.g.spending.spent += price * outlier.Credits(len(unknown.Channels))
		return idle(fmt.Sprintf("your tables do not have the channel id of %s; to find it costs at most %s",
			strings.Join(unknown.Channels, ", "), term.Count(price*outlier.Credits(len(unknown.Channels)), "credit")))
	}
	if err := r.findChannels(ctx, unknown.Channels); err != nil {
		return err
	}
	_, _, err = r.p.forecasts().WorstCase(ctx, spec, false)
	if unknown, ok := errors.AsType[*job.UnknownChannelsError](err); ok {
		return fmt.Errorf("the search found no channel with the handle %s; "+
			"use its id of 24 characters, which you can copy on the channel's page, or the address of one of its videos",
			strings.Join(unknown.Channels, ", "))
	}
	return err
}

// findChannels fills the tables with the ids of channels, the cheapest way first: the details of a video are
// free and have the id of its channel. Handles are searched for, if the user confirms the price.
func (r *runner) findChannels(ctx context.Context, unknown []string) error {
	videos, aside := (&job.UnknownChannelsError{Channels: unknown}).Videos(), &runner{g: r.g.aside(), p: r.p}
	ask := func(verb job.Verb, keys job.Keys) error {
		once := onceOf(verb, keys)
		once.Assistant = r.g.spending.assistant
		spec, err := onceSpec(r.p.Engine.Config, once, job.Overrides{})
		if err != nil {
			return err
		}
		_, err = aside.runJob(ctx, jobRun{Order: engine.Order{Spec: spec, Trigger: engine.Manual, Afresh: true}})
		return err
	}
	if len(videos) > 0 {
		details := job.Keys{"id": videos, "fetch": {"details"}, "refresh_after": {"52w"}}
		if err := ask(job.VerbVideos, details); err != nil {
			return err
		}
	}
	known, err := job.IdentifyChannels(unknown, r.p.idsOf(ctx))
	if err != nil {
		return err
	}
	handles := slices.DeleteFunc(slices.Clone(unknown), func(name string) bool { return known[name] != "" })
	if len(handles) == 0 {
		return nil
	}
	if !r.g.spending.yes {
		price := r.p.Engine.Config.Service.Prices.Of(outlier.OpFindChannels, "")
		unknownIDs := fmt.Sprintf("your tables do not have the channel id of %s; a search for it costs %s",
			strings.Join(handles, ", "), term.Count(price*outlier.Credits(len(handles)), "credit"))
		if err := askConsent(r.g.asker(), unknownIDs, "Search?"); err != nil {
			return err
		}
	}
	for _, handle := range handles {
		if err := ask(job.VerbFindChannels, job.Keys{"query": {strings.TrimPrefix(handle, "@")}}); err != nil {
			return err
		}
	}
	return nil
}
