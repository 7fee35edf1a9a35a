package query

import (
	"context"
	"fmt"
	"strings"

	"outlierd/outlier"
	"outlierd/sinks/duckdb/database"
)

// This file has the queries of commands that read the published file because they may not read the
// state, or because they need rows by id. Functions return SQL with quoted values, because ids come
// from the service and from users.

// VideoLink is the SQL of the column link of a table t: the URL of the video, or the id if that has an
// unknown form.
const VideoLink = "case when regexp_full_match(t.video_id, '[A-Za-z0-9_-]{11}') " +
	"then 'https://youtu.be/' || t.video_id else t.video_id end as link"

// RowsOf returns a query for columns of the rows of a table t whose key is one of ids, in the order of
// ids. order sorts the rows of one id further, such as ", t.position".
func RowsOf(table, key, columns, order string, ids []string) string {
	places := make([]int, len(ids))
	for i := range places {
		places[i] = i
	}
	return fmt.Sprintf("select %s from %s order by place%s", columns, Placed(table, key, ids, places), order)
}

// Placed returns the rows of a table t whose key is one of ids, as what follows FROM. The column place has the place
// of each id.
func Placed(table, key string, ids []string, places []int) string {
	if len(ids) == 0 {
		return fmt.Sprintf("(select *, 0 as place from %s where false) as t", table)
	}
	var rows []string
	for i, id := range ids {
		rows = append(rows, fmt.Sprintf("(%s, %d)", database.Text(id), places[i]))
	}
	return fmt.Sprintf("%s as t join (values %s) as wanted(id, place) on t.%s = wanted.id",
		table, strings.Join(rows, ", "), key)
}

// Missing calls each for each of ids that the service does not have, with the operation that requested
// it and the time of the answer.
func Missing(ctx context.Context, path string, ids []string, each func(operation, id, at any)) error {
	text := RowsOf("missing", "id", "t.endpoint, t.id, t.checked_at", ", endpoint", ids)
	return Run(ctx, path, text, nil, func(values []any) error {
		each(values[0], values[1], values[2])
		return nil
	})
}

// TitleOf returns the title of a video and of its channel, or the title of a channel. They are nil if
// the tables do not have them.
func TitleOf(ctx context.Context, path, id string) (title, channel any, err error) {
	text := fmt.Sprintf(`select title, channel_title from outliers where video_id = %[1]s
		union all select title, channel_title from videos where video_id = %[1]s
		union all select title, null from channels where channel_id = %[1]s limit 1`, database.Text(id))
	err = Run(ctx, path, text, nil, func(values []any) error {
		title, channel = values[0], values[1]
		return nil
	})
	return title, channel, err
}

// Spending has the credits of a period in the published ledger, by outcome.
type Spending struct {
	Spent, Unknown, Reserved, Refunded outlier.Credits
	Adjusted                           outlier.Credits // manual adjustments
}

// Ledger is the spending of a billing cycle and a day.
type Ledger struct {
	Cycle, Day Spending
	Jobs       map[string]Spending // in the cycle, by job; only jobs with calls
}

// ReadLedger reads the published ledger for the period keys of a cycle and of a day. A row without a
// run is a manual adjustment.
func ReadLedger(ctx context.Context, path, cycle, day string) (Ledger, error) {
	const sums = `coalesce(sum(price) filter (where outcome = 'spent' and run_id is not null), 0)::bigint,
	coalesce(sum(price) filter (where outcome = 'unknown'), 0)::bigint,
	coalesce(sum(price) filter (where outcome = 'reserved'), 0)::bigint,
	coalesce(sum(price) filter (where outcome = 'refunded'), 0)::bigint,
	coalesce(sum(price) filter (where run_id is null), 0)::bigint
from ops.credits where `
	ofCycle, ofDay := "month = "+database.Text(cycle), "day = "+database.Text(day)
	text := "select 'cycle', '', " + sums + ofCycle +
		"\nunion all select 'day', '', " + sums + ofDay +
		"\nunion all select 'job', job, " + sums + ofCycle + " and run_id is not null group by job"
	ledger := Ledger{Jobs: map[string]Spending{}}
	err := Run(ctx, path, text, nil, func(values []any) error {
		var n [5]outlier.Credits
		for i := range n {
			sum, _ := values[2+i].(int64)
			n[i] = outlier.Credits(sum)
		}
		s := Spending{Spent: n[0], Unknown: n[1], Reserved: n[2], Refunded: n[3], Adjusted: n[4]}
		switch values[0] {
		case "cycle":
			ledger.Cycle = s
		case "day":
			ledger.Day = s
		default:
			name, _ := values[1].(string)
			ledger.Jobs[name] = s
		}
		return nil
	})
	return ledger, err
}

// RunsColumns are the columns of ops.runs that `outlierd runs` prints for programs.
const RunsColumns = `run_id, job, status, trigger, due_at, started_at, ended_at, pages, hits, new_hits, requests, credits, refunded,
	missing, failures, waited_s, rest_of, error`

// NewestRuns returns a query for at most limit runs of a job with a status, newest first. "" and 0 mean
// all.
func NewestRuns(job, status string, limit int) string {
	text := "select " + RunsColumns + " from ops.runs where true" + ofJob("job", job)
	if status != "" {
		text += " and status = " + database.Text(status)
	}
	text += " order by id desc"
	if limit > 0 {
		text += fmt.Sprintf(" limit %d", limit)
	}
	return text
}

// RunNamed returns a query for the runs whose ids begin with prefix.
func RunNamed(prefix string) string {
	return "select " + RunsColumns + ", rows from ops.runs where starts_with(run_id, " + database.Text(prefix) +
		") order by id"
}

// LastRuns returns a query for the newest run of each job. streak is the number of consecutive runs up
// to it that have the same status.
func LastRuns() string {
	return `with numbered as (
	select *, row_number() over w as n, first_value(status) over w as newest from ops.runs window w as (partition by job order by id desc)
), streaks as (
	select job, coalesce(min(n) filter (where status <> newest), max(n) + 1) - 1 as streak from numbered group by job
)
select job, status, started_at, ended_at, hits, new_hits, credits, streak, error, run_id from numbered join streaks using (job)
where n = 1 order by started_at desc`
}

// Unfinished returns a query for the unfinished searches and failed calls of the last run of a job, or
// of each job for "". It does not have queued calls, which are not published.
func Unfinished(job string) string {
	return `select r.job, s.operation, coalesce(s.item, array_to_string(coalesce(s.queries, s.seeds), ', ')) as search,
	s.left_pages as pages_left, r.failures as failed_calls, r.status, r.started_at as since, r.run_id
from (from ops.runs qualify row_number() over (partition by job order by id desc) = 1) r
	left join ops.searches s on s.run_id = r.run_id and s.stop_reason is null
where (s.id is not null or r.failures > 0)` + ofJob("r.job", job) + ` order by r.started_at desc, s.id`
}

// Cursors returns a query for the last search of each kind that was not cut short, of a job, or of all
// jobs for "".
func Cursors(job string) string {
	return `select job, operation, coalesce(item, array_to_string(coalesce(queries, seeds), ', ')) as search, max(began_at) as at
from ops.searches where stop_reason in ('empty', 'short', 'repeated', 'pages', 'known') and coalesce(unreadable, 0) = 0` +
		ofJob("job", job) + ` group by all order by 1, 2, 3`
}

// Scans returns a query for the scans that runs have started, newest first.
func Scans() string {
	return `select s.job, array_to_string(coalesce(s.queries, s.seeds), ', ') as queries, s.stop_reason as state, s.credits, s.began_at, s.run_id
from ops.searches s where s.operation = ` + database.Text(string(outlier.OpStartScan)) + ` order by s.id desc`
}

// Origin returns a query for the searches that found an id, and for the calls about it and its channel,
// oldest first.
func Origin(id string) string {
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
order by 1`, database.Text(id))
}

// ofJob restricts a query to a job, if one is named.
func ofJob(column, job string) string {
	if job == "" {
		return ""
	}
	return fmt.Sprintf(" and %s = %s", column, database.Text(job))
}
