package journal

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Journal is the table of answers of one state folder.
type Journal struct {
	db   *store.Store
	pack *packer
}

// New returns the journal of a database whose schema is up to date.
func New(db *store.Store) (*Journal, error) {
	pack, err := newPacker()
	if err != nil {
		return nil, err
	}
	return &Journal{db: db, pack: pack}, nil
}

// chunkSize is how many answers are read at a time: enough to make the query cheap, and few enough
// to fit in memory at any size.
const chunkSize = 16

// Entry is one answer of the journal.
type Entry struct {
	ID       int64
	Run, Job string
	Step     int64
	Op       outlier.Operation
	Entity   string
	Params   url.Values
	Item     string
	Page     int
	RankBase int

	SentAt, ReceivedAt time.Time
	Status             int // HTTP status
	Outcome            outlier.Outcome

	Missing bool      // the answer says that the service has no such entity
	RetryAt time.Time // when a missing entity is requested again

	Encoding string // as stored: "gzip", "zstd" or "" for plain
	Size     int    // of the stored body, in bytes

	// Body is the plain body. It is valid until the next entry, and nil if it cannot be
	// decompressed because it was truncated or has an unsupported encoding.
	Body       []byte
	Unreadable error // why Body is nil
}

// entryRow is a row of the table responses.
type entryRow struct {
	Entry
	params                string
	sent, received, retry int64
	packed
}

const entryColumns = `id, run, job, step, op, entity, params, item, page, rank_base,
	sent_at, received_at, http_status, outcome, missing, retry_at, encoding, sum, body`

func (r *entryRow) columns() []any {
	return []any{&r.ID, &r.Run, &r.Job, &r.Step, &r.Op, &r.Entity, &r.params, &r.Item, &r.Page, &r.RankBase,
		&r.sent, &r.received, &r.Status, &r.Outcome, &r.Missing, &r.retry, &r.encoding, &r.sum, &r.body}
}

// After yields the answers after the given id in order of id. Checksums are verified; a mismatch ends the iteration with a [*store.CorruptError]. If bodies
// after the id were pruned, the error is a [*PrunedError]. An error comes last.
func (j *Journal) After(after int64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		if pruned, err := j.Pruned(); err != nil || after < pruned {
			yield(nil, cmp.Or[error](err, &PrunedError{After: after, Pruned: pruned}))
			return
		}
		open := opener{packer: j.pack}
		for {
			chunk, err := j.chunk(after)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range chunk {
				entry, err := j.entry(&chunk[i], &open)
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
var chunkAfter = `SELECT ` + entryColumns + ` FROM responses WHERE id > ? ORDER BY id LIMIT ` +
	strconv.Itoa(chunkSize)

func (j *Journal) chunk(after int64) (chunk []entryRow, err error) {
	err = j.db.View(func(tx *store.Tx) error {
		chunk, err = store.List(tx, (*entryRow).columns, chunkAfter, after)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal after answer %d: %w", after, err)
	}
	return chunk, nil
}

// Each is like [Journal.After] for the answers with the given ids, in the order of ids. It skips
// removed and pruned answers.
func (j *Journal) Each(ids []int64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		open := opener{packer: j.pack}
		for _, id := range ids {
			var entry *Entry
			err := j.db.View(func(tx *store.Tx) (err error) {
				entry, err = j.read(tx, id, &open)
				return err
			})
			if err == nil && entry == nil {
				continue
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// Answer returns the answer with the given id; nil if it was removed or pruned.
func (j *Journal) Answer(tx *store.Tx, id int64) (*Entry, error) {
	return j.read(tx, id, &opener{packer: j.pack})
}

func (j *Journal) read(tx *store.Tx, id int64, open *opener) (*Entry, error) {
	if pruned, err := Pruned(tx); err != nil || id <= pruned {
		return nil, err
	}
	rows, err := store.List(tx, (*entryRow).columns, `SELECT `+entryColumns+` FROM responses WHERE id = ?`,
		id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return j.entry(&rows[0], open)
}

// entry verifies and decompresses a row.
func (j *Journal) entry(r *entryRow, open *opener) (*Entry, error) {
	if !r.intact() {
		return nil, j.damaged(r.ID)
	}
	e := &r.Entry
	if r.params != "" {
		var err error
		if e.Params, err = url.ParseQuery(r.params); err != nil {
			return nil, fmt.Errorf("read the parameters of answer %d: %w", r.ID, err)
		}
	}
	e.SentAt, e.ReceivedAt, e.RetryAt = store.Instant(r.sent), store.Instant(r.received), store.Instant(r.retry)
	e.Encoding, e.Size = r.encoding, len(r.body)
	e.Body, e.Unreadable = open.open(r.packed)
	return e, nil
}

const newestAnswer = `SELECT ` + entryColumns + ` FROM responses
	WHERE op = ? AND params = ? AND received_at > ? AND received_at <= ? AND outcome = 'charged'
	AND entity = '' AND id > ?
	ORDER BY received_at DESC, id DESC LIMIT 1`

// Answered returns the newest charged answer to the identical paid call, with the given canonical
// parameters (`from` and `size` included), that arrived after since and not after until; nil if
// there is none, or if it was pruned. An answer dated in the future should not count, as its age is
// unknown. The caller must check whether it can be read.
func (j *Journal) Answered(op outlier.Operation, params string, since, until time.Time) (*Entry, error) {
	var rows []entryRow
	err := j.db.View(func(tx *store.Tx) (err error) {
		pruned, err := Pruned(tx)
		if err != nil {
			return err
		}
		rows, err = store.List(tx, (*entryRow).columns, newestAnswer, string(op), params,
			store.Micros(since), store.Micros(until), pruned)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for an earlier answer to %s: %w", op, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return j.entry(&rows[0], &opener{packer: j.pack})
}

// End returns the id of the last answer, removed ones included; 0 if there never was one.
func (j *Journal) End() (end int64, err error) {
	err = j.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT seq FROM sqlite_sequence WHERE name = 'responses'`).Scan(&end)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return end, err
}

// Tail describes the answers after a given one, such as the last one that a sink has published.
type Tail struct {
	Answers int64     // number after it
	Since   time.Time // when the first of them came; zero if there is none
	Last    time.Time // when the last charged answer up to it came; zero if none is kept
}

// Tail describes the answers after the given one. It reads only rows next to it.
func (j *Journal) Tail(after int64) (t Tail, err error) {
	var end, since, last int64
	err = j.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'responses'), 0),
			coalesce((SELECT received_at FROM responses WHERE id > ?1 ORDER BY id LIMIT 1), 0),
			coalesce((SELECT received_at FROM responses WHERE id <= ?1 AND outcome = 'charged'
				ORDER BY id DESC LIMIT 1), 0)`, after).Scan(&end, &since, &last)
	})
	if err != nil {
		return t, fmt.Errorf("look for answers after %d: %w", after, err)
	}
	return Tail{Answers: max(0, end-after), Since: store.Instant(since), Last: store.Instant(last)}, nil
}
