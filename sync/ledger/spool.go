package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
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
// ends before that, the next process settles it from the file. The answer is then in the journal and the
// ledger, and the engine processes it before it does anything else; see [Ledger.Recovered].

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
	Follows bool // the answer has work to commit; see [Ledger.Recovered]

	Outcome outlier.Outcome
	Answer  outlier.Answer // without its request, headers and error
	Sum     []byte         // SHA-256 of the body
	Kind    outlier.Kind   // of the error, if the answer is one; "" for none
	Message string
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
		s.Kind, s.Message = e.Kind, store.Bounded(e.Message)
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

// SettleSpooled settles the answers that an earlier process left in files. Each file is removed once
// its answer is durable. If the process is killed in between, the next one does not settle the
// answer again. started links the answer to a scan start with that scan, by its intent.
func (l *Ledger) SettleSpooled(started func(tx *store.Tx, intent int64, answer *outlier.Answer) error) error {
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
		if err := l.db.Update(func(tx *store.Tx) error { return s.settleSpooled(tx, l, started) }); err != nil {
			return fmt.Errorf("settle the answer in %s: %w", path, err)
		}
		l.db.Log().Info("answer of an earlier process kept", "op", s.Call.Op, "entity", s.Call.Entity, "job", s.Call.Job,
			"run", s.Call.Run, "credits", s.Price)
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
	return s, err
}

// settleSpooled does what Settle could not, except for the engine's processing of the answer. It does nothing if
// the attempt is settled already, as after a kill before its file was removed.
func (s spooled) settleSpooled(tx *store.Tx, l *Ledger, started func(*store.Tx, int64, *outlier.Answer) error) error {
	var intent int64
	err := tx.Row(`SELECT coalesce(intent, 0) FROM attempts WHERE id = ? AND state IN ('reserved', 'sending')`,
		s.Attempt).Scan(&intent)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	a := &attempt{l: l, id: s.Attempt, call: s.Call, price: s.Price}
	answer := s.answer()
	kept, err := a.recordOutcome(tx, answer, s.Outcome, l.journal.Pack(answer))
	if err != nil {
		return err
	}
	if intent != 0 {
		return started(tx, intent, answer)
	}
	good := s.Outcome == outlier.Charged || s.Kind == outlier.NotFound || s.Kind == outlier.Invalid
	if !s.Follows || kept.Response == 0 || !good {
		return nil // another attempt follows
	}
	_, err = tx.Exec(`INSERT INTO recovered (response, attempt, kind, message) VALUES (?, ?, ?, ?)`,
		kept.Response, kept.Attempt, s.Kind, s.Message)
	return err
}

func (s spooled) answer() *outlier.Answer {
	answer := s.Answer
	if s.Kind != "" {
		answer.Err = &outlier.Error{Kind: s.Kind, Op: s.Call.Op, Entity: s.Call.Entity, Status: answer.Status,
			Message: s.Message}
	}
	return &answer
}

// Recovered is an answer that an earlier process received and could not process. It is in the journal and the
// ledger, and the search or queued call that it belongs to knows nothing of it yet.
type Recovered struct {
	*journal.Entry
	Kept Kept
}

// Recovered returns the answers that are still to be processed, oldest first. There are only as many as were in
// flight when a process ended.
func (l *Ledger) Recovered() ([]Recovered, error) {
	type row struct {
		response, attempt int64
		kind              outlier.Kind
		message           string
	}
	return store.Read(l.db, "list the answers of an earlier process", func(tx *store.Tx) (found []Recovered, err error) {
		rows, err := store.Select(tx, func(r *row) store.Columns {
			return store.Columns{"response": &r.response, "attempt": &r.attempt, "kind": &r.kind, "message": &r.message}
		}, `FROM recovered ORDER BY response`)
		for i := 0; err == nil && i < len(rows); i++ {
			row := rows[i]
			var e *journal.Entry
			if e, err = l.journal.Answer(tx, row.response); e == nil {
				continue
			}
			e.Body = slices.Clone(e.Body) // which is valid until the next entry is read
			answer := &outlier.Answer{
				Status: cmp.Or(e.Status, http.StatusOK), Body: e.Body, SentAt: e.SentAt, ReceivedAt: e.ReceivedAt,
			}
			if row.kind != "" {
				answer.Err = &outlier.Error{Kind: row.kind, Op: e.Op, Entity: e.Entity, Status: e.Status, Message: row.message}
			}
			found = append(found, Recovered{e, Kept{
				Answer: answer, Outcome: e.Outcome, Response: row.response, Attempt: row.attempt}})
		}
		return found, err
	})
}

// DropRecovered records that an answer was processed, or that nothing waits for it any more.
func DropRecovered(tx *store.Tx, response int64) error {
	_, err := tx.Exec(`DELETE FROM recovered WHERE response = ?`, response)
	return err
}

// Awaits reports whether the journal has an answer to a step's next call that is still to be processed.
func (l *Ledger) Awaits(step int64) (bool, error) {
	return store.Read(l.db, fmt.Sprintf("look for an answer to step %d", step), func(tx *store.Tx) (bool, error) {
		return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM recovered CROSS JOIN attempts a ON a.id = recovered.attempt
			WHERE a.step = ?)`, step)
	})
}
