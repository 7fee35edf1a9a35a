package journal

import "outlierd/sync/ops"

// Ops is the operations table of learned limits.
var Ops = []ops.Table{
	{
		Name:   "ops.limits",
		Source: "limits", From: `limits`, ID: `id`,
		Columns: []ops.Column{
			ops.Col("id", `id`, ops.Plain),
			ops.Col("observed_at", `observed_at`, ops.Moment),
			ops.Col("max_requests", `max_requests`, ops.Plain),
			ops.Col("window_s", `window`, ops.Seconds),
			ops.Col("remaining", `remaining`, ops.Plain),
			ops.Col("reset_at", `reset_at`, ops.Moment),
			ops.Col("foreign_requests", `foreign_requests`, ops.Plain),
		},
	},
}
