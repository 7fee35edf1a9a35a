// Package journal stores the answers of the service unchanged, and what was learned from them:
// where they differ from the interface, what `from` counts, and the rate limit. It owns the tables
// responses, drift, paging and limits.
package journal

import (
	"cmp"
	"fmt"
	"iter"
	"strconv"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Journal is the table of answers of one state folder.
type Journal struct{ db *store.Store }

// New returns the journal of a database whose schema is up to date.
func New(db *store.Store) *Journal { return &Journal{db} }

// chunkSize is how many answers are read at a time: enough to make the query cheap, and few enough
// to fit in memory at any size.
const chunkSize = 16

// Entry is one answer of the journal.
type Entry struct {
	ID int64
	Call

	SentAt, ReceivedAt time.Time
	Status             int // HTTP status
	Outcome            outlier.Outcome

	Missing bool      // the answer says that the service has no such entity
	RetryAt time.Time // when a missing entity is requested again

	// Body is the plain body. It is nil if it cannot be decompressed because it was truncated or has
	// an unsupported encoding.
	Body       []byte
	Unreadable error // why Body is nil
}

// entryRow is a row of the table responses.
type entryRow struct {
	Entry
	Packed
}

func (r *entryRow) columns() store.Columns {
	return store.Columns{
		"id": &r.ID, "run": &r.Run, "job": &r.Job, "step": &r.Step, "op": &r.Op, "entity": &r.Entity,
		"params": &r.Params, "item": &r.Item, "page": &r.Page, "rank_base": &r.RankBase,
		"sent_at": store.Time(&r.SentAt), "received_at": store.Time(&r.ReceivedAt), "http_status": &r.Status,
		"outcome": &r.Outcome, "missing": &r.Missing, "retry_at": store.Time(&r.RetryAt),
		"encoding": &r.encoding, "sum": &r.sum, "body": &r.body,
	}
}

// After yields the answers after the given id in order of id. Checksums are verified; a mismatch ends the iteration
// with a [*store.CorruptError]. If bodies after the id were pruned, there are no answers. An error comes last.
func (j *Journal) After(after int64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		if pruned, err := j.Pruned(); err != nil || after < pruned {
			yield(nil, cmp.Or(err, fmt.Errorf("the journal has no more than the headers of answers %d to %d, "+
				"as `retention` has pruned them", after+1, pruned)))
			return
		}
		for {
			chunk, err := j.readChunk(after)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range chunk {
				entry, err := j.unpackRow(&chunk[i])
				if !yield(entry, err) || err != nil {
					return
				}
				after = entry.ID
			}
			if len(chunk) < chunkSize {
				return
			}
		}
	}
}

// chunkAfter has its limit in the text: SQLite prepares a query again for each bound limit.
var chunkAfter = `FROM responses WHERE id > ? ORDER BY id LIMIT ` + strconv.Itoa(chunkSize)

func (j *Journal) readChunk(after int64) ([]entryRow, error) {
	return store.Select(j.db, (*entryRow).columns, chunkAfter, after)
}

// unpackRow verifies and decompresses a row.
func (j *Journal) unpackRow(r *entryRow) (*Entry, error) {
	if !r.isIntact() {
		return nil, j.damagedError(r.ID)
	}
	e := &r.Entry
	e.Body, e.Unreadable = r.unpack()
	return e, nil
}

const newestAnswer = `FROM responses
	WHERE op = ? AND params = ? AND received_at > ? AND received_at <= ? AND outcome = 'charged'
	AND entity = '' AND id > ? ORDER BY received_at DESC, id DESC`

// Answered returns the newest charged answer to the identical paid call, with the given canonical
// parameters (`from` and `size` included), that arrived after since and not after until; nil if
// there is none, or if it was pruned. An answer dated in the future should not count, as its age is
// unknown. The caller must check whether it can be read.
func (j *Journal) Answered(op outlier.Operation, params string, since, until time.Time) (*Entry, error) {
	return store.Read(j.db, func(tx *store.Tx) (*Entry, error) {
		pruned, err := prunedMark.Get(tx)
		if err != nil {
			return nil, err
		}
		row, err := store.First(tx, (*entryRow).columns, newestAnswer, op, params,
			store.Micros(since), store.Micros(until), pruned)
		if err != nil || row == nil {
			return nil, err
		}
		return j.unpackRow(row)
	})
}

// End returns the id of the last answer, removed ones included; 0 if there never was one.
func (j *Journal) End() (int64, error) {
	return LastID(j.db)
}

// LastID returns the id of the last answer; 0 if there is none.
func LastID(in store.Reader) (int64, error) {
	return store.Value[int64](in, `SELECT seq FROM sqlite_sequence WHERE name = 'responses'`)
}

// Tail describes the answers after a given one, such as the last one that a sink has published.
type Tail struct {
	Answers int64     // number after it
	Since   time.Time // when the first of them came; zero if there is none
	Last    time.Time // when the last charged answer up to it came; zero if none is kept
}

// Tail describes the answers after the given one. It reads only rows next to it.
func (j *Journal) Tail(after int64) (t Tail, err error) {
	_, err = store.Scan(j.db, []any{&t.Answers, store.Time(&t.Since), store.Time(&t.Last)}, `SELECT
		max(0, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'responses'), 0) - ?1),
		(SELECT received_at FROM responses WHERE id > ?1 ORDER BY id LIMIT 1),
		(SELECT received_at FROM responses WHERE id <= ?1 AND outcome = 'charged' ORDER BY id DESC LIMIT 1)`, after)
	return t, err
}
