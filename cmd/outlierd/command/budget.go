package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/serve"
	"outlierd/sync/state"
)

func budgetCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "budget",
		Short: "Show credits spent and left, and what blocks calls",
		Long: `Show the budget of the billing cycle, of today, and of each job that has a cap of its own
or has spent credits. One-off requests such as 'outlierd search' share the row "by hand".

  spent     answers that arrived
  unknown   answers that were lost; they count, since the service may have charged them
  reserved  calls in progress
  scans     reserved for reading the results of scans
  adjusted  recorded with 'outlierd budget adjust'

It works while another instance is running. The table ops.credits has every row. There the
job of a one-off request is called once:search and the like; -o json calls all of them once:.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.showBudget(c.Context()) },
	}
	c.AddCommand(budgetAdjustCommand(o), budgetResumeCommand(o))
	return c
}

func (o *options) showBudget(ctx context.Context) error {
	if err := o.tableOrJSON(); err != nil {
		return err
	}
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	return o.with(ctx, config, toRead, func(p *program) error {
		b, err := budgetOf(ctx, p)
		if err != nil {
			return err
		}
		return o.printBudget(b)
	})
}

// printBudget prints a budget.
func (o *options) printBudget(b *forecast.Budget) error {
	if o.forPrograms() {
		return o.whole(b)
	}
	_, err := fmt.Fprint(o.world.out, budgetText(b, o.look()))
	return err
}

// budgetOf returns the budget, including what was spent by one-off requests and by jobs that the file
// no longer has.
func budgetOf(ctx context.Context, p *program) (*forecast.Budget, error) {
	b, err := p.forecasts().Budget(ctx)
	if err != nil {
		return nil, err
	}
	names, err := p.Engine.Store.Jobs()
	if err != nil {
		return nil, err
	}
	cycle := b.Caps[0].Period // the first one is that of the cycle
	for _, name := range names {
		if p.Engine.Config.Job(name) != nil || isOnce(name) {
			continue
		}
		c := forecast.CapBalance{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(name, cycle), Job: name}
		if c.Balance, err = p.Engine.Store.Ledger.Balance(ledger.Cap{Scope: c.Scope, Period: c.Period}); err != nil {
			return nil, err
		}
		if c.Balance != (ledger.Balance{}) {
			c.Held = c.Balance.Held()
			b.Caps = append(b.Caps, c)
		}
	}
	return b, nil
}

// budgetText returns the budget for people.
func budgetText(b *forecast.Budget, l term.Options) string {
	p := &planPrinter{zone: l.Zone}
	shown := shownAmounts(b)
	columns := []string{"credits"}
	for _, at := range shown {
		columns = append(columns, amountColumns[at])
	}
	t := term.NewTable(p, l, columns)
	for i := range b.Caps {
		amounts := amountsOf(&b.Caps[i])
		row := []any{term.Clip(over(&b.Caps[i]), 24)}
		for _, at := range shown {
			row = append(row, amount(amounts[at]))
		}
		_ = t.Row(row) // writing to a string does not fail
	}
	for i := range shown {
		t.AlignRight(i + 1)
	}
	_ = t.End()
	p.notes(b)
	return p.String()
}

// shownAmounts returns the indices of the columns to show: the fixed ones, and those that have values.
func shownAmounts(b *forecast.Budget) (shown []int) {
	for at, column := range amountColumns {
		show := slices.Contains([]string{"cap", "held", "left", "spent"}, column)
		for i := range b.Caps {
			n := amountsOf(&b.Caps[i])[at]
			show = show || n != nil && *n != 0
		}
		if show {
			shown = append(shown, at)
		}
	}
	return shown
}

var amountColumns = [...]string{"cap", "held", "left", "spent", "unknown", "reserved", "scans", "adjusted", "refunded"}

// amountsOf returns the values of amountColumns; nil for a value that does not apply.
func amountsOf(c *forecast.CapBalance) [len(amountColumns)]*outlier.Credits {
	return [...]*outlier.Credits{c.Max, &c.Held, c.Left, &c.Spent, &c.Unknown, &c.Reserved, &c.Scans,
		&c.Adjusted, &c.Refunded}
}

// over returns the scope of a cap, for people.
func over(c *forecast.CapBalance) string {
	switch {
	case isOnce(c.Job):
		return "by hand"
	case c.Job != "":
		return "job " + c.Job
	case c.Scope == ledger.ScopeDay:
		return "day " + c.Period
	}
	return "cycle from " + c.Period
}

// amount formats credits, or a dash if they do not apply.
func amount(n *outlier.Credits) string {
	if n == nil {
		return "–"
	}
	return strconv.FormatInt(int64(*n), 10)
}

// notes prints what does not fit into the table.
func (p *planPrinter) notes(b *forecast.Budget) {
	p.line("")
	if b.Cycle.Reserve > 0 {
		p.line("%s of the cycle are reserved for 'run --use-reserve'", term.Count(b.Cycle.Reserve, "credit"))
	}
	for i := range b.Caps {
		if c := &b.Caps[i]; c.Explained > 0 {
			p.line("%s: %d of the %d unknown credits were followed by an answer to the same request; "+
				"they count nevertheless", over(c), c.Explained, c.Unknown)
		}
	}
	for _, a := range b.Adjustments {
		p.line("adjusted on %s by %+d: %s", p.day(a.At), a.Credits, term.Clip(a.Why, 70))
	}
	p.line("%s", p.needs(&b.Cycle))
	if !b.Cycle.LastsTo.IsZero() {
		p.line("! lasts until %s", p.day(b.Cycle.LastsTo))
	}
	for _, r := range b.Refusals {
		p.line("! %s", p.refusal(r))
	}
}

func (p *planPrinter) refusal(r ledger.Block) string {
	if r.Kind == ledger.BlockKey {
		return fmt.Sprintf("the service has refused the key since %s (%s):\n"+
			"  calls stop until the key changes or someone runs a job", p.at(r.Since), term.Plain(r.Reason))
	}
	if r.Kind == ledger.BlockClock {
		return fmt.Sprintf("paid calls are blocked since %s:\n  %s", p.at(r.Since), term.Plain(r.Reason))
	}
	return fmt.Sprintf("the account has had no credits left since %s (%s):\n"+
		"  paid calls are tried again after %s, or after 'outlierd budget resume'",
		p.at(r.Since), term.Plain(r.Reason), p.at(r.Until))
}

func budgetAdjustCommand(o *options) *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "adjust ±N --why TEXT",
		Short: "Record credits spent or bought outside outlierd",
		Long: `Record credits that outlierd cannot see: +N were spent elsewhere in the current billing cycle,
such as on the service's site; -N were bought in addition. No cap limits the amount, and the
credits left in the cycle change by it. The row is kept with its reason. To undo it,
adjust by the opposite amount.

It works while 'outlierd up' is running.`,
		Example: `  outlierd budget adjust +12 --why "searched by hand on the site"
  outlierd budget adjust -100 --why "top-up of 21 November"`,
		DisableFlagParsing: true, // until -100 has been distinguished from a flag
		Args:               cobra.ArbitraryArgs,
	}
	c.Flags().StringVar(&why, "why", "", "the reason; required")
	c.RunE = func(c *cobra.Command, args []string) error {
		c.DisableFlagParsing = false
		if err := c.ParseFlags(amountLast(args)); err != nil {
			return usageError{err}
		}
		if err := errors.Join(o.prepare(), o.tableOrJSON()); err != nil {
			return err // before anything is recorded
		}
		if help, err := c.Flags().GetBool("help"); help || err != nil {
			return c.Help()
		}
		if err := cobra.ExactArgs(1)(c, c.Flags().Args()); err != nil {
			return usageError{err}
		}
		return o.adjust(c.Context(), c.Flags().Arg(0), strings.TrimSpace(why))
	}
	return c
}

// amountLast moves a negative amount to where it is not parsed as a flag.
func amountLast(args []string) []string {
	at := slices.IndexFunc(args, func(arg string) bool {
		_, err := signed(arg)
		return err == nil && arg[0] == '-'
	})
	if at < 0 || slices.Contains(args[:at], "--") || at > 0 && args[at-1] == "--why" {
		return args
	}
	return append(slices.Delete(slices.Clone(args), at, at+1), "--", args[at])
}

func (o *options) adjust(ctx context.Context, amount, why string) error {
	credits, err := signed(amount)
	if err == nil && why == "" {
		err = errors.New(`give the reason, as in --why "top-up of 21 November"`)
	}
	if err != nil {
		return usageError{err}
	}
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	err = o.with(ctx, config, toChange, func(p *program) error {
		_, err := change(ctx, p, serve.Adjust{Credits: credits, Why: why})
		return err
	})
	if err != nil {
		return err
	}
	return o.showBudget(ctx)
}

// signed parses an amount with a sign: + for credits spent, - for credits bought.
func signed(text string) (outlier.Credits, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || err == nil && n == 0 || text[0] != '+' && text[0] != '-' {
		return 0, fmt.Errorf("%q: want +N for credits that were spent elsewhere, "+
			"or -N for credits that were bought", text)
	}
	if err := job.CheckCredits(max(n, -n)); err != nil {
		return 0, fmt.Errorf("%s: the amount %w", text, err)
	}
	return outlier.Credits(n), nil
}

func budgetResumeCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "resume", Short: "Resume paid calls after the service refused them",
		Long: `When the service answers that the account has no credits left, paid calls stop until the
billing cycle turns, except for one attempt a day. After you have bought credits, this
command resumes them at once. It also tries a refused key again.

Paid calls stop, too, when the service sends no time and the local clock has reached a new
day or cycle, or when the service's answers contradict each other about the time. This
command then confirms the local clock for that day. If only the service's clock has reached
a new day or cycle, more than 36 hours ahead of the local clock, it confirms the service's date.

The caps of the job file still apply. It works while another instance is running.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := o.loadForOnce()
			if err != nil {
				return err
			}
			return o.resumeSpending(c.Context(), config)
		},
	}
}

func (o *options) resumeSpending(ctx context.Context, config *job.Config) error {
	lifted, err := o.lift(ctx, config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(lifted) == 0 {
		return o.done(map[string]any{"lifted": []serve.Block{}}, "no calls are blocked; the caps of %s apply\n",
			config.Path)
	}
	said := ""
	for _, block := range lifted {
		said += fmt.Sprintf("lifted: %s\n", blockText(block, config.Timezone))
	}
	return o.done(map[string]any{"lifted": lifted}, "%scalls resume, within the caps of %s\n", said, config.Path)
}

// blockText describes why calls are blocked, and since when.
func blockText(b serve.Block, zone *time.Location) string {
	return fmt.Sprintf("%s (since %s)", term.Plain(b.Reason), b.Since.In(zone).Format("2006-01-02 15:04 MST"))
}

// lift lifts the blocks of calls. A daemon continues at once; another process that has locked the state
// folder notices before its next call.
func (o *options) lift(ctx context.Context, config *job.Config) ([]serve.Block, error) {
	daemon, err := served(ctx, config)
	if err != nil {
		return nil, err
	}
	if daemon != nil {
		lifted, err := serve.Send(ctx, daemon, serve.Lift{})
		return lifted.Blocks, err
	}
	var lifted []ledger.Block
	err = o.with(ctx, config, toRead, func(p *program) (err error) {
		lifted, err = state.Lift(ctx, stateFolder(config), stateOptions(config), p.Engine.Client.Key.Fingerprint())
		return err
	})
	return serve.Blocks(lifted), err
}
