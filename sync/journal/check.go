package journal

import (
	"context"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// newest is how many answers are checked after a kill: many more than can have been in flight.
const newest = 256

// CheckNewest verifies the checksums of the newest answers.
func (j *Journal) CheckNewest(ctx context.Context) error {
	last, err := j.End()
	if err == nil {
		_, err = j.Check(ctx, last-newest)
	}
	return err
}

// Part counts the answers to one operation.
type Part struct {
	Op      outlier.Operation `json:"operation"`
	Answers int64             `json:"answers"`
	Bytes   int64             `json:"bytes"` // of the stored bodies
	First   time.Time         `json:"first_at"`
	Last    time.Time         `json:"last_at"`
}

// Parts counts the entries of the journal by operation.
func Parts(in store.Reader) ([]Part, error) {
	parts, err := store.Select(in, func(p *Part) store.Columns {
		return store.Columns{
			"op": &p.Op, "count(*)": &p.Answers, "sum(length(body))": &p.Bytes,
			"min(received_at)": store.Time(&p.First), "max(received_at)": store.Time(&p.Last),
		}
	}, `FROM responses GROUP BY op ORDER BY op`)
	return append([]Part{}, parts...), err // an empty list, not null
}

// keptBody is what [Journal.Check] reads of an answer.
type keptBody struct {
	id int64
	Packed
}

// Check verifies the checksums of the answers after an id, and counts them.
func (j *Journal) Check(ctx context.Context, after int64) (n int64, err error) {
	for ctx.Err() == nil {
		chunk, err := store.List(j.db, func(k *keptBody) []any { return []any{&k.id, &k.sum, &k.body} },
			`SELECT id, sum, body FROM responses WHERE id > ? ORDER BY id LIMIT ?`, after, newest)
		if err != nil {
			return n, err
		}
		for _, k := range chunk {
			if !k.isIntact() {
				return n, j.damagedError(k.id)
			}
			after = k.id
		}
		if n += int64(len(chunk)); len(chunk) < newest {
			return n, nil
		}
	}
	return n, context.Cause(ctx)
}

func (j *Journal) damagedError(id int64) error {
	return j.db.Corrupt(fmt.Sprintf("answer %d of the journal does not match its checksum", id))
}
