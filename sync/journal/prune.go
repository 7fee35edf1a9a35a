package journal

import (
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

// One step of pruning ends after this many answers, or this many bytes.
const (
	pruneAnswers = 500
	pruneBytes   = 8 << 20
)

// Keep says which answers keep their bodies.
type Keep struct {
	Since time.Time // those received at this time or later, and all after the first of them
	UpTo  int64     // those after this one
}

// Pruned returns the id of the last answer whose body was removed, as were all before it; 0 if none
// was pruned.
func (j *Journal) Pruned() (upTo int64, err error) { return prunedMark.Get(j.db) }

// Kept describes the answers that have a body.
type Kept struct {
	Pruned int64     `json:"pruned"`         // id of the last answer without a body; 0 if all have one
	Since  time.Time `json:"since,omitzero"` // when the first answer with a body arrived; zero if none
}

// Arrived returns the number of answers, and how many of them have arrived since a time.
func (j *Journal) Arrived(since time.Time) (all, recent int64, err error) {
	_, err = store.Scan(j.db, []any{&all, &recent}, `SELECT coalesce(max(id), 0), coalesce(max(id), 0) - coalesce(
		(SELECT id FROM responses WHERE received_at < ? ORDER BY id DESC LIMIT 1), 0) FROM responses`, store.Micros(since))
	return all, recent, err
}

// Before returns the last of the answers after one that arrived before a time, and before any that arrived later.
func (j *Journal) Before(since time.Time, after int64) (last int64, err error) {
	return store.Read(j.db, func(tx *store.Tx) (int64, error) {
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
	return store.Read(j.db, func(tx *store.Tx) (k Kept, err error) {
		if k.Pruned, err = prunedMark.Get(tx); err != nil {
			return k, err
		}
		k.Since, err = store.ValueTime(tx, `SELECT received_at FROM responses WHERE id > ? ORDER BY id LIMIT 1`, k.Pruned)
		return k, err
	})
}

// Prune removes the bodies of some of the oldest answers that need not be kept, in one short
// transaction. It reports whether there is more to do; the cost of a call does not depend on how
// much. It does not wait for another program's lock.
func (j *Journal) Prune(keep Keep) (more bool, err error) {
	old, err := listOldest(j.db, keep, 1)
	if err != nil || len(old) == 0 {
		return false, err
	}
	err = j.db.UpdateWithin(0, func(tx *store.Tx) error { return j.pruneSome(tx, keep) })
	return err == nil, err
}

func (j *Journal) pruneSome(tx *store.Tx, keep Keep) error {
	old, err := listOldest(tx, keep, pruneAnswers)
	if err != nil || len(old) == 0 {
		return err
	}
	last, bytes := int64(0), int64(0)
	for _, h := range old {
		if last, bytes = h.id, bytes+h.size; bytes >= pruneBytes {
			break
		}
	}
	if err := prunedMark.Set(tx, last); err != nil {
		return err
	}
	empty := packBody(nil, asPlain)
	return tx.Exec(`UPDATE responses SET encoding = ?, sum = ?, body = ? WHERE id >= ? AND id <= ?`,
		empty.encoding, empty.sum, empty.body, old[0].id, last)
}

// header is what pruning reads of an answer.
type header struct {
	id, received, size int64
}

// listOldest returns the first answers with a body, up to the first that is too recent to be pruned.
func listOldest(in store.Reader, keep Keep, most int) ([]header, error) {
	pruned, err := prunedMark.Get(in)
	if err != nil {
		return nil, err
	}
	all, err := store.List(in, func(h *header) []any { return []any{&h.id, &h.received, &h.size} },
		`SELECT id, received_at, length(body) FROM responses WHERE id > ? AND id <= ? ORDER BY id LIMIT `+
			strconv.Itoa(most), pruned, keep.UpTo)
	since := store.Micros(keep.Since)
	for i := range all {
		if all[i].received >= since {
			return all[:i], err
		}
	}
	return all, err
}
