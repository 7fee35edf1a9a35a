package state

import (
	"context"
	"time"

	"outlierd/sync/journal"
)

// checkAtStart looks for damage after an unclean end. A kill can only interrupt the newest
// transaction, which SQLite rolls back; after anything worse everything is checked.
func (s *Store) checkAtStart(ctx context.Context) error {
	why := s.DB.Doubt()
	if why == "" {
		if err := s.checkNewest(ctx); err != nil {
			return err
		}
		return s.DB.Sound()
	}
	if err := s.DB.Doubted(); err != nil {
		return err
	}
	began := time.Now()
	s.DB.Log().Info("state check started", "reason", why, "path", s.DB.Path())
	checked, err := s.Check(ctx)
	if err != nil {
		return err
	}
	s.DB.Log().Info("state check finished", "answers", checked.Answers, "duration",
		time.Since(began).Round(time.Millisecond))
	return s.DB.Sound()
}

// checkNewest verifies the last paid call, and after an unclean end the newest answers.
func (s *Store) checkNewest(ctx context.Context) error {
	if s.DB.Unclean() {
		if err := s.Journal.CheckNewest(ctx); err != nil {
			return err
		}
	}
	return s.DB.View(s.Ledger.CheckSent)
}

// Checked counts what [Store.Check] has verified.
type Checked struct {
	Answers int64 `json:"answers"` // of the journal

	Journal []journal.Part `json:"journal"` // by operation
	Pruned  int64          `json:"pruned"`  // the last answer of which the journal has no body; 0 if it has all
}

// Check verifies the whole state: the integrity of the file, the last paid call, and every answer of the journal
// against its checksum. With a million answers it takes about 10 seconds.
func (s *Store) Check(ctx context.Context) (checked Checked, err error) {
	if err := s.DB.CheckFile(ctx); err != nil {
		return checked, err
	}
	if err := s.DB.View(s.Ledger.CheckSent); err != nil {
		return checked, err
	}
	if checked.Journal, err = journal.Parts(s.DB); err != nil {
		return checked, err
	}
	if checked.Pruned, err = s.Journal.Pruned(); err != nil {
		return checked, err
	}
	checked.Answers, err = s.Journal.Check(ctx, 0)
	return checked, err
}
