package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sinks/duckdb"
	"outlierd/sync/credit"
	"outlierd/sync/engine"
	"outlierd/sync/job"
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

// planPublished forecasts without the state: each job as if it ran for the first time, in a
// cycle of which the ledger says what is spent.
func (o *options) planPublished(ctx context.Context, config *job.Config, show func(*program, func(*engine.Forecast)) error) (err error) {
	log, err := o.logger()
	if err != nil {
		return err
	}
	var held outlier.Credits
	query := "select held from (" + amountsSQL(engine.ScopeCycle, thisCycle(config), "", nil, "month = "+quoted(thisCycle(config))) + ")"
	err = duckdb.Query(ctx, published(config), query, func([]string) error { return nil }, func(values []any) error {
		n, _ := values[0].(int64)
		held = outlier.Credits(n)
		return nil
	})
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
	return show(p, func(f *engine.Forecast) {
		f.Cycle.Held, f.Cycle.Projected = f.Cycle.Held+held, f.Cycle.Projected+held
		for i := range f.Jobs {
			f.Jobs[i].Changes = nil // against runs that are not known here
		}
	})
}

// thisCycle is the billing cycle by this machine's clock.
func thisCycle(config *job.Config) string {
	return credit.Cycle(time.Now(), config.Timezone, config.Budget.Renews)
}

// publishedBudget is what the ledger says, with the caps of the job file.
func publishedBudget(config *job.Config) string {
	cycle, day := thisCycle(config), credit.Day(time.Now(), config.Timezone)
	caps := config.Budget
	parts := []string{
		amountsSQL(engine.ScopeCycle, cycle, "", caps.PerMonth, "month = "+quoted(cycle)),
		amountsSQL(engine.ScopeDay, day, "", caps.PerDay, "day = "+quoted(day)),
	}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		where := fmt.Sprintf("month = %s and job = %s", quoted(cycle), quoted(spec.Name))
		parts = append(parts, amountsSQL(engine.ScopeJob, cycle, spec.Name, spec.Budget.PerMonth, where))
	}
	return strings.Join(parts, "\nunion all ")
}

// amountsSQL is one row of the budget. A row without a run was booked by hand.
func amountsSQL(scope credit.Scope, period, name string, most *outlier.Credits, where string) string {
	limit := "null"
	if most != nil {
		limit = fmt.Sprint(int64(*most))
	}
	return fmt.Sprintf(`select %s as scope, %s as period, nullif(%s, '') as job, %s::bigint as cap,
	coalesce(sum(price) filter (where outcome <> 'refunded'), 0)::bigint as held,
	if(cap is null, null, greatest(0, cap - held)) as "left",
	coalesce(sum(price) filter (where outcome = 'spent' and run_id is not null), 0)::bigint as spent,
	coalesce(sum(price) filter (where outcome = 'unknown'), 0)::bigint as "unknown",
	coalesce(sum(price) filter (where outcome = 'reserved'), 0)::bigint as reserved,
	coalesce(sum(price) filter (where run_id is null), 0)::bigint as adjusted,
	coalesce(sum(price) filter (where outcome = 'refunded'), 0)::bigint as refunded
from ops.credits where %s`, quoted(string(scope)), quoted(period), quoted(name), limit, where)
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
