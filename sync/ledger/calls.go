package ledger

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// Calls is the record of all attempts at calls, as people see them.
type Calls struct{ db *store.Store }

// Call is one attempt at a call.
type Call struct {
	ID         int64             `json:"-"`
	Run        string            `json:"run,omitempty"`
	Job        string            `json:"job"`
	Step       int64             `json:"-"` // 0 for a data call
	Op         outlier.Operation `json:"operation"`
	Entity     string            `json:"entity,omitempty"`
	Attempt    int               `json:"attempt"` // 1 for the first
	Price      outlier.Credits   `json:"credits"`
	Outcome    outlier.Outcome   `json:"outcome,omitempty"` // "" while the call is in progress
	SentAt     time.Time         `json:"sent_at,omitzero"`  // zero if provably unsent
	AnsweredAt time.Time         `json:"answered_at,omitzero"`
	Waited     store.Seconds     `json:"waited_s"`              // for the rate limit
	Status     int               `json:"http_status,omitempty"` // 0 if no status line arrived
	Error      string            `json:"error,omitempty"`
	Response   int64             `json:"response_id,omitempty"` // journal id of the answer; 0 if there is none
	Empty      bool              `json:"empty,omitempty"`       // Response says that there is no data, with an empty result instead of an error
}

func (c *Call) columns() store.Columns {
	return store.Columns{
		"id": &c.ID, "run": &c.Run, "job": &c.Job, "step": &c.Step, "op": &c.Op, "entity": &c.Entity, "attempt": &c.Attempt,
		"price": &c.Price, "iif(state IN ('reserved', 'sending'), '', state)": &c.Outcome, "sent_at": store.Time(&c.SentAt),
		"settled_at": store.Time(&c.AnsweredAt), "waited": store.Duration(&c.Waited.Duration), "http_status": &c.Status,
		"error": &c.Error, "response": store.Optional(&c.Response), journal.SaysEmpty: &c.Empty,
	}
}

// listCalls returns attempts that meet a condition, oldest first.
func listCalls(in store.Reader, condition string, args ...any) ([]Call, error) {
	return store.Select(in, (*Call).columns, `FROM attempts WHERE `+condition+` ORDER BY id`, args...)
}

// About returns the data calls about an id, oldest first.
func (cs *Calls) About(id string) ([]Call, error) {
	return listCalls(cs.db, `entity = ?1 AND entity <> ''`, id)
}

// OfRun returns the calls of a run, oldest first.
func (cs *Calls) OfRun(run string) ([]Call, error) {
	return listCalls(cs.db, `run = ?`, run)
}

// PartOfRun returns at most most of these calls after the first skip ones, and the number of all.
func (cs *Calls) PartOfRun(run string, skip, most int) (part []Call, all int, err error) {
	if all, err = store.Value[int](cs.db, `SELECT count(*) FROM attempts WHERE run = ?`, run); err != nil {
		return nil, 0, err
	}
	part, err = listCalls(cs.db, `id IN (SELECT id FROM attempts WHERE run = ? ORDER BY id LIMIT ? OFFSET ?)`, run, most, skip)
	return part, all, err
}

// CallsOfPage returns the attempts at a page of a run's step, oldest first. Answers record their
// page; an attempt whose answer was lost is matched by its parameters.
func CallsOfPage(tx *store.Tx, run string, step int64, page int) ([]Call, error) {
	const ofStep = `run = ?1 AND step = ?2 AND step > 0`
	return listCalls(tx, ofStep+` AND params IN (SELECT params FROM attempts WHERE `+ofStep+` AND `+journal.PageOf+` = ?3)`,
		run, step, page)
}

// CountMissing returns how many data calls of a run were answered with the news that there is nothing.
func CountMissing(tx *store.Tx, run string) (int64, error) {
	return store.Value[int64](tx, `SELECT count(*) FROM attempts WHERE run = ? AND step = 0
		AND (http_status = 404 OR `+journal.SaysEmpty+`)`, run)
}

// OpTotal is the total of the calls of one operation.
type OpTotal struct {
	Op       outlier.Operation `json:"operation"`
	Requests int               `json:"requests"` // that were sent
	Answered int               `json:"answered"` // including "not found"
	Failed   int               `json:"failed"`   // with proof that they were not charged
	Unknown  int               `json:"unknown"`  // whose answer was lost
	Credits  outlier.Credits   `json:"credits"`  // including those of Unknown
	Waited   store.Seconds     `json:"waited_s"` // for the rate limit
}

// ByOperation returns the totals of the calls that count for a run, as those of [Requests], operations with the most
// requests first.
func (cs *Calls) ByOperation(run string) ([]OpTotal, error) {
	return store.List(cs.db, func(t *OpTotal) []any {
		return []any{&t.Op, &t.Requests, &t.Answered, &t.Failed, &t.Unknown, &t.Credits, store.Duration(&t.Waited.Duration)}
	}, `SELECT op, count(*) FILTER (WHERE sent_at <> 0) AS requests,
		count(*) FILTER (WHERE state = 'charged' OR http_status = 404),
		count(*) FILTER (WHERE state = 'refunded' AND http_status <> 404 AND (price > 0 OR sent_at <> 0)),
		count(*) FILTER (WHERE state = 'unknown'),
		coalesce(sum(price) FILTER (WHERE state IN ('charged', 'unknown')), 0),
		sum(waited)
		FROM attempts WHERE run = ?1 AND counts_for = '' OR counts_for <> '' AND counts_for = ?1
		GROUP BY op ORDER BY requests DESC, op`, run)
}

// TriesColumns are the columns of [outlier.Tries] in the row of what needs the call: a search, or a queued call.
func TriesColumns(t *outlier.Tries) store.Columns {
	return store.Columns{"failures": &t.Failures, "refusals": &t.Refusals, "not_before": store.Time(&t.NotBefore)}
}
