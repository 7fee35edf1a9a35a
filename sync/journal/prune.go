package journal

import (
	"fmt"
	"strconv"
	"time"

	"outlierd/sync/store"
)

// # Pruning
//
// The bodies of the oldest answers can be removed; they are nearly all of the file. The rows stay,
// with the request, its time and its run, so that the ledger, the runs and the queue lose nothing.
// One number records which bodies were removed: those of all answers up to an id.

// prunedMark has the id up to which bodies were removed. A trigger reads it.
var prunedMark = store.Cell[int64]{Key: "journal pruned up to"}

// weighed has the total size of the bodies that were added up.
var weighed = store.Cell[weight]{Key: "journal weighed"}

// One step of pruning ends after this many answers, or this many bytes.
const (
	pruneAnswers = 500
	pruneBytes   = 8 << 20
	weighAnswers = 4000
)

// Keep says which answers keep their bodies.
type Keep struct {
	Since time.Time // those received at this time or later, and all after the first of them
	UpTo  int64     // those after this one

	// Bytes is the total size of bodies to keep. Up to this size all bodies are kept; 0 removes all
	// that were received before Since.
	Bytes int64
}

// PrunedError is the error of reading answers whose bodies were removed.
type PrunedError struct {
	After  int64 // the answers after this one were requested
	Pruned int64 // the last answer without a body
}

func (e *PrunedError) Error() string {
	return fmt.Sprintf("the journal has no more than the headers of answers %d to %d, as `retention` has pruned them",
		e.After+1, e.Pruned)
}

// Pruned returns the id of the last answer whose body was removed, as were all before it; 0 if none
// was pruned.
func Pruned(tx *store.Tx) (upTo int64, err error) { return prunedMark.Get(tx) }

// Pruned returns the id of the last answer whose body was removed; see [Pruned].
func (j *Journal) Pruned() (upTo int64, err error) {
	return store.Read(j.db, "read up to where the journal is pruned", Pruned)
}

// Kept describes the answers that have a body.
type Kept struct {
	Pruned int64     `json:"pruned"`         // id of the last answer without a body; 0 if all have one
	Since  time.Time `json:"since,omitzero"` // when the first answer with a body arrived; zero if none
}

// Arrived returns the number of answers, and how many of them have arrived since a time.
func (j *Journal) Arrived(since time.Time) (all, recent int64, err error) {
	err = j.db.View(func(tx *store.Tx) (err error) {
		if all, err = store.Value[int64](tx, `SELECT max(id) FROM responses`); err != nil {
			return err
		}
		earlier, err := store.Value[int64](tx, `SELECT id FROM responses WHERE received_at < ? ORDER BY id DESC LIMIT 1`, store.Micros(since))
		recent = all - earlier
		return err
	})
	return all, recent, err
}

// Before returns the last of the answers after one that arrived before a time, and before any that arrived later.
func (j *Journal) Before(since time.Time, after int64) (last int64, err error) {
	return store.Read(j.db, "look for the answers of a day", func(tx *store.Tx) (int64, error) {
		later, err := store.Value[int64](tx, `SELECT id FROM responses WHERE id > ? AND received_at >= ? ORDER BY id LIMIT 1`,
			after, store.Micros(since))
		if err != nil || later > 0 {
			return later - 1, err
		}
		return store.Value[int64](tx, `SELECT coalesce(max(id), 0) FROM responses`)
	})
}

// Kept describes the answers that have a body.
func (j *Journal) Kept() (Kept, error) {
	return store.Read(j.db, "look for the first whole answer", func(tx *store.Tx) (k Kept, err error) {
		if k.Pruned, err = Pruned(tx); err != nil {
			return k, err
		}
		since, err := store.Value[int64](tx, `SELECT received_at FROM responses WHERE id > ? ORDER BY id LIMIT 1`, k.Pruned)
		k.Since = store.Instant(since)
		return k, err
	})
}

// Prune removes the bodies of some of the oldest answers that need not be kept, in one short
// transaction. It reports whether there is more to do; the cost of a call does not depend on how
// much. It does not wait for another program's lock.
func (j *Journal) Prune(keep Keep) (more bool, err error) {
	if due, err := j.mayPrune(keep); !due || err != nil {
		return false, err
	}
	err = j.db.UpdateWithin(0, func(tx *store.Tx) error {
		more, err = j.pruneSome(tx, keep)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("prune the journal: %w", err)
	}
	return more, nil
}

// mayPrune reports whether there is something to prune or to add up, without writing.
func (j *Journal) mayPrune(keep Keep) (due bool, err error) {
	err = j.db.View(func(tx *store.Tx) error {
		pruned, err := Pruned(tx)
		if err != nil {
			return err
		}
		old, err := listOldest(tx, pruned, keep, 1)
		if due = len(old) > 0; err != nil || !due || keep.Bytes == 0 {
			return err
		}
		w, err := weighed.Get(tx)
		due = w.Bytes > keep.Bytes || w.UpTo < keep.UpTo
		return err
	})
	return due, err
}

func (j *Journal) pruneSome(tx *store.Tx, keep Keep) (more bool, err error) {
	pruned, err := Pruned(tx)
	if err != nil {
		return false, err
	}
	w, err := weighed.Get(tx)
	if err != nil {
		return false, err
	}
	if keep.Bytes > 0 && w.UpTo < keep.UpTo {
		return true, w.addSizes(tx, keep.UpTo)
	}
	old, err := listOldest(tx, pruned, keep, pruneAnswers)
	if err != nil {
		return false, err
	}
	last, bytes := pruned, int64(0)
	for _, h := range old {
		if bytes >= pruneBytes || keep.Bytes > 0 && w.Bytes-bytes <= keep.Bytes {
			break
		}
		last, bytes = h.id, bytes+h.size
	}
	if last == pruned {
		return false, nil
	}
	if err := prunedMark.Set(tx, last); err != nil {
		return false, err
	}
	empty := j.pack.packPlain(nil)
	_, err = tx.Exec(`UPDATE responses SET encoding = ?, sum = ?, body = ? WHERE id > ? AND id <= ?`,
		empty.encoding, empty.sum, empty.body, pruned, last)
	if err == nil && w.UpTo >= last {
		w.Bytes -= bytes
		err = weighed.Set(tx, w)
	}
	return err == nil, err
}

// header is what pruning reads of an answer.
type header struct {
	id, received, size int64
}

func (h *header) columns() []any { return []any{&h.id, &h.received, &h.size} }

// listOldest returns the first answers after an id, up to the first that is too recent to be pruned.
func listOldest(tx *store.Tx, after int64, keep Keep, most int) ([]header, error) {
	all, err := store.List(tx, (*header).columns,
		`SELECT id, received_at, length(body) FROM responses WHERE id > ? AND id <= ? ORDER BY id LIMIT `+
			strconv.Itoa(most), after, keep.UpTo)
	since := store.Micros(keep.Since)
	for i := range all {
		if all[i].received >= since {
			return all[:i], err
		}
	}
	return all, err
}

// weight is the total size of the bodies added up so far, those of the answers up to an id.
type weight struct {
	UpTo  int64 `json:"up_to"`
	Bytes int64 `json:"bytes"`
}

// addSizes adds the sizes of the next bodies, up to an id.
func (w weight) addSizes(tx *store.Tx, upTo int64) error {
	next, err := store.List(tx, (*header).columns,
		`SELECT id, received_at, length(body) FROM responses WHERE id > ? AND id <= ? ORDER BY id LIMIT `+
			strconv.Itoa(weighAnswers), w.UpTo, upTo)
	if err != nil {
		return err
	}
	if len(next) < weighAnswers {
		w.UpTo = upTo
	} else {
		w.UpTo = next[len(next)-1].id
	}
	for _, h := range next {
		w.Bytes += h.size
	}
	return weighed.Set(tx, w)
}
