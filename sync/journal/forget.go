package journal

import (
	"bytes"
	"context"
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Forgetting describes what is erased from the journal, and reports progress.
type Forgetting struct {
	Mentions outlier.Mention
	Texts    [][]byte             // answers that are readable and contain none of them, nor an escape that may hide one, are skipped
	Taken    func(value []byte)   // called with each erased value, as of [outlier.Redact]; may be nil
	DryRun   bool                 // changes nothing
	Progress func(id, last int64) // called now and then: answers up to id are done
}

// Forget erases ids from all answers and updates their checksums. An answer to a call about such an
// id loses its body. It returns how many answers were changed, and how many mention an id, or may, but
// are not JSON: those lose their bodies too. After an interruption it can be called again.
func (j *Journal) Forget(ctx context.Context, f Forgetting) (changed, unreadable int64, err error) {
	last, err := j.End()
	if err != nil {
		return 0, 0, err
	}
	for after := int64(0); ; {
		if ctx.Err() != nil {
			return changed, unreadable, context.Cause(ctx)
		}
		chunk, err := j.readChunk(after)
		if err != nil {
			return changed, unreadable, err
		}
		var less []entryRow
		for i := range chunk {
			r := &chunk[i]
			after = r.ID
			if !r.isIntact() {
				return changed, unreadable, j.damagedError(r.ID)
			}
			touched, readable := redactAnswer(r, f)
			if touched {
				less = append(less, *r)
			}
			if !readable {
				unreadable++
			}
		}
		changed += int64(len(less))
		if !f.DryRun && len(less) > 0 {
			if err := j.db.Update(func(tx *store.Tx) error { return replaceRows(tx, less) }); err != nil {
				return changed, unreadable, fmt.Errorf("take what is forgotten out of the journal: %w", err)
			}
		}
		if f.Progress != nil {
			f.Progress(after, last)
		}
		if len(chunk) < chunkSize {
			return changed, unreadable, nil
		}
	}
}

// redactAnswer erases ids from an answer. It reports whether anything was erased, and whether the answer
// could be parsed.
func redactAnswer(r *entryRow, f Forgetting) (touched, readable bool) {
	entity := f.Mentions(nil, []byte(r.Entity))
	params := store.Without(r.Params, f.Texts)
	item := store.Without(r.Item, f.Texts)
	touched = entity || params != r.Params || item != r.Item
	r.Params, r.Item = params, item
	body, all := r.readablePart()
	if entity {
		if f.Taken != nil {
			f.Taken(body)
		}
		r.Entity, r.Packed = store.Erased, packBody(nil, asPlain)
		return true, true
	}
	if all && !mayMention(body, f.Texts) {
		return touched, true
	}
	clean, changed, err := outlier.Redact(body, f.Mentions, f.Taken)
	if err != nil {
		r.Packed = packBody(nil, asPlain)
		return true, false
	}
	if changed = changed || !all; changed {
		r.Packed = packBody(clean, asPlain)
	}
	return touched || changed, true
}

// mayMention reports whether a body contains one of the texts, or may contain it in escaped form.
func mayMention(body []byte, texts [][]byte) bool {
	if bytes.Contains(body, []byte(`\u00`)) {
		return true
	}
	for _, text := range texts {
		if bytes.Contains(body, text) {
			return true
		}
	}
	return false
}

func replaceRows(tx *store.Tx, rows []entryRow) error {
	for _, r := range rows {
		err := tx.Exec(`UPDATE responses SET entity = ?, params = ?, item = ?, encoding = ?, sum = ?, body = ?
			WHERE id = ?`,
			r.Entity, r.Params, r.Item, r.encoding, r.sum, r.body, r.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetDrift erases the examples of drift that contain one of these texts.
func ForgetDrift(tx *store.Tx, texts [][]byte) error {
	return store.Erase(tx, "drift", texts, "example")
}
