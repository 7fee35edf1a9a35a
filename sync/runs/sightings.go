package runs

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// # Why is this here?
//
// Every row can be traced to the request that returned it, by indexes on the ids of hits and calls.

// Sighting is one occurrence of a video or a channel in the results of a search.
type Sighting struct {
	Run     string        `json:"run"`
	Job     string        `json:"job"`
	Trigger string        `json:"trigger"`
	Due     time.Time     `json:"-"`          // of the run; zero for a manual one
	Started time.Time     `json:"started_at"` // of the run
	Step    int64         `json:"-"`
	Query   outlier.Query `json:"-"`
	Item    string        `json:"item,omitempty"` // the for_each value
	Queries []string      `json:"queries,omitempty"`
	Seeds   []string      `json:"seeds,omitempty"`
	Window  string        `json:"window,omitempty"`
	Scan    string        `json:"scan_id,omitempty"` // id of the scan whose results these are
	Channel string        `json:"-"`                 // of the video
	Page    int           `json:"page"`              // of 40 hits, from 0
	Rank    int           `json:"rank"`              // 1-based, over the whole result
	Hits    int           `json:"hits"`              // of the page, without those that the search had returned before
	First   bool          `json:"first"`             // the run was the first to see it

	Calls []ledger.Call `json:"calls"` // the attempts for the page; none if it was taken from the journal
}

func (s *Sighting) columns() store.Columns {
	return store.Columns{
		"r.run": &s.Run, "r.job": &s.Job, "r.trigger": &s.Trigger, "r.due": store.Time(&s.Due),
		"r.started": store.Time(&s.Started), "s.id": &s.Step, "s.op": opOf{&s.Query}, "s.params": paramsOf{&s.Query},
		"s.item": &s.Item, "s.queries": store.JSON(&s.Queries), "s.seeds": store.JSON(&s.Seeds), "s.window": &s.Window,
		"s.scan": &s.Scan, "h.channel": &s.Channel, "h.page": &s.Page, "h.rank": &s.Rank,
		"h.run = (SELECT run FROM seen WHERE video = ?1)":                                   &s.First,
		"(SELECT count(*) FROM run_hits WHERE (run, step, page) = (h.run, h.step, h.page))": &s.Hits,
	}
}

// Sightings returns all sightings of an id, oldest first.
func (hs *Hits) Sightings(id string) ([]Sighting, error) {
	return store.Read(hs.db, func(tx *store.Tx) ([]Sighting, error) {
		all, err := store.Select(tx, (*Sighting).columns, `FROM run_hits h JOIN runs r ON r.id = h.run
			JOIN steps s ON s.id = h.step WHERE h.video = ?1 ORDER BY r.id, s.ordinal`, id)
		for i := 0; err == nil && i < len(all); i++ {
			s := &all[i]
			s.Calls, err = ledger.CallsOfPage(tx, s.Run, s.Step, s.Page)
		}
		return all, err
	})
}
