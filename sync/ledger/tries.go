package ledger

import (
	"outlierd/outlier"
	"outlierd/sync/store"
)

// TriesColumns are the columns of [outlier.Tries] in the row of what needs the call: a search, or a queued call.
func TriesColumns(t *outlier.Tries) store.Columns {
	return store.Columns{"failures": &t.Failures, "refusals": &t.Refusals, "not_before": store.Time(&t.NotBefore)}
}
