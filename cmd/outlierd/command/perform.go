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
	whole bool // the job's unfinished runs are continued or closed before this run
	after bool // the jobs that come after this one run, too
	byID  bool // Old was named by its id, and its record says the rest
}

// newForecasts returns a reader of forecasts for the run.
func (j *jobRun) newForecasts(p *program) *forecast.Reader {
	r := p.forecasts()
	r.Afresh, r.UseReserve = j.Afresh, j.UseReserve
	return r
}

// isScheduled reports whether a schedule requests the run, not a user.
func (j *jobRun) isScheduled() bool {
	return !j.Due.IsZero() || j.Trigger == engine.CatchUp
}

// idle is the reason why there is nothing to run. It is not a failure.
type idle string

func (why idle) Error() string { return string(why) }

// A runner performs the runs of a command, and prints how they went.
type runner struct {
	g *globals
	p *program
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
	if err := printJSON(g.out, each(g.spending.outcomes)); err != nil {
		return selectWorst([]error{failed, err})
	}
	return failed
}

// runJobs performs runs and reports them. The worst status decides the exit code. A run that cannot
// continue stops the others only if the reason is not specific to its job.
func (r *runner) runJobs(ctx context.Context, todo []jobRun) error {
	var errs []error
	began := time.Now()
	for len(todo) > 0 {
		next := todo[0]
		if next.whole {
			first, err := unfoldRun(r.p, next)
			if err != nil {
				return selectWorst(append(errs, err))
			}
			todo = append(first, todo[1:]...)
			continue
		}
		if most := r.g.spending.most; most > 0 && r.g.spending.creditsLeft() == 0 {
			fmt.Fprintf(r.g.world.err, "--max-credits %d is reached\n", most)
			return r.goOn(selectWorst(append(errs, statusError{runs.PausedBudget})), nil, todo)
		}
		row, err := r.runJob(ctx, next)
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
		followers, err := listFollowers(r.p, next, row, began)
		if err != nil {
			return selectWorst(append(errs, err))
		}
		if todo = append(followers, todo[1:]...); ctx.Err() != nil && len(todo) > 0 {
			return selectWorst(append(errs, r.goOn(context.Cause(ctx), nil, todo)))
		}
	}
	return selectWorst(errs)
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

// listFollowers returns the runs of jobs that come after a run, and then that of the next due time that the job has
// missed before the command began. After a scheduled run they are due even if the rest of that run fails. After a run
// by hand they follow if it succeeded or was partial; they are due at its start, so that each is made only once for it.
func listFollowers(p *program, done jobRun, row *runs.Run, began time.Time) (next []jobRun, err error) {
	switch {
	case !done.after || row == nil:
		return nil, nil
	case !row.Due.IsZero():
		due, err := p.Engine.DueNow(time.Now())
		var after, again []*engine.DueRun
		for _, a := range due {
			switch follows := a.Trigger == engine.After; {
			case follows && a.Spec.After == row.Job && a.Due.Equal(row.Due):
				after = append(after, a)
			case !follows && a.Spec.Name == row.Job && done.Old == nil && !a.Due.After(began):
				again = append(again, a)
			}
		}
		return toJobRuns(append(after, again...)), err
	case !row.Status.EndedWell():
		return nil, nil
	}
	due := row.Started.Truncate(time.Microsecond) // as stored
	for i := range p.Engine.Config.Jobs {
		if spec := &p.Engine.Config.Jobs[i]; spec.After == row.Job && !spec.Disabled {
			next = append(next, jobRun{
				Order: engine.Order{Spec: spec, Due: due, Trigger: engine.After}, whole: true, after: true,
			})
		}
	}
	return next, nil
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
	if j.Old == nil && !j.Afresh && !j.isScheduled() {
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
	if err := r.listDisplaced(j); err != nil {
		return nil, err
	}
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
		all = append(all, jobRun{Order: engine.Order{Spec: &specs[i], Trigger: engine.Manual}, whole: true})
	}
	return all
}

// toJobRuns returns the runs to perform for those that are due.
func toJobRuns(due []*engine.DueRun) (todo []jobRun) {
	for _, a := range due {
		todo = append(todo, jobRun{Order: engine.Order{Spec: a.Spec, Trigger: a.Trigger, Due: a.Due}, whole: true, after: true})
	}
	return todo
}

// unfoldRun returns the runs needed to perform a due time or a job by hand, beginning with unfinished runs
// of the job. By hand, the job's own unfinished run is what is performed. It returns none for a due time
// that has had its run meanwhile. If nothing is due, only what was cut short is continued.
func unfoldRun(p *program, j jobRun) (todo []jobRun, err error) {
	unfinished, err := p.Engine.Facts().Unfinished(j.Spec, j.Due)
	if err != nil {
		return nil, err
	}
	done, err := p.Engine.Store.Schedule.Performed(j.Spec.Name, j.Due)
	if done || err != nil {
		return nil, err
	}
	j.whole = false
	nothingDue := j.isScheduled() && j.Due.IsZero()
	for i := range unfinished {
		u, old := &unfinished[i], &unfinished[i].Run
		continues := u.Continues() && (j.isScheduled() || old.Overridden != j.Spec.Overridden)
		if nothingDue {
			continues = u.Fate == facts.Resume
		}
		if continues {
			first := j
			first.Old, first.after = old, !old.Due.IsZero()
			todo = append(todo, first)
		}
	}
	if nothingDue {
		return todo, nil
	}
	return append(todo, j), nil
}

// listDisplaced names the unfinished runs that a new one closes, and those that it leaves.
func (r *runner) listDisplaced(j *jobRun) error {
	if j.Old != nil || j.Spec.Rest != "" || job.IsOnce(j.Spec.Name) {
		return nil
	}
	all, err := r.p.Engine.Facts().Unfinished(j.Spec, j.Due)
	for _, u := range all {
		switch old := &u.Run; {
		case u.Closes() == "":
			fmt.Fprintf(r.g.out.w, "%s: %s stays unfinished: %s:\n  %s\n", old.Job, nameOfRun(r.p, old),
				u.Why, r.g.typed(strings.TrimPrefix(facts.Command(old.ID), "outlierd ")))
		case old.Status != runs.Failed:
			fmt.Fprintln(r.g.out.w, describeSuperseded(r.p, &u))
		}
	}
	return err
}

// describeSuperseded returns the message that a new run closes an unfinished one.
func describeSuperseded(p *program, u *facts.Unfinished) string {
	return fmt.Sprintf("%s: %s is superseded by a new run: %s", u.Run.Job, nameOfRun(p, &u.Run), u.Closes())
}

// nameOfRun returns the name of an unfinished run for people.
func nameOfRun(p *program, run *runs.Run) string {
	name := "the run of " + run.Started.In(p.Engine.Config.Timezone).Format("2006-01-02 15:04")
	if flags := facts.Flags(run); flags != "" {
		name += " with " + flags
	}
	return fmt.Sprintf("%s (%s)", term.Plain(name), run.Status)
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
	if end.Distinct, err = store.Hits.Distinct(row.ID); err != nil {
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
			out.block.Draw(func(int) []string { return progressLines(p, time.Now()) })
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
