package runs

import (
	"outlierd/sync/ledger"
	"outlierd/sync/ops"
)

// Ops are the operations tables of runs and searches.
var Ops = []ops.Table{
	{
		Name:   "ops.runs",
		Source: "runs", From: `runs`, ID: `id`,
		Columns: []ops.Column{
			ops.Col("id", `id`, ops.Plain),
			ops.Col("run_id", `run`, ops.Text),
			ops.Col("job", `job`, ops.Text),
			ops.Col("trigger", `trigger`, ops.Text),
			ops.Col("due_at", `due`, ops.Moment),
			ops.Col("started_at", `started`, ops.Moment),
			ops.Col("ended_at", `ended`, ops.Moment),
			ops.Col("status", `status`, ops.Text),
			ops.Col("pages", `pages`, ops.Plain),
			ops.Col("hits", `hits`, ops.Plain),
			ops.Col("new_hits", `new_hits`, ops.Plain),
			ops.Col("rows", `row_counts`, ops.Counts),
			ops.Col("requests", `requests`, ops.Plain),
			ops.Col("credits", `credits`, ops.Plain),
			ops.Col("refunded", `refunded`, ops.Plain),
			ops.Col("missing", `missing`, ops.Plain),
			ops.Col("failures", `failures`, ops.Plain),
			ops.Col("waited_s", `waited`, ops.Seconds),
			ops.Col("error", `error`, ops.Text),
			ops.Col("config_hash", `config`, ops.Text),
			ops.Col("rest_of", `rest_of`, ops.Text),
		},
	},
	{
		Name:   "ops.searches",
		Source: "steps", From: `steps JOIN runs r USING (run)`, ID: `steps.id`,
		Columns: []ops.Column{
			ops.Col("id", `steps.id`, ops.Plain),
			ops.Col("run_id", `steps.run`, ops.Text),
			ops.Col("job", `r.job`, ops.Text),
			ops.Col("item", `steps.item`, ops.Text),
			ops.Col("operation", `steps.op`, ops.Text),
			ops.Col("queries", `steps.queries`, ops.Texts),
			ops.Col("seeds", `steps.seeds`, ops.Texts),
			ops.Col("filters", `steps.params`, ops.Parameters("query")),
			ops.Col("window_from", `steps.params`, ops.ParameterTime("publishedAtFrom")),
			ops.Col("window_to", `steps.params`, ops.ParameterTime("publishedAtTo")),
			ops.Col("total", `nullif(steps.total, -1)`, ops.Plain),
			ops.Col("pages", `steps.pages`, ops.Plain),
			ops.Col("hits", `steps.hits`, ops.Plain),
			ops.Col("new_hits", `steps.new_hits`, ops.Plain),
			ops.Col("stop_reason", `steps.stop`, ops.Text),
			ops.Col("credits", ledger.StepCredits, ops.Plain),
			ops.Col("reused", `steps.reused`, ops.Plain),
			ops.Col("began_at", `steps.began`, ops.Moment),
			ops.Col("left_pages", `nullif(steps.left_pages, -1)`, ops.Plain),
			ops.Col("seen", `steps.seen`, ops.Plain),
			ops.Col("left_hits", `iif(steps.total < 0, NULL, max(0, steps.total - steps.seen))`, ops.Plain),
			ops.Col("rest_of", `steps.origin`, ops.Plain),
			ops.Col("unreadable", `steps.unread`, ops.Plain),
		},
	},
	{
		Name:   "ops.imports",
		Source: "imported", From: `imported`, ID: `id`,
		Columns: []ops.Column{
			ops.Col("id", `id`, ops.Plain),
			ops.Col("video_id", `video`, ops.Text),
			ops.Col("first_seen_at", `first_seen`, ops.Moment),
			ops.Col("origin", `origin`, ops.Text),
			ops.Col("imported_at", `at`, ops.Moment),
		},
	},
}
