package state

import (
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"outlierd/outlier"
)

// journalChunk is how many answers are taken from the database at a time: enough to
// make the query cheap, and few enough to be held in memory whatever their size.
const journalChunk = 16

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

	Missing bool      // the answer says that the service has no such thing
	RetryAt time.Time // when a missing thing is asked for again

	Encoding string // as kept: "gzip", "zstd" or "" for plain
	Size     int    // of the body as kept, in bytes

	// Body is the plain body. It is valid until the next entry, and nil if it cannot
	// be opened: cut short, or in an encoding that nobody asked for.
	Body []byte
}

// entryRow is an entry on its way out of the database.
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

// Journal yields the answers after the given id in the order of their ids, those of
// the open group included. Every checksum is verified; a body that does not match
// its own ends the journal with a [*CorruptError]. An error comes last.
func (s *Store) Journal(after int64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		open := opener{packer: s.pack}
		for {
			chunk, err := s.chunk(after)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range chunk {
				entry, err := s.entry(&chunk[i], &open)
				if !yield(entry, err) || err != nil {
					return
				}
				after = entry.ID
			}
			if len(chunk) < journalChunk {
				return
			}
		}
	}
}

func (s *Store) chunk(after int64) (chunk []entryRow, err error) {
	err = s.view(func() error {
		chunk, err = list(s, (*entryRow).columns, `SELECT `+entryColumns+` FROM responses WHERE id > ? ORDER BY id LIMIT ?`, after, journalChunk)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal after answer %d: %w", after, err)
	}
	return chunk, nil
}

// JournalOf is [Store.Journal] of the answers to a run's calls, up to and including an id.
// It reads no answers of other runs.
func (s *Store) JournalOf(run string, upTo int64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		open := opener{packer: s.pack}
		var ids []int64
		err := s.view(func() (err error) {
			ids, err = list(s, func(id *int64) []any { return []any{id} },
				`SELECT DISTINCT response FROM attempts WHERE run = ? AND response <= ? ORDER BY response`, run, upTo)
			return err
		})
		if err != nil {
			yield(nil, fmt.Errorf("find the answers of run %s: %w", run, err))
			return
		}
		for _, id := range ids {
			var entry *Entry
			err := s.view(func() (err error) {
				entry, err = s.answer(id, &open)
				return err
			})
			if err == nil && entry == nil {
				continue // no longer kept
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// answer is the answer with an id; nil if it is not kept any longer.
func (s *Store) answer(id int64, open *opener) (*Entry, error) {
	rows, err := list(s, (*entryRow).columns, `SELECT `+entryColumns+` FROM responses WHERE id = ?`, id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return s.entry(&rows[0], open)
}

// entry verifies and opens what was kept.
func (s *Store) entry(r *entryRow, open *opener) (*Entry, error) {
	if !r.intact() {
		return nil, s.damagedAnswer(r.ID)
	}
	e := &r.Entry
	if r.params != "" {
		var err error
		if e.Params, err = url.ParseQuery(r.params); err != nil {
			return nil, fmt.Errorf("read the parameters of answer %d: %w", r.ID, err)
		}
	}
	e.SentAt, e.ReceivedAt, e.RetryAt = instant(r.sent), instant(r.received), instant(r.retry)
	e.Encoding, e.Size = r.encoding, len(r.body)
	e.Body = open.open(r.packed)
	return e, nil
}

const newestAnswer = `SELECT ` + entryColumns + ` FROM responses
	WHERE op = ? AND params = ? AND received_at > ? AND received_at <= ? AND outcome = 'charged' AND entity = ''
	ORDER BY received_at DESC, id DESC LIMIT 1`

// Answered is the newest charged answer to the identical paid call, with the given
// canonical parameters (`from` and `size` included), that arrived after since; nil if
// there is none. One that is dated in the future does not count: nothing tells how old it
// is. Whether it can be read is for the caller to find out.
func (s *Store) Answered(op outlier.Operation, params string, since time.Time) (*Entry, error) {
	var rows []entryRow
	err := s.view(func() (err error) {
		rows, err = list(s, (*entryRow).columns, newestAnswer, string(op), params, micros(since), micros(time.Now().Add(Skew)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for an earlier answer to %s: %w", op, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return s.entry(&rows[0], &opener{packer: s.pack})
}

// JournalEnd is the id of the last answer, durable when JournalEnd returns; 0 if
// there never was one. Answers that were pruned count.
func (s *Store) JournalEnd() (end int64, err error) {
	if err := s.Flush(); err != nil {
		return 0, err
	}
	err = s.view(func() error {
		return s.row(`SELECT seq FROM sqlite_sequence WHERE name = 'responses'`).Scan(&end)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return end, err
}
