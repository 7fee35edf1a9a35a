package ledger

import (
	"fmt"

	"outlierd/schema"
	"outlierd/sync/ops"
)

// Ops are the operations tables of requests and credits.
var Ops = []ops.Table{
	{
		Table: schema.OpsRequests, Source: "attempts",
		From: `(SELECT * FROM attempts WHERE adjustment IS NULL AND op <> '` + OpJoinScan + `')`,
		SQL: map[string]string{
			"run_id": `run`, "operation": `op`, "parameters": `params`, "answered_at": `settled_at`, "waited_s": `waited`,
			"http_status": `nullif(http_status, 0)`, "outcome": `iif(state IN ('reserved', 'sending'), '', state)`,
			"response_id": `response`,
		},
	},
	{
		Table: schema.OpsCredits, Source: "attempts",
		From: `(SELECT * FROM attempts WHERE price > 0 OR adjustment IS NOT NULL)`,
		SQL: map[string]string{
			"run_id": `run`, "operation": `op`, "price": `coalesce(adjustment, price)`,
			"outcome": `CASE state WHEN 'charged' THEN 'spent' WHEN 'sending' THEN 'reserved' ELSE state END`,
			"month":   `cycle`, "cap_run": capInForce("max", "run"), "cap_day": capInForce("max", "day"),
			"cap_job_month": capInForce("max", "job_month"), "cap_month": capInForce("max", "month"),
			"reserve": capInForce("reserve", "month"), "response_id": `response`,
		},
	},
}

// capInForce returns the SQL expression for a field of the cap of one scope, as it was at the
// reservation.
func capInForce(field, scope string) string {
	return fmt.Sprintf(`(SELECT value ->> '%s' FROM json_each(caps) WHERE value ->> 'scope' = '%s')`,
		field, scope)
}
