package runs

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Hits is the record of the hits of runs, and of the videos that were seen before by other means.
type Hits struct{ db *store.Store }

// Hit has the fields of a hit that ranking and enrichment use.
type Hit struct {
	VideoID, ChannelID string   // a hit without a VideoID is not counted, but takes a rank
	Value              *float64 // by which the job ranks; nil if the hit has none
	Comments           *int64   // number of comments of the video; nil if the hit has none
	Excluded           bool     // the job does not enrich it
}

// VideoIDs returns the distinct ids of hits, in their order.
func VideoIDs(hits []Hit) []string {
	ids, known := make([]string, 0, len(hits)), map[string]bool{"": true}
	for _, hit := range hits {
		if !known[hit.VideoID] {
			known[hit.VideoID] = true
			ids = append(ids, hit.VideoID)
		}
	}
	return ids
}

// PageHits counts the distinct ids of a page.
type PageHits struct {
	Fresh    int // not covered by a search before the run began; see [Cover]
	New      int // never seen by an earlier run
	Distinct int // not seen before by this step; 0 for a page of repetitions
}

// AddHits records a page's hits and counts them.
func AddHits(
	tx *store.Tx, run string, step int64, page, rankBase int, hits []Hit,
) (seen PageHits, err error) {
	number, err := rowNumber(tx, run)
	if err != nil {
		return seen, err
	}
	ids := store.JSON(VideoIDs(hits))
	seen.New, err = tx.Change(`INSERT INTO seen (video, run, covered) SELECT value, ?2, ?3 FROM json_each(?1) WHERE true
		ON CONFLICT DO NOTHING`, ids, number, uncovered)
	if err != nil {
		return seen, err
	}
	seen.Fresh, err = store.Value[int](tx, `SELECT count(*) FROM json_each(?1) CROSS JOIN seen ON video = value
		WHERE run = ?2 OR covered IN (?2, ?3)`, ids, number, uncovered)
	if err != nil {
		return seen, err
	}
	for i, hit := range hits {
		if hit.VideoID == "" {
			continue
		}
		added, err := tx.Change(`INSERT INTO run_hits (run, step, video, channel, value, page, rank, comments, excluded)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			number, step, hit.VideoID, hit.ChannelID, hit.Value, page, rankBase+i+1, hit.Comments, hit.Excluded)
		if err != nil {
			return seen, err
		}
		seen.Distinct += added
	}
	return seen, nil
}

// rowNumber returns the run's row number, which keeps the rows of its hits small.
func rowNumber(tx *store.Tx, run string) (int64, error) {
	n, err := store.Value[int64](tx, `SELECT id FROM runs WHERE run = ?`, run)
	if err == nil && n == 0 {
		err = fmt.Errorf("run %s was never started", run)
	}
	return n, err
}

// uncovered is the value of seen.covered for a video that no search has covered.
const uncovered = -1

// Cover records that a search is complete, so that its hits count as known to later runs. Hits seen
// only by a search that was cut short or manually overridden do not count: a later search may end
// early only on hits that an earlier one has covered.
func Cover(tx *store.Tx, run string, step int64) error {
	number, err := rowNumber(tx, run)
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE seen SET covered = ?1 WHERE covered = ?3
		AND video IN (SELECT video FROM run_hits WHERE run = ?1 AND step = ?2)`, number, step, uncovered)
}

// chain joins the steps that share the search of step ?1, the first of which is ?2, and their runs.
const chain = `steps s JOIN runs r ON r.run = s.run WHERE s.id IN (?1, ?2) OR s.origin = ?2`

// Sighted returns how many of the distinct hits were returned before by a step or by one that it
// continues.
func Sighted(tx *store.Tx, step *Step, hits []Hit) (int, error) {
	return store.Value[int](tx, `SELECT count(*) FROM json_each(?3) e WHERE EXISTS (SELECT 1 FROM run_hits h
		JOIN (SELECT r.id AS run, s.id AS step FROM `+chain+`) USING (run, step) WHERE h.video = e.value)`,
		step.ID, firstHit(step), store.JSON(VideoIDs(hits)))
}

// FirstPage returns the ids of page one of a step's search, by rank.
func FirstPage(tx *store.Tx, step *Step) ([]string, error) {
	return store.Values[string](tx, `SELECT h.video FROM run_hits h
		JOIN (SELECT r.id AS run, s.id AS step FROM `+chain+`) USING (run, step) WHERE h.page = 0
		ORDER BY h.rank`, step.ID, firstHit(step))
}

func firstHit(step *Step) int64 { return cmp.Or(step.Origin, step.ID) }

// A Choice says which hits of a run [Hits.Best] selects.
type Choice struct {
	Most int  // maximum number over all steps; 0 for all
	Each int  // maximum number per step, applied before Most; 0 for all
	Desc bool // the highest values are the best
	All  bool // include excluded hits
	Rank bool // the value of a hit is its rank in the service's result
}

// Best returns the best of the run's distinct hits: the best value first, hits without a value last,
// equal values by id.
func (hs *Hits) Best(run string, c Choice) ([]Hit, error) {
	column := "value"
	if c.Rank {
		column = "rank AS value"
	}
	order := "value IS NULL, value, video"
	best := "min(value)"
	if c.Desc {
		order, best = "value IS NULL, value DESC, video", "max(value)"
	}
	query := `SELECT video, max(channel), max(comments), ` + best + ` AS value FROM (
			SELECT *, row_number() OVER (PARTITION BY step ORDER BY ` + order + `) AS place FROM (
				SELECT step, video, channel, comments, ` + column + `
				FROM run_hits WHERE run = (SELECT id FROM runs WHERE run = ?) AND excluded <= ?))
		WHERE place <= ? GROUP BY video ORDER BY ` + order + ` LIMIT ?`
	return store.List(hs.db, (*Hit).ranked, query, run, c.All, cmp.Or(c.Each, math.MaxInt), cmp.Or(c.Most, math.MaxInt))
}

func (h *Hit) ranked() []any { return []any{&h.VideoID, &h.ChannelID, &h.Comments, &h.Value} }

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

// Imported is a video that was seen before, by other means than a run.
type Imported struct {
	Video     string    `json:"video_id"`
	FirstSeen time.Time `json:"first_seen_at"`
	Origin    string    `json:"origin,omitempty"` // name of the file
	At        time.Time `json:"imported_at,omitzero"`
}

func (i *Imported) columns() store.Columns {
	return store.Columns{"video": &i.Video, "first_seen": store.Time(&i.FirstSeen), "origin": &i.Origin, "at": store.Time(&i.At)}
}

// Import records videos that were seen before. They count as known to all later runs, as if a complete search had
// covered them. Those that were imported before stay as they are. It returns how many were added.
func Import(tx *store.Tx, origin string, videos []Imported) (added int, err error) {
	after, err := journal.LastID(tx)
	if err != nil {
		return 0, err
	}
	list := make([][2]any, len(videos))
	for i, v := range videos {
		list[i] = [2]any{v.Video, store.Micros(v.FirstSeen)}
	}
	text := store.JSON(list)
	rows, err := tx.Change(`INSERT INTO imported (video, first_seen, origin, at, after)
		SELECT value ->> 0, value ->> 1, ?2, ?3, ?4 FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
		text, origin, store.Micros(tx.Now()), after)
	if err != nil {
		return 0, err
	}
	err = tx.Exec(`INSERT INTO seen (video, run, covered) SELECT value ->> 0, 0, 0 FROM json_each(?1) WHERE true
		ON CONFLICT DO UPDATE SET covered = 0 WHERE covered = ?2`, text, uncovered)
	return int(rows), err
}

// ImportOf returns the import of a video; nil if there was none.
func (hs *Hits) ImportOf(video string) (*Imported, error) {
	return store.First(hs.db, (*Imported).columns, `FROM imported WHERE video = ?`, video)
}

// HasImports reports whether any video was imported.
func (hs *Hits) HasImports() (bool, error) {
	return store.Value[bool](hs.db, `SELECT EXISTS (SELECT 1 FROM imported)`)
}

// ImportedBefore returns when videos were first seen, of those that were imported before an answer.
func (hs *Hits) ImportedBefore(answer int64, videos []string) (map[string]time.Time, error) {
	all, err := store.Select(hs.db, (*Imported).columns,
		`FROM imported WHERE video IN (SELECT value FROM json_each(?)) AND after < ?`, store.JSON(videos), answer)
	found := make(map[string]time.Time, len(all))
	for _, v := range all {
		found[v.Video] = v.FirstSeen
	}
	return found, err
}
