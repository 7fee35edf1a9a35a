package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// newest is how many answers, and the runs of how many paid attempts, are checked after a
// kill: many more than can have been under way.
const newest = 256

// checkAtStart looks for damage after an unclean end; before is the boot during which
// the state was last known to be sound. A kill can only cut the newest transaction
// short, which SQLite undoes; a machine that went down may have lost any page that was
// not yet on its disk.
func (s *Store) checkAtStart(ctx context.Context, unclean bool, before string) error {
	present := s.options.BootID()
	why := ""
	switch {
	case before == mustCheck:
		why = "damage was reported, or an earlier check did not finish"
	case unclean && (before != present || present == ""):
		why = "the machine went down while the state was open"
	}
	if why == "" {
		if err := s.checkNewest(ctx, unclean); err != nil {
			return s.explain(err)
		}
		return sign(s.lock, present)
	}
	if err := sign(s.lock, mustCheck); err != nil {
		return err
	}
	began := time.Now()
	s.options.Log.Info("state check started", "reason", why, "path", s.path())
	checked, err := s.Check(ctx)
	if err != nil {
		return err
	}
	s.options.Log.Info("state check finished", "answers", checked.Answers, "duration", time.Since(began).Round(time.Millisecond))
	return sign(s.lock, present)
}

// checkNewest verifies the periods that have not ended, those of the runs that bought
// last, and after an unclean end the newest answers.
func (s *Store) checkNewest(ctx context.Context, unclean bool) error {
	if unclean {
		var last int64
		if err := s.row(`SELECT coalesce(max(id), 0) FROM responses`).Scan(&last); err != nil {
			return err
		}
		if _, err := s.checkAnswers(ctx, last-newest); err != nil {
			return err
		}
	}
	return s.audit(`WHERE (scope, period) IN (SELECT scope, period FROM (
		SELECT scope, period FROM periods WHERE ends > (SELECT max(reserved_at) FROM attempts WHERE price > 0)
		UNION ALL
		SELECT 'run', run FROM (SELECT run FROM attempts WHERE price > 0 ORDER BY reserved_at DESC LIMIT ?)))`, newest)
}

// Checked counts what [Store.Check] has verified.
type Checked struct {
	Answers int64 `json:"answers"` // of the journal
	Periods int64 `json:"periods"` // of the ledger

	Journal []JournalPart `json:"journal"` // by operation
}

// JournalPart counts the answers to one operation.
type JournalPart struct {
	Op      outlier.Operation `json:"operation"`
	Answers int64             `json:"answers"`
	Bytes   int64             `json:"bytes"` // as they are kept
	First   time.Time         `json:"first_at"`
	Last    time.Time         `json:"last_at"`
}

type journalRow struct {
	JournalPart
	first, last int64
}

func (r *journalRow) columns() []any { return []any{&r.Op, &r.Answers, &r.Bytes, &r.first, &r.last} }

// journalParts says what the journal holds.
func (s *Store) journalParts() (parts []JournalPart, err error) {
	parts = []JournalPart{} // of an empty journal a list, not null
	rows, err := list(s, (*journalRow).columns,
		`SELECT op, count(*), sum(length(body)), min(received_at), max(received_at) FROM responses GROUP BY op ORDER BY op`)
	for _, r := range rows {
		r.First, r.Last = instant(r.first), instant(r.last)
		parts = append(parts, r.JournalPart)
	}
	return parts, err
}

// Check verifies the whole state: that the file is sound, that the ledger's periods hold
// the sum of their attempts, and that every answer of the journal matches its checksum.
// It fails with a [*CorruptError]. With a million answers it takes some 10 seconds.
func (s *Store) Check(ctx context.Context) (checked Checked, err error) {
	if err := s.checkFile(ctx); err != nil {
		return checked, s.explain(err)
	}
	err = s.view(func() error {
		if err := s.row(`SELECT count(*) FROM periods`).Scan(&checked.Periods); err != nil {
			return err
		}
		if checked.Journal, err = s.journalParts(); err != nil {
			return err
		}
		return s.audit(``)
	})
	if err != nil {
		return checked, err
	}
	checked.Answers, err = s.checkAnswers(ctx, 0)
	return checked, s.explain(err)
}

// checkFile lets SQLite look for damage, table by table so that ctx may end it between.
func (s *Store) checkFile(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table'`)
	if err != nil {
		return err
	}
	tables, err := collect(rows, func(name *string) []any { return []any{name} })
	if err != nil {
		return err
	}
	for _, table := range tables {
		var verdict string
		if err := s.db.QueryRowContext(ctx, `SELECT quick_check FROM pragma_quick_check(?)`, table).Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			return &CorruptError{Path: s.path(), Detail: verdict}
		}
	}
	return nil
}

// keptBody is what checkAnswers needs of an answer.
type keptBody struct {
	id int64
	packed
}

// checkAnswers verifies the checksums of the answers after an id, and counts them.
func (s *Store) checkAnswers(ctx context.Context, after int64) (n int64, err error) {
	for ctx.Err() == nil {
		var chunk []keptBody
		err := s.view(func() (err error) {
			chunk, err = list(s, func(k *keptBody) []any { return []any{&k.id, &k.sum, &k.body} },
				`SELECT id, sum, body FROM responses WHERE id > ? ORDER BY id LIMIT ?`, after, newest)
			return err
		})
		if err != nil {
			return n, err
		}
		for _, k := range chunk {
			if !k.intact() {
				return n, s.damagedAnswer(k.id)
			}
			after = k.id
		}
		if n += int64(len(chunk)); len(chunk) < newest {
			return n, nil
		}
	}
	return n, context.Cause(ctx)
}

func (s *Store) damagedAnswer(id int64) error {
	return &CorruptError{Path: s.path(), Detail: fmt.Sprintf("answer %d of the journal does not match its checksum", id)}
}

// audit compares what periods hold, and how they were adjusted, with the sum of their
// attempts and of what is left of their holds. Where says which of period_sums.
func (s *Store) audit(where string, args ...any) error {
	var p credit.Period
	var held, sum int64
	err := s.row(`SELECT scope, period, p.held + p.adjusted, s.held + s.adjusted
		FROM (SELECT * FROM period_sums `+where+`) s JOIN periods p USING (scope, period)
		WHERE p.held <> s.held OR p.adjusted <> s.adjusted LIMIT 1`, args...).Scan(&p.Scope, &p.Key, &held, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &CorruptError{Path: s.path(), Detail: fmt.Sprintf(
		"the ledger holds %d credits for %s %s, but its rows add up to %d", held, p.Scope, p.Key, sum)}
}
