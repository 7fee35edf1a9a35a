package ledger

import (
	"net/http"
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

// callRow is a call with the parameters of its request.
type callRow struct {
	Call
	params string
}

func (r *callRow) columns() store.Columns {
	return store.Columns{
		"id": &r.ID, "run": &r.Run, "job": &r.Job, "step": &r.Step, "op": &r.Op, "entity": &r.Entity, "params": &r.params,
		"attempt": &r.Attempt, "price": &r.Price, "iif(state IN ('reserved', 'sending'), '', state)": &r.Outcome,
		"sent_at": store.Time(&r.SentAt), "settled_at": store.Time(&r.AnsweredAt), "waited": store.Duration(&r.Waited.Duration),
		"http_status": &r.Status, "error": &r.Error, "response": store.Optional(&r.Response),
	}
}

// readCalls reads attempts and what the journal says about their answers.
func readCalls(tx *store.Tx, condition string, args ...any) (rows []callRow, notes map[int64]journal.Note, err error) {
	rows, err = store.Select(tx, (*callRow).columns, `FROM attempts WHERE `+condition+` ORDER BY id`, args...)
	if err != nil {
		return nil, nil, err
	}
	var ids []int64
	for _, r := range rows {
		ids = append(ids, r.Response)
	}
	notes, err = journal.Notes(tx, ids)
	for i := range rows {
		note := notes[rows[i].Response]
		rows[i].Empty = note.Charged && note.Missing
	}
	return rows, notes, err
}

// listCalls reads attempts, oldest first, without what the journal says about their answers.
func (cs *Calls) listCalls(condition string, args ...any) ([]Call, error) {
	return store.Read(cs.db, "list calls", func(tx *store.Tx) (all []Call, err error) {
		rows, err := store.Select(tx, (*callRow).columns, `FROM attempts WHERE `+condition, args...)
		for _, r := range rows {
			all = append(all, r.Call)
		}
		return all, err
	})
}

// About returns the data calls about an id, oldest first.
func (cs *Calls) About(id string) ([]Call, error) {
	return store.Read(cs.db, "look for calls about "+id, func(tx *store.Tx) (all []Call, err error) {
		rows, _, err := readCalls(tx, `entity = ?1 AND entity <> ''`, id)
		for _, r := range rows {
			all = append(all, r.Call)
		}
		return all, err
	})
}

// OfRun returns the calls of a run, oldest first, without what the journal says about their
// answers.
func (cs *Calls) OfRun(run string) ([]Call, error) { return cs.listCalls(`run = ? ORDER BY id`, run) }

// PartOfRun returns at most most of these calls after the first skip ones, and the number of all.
func (cs *Calls) PartOfRun(run string, skip, most int) (part []Call, all int, err error) {
	part, err = cs.listCalls(`id IN (SELECT id FROM attempts WHERE run = ? ORDER BY id LIMIT ? OFFSET ?) ORDER BY id`, run, most, skip)
	if err != nil {
		return nil, 0, err
	}
	all, err = store.Read(cs.db, "count calls", func(tx *store.Tx) (int, error) {
		return store.Value[int](tx, `SELECT count(*) FROM attempts WHERE run = ?`, run)
	})
	return part, all, err
}

// Last returns the id of the newest attempt, or 0.
func (cs *Calls) Last() (id int64, err error) {
	return store.Read(cs.db, "look for the newest call", func(tx *store.Tx) (int64, error) {
		return store.Value[int64](tx, `SELECT max(id) FROM attempts`)
	})
}

// After returns at most most attempts after an id, oldest first, without what the journal says
// about their answers.
func (cs *Calls) After(id int64, most int) ([]Call, error) {
	return cs.listCalls(`id > ? AND op <> '`+adjustment+`' ORDER BY id LIMIT ?`, id, most)
}

// ByID returns the attempt with this id, in the form of [Calls.After]; an empty list if
// there is none.
func (cs *Calls) ByID(id int64) ([]Call, error) { return cs.listCalls(`id = ?`, id) }

// CallsOfPage returns the attempts at a page of a run's step, oldest first. Answers record their
// page; an attempt whose answer was lost is matched by its parameters.
func CallsOfPage(tx *store.Tx, run string, step int64, page int) (all []Call, err error) {
	rows, notes, err := readCalls(tx, `run = ?1 AND step = ?2 AND step > 0`, run, step)
	params := map[string]bool{}
	for i := range rows {
		note, kept := notes[rows[i].Response]
		if kept && note.Page == page {
			params[rows[i].params] = true
		}
	}
	for i := range rows {
		if params[rows[i].params] {
			all = append(all, rows[i].Call)
		}
	}
	return all, err
}

// CountMissing returns how many data calls of a run were answered with the news that there is nothing.
func CountMissing(tx *store.Tx, run string) (n int64, err error) {
	rows, _, err := readCalls(tx, `run = ?1 AND step = 0`, run)
	for _, r := range rows {
		if r.Empty || r.Status == http.StatusNotFound {
			n++
		}
	}
	return n, err
}

// AnswersOf returns the ids, in ascending order, of the answers that a run received, up to and including
// upTo. Answers that it took from the journal were received by another run and are not included.
func (cs *Calls) AnswersOf(run string, upTo int64) ([]int64, error) {
	return store.Read(cs.db, "list the answers of run "+run, func(tx *store.Tx) ([]int64, error) {
		return store.Values[int64](tx,
			`SELECT DISTINCT response FROM attempts WHERE run = ? AND response <= ? ORDER BY response`, run, upTo)
	})
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
	return store.Read(cs.db, "add up the calls of run "+run, func(tx *store.Tx) ([]OpTotal, error) {
		return store.List(tx, func(t *OpTotal) []any {
			return []any{&t.Op, &t.Requests, &t.Answered, &t.Failed, &t.Unknown, &t.Credits, store.Duration(&t.Waited.Duration)}
		}, `SELECT op, count(*) FILTER (WHERE sent_at <> 0) AS requests,
			count(*) FILTER (WHERE state = 'charged' OR http_status = 404),
			count(*) FILTER (WHERE state = 'refunded' AND http_status <> 404 AND (price > 0 OR sent_at <> 0)),
			count(*) FILTER (WHERE state = 'unknown'),
			coalesce(sum(price) FILTER (WHERE state IN ('charged', 'unknown')), 0),
			sum(waited)
			FROM attempts WHERE run = ?1 AND counts_for = '' OR counts_for <> '' AND counts_for = ?1
			GROUP BY op ORDER BY requests DESC, op`, run)
	})
}
