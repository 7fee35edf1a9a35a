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

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/internal/figures"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// jobRun is a run of a job that a command performs.
type jobRun struct {
	engine.Order
	withAfter bool // the jobs that come after this one run, too
	byID      bool // Old was named by its id, and its record says the rest
}

// newForecasts returns a reader of forecasts for the run.
func (j *jobRun) newForecasts(p *program) *forecast.Reader {
	r := p.forecasts()
	r.Afresh, r.UseReserve = j.Afresh, j.UseReserve
	return r
}

// idle is the reason why there is nothing to run. It is not a failure.
type idle string

func (why idle) Error() string { return string(why) }

// A runner performs the runs of a command, and prints how they went.
type runner struct {
	g *globals
	p *program

	due   time.Time       // up to when --due runs what has come due; zero without it
	tried map[string]bool // with --due: the runs by id, and the due times by job, that it has tried
}

// reportJobs performs runs and reports them: to people by summaries, and to programs by one value per run,
// with the summaries on standard error.
func reportJobs(ctx context.Context, g *globals, config *job.Config, which func(*runner) ([]jobRun, error)) error {
	if !g.out.forPrograms() || g.spending.dryRun {
		return spend(ctx, g, config, which, (*runner).runJobs)
	}
	failed := spend(ctx, g.aside(), config, which, (*runner).runJobs)
	if failed != nil && len(g.spending.outcomes) == 0 {
		return failed // nothing ran
	}
	if err := printJSON(g.out, g.spending.outcomes); err != nil {
		return selectWorst([]error{failed, err})
	}
	return failed
}

// runJobs performs runs and reports them. The worst status decides the exit code. A run that cannot
// continue stops the others only if the reason is not specific to its job.
func (r *runner) runJobs(ctx context.Context, todo []jobRun) error {
	var errs []error
	for len(todo) > 0 {
		if most := r.g.spending.most; most > 0 && r.g.spending.creditsLeft() == 0 {
			fmt.Fprintf(r.g.world.err, "--max-credits %d is reached\n", most)
			return r.goOn(selectWorst(append(errs, statusError{runs.PausedBudget})), nil, todo)
		}
		row, err := r.runJob(ctx, todo[0])
		if row != nil && !r.due.IsZero() {
			r.tried[row.ID] = true
		}
		detached := isA[*stoppedError](err)
		ended := row != nil && !row.Status.Open()
		switch {
		case row == nil && !detached && ctx.Err() != nil:
			return selectWorst(append(errs, r.goOn(cmp.Or(err, context.Cause(ctx)), nil, todo)))
		case detached, ctx.Err() != nil && !ended, err != nil && affectsAllJobs(err):
			return selectWorst(append(errs, r.goOn(cmp.Or(err, context.Cause(ctx)), row, todo[1:])))
		case err != nil:
			errs = append(errs, err)
		}
		next, err := r.listNext(todo[0], row, todo[1:])
		if err != nil {
			return selectWorst(append(errs, err))
		}
		if todo = next; ctx.Err() != nil && len(todo) > 0 {
			return selectWorst(append(errs, r.goOn(context.Cause(ctx), nil, todo)))
		}
	}
	return selectWorst(errs)
}

// listNext returns the runs to perform after one: those of jobs that come after it, then those that are left, and if
// none is, what has come due through the runs so far.
func (r *runner) listNext(done jobRun, row *runs.Run, left []jobRun) ([]jobRun, error) {
	next, err := r.listFollowers(done, row)
	next = append(next, left...)
	if err != nil || r.due.IsZero() {
		return next, err
	}
	if len(next) == 0 {
		return r.listDue()
	}
	return next, nil
}

// stoppedError ends a command before its work is done. next says what continues it.
type stoppedError struct {
	error
	next string
}

func (e *stoppedError) Unwrap() error { return e.error }

// goOn adds to the reason why no further run is started how to continue the run that has not ended, if row is one, and
// which jobs are left.
func (r *runner) goOn(cause error, row *runs.Run, left []jobRun) error {
	var next []string
	if row != nil && row.Status.Open() {
		next = append(next, "To continue:\n  "+r.g.typed("run --continue "+row.ID))
	}
	if !r.due.IsZero() {
		if due, err := r.listDue(); err == nil { // else the cause is what matters
			left = append(left, due...)
		}
	}
	var names []string
	for i := range left {
		if name := job.Shown(left[i].Spec.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		next = append(next, "not started: "+strings.Join(names, ", "))
	}
	if len(next) == 0 {
		return cause
	}
	return &stoppedError{cause, strings.Join(next, "\n")}
}

// typed returns a command as the user would type it: with the job file, if it is not the default.
func (g *globals) typed(command string) string {
	line := "outlierd "
	if usual, _ := g.world.env("OUTLIERD_CONFIG"); g.config != cmp.Or(usual, defaultConfig) {
		line += "-c " + job.Quoted(g.config) + " "
	}
	return term.Plain(line + command)
}

// listFollowers returns the runs of jobs that come after a run by hand, if it succeeded or was partial, each after the
// runs of its job that continue before it. They are due at its start, so that each is made only once for it.
func (r *runner) listFollowers(done jobRun, row *runs.Run) (next []jobRun, err error) {
	if !done.withAfter || row == nil || !row.Status.EndedWell() {
		return nil, nil
	}
	due := cmp.Or(row.Due, row.Started.Truncate(time.Microsecond)) // as stored
	for i := range r.p.Engine.Config.Jobs {
		spec := &r.p.Engine.Config.Jobs[i]
		if spec.After != row.Job || spec.Disabled {
			continue
		}
		if made, err := r.p.Engine.Store.Schedule.Performed(spec.Name, due); err != nil {
			return nil, err
		} else if made {
			continue
		}
		unfinished, err := r.listUnfinished(spec, due)
		if err != nil {
			return nil, err
		}
		follower := jobRun{Order: engine.Order{Spec: spec, Due: due, Trigger: engine.After}, withAfter: true}
		next = append(append(next, unfinished...), follower)
	}
	return next, nil
}

// listUnfinished returns the unfinished runs of a job that continue before its run of a due time, or if due is zero, at
// once.
func (r *runner) listUnfinished(spec *job.Spec, due time.Time) (all []jobRun, err error) {
	unfinished, err := r.p.Engine.Facts().Unfinished(spec, due)
	for i := range unfinished {
		if u := &unfinished[i]; u.Fate == facts.Resume || !due.IsZero() && u.Continues() {
			all = append(all, jobRun{Order: engine.Order{Spec: spec, Trigger: engine.CatchUp, Due: due, Old: &u.Run}})
		}
	}
	return all, err
}

// affectsAllJobs reports whether an error is not specific to the job: the next job would fail in the same
// way.
func affectsAllJobs(err error) bool {
	return isA[*store.LowSpaceError](err) || isA[*store.MovedError](err) || isA[*load.AheadError](err) ||
		isA[*load.SinksDownError](err) || isA[*pace.LongWaitError](err) || isA[*outlier.UnkeptError](err) ||
		isA[*serve.LostError](err) || errors.Is(err, serve.ErrStopped) || isKeyRefused(err)
}

// runJob performs one run with its progress shown, within what --max-credits leaves, and returns its record; nil if
// it never started.
func (r *runner) runJob(ctx context.Context, j jobRun) (*runs.Run, error) {
	if j.Old == nil && !j.Afresh && j.Due.IsZero() {
		var err error
		if j.Old, err = r.p.Engine.Facts().Continues(j.Spec); err != nil {
			return nil, err
		}
	}
	before, err := r.g.spending.keepWithin(r.p, &j)
	if err != nil {
		return nil, err
	}
	row, failed := r.performRun(ctx, &j)
	if row != nil {
		held, err := heldBy(r.p, row)
		if err != nil {
			return row, errors.Join(failed, err)
		}
		r.g.spending.spent += held - before
	}
	return row, failed
}

// performRun performs a run, or has the daemon do it, and reports it.
func (r *runner) performRun(ctx context.Context, j *jobRun) (*runs.Run, error) {
	fmt.Fprintln(r.g.out.w, describeStart(ctx, j.newForecasts(r.p), j.Spec, j.Old))
	run := r.p.Engine.Perform
	if r.p.daemon != nil {
		run = func(ctx context.Context, _ *engine.Order) (*runs.Run, error) { return r.orderRun(ctx, j) }
	}
	if r.p.ordered.Store(nil); j.Old != nil {
		r.p.ordered.Store(&j.Old.ID)
	}
	stop, began := watchProgress(ctx, r.g.out, r.p), time.Now()
	row, failed := run(ctx, &j.Order)
	stop()
	if row != nil {
		if err := r.reportRun(ctx, row, began, failed); err != nil {
			return row, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return row, ofJob(j.Spec.Name, failed)
	}
	if row.Status != runs.OK && row.Status != runs.OKEmpty {
		return row, statusError{row.Status}
	}
	return row, nil
}

// ofJob adds the name of the job to an error, unless it begins with it.
func ofJob(name string, err error) error {
	if strings.HasPrefix(err.Error(), "job "+name+": ") {
		return err
	}
	return fmt.Errorf("job %s: %w", name, err)
}

// selectWorst selects the error that decides the exit code: an error before a failed run, a failed run before
// an interrupted one, and that before a partial one. All errors are reported.
func selectWorst(errs []error) error {
	var unseen []error
	var status error
	rank := []runs.Status{runs.Partial, runs.PausedQuota, runs.PausedBudget, runs.Failed}
	highest := -1
	for _, err := range errs {
		err = withoutEndOfReader(err)
		s, ok := errors.AsType[statusError](err)
		if err != nil && !ok {
			unseen = append(unseen, err)
		} else if at := slices.Index(rank, s.Status); ok && (status == nil || at > highest) {
			status, highest = err, at
		}
	}
	if len(unseen) > 0 {
		return errors.Join(unseen...)
	}
	return status
}

func byHand(specs []job.Spec) []jobRun {
	var all []jobRun
	for i := range specs {
		all = append(all, jobRun{Order: engine.Order{Spec: &specs[i], Trigger: engine.Manual}})
	}
	return all
}

// listDue returns the runs that a schedule would begin now, without those that were tried: of jobs that are not due,
// those that were cut short, and then what is due, after the runs of its job that continue before it. Due times come
// with the runs: those of follow-ups, and the next one that a job with `catch_up: all` has missed.
func (r *runner) listDue() (todo []jobRun, err error) {
	due, err := r.p.Engine.DueNow(r.due)
	add := func(id string, j jobRun) {
		if !r.tried[id] {
			r.tried[id], todo = true, append(todo, j)
		}
	}
	addUnfinished := func(spec *job.Spec, due time.Time) {
		all, failed := r.listUnfinished(spec, due)
		for _, j := range all {
			add(j.Old.ID, j)
		}
		err = errors.Join(err, failed)
	}
	for i := range r.p.Engine.Config.Jobs {
		spec := &r.p.Engine.Config.Jobs[i]
		isDue := func(a *engine.DueRun) bool { return a.Spec == spec }
		if !spec.Disabled && !slices.ContainsFunc(due, isDue) {
			addUnfinished(spec, time.Time{})
		}
	}
	for _, a := range due {
		addUnfinished(a.Spec, a.Due)
		add(a.Spec.Name+" "+a.Due.String(), jobRun{Order: engine.Order{Spec: a.Spec, Trigger: a.Trigger, Due: a.Due}})
	}
	return todo, err
}

// reportRun collects the summary of a run and prints it. The caller prints the error of a failed run,
// so that it is not printed twice.
func (r *runner) reportRun(ctx context.Context, row *runs.Run, began time.Time, failed error) error {
	store := r.p.Engine.Store
	end, err := runOf(store, row)
	if err != nil {
		return err
	}
	if end.Endings, err = engine.Endings(r.p.Engine.Facts(), row); err != nil {
		return err
	}
	if err := r.offerRest(ctx, end); err != nil {
		return err
	}
	if end.Retry, err = store.Queue.NextRetry(time.Now(), queue.Filter{Job: row.Job}); err != nil {
		return err
	}
	if end.Since = row.Started; began.After(end.Since) { // the command has continued it
		end.Since = began
	}
	r.g.spending.outcomes = append(r.g.spending.outcomes, end)
	var places []string
	for _, s := range r.p.Engine.Config.Sinks {
		if places = append(places, report.Path(sinkPath(r.p.Engine.Config, s))); s.Bucket != "" {
			places = append(places, s.Bucket)
		}
	}
	fmt.Fprint(r.g.out.w, report.Summary(end, places, failed, r.g.out.look()))
	r.reportBest(ctx, row)
	return nil
}

// reportBest prints the titles of the three best hits of a run of a job, as far as they are published, and the command
// that shows more. A published file that cannot be read is not an error of the run.
func (r *runner) reportBest(ctx context.Context, row *runs.Run) {
	spec, path := r.p.Engine.Config.Job(row.Job), published(r.p.Engine.Config)
	if spec == nil || path == "" || row.Hits == 0 || !row.Status.EndedWell() {
		return
	}
	var ids, titles []string
	hits, err := r.p.Engine.Store.Hits.Best(row.ID, runs.Choice{Most: 3, All: true, Desc: !spec.Ascending})
	for _, hit := range hits {
		ids = append(ids, hit.VideoID)
	}
	text, more := query.RowsOf("outliers", "video_id", "t.title, t.channel_title", "", ids), best
	if spec.Verb == job.VerbFindChannels {
		more = "select title, handle, subscribers from found_channels order by subscribers desc limit 10"
		text = query.RowsOf("found_channels", "channel_id", "t.title, t.handle", "", ids)
	}
	if err == nil {
		err = query.Run(ctx, path, text, nil, func(values []any) error {
			title, _ := values[0].(string)
			channel, _ := values[1].(string)
			titles = append(titles, report.Title(title, channel))
			return nil
		})
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, query.ErrNotPublished) {
		fmt.Fprintf(r.g.out.w, "  the best hits cannot be shown: %s\n", term.Plain(err.Error()))
	}
	if len(titles) == 0 {
		return
	}
	command := fmt.Sprintf("sql %q", more)
	if r.p.daemon != nil && r.p.Engine.Config.Daemon.Listen != "" {
		command = "open"
	}
	fmt.Fprintf(r.g.out.w, "  the best are:\n    %s\n  more: %s\n", strings.Join(titles, "\n    "), r.g.typed(command))
}

// offerRest adds the command that buys the rest to the outcome of a run.
func (r *runner) offerRest(ctx context.Context, end *report.Run) error {
	if !end.Status.EndedWell() || !slices.ContainsFunc(end.Endings, func(e engine.Ending) bool { return e.Leaves() }) {
		return nil
	}
	spec := facts.RestSpec(r.p.Engine.Config, &end.Run)
	if spec == nil {
		return nil
	}
	if _, err := r.p.forecasts().Next(ctx, spec, false); isA[*facts.NothingLeftError](err) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range end.Endings {
		if end.Endings[i].Leaves() {
			end.Endings[i].Rest = r.g.typed("run " + spec.Flags)
		}
	}
	return nil
}

// How often progress is shown: redrawn at a terminal, or logged. An error that prevents it is logged
// less often than a terminal is redrawn.
const (
	redraw       = 500 * time.Millisecond
	logLine      = 30 * time.Second
	unknownEvery = 10 * time.Second
)

// watchProgress shows the progress of a program's run until the returned function is called: one
// block redrawn in place at a terminal, a log line every 30 s elsewhere.
func watchProgress(ctx context.Context, out *printer, p *program) (stop func()) {
	log := p.Engine.Log
	every, show := logLine, func(p engine.Progress) { log.Info("progress", progressAttrs(p)...) }
	finish, began := func() {}, time.Now()
	if out.redraws() {
		every, finish = redraw, out.block.Erase
		show = func(p engine.Progress) {
			if p.Started.Before(began) { // the command continues it
				p.Started = began
			}
			out.block.Draw(progressLines(p, time.Now())...)
		}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		unknown := rate.Sometimes{Interval: unknownEvery}
		for {
			select {
			case <-ticker.C:
				p, err := p.readProgress(ctx)
				if err != nil && ctx.Err() == nil {
					unknown.Do(func() { log.Warn("progress unknown", "err", err) })
				} else if p.Run != "" {
					show(p)
				}
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait(); finish() }
}

func progressAttrs(p engine.Progress) []any {
	attrs := []any{"job", p.Job, "run", p.Run, "pages", p.Searches.Pages, "hits", p.Searches.Hits, "new", p.Searches.New,
		"calls", p.Done, "queued", p.Queued,
		"credits", p.Spend.Charged + p.Spend.Unknown, "remaining", timeLeft(p, time.Now()).Round(time.Second).String()}
	if !p.Until.IsZero() {
		attrs = append(attrs, "waits_until", p.Until)
	}
	return attrs
}

// progressLines returns the text of the block: searches, data calls, credits and pace.
func progressLines(p engine.Progress, now time.Time) []string {
	name := term.Pad(term.Clip(job.Shown(p.Job), 40), 40)
	lines := []string{fmt.Sprintf("%s %s · ETA %s", name, formatClock(now.Sub(p.Started)), formatETA(p, now)), searchLine(p)}
	if total := p.Done + p.Queued; total > 0 {
		lines = append(lines, fmt.Sprintf("  enrich   %s %d/%d calls", term.Bar(p.Done, total), p.Done, total))
	}
	credits := fmt.Sprintf("  credits  %d spent", p.Spend.Charged)
	if p.Spend.Unknown > 0 {
		credits += fmt.Sprintf(" · %d unknown", p.Spend.Unknown)
	}
	if p.Cap > 0 {
		credits += fmt.Sprintf(" · at most %d", p.Cap)
	}
	return append(lines, credits, "  pace     "+paceText(p, now))
}

func formatClock(d time.Duration) string { return figures.Clock(int64(d.Round(time.Second).Seconds())) }

// formatETA returns a lower bound of the remaining time while searches are open: calls about their hits are
// added later.
func formatETA(p engine.Progress, now time.Time) string {
	switch {
	case p.Searches.Ended == p.Searches.All && p.Until.IsZero():
		return formatClock(timeLeft(p, now))
	case p.Pages == job.AllPages:
		return "?"
	}
	return "≥ " + formatClock(timeLeft(p, now))
}

// timeLeft returns how long the known calls take. It is at least the time until the next call or poll.
func timeLeft(p engine.Progress, now time.Time) time.Duration {
	d := p.Left
	if d > 0 {
		d = max(d, p.Pace.Reset.Sub(now))
	}
	if !p.Until.IsZero() {
		d = max(d, p.Until.Sub(now))
	}
	return d
}

// searchLine returns what the searches of a run have brought together.
func searchLine(p engine.Progress) string {
	s := p.Searches
	if s.Scan {
		return "  scan     under way"
	}
	bar, pages := term.Bar(s.Pages, s.Pages+s.Left), fmt.Sprintf("%d/%d pages", s.Pages, s.Pages+s.Left)
	switch {
	case s.Ended == s.All:
		bar, pages = term.Pad("done", term.BarWidth), term.Count(s.Pages, "page")
	case p.Pages == job.AllPages:
		bar, pages = term.Bar(0, 0), fmt.Sprintf("%d/? pages", s.Pages)
	}
	line := fmt.Sprintf("  search   %s %s  %s  %d new", bar, pages, term.Count(s.Hits, "hit"), s.New)
	if s.All > 1 && s.Ended < s.All {
		line += fmt.Sprintf(" · %d of %d searches done", s.Ended, s.All)
	}
	return line
}

func paceText(p engine.Progress, now time.Time) string {
	text := p.Pace.Pace()
	if wait := p.Pace.Reset.Sub(now); wait > time.Second && p.Pace.Remaining == 0 {
		text += " · next call in " + term.Duration(wait)
	}
	if p.Until.After(now) {
		text += " · waits for a scan, polled again in " + term.Duration(p.Until.Sub(now))
	}
	return text
}
