package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
)

// # Without the state
//
// Only its owner can read the folder `state`, but everybody can read the published tables. In the data
// folder of a colleague, or in a copy without `state`, commands that only read answer from these
// tables, as far as possible, and say so.

// orPublished reads the state, or the published tables if the state may not be read or is missing.
// Without published tables it reads the state.
func (o *options) orPublished(config *job.Config, look, read func() error) error {
	folder, path := filepath.Join(config.Data, "state"), published(config)
	tables, unpublished := os.Stat(path)
	if unpublished != nil {
		return look()
	}
	why := relative(folder) + " is missing"
	if _, err := os.Stat(filepath.Join(folder, "state.db")); !errors.Is(err, fs.ErrNotExist) {
		if err := look(); !errors.Is(err, fs.ErrPermission) {
			return err
		}
		why = fmt.Sprintf("%s is not readable by user %d", relative(folder), os.Getuid())
	}
	fmt.Fprintf(o.world.err, "%s; the answer comes from the tables published in %s at %s, "+
		"without what only the state has, such as queued calls\n",
		why, relative(path), tables.ModTime().In(config.Timezone).Format("2006-01-02 15:04 MST"))
	return read()
}

// unrecorded lets work forecast without the state, as if each job ran for the first time.
func (o *options) unrecorded(ctx context.Context, config *job.Config, work func(*program) error) (err error) {
	log, err := o.logger()
	if err != nil {
		return err
	}
	p := &program{Engine: &engine.Engine{Config: config, Log: log, IDs: seedsOnce(config)}}
	defer func() { err = errors.Join(err, p.Close()) }()
	folder, err := p.temporaryStore(ctx)
	if err != nil {
		return err
	}
	if err := p.openPace(folder); err != nil {
		return err
	}
	fmt.Fprintln(o.world.err, "every job is priced as if it ran for the first time")
	return work(p)
}

// planPublished forecasts without the state: the credits spent come from the published ledger.
func (o *options) planPublished(
	ctx context.Context, config *job.Config, show func(*program, func(*forecast.Forecast)) error,
) error {
	amounts, err := publishedAmounts(ctx, config)
	if err != nil {
		return err
	}
	month := amounts[amountsKey{scope: ledger.ScopeMonth}]
	held := month.Taken()
	return o.unrecorded(ctx, config, func(p *program) error {
		return show(p, func(f *forecast.Forecast) {
			f.Cycle.Held, f.Cycle.Projected = f.Cycle.Held+held, f.Cycle.Projected+held
			for i := range f.Jobs {
				f.Jobs[i].Changes = nil // compared with runs that are unknown here
			}
		})
	})
}

// budgetPublished returns the budget without the state: the published ledger, with the caps of the job file.
func (o *options) budgetPublished(ctx context.Context, config *job.Config) (b *forecast.Budget, err error) {
	amounts, err := publishedAmounts(ctx, config)
	if err != nil {
		return nil, err
	}
	err = o.unrecorded(ctx, config, func(p *program) error {
		b, err = p.forecasts().Budget(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range b.Caps {
		c := &b.Caps[i]
		key := amountsKey{c.Scope, c.Job}
		c.Balance = amounts[key]
		delete(amounts, key)
	}
	cycle := b.Caps[0].Period
	byJob := func(a, b amountsKey) int { return strings.Compare(a.job, b.job) }
	for _, key := range slices.SortedFunc(maps.Keys(amounts), byJob) {
		period := ledger.JobCycle(key.job, cycle)
		b.Caps = append(b.Caps, forecast.CapBalance{Scope: key.scope, Period: period, Job: key.job,
			Balance: amounts[key]})
	}
	for i := range b.Caps {
		c := &b.Caps[i]
		c.Held = c.Balance.Taken()
		if c.Max != nil {
			c.Left = new(max(0, *c.Max+c.Balance.Bought()-c.Kept-c.Held))
		}
	}
	b.Cycle.Held, b.Cycle.Projected = b.Cycle.Held+b.Caps[0].Held, b.Cycle.Projected+b.Caps[0].Held
	return b, nil
}

// amountsKey identifies the cycle, the day, or a job in the cycle.
type amountsKey struct {
	scope ledger.Scope
	job   string
}

// publishedAmounts returns the credits of the cycle, the day, and each job that bought something in the
// cycle, from the published ledger. Rows without a run are adjustments.
func publishedAmounts(ctx context.Context, config *job.Config) (map[amountsKey]ledger.Balance, error) {
	now := time.Now()
	cycle, day := ledger.Cycle(now, config.Timezone, config.Budget.Renews), ledger.Day(now, config.Timezone)
	record, err := query.ReadLedger(ctx, published(config), cycle, day)
	amounts := map[amountsKey]ledger.Balance{
		{scope: ledger.ScopeMonth}: balance(record.Cycle), {scope: ledger.ScopeDay}: balance(record.Day),
	}
	for name, spending := range record.Jobs {
		if isOnce(name) {
			name = ledger.ByHand
		}
		key, b := amountsKey{ledger.ScopeJobMonth, name}, balance(spending)
		sum := amounts[key]
		sum.Spent, sum.Unknown, sum.Reserved = sum.Spent+b.Spent, sum.Unknown+b.Unknown, sum.Reserved+b.Reserved
		sum.Adjusted, sum.Refunded = sum.Adjusted+b.Adjusted, sum.Refunded+b.Refunded
		amounts[key] = sum
	}
	return amounts, err
}

func balance(s query.Spending) ledger.Balance {
	return ledger.Balance{
		Spent: s.Spent, Unknown: s.Unknown, Reserved: s.Reserved, Adjusted: s.Adjusted, Refunded: s.Refunded,
	}
}
