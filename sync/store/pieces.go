package store

import (
	"context"
	"time"
)

// A long change is made in pieces, each in its own transaction, so that no other process waits
// long for the database. The number of rows in a piece depends on how long the previous piece
// took.
const (
	pieceTime = 20 * time.Millisecond
	pieceMin  = 50
	pieceMax  = 4000
)

// InPieces calls f until it changes fewer rows than it may. After each piece it leaves the
// database unlocked for as long as the piece took, so that waiting processes get their turn. If
// the process is killed, the finished pieces remain: when called again, f must find the remaining
// rows itself.
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
