package ledger

import (
	"fmt"

	"outlierd/sync/ops"
)

// Ops are the operations tables of requests and credits.
var Ops = []ops.Table{
	{
		Name:   "ops.requests",
		Source: "attempts", From: `(SELECT * FROM attempts WHERE adjustment IS NULL
			AND op <> '` + OpJoinScan + `')`, ID: `id`,
		Columns: []ops.Column{
			ops.Col("id", `id`, ops.Plain),
			ops.Col("run_id", `run`, ops.Text),
			ops.Col("job", `job`, ops.Text),
			ops.Col("operation", `op`, ops.Text),
			ops.Col("entity", `entity`, ops.Text),
			ops.Col("parameters", `params`, ops.Parameters()),
			ops.Col("page_from", `page_from`, ops.Plain),
			ops.Col("page_size", `page_size`, ops.Plain),
			ops.Col("page_total", `page_total`, ops.Plain),
			ops.Col("attempt", `attempt`, ops.Plain),
			ops.Col("sent_at", `sent_at`, ops.Moment),
			ops.Col("answered_at", `settled_at`, ops.Moment),
			ops.Col("waited_s", `waited`, ops.Seconds),
			ops.Col("http_status", `nullif(http_status, 0)`, ops.Plain),
			ops.Col("outcome", `iif(state IN ('reserved', 'sending'), '', state)`, ops.Text),
			ops.Col("bytes", `bytes`, ops.Plain),
			ops.Col("response_id", `response`, ops.Plain),
		},
	},
	{
		Name:   "ops.credits",
		Source: "attempts", From: `(SELECT * FROM attempts WHERE price > 0 OR adjustment IS NOT NULL)`,
		ID: `id`,
		Columns: []ops.Column{
			ops.Col("id", `id`, ops.Plain),
			ops.Col("run_id", `run`, ops.Text),
			ops.Col("job", `job`, ops.Text),
			ops.Col("operation", `op`, ops.Text),
			ops.Col("price", `coalesce(adjustment, price)`, ops.Plain),
			ops.Col("outcome", `CASE state WHEN 'charged' THEN 'spent' WHEN 'sending' THEN 'reserved' ELSE state END`, ops.Text),
			ops.Col("reserved_at", `reserved_at`, ops.Moment),
			ops.Col("settled_at", `settled_at`, ops.Moment),
			ops.Col("day", `day`, ops.Text),
			ops.Col("month", `cycle`, ops.Text),
			ops.Col("cap_run", capInForce("max", "run"), ops.Plain),
			ops.Col("cap_day", capInForce("max", "day"), ops.Plain),
			ops.Col("cap_job_month", capInForce("max", "job_month"), ops.Plain),
			ops.Col("cap_month", capInForce("max", "month"), ops.Plain),
			ops.Col("reserve", capInForce("reserve", "month"), ops.Plain),
			ops.Col("response_id", `response`, ops.Plain),
		},
	},
}

// capInForce returns the SQL expression for a field of the cap of one scope, as it was at the
// reservation.
func capInForce(field, scope string) string {
	return fmt.Sprintf(`(SELECT value ->> '%s' FROM json_each(caps) WHERE value ->> 'scope' = '%s')`,
		field, scope)
}
