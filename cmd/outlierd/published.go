package main

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

	"outlierd/outlier"
	"outlierd/sinks/duckdb"
	"outlierd/sync/credit"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # Without the state
//
// The folder `state` is its owner's alone, and the published tables are for everybody. In the
// data folder of a colleague, or in a copy of it without `state`, the commands that show what is
// on record answer from these tables, as far as they tell it, and say so.

// orPublished looks at the state, or reads the published tables where the state may not be read
// or is missing. Without published tables the state has to answer.
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
		why = fmt.Sprintf("%s is not readable for user %d", relative(folder), os.Getuid())
	}
	fmt.Fprintf(o.err, "%s; the answer comes from the tables published in %s at %s, "+
		"without what only the state has, such as queued data calls\n",
		why, relative(path), tables.ModTime().In(config.Timezone).Format("2006-01-02 15:04 MST"))
	return read()
}

// unrecorded lets work forecast without the state: each job as if it ran for the first time.
func (o *options) unrecorded(ctx context.Context, config *job.Config, work func(*program) error) (err error) {
	log, err := o.logger()
	if err != nil {
		return err
	}
	p := &program{Engine: &engine.Engine{Config: config, Log: log, IDs: seedsOnce(config)}}
	defer func() { err = errors.Join(err, p.Close()) }()
	folder, err := p.invent(ctx)
	if err != nil {
		return err
	}
	if err := p.openPace(folder); err != nil {
		return err
	}
	fmt.Fprintln(o.err, "every job is priced as if it ran for the first time")
	return work(p)
}

// planPublished forecasts without the state, in a cycle of which the published ledger says
// what is spent.
func (o *options) planPublished(ctx context.Context, config *job.Config, show func(*program, func(*engine.Forecast)) error) error {
	amounts, err := publishedAmounts(ctx, config)
	if err != nil {
		return err
	}
	month := amounts[amountsKey{scope: credit.AllMonth}]
	held := month.Taken()
	return o.unrecorded(ctx, config, func(p *program) error {
		return show(p, func(f *engine.Forecast) {
			f.Cycle.Held, f.Cycle.Projected = f.Cycle.Held+held, f.Cycle.Projected+held
			for i := range f.Jobs {
				f.Jobs[i].Changes = nil // against runs that are not known here
			}
		})
	})
}

// budgetPublished is the budget without the state: what the published ledger says, with the
// caps of the job file.
func (o *options) budgetPublished(ctx context.Context, config *job.Config) (b *engine.Budget, err error) {
	amounts, err := publishedAmounts(ctx, config)
	if err != nil {
		return nil, err
	}
	err = o.unrecorded(ctx, config, func(p *program) error {
		b, err = p.Budget(ctx)
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
	for _, key := range slices.SortedFunc(maps.Keys(amounts), func(a, b amountsKey) int { return strings.Compare(a.job, b.job) }) {
		period := credit.JobCycle(key.job, cycle)
		b.Caps = append(b.Caps, engine.CapBalance{Scope: key.scope, Period: period, Job: key.job, Balance: amounts[key]})
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

// amountsKey is the cycle, the day, or a job in the cycle.
type amountsKey struct {
	scope credit.Scope
	job   string
}

// publishedAmounts are the credits of the cycle, the day, and each job that bought something in
// the cycle, as the published ledger has them. A row without a run was booked by hand.
func publishedAmounts(ctx context.Context, config *job.Config) (map[amountsKey]state.Balance, error) {
	const sums = `coalesce(sum(price) filter (where outcome = 'spent' and run_id is not null), 0)::bigint,
	coalesce(sum(price) filter (where outcome = 'unknown'), 0)::bigint,
	coalesce(sum(price) filter (where outcome = 'reserved'), 0)::bigint,
	coalesce(sum(price) filter (where run_id is null), 0)::bigint,
	coalesce(sum(price) filter (where outcome = 'refunded'), 0)::bigint
from ops.credits where `
	now := time.Now()
	cycle := "month = " + quoted(credit.Cycle(now, config.Timezone, config.Budget.Renews))
	day := "day = " + quoted(credit.Day(now, config.Timezone))
	query := fmt.Sprintf("select %s, '', %s%s\nunion all select %s, '', %s%s\nunion all select %s, job, %s%s and run_id is not null group by job",
		quoted(string(credit.AllMonth)), sums, cycle, quoted(string(credit.AllDay)), sums, day, quoted(string(credit.JobMonth)), sums, cycle)
	amounts := map[amountsKey]state.Balance{}
	err := duckdb.Query(ctx, published(config), query, func([]string) error { return nil }, func(values []any) error {
		scope, _ := values[0].(string)
		name, _ := values[1].(string)
		var n [5]outlier.Credits
		for i := range n {
			sum, _ := values[2+i].(int64)
			n[i] = outlier.Credits(sum)
		}
		amounts[amountsKey{credit.Scope(scope), name}] = state.Balance{Spent: n[0], Unknown: n[1], Reserved: n[2], Adjusted: n[3], Refunded: n[4]}
		return nil
	})
	return amounts, err
}

// publishedQueue is what the last run of each job has left. Data calls that wait are not
// published.
func publishedQueue(name string) string {
	return `select r.job, s.operation, coalesce(s.item, array_to_string(coalesce(s.queries, s.seeds), ', ')) as search,
	s.left_pages as pages_left, r.failures as failed_calls, r.status, r.started_at as since, r.run_id
from (from ops.runs qualify row_number() over (partition by job order by id desc) = 1) r
	left join ops.searches s on s.run_id = r.run_id and s.stop_reason is null
where (s.id is not null or r.failures > 0)` + ofJobSQL("r.job", name) + ` order by r.started_at desc, s.id`
}

// publishedCursors are the last searches that ended by themselves.
func publishedCursors(name string) string {
	return `select job, operation, coalesce(item, array_to_string(coalesce(queries, seeds), ', ')) as search, max(began_at) as at
from ops.searches where stop_reason in ('empty', 'short', 'repeated', 'pages', 'known') and coalesce(unreadable, 0) = 0` + ofJobSQL("job", name) + ` group by all order by 1, 2, 3`
}

// publishedScans are the scans that runs have asked for.
func publishedScans() string {
	return `select s.job, array_to_string(coalesce(s.queries, s.seeds), ', ') as queries, s.stop_reason as state, s.credits, s.began_at, s.run_id
from ops.searches s where s.operation = ` + quoted(string(outlier.OpStartScan)) + ` order by s.id desc`
}

// publishedWhy is what brought an id, and the calls about it and its channel.
func publishedWhy(id string) string {
	return fmt.Sprintf(`select h.observed_at as at, h._job as job, 'brought it' as outcome, h.source as operation,
	coalesce(h.item, array_to_string(coalesce(h.queries, h.seeds), ', ')) as about, h.page + 1 as page, h.rank,
	coalesce(c.price, 0) as credits, s.filters, h._run_id as run_id
from outliers_history h left join ops.credits c on c.response_id = h._response_id
	left join ops.requests r on r.response_id = h._response_id
	left join ops.searches s on s.run_id = h._run_id and s.item is not distinct from h.item and s.queries is not distinct from h.queries
where h.video_id = %[1]s
union all
select coalesce(r.sent_at, r.answered_at), r.job, r.outcome, r.operation, r.entity, null, null, coalesce(c.price, 0), null, r.run_id
from ops.requests r left join ops.credits c on c.id = r.id
where r.entity = %[1]s or r.entity = (select max(channel_id) from outliers where video_id = %[1]s)
order by 1`, quoted(id))
}

// ofJobSQL restricts a query to a job, if one is named.
func ofJobSQL(column, name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" and %s = %s", column, quoted(name))
}
