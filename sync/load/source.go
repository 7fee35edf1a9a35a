package load

import (
	"log/slog"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// sourceOf returns what the journal has about an answer, for the decoder, and reports whether the
// answer may have rows. Errors, pages that were set aside and answers about forgotten ids have none.
func (l *Loader) sourceOf(e *journal.Entry) (schema.Source, bool) {
	return sourceOf(l.store, l.log, e)
}

func sourceOf(from *state.Store, log *slog.Logger, e *journal.Entry) (schema.Source, bool) {
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
	// The documented error may have a success status.
	if e.Missing && e.Outcome == outlier.Refunded && e.Status/100 == 2 {
		source.Reason = "the service refused the request"
	}
	switch e.Op {
	case outlier.OpSearch, outlier.OpFindChannels:
		source.Kind = "search"
		source.Queries = e.Params["query"]
		if source.ScanID = e.Params.Get("referenceId"); source.ScanID != "" {
			source.Kind = "scan"
			ofScan(log, &source, func() (*runs.Scan, error) { return from.Runs.ScanByID(source.ScanID) })
		}
	case outlier.OpRelated, outlier.OpFindRelatedChannels:
		source.Kind = "related"
		for _, name := range e.Op.Subjects() {
			source.Seeds = append(source.Seeds, e.Params[name]...)
		}
	case outlier.OpScan:
		ofScan(log, &source, func() (*runs.Scan, error) { return from.Runs.ScanByID(e.Entity) })
	case outlier.OpStartScan:
		ofScan(log, &source, func() (*runs.Scan, error) { return from.Runs.ScanOf(e.Step) })
	}
	if e.Entity == store.Erased {
		return source, false
	}
	return source, e.Missing || e.Outcome == outlier.Charged && e.Status/100 == 2 && e.Page != journal.NoPage
}

// ofScan adds how a scan was requested, because neither its polls nor the pages of its results repeat
// that. It adds nothing for a scan that another client started.
func ofScan(log *slog.Logger, source *schema.Source, find func() (*runs.Scan, error)) {
	scan, err := find()
	if err != nil {
		log.Warn("scan unknown", "response", source.Response, "err", err)
	}
	if scan == nil {
		return
	}
	if source.Op == outlier.OpSearch {
		source.Queries = scan.Queries
		return
	}
	source.FindBy, source.Mode, source.Credits = scan.FindBy, scan.Mode, int64(scan.Price)
}
