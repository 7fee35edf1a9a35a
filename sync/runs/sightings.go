package runs

import (
	"encoding/json"
	"fmt"
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
	Run, Job, Trigger string
	Due               time.Time // of the run; zero for a manual one
	Started           time.Time // of the run
	Step              int64
	Query             outlier.Query
	Item              string // the for_each value
	Queries, Seeds    []string
	Window            string
	Scan              string // id of the scan whose results these are
	Channel           string // of the video
	Page              int    // 0-based
	Rank              int    // 1-based, over the whole result
	Hits              int    // of the page, without those that the search had returned before
	First             bool   // the run was the first to see it

	Calls []ledger.Call // the attempts for the page; none if it was taken from the journal
}

type sightingRow struct {
	Sighting
	due, started   int64
	op             outlier.Operation
	params         string
	queries, seeds string
	run            int64
}

func (r *sightingRow) columns() []any {
	return []any{&r.Run, &r.Job, &r.Trigger, &r.due, &r.started, &r.run, &r.Step, &r.op, &r.Item,
		&r.queries, &r.seeds,
		&r.params, &r.Window, &r.Scan, &r.Channel, &r.Page, &r.Rank, &r.First}
}

const sightings = `SELECT r.run, r.job, r.trigger, r.due, r.started, r.id, s.id, s.op, s.item, s.queries,
	s.seeds,
	s.params, s.window, s.scan, h.channel, h.page, h.rank, h.run = (SELECT run FROM seen WHERE video = ?1)
	FROM run_hits h JOIN runs r ON r.id = h.run JOIN steps s ON s.id = h.step
	WHERE h.video = ?1 ORDER BY r.id, s.ordinal`

// Sightings returns all sightings of an id, oldest first.
func (rs *Runs) Sightings(id string) (all []Sighting, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*sightingRow).columns, sightings, id)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := completeSighting(tx, &rows[i]); err != nil {
				return err
			}
			all = append(all, rows[i].Sighting)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for sightings of %s: %w", id, err)
	}
	return all, nil
}

// completeSighting decodes the columns of a row and adds the fields from other tables.
func completeSighting(tx *store.Tx, r *sightingRow) error {
	r.Due, r.Started = store.Instant(r.due), store.Instant(r.started)
	r.Query = outlier.UncheckedQuery(r.op, r.params)
	if err := json.Unmarshal([]byte(r.queries), &r.Queries); err != nil {
		return fmt.Errorf("read step %d: %w", r.Step, err)
	}
	if err := json.Unmarshal([]byte(r.seeds), &r.Seeds); err != nil {
		return fmt.Errorf("read step %d: %w", r.Step, err)
	}
	err := tx.Row(`SELECT count(*) FROM run_hits WHERE run = ? AND step = ? AND page = ?`,
		r.run, r.Step, r.Page).Scan(&r.Hits)
	if err != nil {
		return err
	}
	r.Calls, err = ledger.CallsOfPage(tx, r.Run, r.Step, r.Page)
	return err
}
