package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Call is what the journal keeps of a call beside its answer.
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

// Packed is the body of an answer, ready to be kept.
type Packed struct{ packed }

// Pack compresses and sums the body of an answer, before the unit of work that keeps it.
func (j *Journal) Pack(answer *outlier.Answer) Packed { return Packed{j.pack.pack(answer)} }

// Append keeps an answer and returns its id.
func Append(tx *store.Tx, c Call, answer *outlier.Answer, o outlier.Outcome, body Packed) (id int64, err error) {
	result, err := tx.Exec(`INSERT INTO responses (run, job, step, op, entity, params, item, page, rank_base,
		sent_at, received_at, http_status, outcome, encoding, sum, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.Run, c.Job, c.Step, string(c.Op), c.Entity, c.Params, c.Item, c.Page, c.RankBase,
		store.Micros(answer.SentAt), store.Micros(answer.ReceivedAt), answer.Status, string(o),
		body.encoding, body.sum, body.body)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// MarkMissing notes that an answer says that the service has no such thing, and when it
// is asked again.
func MarkMissing(tx *store.Tx, id int64, retryAt time.Time) error {
	_, err := tx.Exec(`UPDATE responses SET missing = 1, retry_at = ? WHERE id = ?`,
		store.Micros(retryAt), id)
	return err
}

// NoPage is the page of an answer that turned out not to be a page of its search.
const NoPage = -1

// SetAside notes that an answer is no page of its search: it is kept, but its hits stand
// elsewhere, in pages that are bought for them.
func SetAside(tx *store.Tx, id int64) error {
	err := store.Found(tx.Exec(`UPDATE responses SET page = ? WHERE id = ?`, NoPage, id))
	if err != nil {
		return fmt.Errorf("set answer %d aside: %w", id, err)
	}
	return nil
}

// Note is what the journal says of an answer without its body.
type Note struct {
	ID      int64
	Page    int
	Charged bool
	Missing bool
}

// Notes are those of the answers with the given ids, as far as they are kept.
func Notes(tx *store.Tx, ids []int64) (map[int64]Note, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := store.List(tx, func(n *Note) []any { return []any{&n.ID, &n.Page, &n.Charged, &n.Missing} },
		`SELECT r.id, page, outcome = 'charged', missing = 1 FROM json_each(?) ids
			CROSS JOIN responses r ON r.id = ids.value`, string(list))
	notes := map[int64]Note{}
	for _, n := range rows {
		notes[n.ID] = n
	}
	return notes, err
}
