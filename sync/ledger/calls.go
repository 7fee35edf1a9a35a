package ledger

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/store"
)

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
	Explained  bool              `json:"explained,omitempty"`   // the outcome is unknown, and Response is a later answer to the same request
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
		r := &rows[i]
		note := notes[r.Response]
		r.Explained = r.Price > 0 && r.Outcome == outlier.Unknown && note.Charged
		r.Empty = note.Charged && note.Missing
	}
	return rows, notes, err
}

// listCalls reads attempts, oldest first, without what the journal says about their answers.
func (l *Ledger) listCalls(condition string, args ...any) ([]Call, error) {
	return store.Read(l.db, "list calls", func(tx *store.Tx) (all []Call, err error) {
		rows, err := store.Select(tx, (*callRow).columns, `FROM attempts WHERE `+condition, args...)
		for _, r := range rows {
			all = append(all, r.Call)
		}
		return all, err
	})
}

// CallsAbout returns the data calls about an id, oldest first.
func (l *Ledger) CallsAbout(id string) ([]Call, error) {
	return store.Read(l.db, "look for calls about "+id, func(tx *store.Tx) (all []Call, err error) {
		rows, _, err := readCalls(tx, `entity = ?1 AND entity <> ''`, id)
		for _, r := range rows {
			all = append(all, r.Call)
		}
		return all, err
	})
}

// CallsOf returns the calls of a run, oldest first, without what the journal says about their
// answers.
func (l *Ledger) CallsOf(run string) ([]Call, error) { return l.listCalls(`run = ? ORDER BY id`, run) }

// LastCall returns the id of the newest attempt, or 0.
func (l *Ledger) LastCall() (id int64, err error) {
	return store.Read(l.db, "look for the newest call", func(tx *store.Tx) (int64, error) {
		return store.Value[int64](tx, `SELECT max(id) FROM attempts`)
	})
}

// CallsAfter returns at most most attempts after an id, oldest first, without what the journal says
// about their answers.
func (l *Ledger) CallsAfter(id int64, most int) ([]Call, error) {
	return l.listCalls(`id > ? AND op <> '`+adjustment+`' ORDER BY id LIMIT ?`, id, most)
}

// CallByID returns the attempt with this id, in the form of [Ledger.CallsAfter]; an empty list if
// there is none.
func (l *Ledger) CallByID(id int64) ([]Call, error) { return l.listCalls(`id = ?`, id) }

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

// AnswersOf returns the ids, in ascending order, of the answers that a run received, up to and including
// upTo. Answers that it took from the journal were received by another run and are not included.
func (l *Ledger) AnswersOf(run string, upTo int64) ([]int64, error) {
	return store.Read(l.db, "list the answers of run "+run, func(tx *store.Tx) ([]int64, error) {
		return store.Values[int64](tx,
			`SELECT DISTINCT response FROM attempts WHERE run = ? AND response <= ? ORDER BY response`, run, upTo)
	})
}
