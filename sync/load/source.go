package load

import (
	"fmt"
	"net/url"
	"time"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// sourceOf returns what the journal has about an answer, for the decoder, and reports whether the
// answer may have rows. Errors, pages that were set aside and answers about forgotten ids have none.
func sourceOf(from *state.Store, e *journal.Entry) (source schema.Source, hasRows bool, err error) {
	if e.Entity == store.Erased || !e.Missing && (e.Outcome != outlier.Charged || e.Status/100 != 2 || e.Page == journal.NoPage) {
		return source, false, nil
	}
	source = schema.Source{
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
	params, err := url.ParseQuery(e.Params)
	if err != nil {
		return source, false, fmt.Errorf("read the parameters of answer %d: %w", e.ID, err)
	}
	var scan *runs.Scan
	switch e.Op {
	case outlier.OpSearch, outlier.OpFindChannels:
		source.Kind = "search"
		source.Queries = params["query"]
		if source.ScanID = params.Get("referenceId"); source.ScanID != "" {
			source.Kind = "scan"
			scan, err = from.Scans.ByID(source.ScanID)
		}
	case outlier.OpRelated, outlier.OpFindRelatedChannels:
		source.Kind = "related"
		for _, name := range e.Op.Subjects() {
			source.Seeds = append(source.Seeds, params[name]...)
		}
	case outlier.OpScan:
		scan, err = from.Scans.ByID(e.Entity)
	case outlier.OpStartScan:
		scan, err = from.Scans.OfStep(e.Step)
	}
	if err == nil && scan != nil {
		addScan(&source, scan)
	}
	if err == nil && (e.Op == outlier.OpSearch || e.Op == outlier.OpRelated) {
		source.Imported, err = importedBefore(from, e)
	}
	if err != nil {
		return source, false, fmt.Errorf("look up what the state has about answer %d: %w", e.ID, err)
	}
	return source, true, nil
}

// addScan adds how a scan was requested, because neither its polls nor the pages of its results repeat
// that. A scan that another client started has nothing to add.
func addScan(source *schema.Source, scan *runs.Scan) {
	if source.Op == outlier.OpSearch {
		source.Queries = scan.Queries
		return
	}
	source.FindBy, source.Mode, source.Credits = scan.FindBy, scan.Mode, int64(scan.Price)
}

// importedBefore returns when videos of a page were first seen, of those that were imported before its answer.
func importedBefore(from *state.Store, e *journal.Entry) (map[string]time.Time, error) {
	if some, err := from.Hits.HasImports(); err != nil || !some {
		return nil, err
	}
	page, err := outlier.PageOf(e.Op, e.Body)
	if err != nil {
		return nil, nil // the decoder says why
	}
	var videos []string
	for _, hit := range page.Hits {
		videos = append(videos, hit.VideoID)
	}
	return from.Hits.ImportedBefore(e.ID, videos)
}
