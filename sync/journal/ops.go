package journal

import (
	"outlierd/schema"
	"outlierd/sync/ops"
)

// Ops is the operations table of learned limits.
var Ops = []ops.Table{
	{Table: schema.OpsLimits, Source: "limits", From: `limits`, SQL: map[string]string{"window_s": `window`}},
}
