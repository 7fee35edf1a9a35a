package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outlierd/internal/durable"
	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// # Answers that cannot be settled yet
//
// An answer in hand is never given up. While another program locks the database, or the disk is full, the
// answer is kept in a file in the same folder, and settled as soon as that is possible. If the process
// ends before that, the next process settles it from the file before it does anything else.

// settlePatience is how long Settle waits for a lock before it saves the answer to a file, and settlePause
// is the pause between two tries on a full disk.
const (
	settlePatience = time.Second
	settlePause    = time.Second
)

// spoolPrefix is the prefix of the names of these files.
const spoolPrefix = "answer-"

// spooled is the content of such a file: what is needed to settle the attempt.
type spooled struct {
	Attempt int64
	Call    journal.Call
	Price   outlier.Credits
	Follows bool // the answer has work to commit

	Outcome outlier.Outcome
	Answer  outlier.Answer // without its request, headers and error
	Sum     []byte         // SHA-256 of the body
	Err     *outlier.Error // without its cause; nil if the answer is not an error
}

// isLater reports whether an answer can be settled later.
func isLater(err error) bool { return store.IsLocked(err) || store.IsFull(err) }

// spoolAnswer saves the answer to a file, and retries settling it until that succeeds, or until the file is
// saved and the context of the call has ended. cause is the error of the first try.
func (a *attempt) spoolAnswer(answer *outlier.Answer, o outlier.Outcome, packed journal.Packed, cause error) error {
	path := filepath.Join(a.l.db.Dir(), fmt.Sprintf("%s%d-%d.json", spoolPrefix,
		answer.ReceivedAt.UnixMicro(), a.id))
	unsaved := saveSpooled(path, a.spooled(answer, o))
	log := a.l.db.Log().With("op", a.call.Op, "entity", a.call.Entity, "job", a.call.Job)
	log.Warn("answer waits, as the state cannot be written", "file", path, "err", errors.Join(cause, unsaved))
	began, err := time.Now(), cause
	for isLater(err) {
		if unsaved != nil {
			unsaved = saveSpooled(path, a.spooled(answer, o))
		}
		if a.ctx.Err() != nil && unsaved == nil {
			return fmt.Errorf("%w; the answer is kept in %s, and the next start of the program reads it",
				err, path)
		}
		if store.IsFull(err) {
			time.Sleep(settlePause)
		}
		err = a.settleOnce(answer, o, packed)
	}
	if !a.settled {
		return err
	}
	log.Info("answer kept", "waited", time.Since(began).Round(time.Millisecond))
	return errors.Join(err, removeSpooled(path))
}

func (a *attempt) spooled(answer *outlier.Answer, o outlier.Outcome) spooled {
	sum := sha256.Sum256(answer.Body)
	s := spooled{
		Attempt: a.id, Call: a.call, Price: a.price, Follows: a.p.Commit != nil,
		Outcome: o, Answer: *answer, Sum: sum[:],
	}
	s.Answer.Request, s.Answer.Header, s.Answer.Err = nil, nil, nil
	if e, ok := errors.AsType[*outlier.Error](answer.Err); ok {
		s.Err = new(*e)
		s.Err.Cause = nil
	}
	return s
}

// saveSpooled writes the file durably and atomically.
func saveSpooled(path string, s spooled) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text, 0o600)
}

// removeSpooled removes the file of an answer that is settled, or that was never saved.
func removeSpooled(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an answer that is settled: %w", err)
	}
	return durable.Sync(filepath.Dir(path))
}

// SettleSpooled settles the answers that an earlier process left in files. apply is [Purchase.Commit] for those whose
// call had one. Each file is removed once its answer is durable. If the process is killed in between, the next one does
// not settle the answer again.
func (l *Ledger) SettleSpooled(apply func(*store.Tx, Kept) error) error {
	files, err := durable.Match(l.db.Dir(), spoolPrefix+"*")
	if err != nil {
		return err
	}
	slices.Sort(files) // by time
	for _, path := range files {
		if filepath.Ext(path) == ".damaged" {
			continue
		}
		s, err := readSpooled(path)
		if err != nil {
			l.db.Log().Error("answer file not readable, left as .damaged", "file", path, "err", err)
			if err := os.Rename(path, path+".damaged"); err != nil {
				return err
			}
			continue
		}
		if err := l.settleSpooled(s, apply); err != nil {
			return fmt.Errorf("settle the answer in %s: %w", path, err)
		}
		if err := removeSpooled(path); err != nil {
			return err
		}
	}
	return nil
}

func readSpooled(path string) (s spooled, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if sum := sha256.Sum256(s.Answer.Body); err == nil && !bytes.Equal(sum[:], s.Sum) {
		err = errors.New("the answer does not match its checksum")
	}
	if s.Err != nil {
		s.Answer.Err = s.Err
	}
	return s, err
}

// settleSpooled does what Settle could not. It does nothing if the attempt is settled already, as after a kill before
// its file was removed.
func (l *Ledger) settleSpooled(s spooled, apply func(*store.Tx, Kept) error) error {
	a := &attempt{l: l, id: s.Attempt, call: s.Call, price: s.Price}
	isOpen, err := store.Scan(l.db, []any{store.Optional(&a.p.Intent)},
		`SELECT intent FROM attempts WHERE id = ? AND state IN ('reserved', 'sending')`, s.Attempt)
	if err != nil || !isOpen {
		return err
	}
	if s.Follows {
		a.p.Commit = apply
	}
	log := l.db.Log().With("op", s.Call.Op, "entity", s.Call.Entity, "job", s.Call.Job, "run", s.Call.Run)
	err = a.settleOnce(&s.Answer, s.Outcome, journal.Pack(&s.Answer))
	switch {
	case !a.settled:
		return err
	case err != nil:
		log.Error("answer of an earlier process not usable", "err", err)
	default:
		log.Info("answer of an earlier process kept", "credits", s.Price)
	}
	return nil
}
