package state

import (
	"encoding/json"
	"fmt"
	"time"

	"outlierd/outlier"
)

// # Why is this here?
//
// Every row can be followed back to what asked for it, by indexes on the ids of hits and
// calls.

// Brought is one time that a search brought a video, or a channel.
type Brought struct {
	Run, Job, Trigger string
	Due               time.Time // of the run; zero for one by hand
	Started           time.Time // of the run
	Step              int64
	Op                outlier.Operation
	Item              string // the for_each value
	Queries, Seeds    []string
	Params            string // of the request, without from and size
	Window            string
	Scan              string // id of the scan whose results these are
	Channel           string // of the video
	Page              int    // 0-based
	Rank              int    // 1-based, over the whole result
	Hits              int    // of the page, less those that the search had brought before
	First             bool   // by the run that saw it first of all

	Calls []Call // the attempts at the page; none if the journal had it
}

type broughtRow struct {
	Brought
	due, started   int64
	queries, seeds string
	run            int64
}

func (r *broughtRow) columns() []any {
	return []any{&r.Run, &r.Job, &r.Trigger, &r.due, &r.started, &r.run, &r.Step, &r.Op, &r.Item, &r.queries, &r.seeds,
		&r.Params, &r.Window, &r.Scan, &r.Channel, &r.Page, &r.Rank, &r.First}
}

const bringings = `SELECT r.run, r.job, r.cause, r.due, r.started, r.id, s.id, s.op, s.item, s.queries, s.seeds,
	s.params, s.window, s.scan, h.channel, h.page, h.rank, h.run = (SELECT run FROM seen WHERE video = ?1)
	FROM run_hits h JOIN runs r ON r.id = h.run JOIN steps s ON s.id = h.step
	WHERE h.video = ?1 ORDER BY r.id, s.ordinal`

// Bringings are all times that an id was brought, the first one first.
func (s *Store) Bringings(id string) (all []Brought, err error) {
	err = s.view(func() error {
		rows, err := list(s, (*broughtRow).columns, bringings, id)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := s.complete(&rows[i]); err != nil {
				return err
			}
			all = append(all, rows[i].Brought)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for what brought %s: %w", id, err)
	}
	return all, nil
}

// complete adds what stands in other tables.
func (s *Store) complete(r *broughtRow) error {
	r.Due, r.Started = instant(r.due), instant(r.started)
	if err := json.Unmarshal([]byte(r.queries), &r.Queries); err != nil {
		return fmt.Errorf("read step %d: %w", r.Step, err)
	}
	if err := json.Unmarshal([]byte(r.seeds), &r.Seeds); err != nil {
		return fmt.Errorf("read step %d: %w", r.Step, err)
	}
	err := s.row(`SELECT count(*) FROM run_hits WHERE run = ? AND step = ? AND page = ?`, r.run, r.Step, r.Page).Scan(&r.Hits)
	if err != nil {
		return err
	}
	// An answer knows its page; an attempt whose answer was lost is known by its parameters.
	r.Calls, err = s.calls(callsOfPage, r.Run, r.Step, r.Page)
	return err
}

// Call is one attempt on the wire.
type Call struct {
	ID         int64
	Run, Job   string
	Op         outlier.Operation
	Entity     string
	Attempt    int // 1 for the first
	Price      outlier.Credits
	Outcome    outlier.Outcome // "" while the call is under way
	SentAt     time.Time       // zero if provably unsent
	AnsweredAt time.Time
	Waited     time.Duration // for the pace
	Status     int           // HTTP status; 0 if no status line arrived
	Error      string
	Response   int64 // journal id of the answer; 0 if there is none
	Explained  bool  // the outcome is unknown, and Response is a later answer to the same request
	Empty      bool  // Response says, with nothing in it, that there is none; not by an error
}

type callRow struct {
	Call
	sent, answered, waited int64
}

func (r *callRow) columns() []any {
	return []any{&r.ID, &r.Run, &r.Job, &r.Op, &r.Entity, &r.Attempt, &r.Price, &r.Outcome, &r.sent, &r.answered, &r.waited,
		&r.Status, &r.Error, &r.Response, &r.Explained, &r.Empty}
}

// The queries for calls: those about an id, and the attempts at a page of a step.
const (
	callsAbout  = callColumns + ` WHERE entity = ?1 AND entity <> '' ORDER BY id`
	callsOfPage = callColumns + ` WHERE run = ?1 AND step = ?2 AND step > 0 AND params IN (
		SELECT a.params FROM attempts a CROSS JOIN responses p ON p.id = a.response
		WHERE a.run = ?1 AND a.step = ?2 AND a.step > 0 AND p.page = ?3) ORDER BY id`

	callColumns = `SELECT id, run, job, op, entity, attempt, price,
		iif(state IN ('reserved', 'sending'), '', state), sent_at, settled_at, waited, http_status, error, coalesce(response, 0),
		price > 0 AND state = 'unknown' AND EXISTS (SELECT 1 FROM responses r WHERE r.id = attempts.response AND r.outcome = 'charged'),
		EXISTS (SELECT 1 FROM responses r WHERE r.id = attempts.response AND r.missing = 1 AND r.outcome = 'charged') FROM attempts`
)

func (s *Store) calls(query string, args ...any) ([]Call, error) {
	rows, err := list(s, (*callRow).columns, query, args...)
	var all []Call
	for _, r := range rows {
		r.SentAt, r.AnsweredAt, r.Waited = instant(r.sent), instant(r.answered), time.Duration(r.waited)*time.Microsecond
		all = append(all, r.Call)
	}
	return all, err
}

// CallsAbout are the data calls that asked about an id, oldest first.
func (s *Store) CallsAbout(id string) (all []Call, err error) {
	err = s.view(func() error {
		all, err = s.calls(callsAbout, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for calls about %s: %w", id, err)
	}
	return all, nil
}
