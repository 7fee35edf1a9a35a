package schema

import (
	"cmp"
	"net/http"
	"time"

	"outlierd/outlier"
)

// Source is what the journal has about an answer and is not in its body: lineage, and the search
// that returned the hits.
type Source struct {
	Response   int64 // journal id
	Run        string
	Job        string
	ObservedAt time.Time

	Op       outlier.Operation
	Entity   string   // the id a data endpoint was asked about
	Kind     string   // source of hits and of found channels: "search", "related" or "scan"
	Queries  []string // of a search
	Seeds    []string // of a related search
	Item     string   // the for_each value
	Page     int      // 0-based page of the search
	RankBase int      // hits of the search before this page
	ScanID   string   // the scan whose results a search reads
	FindBy   string   // of a scan: [outlier.FindByQuery] or [outlier.FindByChannels]; "" if not known
	Mode     string   // of a scan: [outlier.ModeFast] or [outlier.ModeStandard]; "" if not known
	Credits  int64    // what starting a scan cost; 0 if not known

	Imported map[string]time.Time // when hits were first seen, of those that were imported before the answer

	Missing bool      // the service does not have the entity: a row of table "missing", no body is decoded
	Status  int       // HTTP status, for table "missing"
	Reason  string    // in words, for table "missing"; may be ""
	RetryAt time.Time // when a missing entity is requested again; zero if never
}

// values returns the values of the columns that have neither a path nor a computation, by their names.
func (s *Source) values() map[string]any {
	sampled, reason := "video", "the answer holds nothing"
	if s.Op == outlier.OpChannelShorts {
		sampled = "short"
	}
	switch s.Status {
	case http.StatusNotFound:
		reason = "no such thing"
	case http.StatusBadRequest:
		reason = "the service refused the request"
	}
	return map[string]any{
		"_response_id": s.Response, "_run_id": orNull(s.Run), "_job": orNull(s.Job), "observed_at": orNull(s.ObservedAt),
		"source": orNull(s.Kind), "queries": orNull(s.Queries), "seeds": orNull(s.Seeds), "item": orNull(s.Item),
		"page": int64(s.Page), "scan_id": orNull(s.ScanID),
		"find_by": orNull(s.FindBy), "mode": orNull(s.Mode), "credits": orNull(s.Credits),
		"kind":     sampled, // of channels
		"endpoint": string(s.Op), "id": orNull(s.Entity), "status": int64(s.Status), "reason": cmp.Or(s.Reason, reason),
		"checked_at": orNull(s.ObservedAt), "retry_at": orNull(s.RetryAt),
	}
}
