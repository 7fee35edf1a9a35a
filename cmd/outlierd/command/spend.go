package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// # Spending by hand
//
// Every command that may buy something performs its runs by [spend]: it prints prices for --dry-run, asks
// about a run that may cost more than budget.confirm_over, and keeps all runs together within --max-credits.
// Schedules are asked for by the job file, and never ask.

// spending are the flags of the commands that may spend credits, and what the runs of this one have spent.
type spending struct {
	yes, dryRun bool
	most        int64 // 0 for no cap
	assistant   bool  // an assistant asks: most is a cap even if it is 0

	spent    outlier.Credits // and held, by the runs so far
	prices   []report.Price  // of the runs, with dryRun
	outcomes []*report.Run   // of the runs that have ended
	ended    string          // why the run of a one-off command ended
}

func (s *spending) addFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&s.yes, "yes", false, "do not ask for confirmation, whatever the cost (budget.confirm_over)")
	flags.BoolVar(&s.dryRun, "dry-run", false, "print price, requests and what is stored already; send nothing")
	addCredits(c, &s.most, "max-credits", "spend at most `N` credits")
}

// addCredits adds a flag with a number of credits.
func addCredits(c *cobra.Command, credits *int64, name, usage string) {
	c.Flags().Func(name, usage, func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("it must be a number")
		}
		*credits = n
		return job.CheckCredits(n)
	})
}

// spend opens the program, decides by which what to run, and performs that.
func spend(ctx context.Context, g *globals, config *job.Config, which func(*runner) ([]jobRun, error),
	perform func(*runner, context.Context, []jobRun) error) error {
	as := toBuy
	if g.spending.dryRun {
		as = toRead
	}
	return g.with(ctx, config, as, func(p *program) error {
		r := &runner{g: g, p: p}
		todo, err := which(r)
		if why, ok := errors.AsType[idle](err); ok {
			if why != "" {
				fmt.Fprintln(g.out.w, why)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if g.spending.dryRun {
			return r.printPrices(ctx, withFollowers(config, todo))
		}
		if !g.spending.yes && r.due.IsZero() {
			if err := approveRuns(ctx, p, todo, g.spending.most, g.asker()); err != nil {
				return err
			}
		}
		return perform(r, ctx, todo)
	})
}

// keepWithin sets the cap of a run that is about to start, or to continue, to what --max-credits leaves. It returns
// what the run holds already.
func (s *spending) keepWithin(p *program, j *jobRun) (before outlier.Credits, err error) {
	if j.Old != nil {
		before, err = heldBy(p, j.Old)
	}
	if s.most > 0 || s.assistant {
		spec := *j.Spec
		spec.Budget.MaxCredits = new(before + s.creditsLeft())
		j.Spec = &spec
	}
	return before, err
}

// creditsLeft returns what --max-credits leaves for further runs.
func (s *spending) creditsLeft() outlier.Credits {
	return max(0, outlier.Credits(s.most)-s.spent)
}

// heldBy returns what counts for a run's cap.
func heldBy(p *program, run *runs.Run) (outlier.Credits, error) {
	spent, err := p.Engine.Store.Ledger.Spent(run.ID)
	return spent.Charged + spent.Unknown + spent.Reserved + spent.Held, err
}

// printPrices prints what runs may cost.
func (r *runner) printPrices(ctx context.Context, todo []jobRun) error {
	var all []report.Price
	for i := range todo {
		one, err := r.priceRun(ctx, &todo[i])
		if err != nil {
			return ofJob(job.Shown(todo[i].Spec.Name), err)
		}
		all = append(all, one)
	}
	r.g.spending.prices = all
	columns := []string{"job", "credits", "if_lost", "requests", "seconds", "in_journal", "fresh"}
	return printList(r.g.out, all, columns, func(p report.Price) []any {
		return []any{p.Job, int64(p.Credits), int64(p.Lost), int64(p.Requests), p.Time.Seconds(), int64(p.Known), int64(p.Fresh)}
	})
}

func (r *runner) priceRun(ctx context.Context, j *jobRun) (one report.Price, err error) {
	known := j.newForecasts(r.p)
	if j.Old, err = known.Continues(j.Spec); err != nil {
		return one, err
	}
	if _, err := r.g.spending.keepWithin(r.p, j); err != nil {
		return one, err
	}
	next, err := known.Next(ctx, j.Spec, j.Trigger == engine.After)
	if err == nil {
		_, one.Fresh = next.Plan.Freshness()
		one.Known, err = engine.InJournal(known.Reader, next.Plan)
	}
	cost := next.Cost
	r.g.spending.spent += cost.Credits
	one.Job, one.Credits, one.Lost, one.Requests = job.Shown(j.Spec.Name), cost.Credits, cost.Lost, cost.Requests
	one.Time.Duration = known.Time(cost.Requests)
	return one, err
}

// minConfirmOver is the minimum of the default of budget.confirm_over, which is a tenth of the month.
const minConfirmOver outlier.Credits = 20

// confirmOver returns the price above which a run needs confirmation, and the setting that it comes from;
// nil means never.
func confirmOver(config *job.Config) (limit *outlier.Credits, why string) {
	budget := config.Budget
	switch {
	case budget.ConfirmOver != nil:
		return budget.ConfirmOver, "budget.confirm_over"
	case budget.PerMonth == nil || config.Service.Simulated():
		return nil, ""
	}
	return new(max(minConfirmOver, *budget.PerMonth/10)), "a tenth of the month; set budget.confirm_over to change it"
}

// errDeclined ends a command whose question was not answered with yes.
var errDeclined = errors.New("not confirmed; nothing was started")

// askConsent asks the user to confirm. Without a terminal, where who is nil, it refuses.
func askConsent(who *term.Asker, warning, question string) error {
	if who == nil {
		return usageError{errors.New(warning + "; not a terminal: pass --yes to confirm")}
	}
	agreed, err := who.Yes(warning + ". " + question)
	if err == nil && !agreed {
		err = errDeclined
	}
	return err
}

// approveRuns asks once, before the first run starts, if a run by hand may cost more than budget.confirm_over. The
// price of a run is its cap, and at most the given number of credits if that is not 0. Without a terminal, where
// who is nil, runs that need confirmation are refused.
func approveRuns(ctx context.Context, p *program, todo []jobRun, most int64, who *term.Asker) error {
	limit, why := confirmOver(p.Engine.Config)
	if limit == nil || 0 < most && most <= int64(*limit) {
		return nil
	}
	dear, err := overLimit(ctx, p, withFollowers(p.Engine.Config, todo), *limit, outlier.Credits(most))
	if err != nil || len(dear) == 0 {
		return err
	}
	return askConsent(who, fmt.Sprintf("this may cost more than %s (%s): %s", term.Count(*limit, "credit"), why, strings.Join(dear, ", ")), "Run it?")
}

// overLimit returns the runs by hand that may cost more than limit, with their prices, which are at most cap.
func overLimit(ctx context.Context, p *program, todo []jobRun, limit, cap outlier.Credits) (dear []string, err error) {
	for i := range todo {
		next := &todo[i]
		known, err := next.newForecasts(p).Next(ctx, next.Spec, next.Trigger == engine.After)
		most := known.Most
		if cap > 0 {
			most = min(most, cap)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil && most > limit { // a run that cannot start reports the reason itself, and costs nothing
			dear = append(dear, fmt.Sprintf("%s up to %d", job.Shown(next.Spec.Name), most))
		}
	}
	return dear, nil
}

// withFollowers adds the jobs that come after those run by hand, so that there is only one question. It
// assumes that their SQL finds the same then as now.
func withFollowers(config *job.Config, todo []jobRun) (all []jobRun) {
	for _, next := range todo {
		all = append(all, next)
		if !next.withAfter {
			continue
		}
		for i := range config.Jobs {
			if spec := &config.Jobs[i]; spec.After == next.Spec.Name && !spec.Disabled {
				follower := jobRun{Order: engine.Order{Spec: spec, Trigger: engine.After}, withAfter: true}
				all = append(all, withFollowers(config, []jobRun{follower})...)
			}
		}
	}
	return all
}

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
		line, _ := priceLine(ctx, r, &r.Config.Jobs[i], true)
		lines = append(lines, line)
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
	_, cost, err := r.Left(old, spec.Budget)
	if err != nil {
		return line // the run reports the error
	}
	return line + "\n  left to do: " + costText(r, cost)
}

// agedAfter is the age after which the order of the service's results has probably changed.
const agedAfter = 24 * time.Hour

// planLine returns the worst case of a run that starts now, in credits, requests and time, and the scans that it waits
// for.
func planLine(ctx context.Context, r *forecast.Reader, spec *job.Spec) string {
	line, p := priceLine(ctx, r, spec, false)
	if p == nil {
		return line
	}
	for i := range p.Steps {
		if began := p.Steps[i].Began; !began.IsZero() && time.Since(began) > agedAfter { // of the rest of an earlier run
			line += fmt.Sprintf("\n  page one was bought %d days ago; the order may have changed since, so hits may repeat or be missing",
				int(time.Since(began).Hours()/24))
			break
		}
	}
	for _, scan := range slices.Sorted(maps.Values(p.Stored.Joins)) {
		if scan != "" { // else the run starts it
			line += "\n  waits for scan " + scan + ", and reads it"
		}
	}
	return line
}

// priceLine returns the worst case of a run with its plan, which is nil if it cannot run. By the time of a later run,
// its SQL may find more.
func priceLine(ctx context.Context, r *forecast.Reader, spec *job.Spec, later bool) (string, *plan.Plan) {
	p, cost, err := r.WorstCase(ctx, spec, later)
	if err != nil {
		return cannotRun(spec, err), nil
	}
	line := job.Shown(spec.Name) + ": "
	if spec.Rest != "" {
		line += "the rest of run " + spec.Rest + ": "
	}
	line += costText(r, cost)
	switch {
	case p.Assumed:
		line += ", if its SQL finds one row; it finds none now"
	case len(spec.SQL()) > 0:
		line += ", for what its SQL finds now"
	}
	return line, p
}

func cannotRun(spec *job.Spec, err error) string {
	if unknown, ok := errors.AsType[*job.UnknownChannelsError](err); ok && len(unknown.Videos()) > 0 {
		return fmt.Sprintf("%s: a run first asks for the channel of %s, which is free", job.Shown(spec.Name),
			strings.Join(unknown.Videos(), ", "))
	}
	return fmt.Sprintf("%s: cannot run now: %s", job.Shown(spec.Name),
		term.Plain(strings.TrimPrefix(err.Error(), "job "+spec.Name+": ")))
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
