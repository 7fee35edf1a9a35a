package engine

import (
	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/state"
)

// sourceOf tells the decoder what the journal knows of an answer. An answer that
// tells nothing about the world, such as an error, has no rows.
func sourceOf(e *state.Entry) (schema.Source, bool) {
	source := schema.Source{
		Response:   e.ID,
		Run:        e.Run,
		Job:        e.Job,
		ObservedAt: e.ReceivedAt,
		Op:         e.Op,
		Entity:     e.Entity,
		Item:       e.Item,
		Page:       e.Page,
		RankBase:   e.RankBase,
		Missing:    e.Missing,
		Status:     e.Status,
		RetryAt:    e.RetryAt,
	}
	if e.Op == outlier.OpSearch {
		source.Kind = "search"
		source.Queries = e.Params["query"]
	}
	return source, e.Missing || e.Outcome == outlier.Charged && e.Status/100 == 2
}
