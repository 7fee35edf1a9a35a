package runs

import (
	"outlierd/schema"
	"outlierd/sync/ledger"
	"outlierd/sync/ops"
)

// Ops are the operations tables of runs, searches and imports.
var Ops = []ops.Table{
	{Table: schema.OpsRuns, Source: "runs", From: `runs`, SQL: map[string]string{
		"run_id": `run`, "due_at": `due`, "started_at": `started`, "ended_at": `ended`, "rows": `row_counts`,
		"waited_s": `waited`, "config_hash": `config`,
	}},
	{
		Table: schema.OpsSearches, Source: "steps",
		From: `(SELECT steps.*, runs.job FROM steps JOIN runs USING (run)) AS steps`,
		SQL: map[string]string{
			"run_id": `run`, "operation": `op`, "filters": `params`, "window_from": `params`, "window_to": `params`,
			"total": `nullif(total, -1)`, "stop_reason": `stop`, "credits": ledger.StepCredits, "began_at": `began`,
			"left_pages": `nullif(left_pages, -1)`, "left_hits": `iif(total < 0, NULL, max(0, total - seen))`,
			"rest_of": `origin`, "unreadable": `unread`,
		},
		As: map[string]func(any) (any, error){
			"filters":     ops.Parameters("query"),
			"window_from": ops.ParameterTime("publishedAtFrom"), "window_to": ops.ParameterTime("publishedAtTo"),
		},
	},
	{Table: schema.OpsImports, Source: "imported", From: `imported`, SQL: map[string]string{
		"video_id": `video`, "first_seen_at": `first_seen`, "imported_at": `at`,
	}},
}
