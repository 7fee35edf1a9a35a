package store

import (
	"context"
	"time"
)

// A long change is made in pieces, each a transaction of its own, so that no other process
// waits for the database for long. How many rows a piece may change follows from how long the
// piece before it took.
const (
	pieceTime = 20 * time.Millisecond
	pieceMin  = 50
	pieceMax  = 4000
)

// InPieces performs f until it has changed fewer rows than it was allowed to. After each
// piece it leaves the database alone for as long as the piece took, so that others who wait
// for it get their turn. A process that is killed in between leaves the pieces that are done:
// f must find the rest by itself when it is called again.
func (s *Store) InPieces(ctx context.Context, f func(tx *Tx, most int) (changed int, err error)) error {
	for most := 500; ; {
		changed, began := 0, time.Now()
		err := s.Update(func(tx *Tx) (err error) {
			changed, err = f(tx, most)
			return err
		})
		if err != nil || changed < most {
			return err
		}
		took := time.Since(began)
		switch {
		case took > pieceTime:
			most = max(most/2, pieceMin)
		case took < pieceTime/2:
			most = min(most*2, pieceMax)
		}
		select {
		case <-time.After(took):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
