package journal

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Call describes the call that an answer belongs to.
type Call struct {
	Run, Job string
	Step     int64
	Op       outlier.Operation
	Entity   string
	Params   string // canonical
	Item     string // the for_each value
	Page     int    // 0-based
	RankBase int    // hits of the step before this page
}

// Append stores an answer and returns its id.
func Append(tx *store.Tx, c Call, answer *outlier.Answer, o outlier.Outcome, body Packed) (id int64, err error) {
	row := entryRow{Entry{Call: c, SentAt: answer.SentAt, ReceivedAt: answer.ReceivedAt, Status: answer.Status, Outcome: o}, body}
	columns := row.columns()
	delete(columns, "id")
	return store.InsertID(tx, "responses", columns, "")
}

// MarkMissing records that the service has no such entity, according to an answer, and when it is
// asked again.
func MarkMissing(tx *store.Tx, id int64, retryAt time.Time) error {
	return tx.Exec(`UPDATE responses SET missing = 1, retry_at = ? WHERE id = ?`,
		store.Micros(retryAt), id)
}

// NoPage is the page of an answer that is not a page of its search.
const NoPage = -1

// SetAside records that an answer is not a page of its search. The answer stays in the journal, but
// its hits belong to other pages, which are bought separately.
func SetAside(tx *store.Tx, id int64) error {
	return store.Set(tx, "responses", "id", id, store.Columns{"page": NoPage})
}

// SQL expressions about the answer whose id is in the column response: the page of its search, and whether it says that
// there is no data, with an empty result instead of an error.
const (
	PageOf    = `(SELECT page FROM responses WHERE responses.id = response)`
	SaysEmpty = `EXISTS (SELECT 1 FROM responses WHERE responses.id = response AND outcome = 'charged' AND missing = 1)`
)
