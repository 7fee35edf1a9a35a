package ledger

import (
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// Call is one attempt at a call.
type Call struct {
	ID         int64
	Run, Job   string
	Step       int64 // 0 for a data call
	Op         outlier.Operation
	Entity     string
	Attempt    int // 1 for the first
	Price      outlier.Credits
	Outcome    outlier.Outcome // "" while the call is in progress
	SentAt     time.Time       // zero if provably unsent
	AnsweredAt time.Time
	Waited     time.Duration // for the rate limit
	Status     int           // HTTP status; 0 if no status line arrived
	Error      string
	Response   int64 // journal id of the answer; 0 if there is none
	Explained  bool  // the outcome is unknown, and Response is a later answer to the same request
	Empty      bool  // Response says that there is no data, with an empty result instead of an error
}

type callRow struct {
	Call
	params                 string
	sent, answered, waited int64
}

func (r *callRow) columns() []any {
	return []any{&r.ID, &r.Run, &r.Job, &r.Step, &r.Op, &r.Entity, &r.params, &r.Attempt, &r.Price, &r.Outcome,
		&r.sent, &r.answered, &r.waited, &r.Status, &r.Error, &r.Response}
}

const callColumns = `SELECT id, run, job, step, op, entity, params, attempt, price,
	iif(state IN ('reserved', 'sending'), '', state), sent_at, settled_at, waited,
	http_status, error, coalesce(response, 0) FROM attempts`

func (r *callRow) times() {
	r.SentAt, r.AnsweredAt = store.Instant(r.sent), store.Instant(r.answered)
	r.Waited = time.Duration(r.waited) * time.Microsecond
}

// calls reads attempts and what the journal says about their answers.
func calls(tx *store.Tx, condition string, args ...any) (rows []callRow, notes map[int64]journal.Note, err error) {
	rows, err = store.List(tx, (*callRow).columns, callColumns+condition, args...)
	if err != nil {
		return nil, nil, err
	}
	var ids []int64
	for _, r := range rows {
		ids = append(ids, r.Response)
	}
	if notes, err = journal.Notes(tx, ids); err != nil {
		return nil, nil, err
	}
	for i := range rows {
		r := &rows[i]
		r.times()
		note := notes[r.Response]
		r.Explained = r.Price > 0 && r.Outcome == outlier.Unknown && note.Charged
		r.Empty = note.Charged && note.Missing
	}
	return rows, notes, nil
}

// CallsAbout returns the data calls about an id, oldest first.
func (l *Ledger) CallsAbout(id string) (all []Call, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		rows, _, err := calls(tx, ` WHERE entity = ?1 AND entity <> '' ORDER BY id`, id)
		for i := range rows {
			all = append(all, rows[i].Call)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for calls about %s: %w", id, err)
	}
	return all, nil
}

// CallsOf returns the calls of a run, oldest first, without what the journal says about their
// answers.
func (l *Ledger) CallsOf(run string) (all []Call, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*callRow).columns, callColumns+` WHERE run = ? ORDER BY id`, run)
		for i := range rows {
			rows[i].times()
			all = append(all, rows[i].Call)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the calls of run %s: %w", run, err)
	}
	return all, nil
}

// CallsOfPage returns the attempts at a page of a run's step, oldest first. Answers record their
// page; an attempt whose answer was lost is matched by its parameters.
func CallsOfPage(tx *store.Tx, run string, step int64, page int) (all []Call, err error) {
	rows, notes, err := calls(tx, ` WHERE run = ?1 AND step = ?2 AND step > 0 ORDER BY id`, run, step)
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

// AnswersOf returns the ids, in ascending order, of the answers that a run received. Answers that
// it took from the journal were received by another run and are not included.
func (l *Ledger) AnswersOf(run string) (ids []int64, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		ids, err = store.List(tx, func(id *int64) []any { return []any{id} },
			`SELECT DISTINCT response FROM attempts WHERE run = ? AND response IS NOT NULL ORDER BY response`, run)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the answers of run %s: %w", run, err)
	}
	return ids, nil
}
