package state

import (
	"context"
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// checkAtStart looks for damage after an unclean end. A kill can only cut the newest
// transaction short, which SQLite undoes; after anything worse all is checked.
func (s *Store) checkAtStart(ctx context.Context) error {
	why := s.db.Doubt()
	if why == "" {
		if err := s.checkNewest(ctx); err != nil {
			return err
		}
		return s.db.Sound()
	}
	if err := s.db.Doubted(); err != nil {
		return err
	}
	began := time.Now()
	s.db.Log().Info("state check started", "reason", why, "path", s.db.Path())
	checked, err := s.Check(ctx)
	if err != nil {
		return err
	}
	s.db.Log().Info("state check finished", "answers", checked.Answers, "duration",
		time.Since(began).Round(time.Millisecond))
	return s.db.Sound()
}

// checkNewest verifies the newest periods, and after an unclean end the newest answers.
func (s *Store) checkNewest(ctx context.Context) error {
	if s.db.Unclean() {
		if err := s.journal.CheckNewest(ctx); err != nil {
			return err
		}
	}
	return s.db.View(s.ledger.AuditNewest)
}

// Checked counts what [Store.Check] has verified.
type Checked struct {
	Answers int64 `json:"answers"` // of the journal
	Periods int64 `json:"periods"` // of the ledger

	Journal []journal.Part `json:"journal"` // by operation
}

// Check verifies the whole state: that the file is sound, that the ledger's periods hold
// the sum of their attempts, and that every answer of the journal matches its checksum.
// It fails with a [*store.CorruptError]. With a million answers it takes some 10 seconds.
func (s *Store) Check(ctx context.Context) (checked Checked, err error) {
	if err := s.db.CheckFile(ctx); err != nil {
		return checked, err
	}
	err = s.db.View(func(tx *store.Tx) error {
		if checked.Journal, err = journal.Parts(tx); err != nil {
			return err
		}
		checked.Periods, err = s.ledger.Audit(tx)
		return err
	})
	if err != nil {
		return checked, err
	}
	checked.Answers, err = s.journal.Check(ctx, 0)
	return checked, err
}
