package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// # Answers that cannot be settled yet
//
// An answer that was paid for is never dropped. While another program locks the database, the
// answer is kept in a file in the same folder and settled as soon as the lock is released. If the
// process ends before that, the next process settles it from the file. The answer is then in the
// journal and the ledger, and [Ledger.TakeUp] passes it to the search or queued call that it
// belongs to.

// settlePatience is how long Settle waits for a lock before it saves the answer to a file.
const settlePatience = time.Second

// heldPrefix is the prefix of the names of these files.
const heldPrefix = "answer-"

// held is the content of such a file: everything needed to settle the attempt.
type held struct {
	Attempt  int64 // row of the ledger; 0 for a free call
	Run      string
	Job      string
	Step     int64
	Item     string
	Page     int
	RankBase int
	Try      int
	Follows  bool // the answer has work to commit; see [Ledger.TakeUp]

	Op     outlier.Operation
	Entity string
	Params string
	Price  outlier.Credits

	Outcome    outlier.Outcome
	Status     int
	Encoding   string
	Body       []byte
	Sum        []byte // SHA-256 of the body
	Waited     time.Duration
	SentAt     time.Time
	ReceivedAt time.Time
	Kind       outlier.Kind // of the error, if the answer is one; "" for none
	Message    string
}

// hold saves the answer to a file, and retries settling it until that succeeds or the context of
// the call has ended. busy is the error of the first try.
func (a *attempt) hold(answer *outlier.Answer, o outlier.Outcome, kept journal.Packed, busy error) error {
	log := a.l.db.Log().With("op", a.r.Op, "entity", a.r.Entity, "job", a.p.Job)
	path := filepath.Join(a.l.db.Dir(), fmt.Sprintf("%s%d-%d.json", heldPrefix,
		answer.ReceivedAt.UnixMicro(), a.id))
	unsaved := saveHeld(path, a.held(answer, o))
	if unsaved != nil {
		log = log.With("err", unsaved)
	}
	log.Warn("state locked by another program, answer waits", "file", path)
	began, err := time.Now(), busy
	for store.IsLocked(err) {
		if a.ctx.Err() != nil && unsaved == nil {
			return fmt.Errorf("%w; the answer is kept in %s, and the next start of the program reads it",
				err, path)
		}
		if unsaved != nil {
			unsaved = saveHeld(path, a.held(answer, o))
		}
		err = a.settle(answer, o, kept)
	}
	if !a.settled {
		return err
	}
	log.Info("answer kept, state unlocked", "waited", time.Since(began).Round(time.Millisecond))
	return errors.Join(err, removeHeld(path))
}

func (a *attempt) held(answer *outlier.Answer, o outlier.Outcome) held {
	h := held{
		Attempt: a.id, Run: a.p.Run, Job: a.p.Job, Step: a.p.Step, Item: a.p.Item, Page: a.p.Page,
		RankBase: a.p.RankBase,
		Try:      a.p.Attempt, Follows: a.p.Commit != nil,
		Op: a.r.Op, Entity: a.r.Entity, Params: a.params, Price: a.r.Price,
		Outcome: o, Status: answer.Status, Encoding: answer.Encoding, Body: answer.Body,
		Waited: answer.Waited,
		SentAt: answer.SentAt, ReceivedAt: answer.ReceivedAt,
	}
	sum := sha256.Sum256(answer.Body)
	h.Sum = sum[:]
	if e, ok := errors.AsType[*outlier.Error](answer.Err); ok {
		h.Kind, h.Message = e.Kind, store.Bounded(e.Message)
	}
	return h
}

// saveHeld writes the file durably and atomically.
func saveHeld(path string, h held) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	temporary := path + ".tmp"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncFolder(filepath.Dir(path))
}

// removeHeld removes a file whose answer is settled.
func removeHeld(path string) error {
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove an answer that is settled: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// SettleHeld settles the answers that an earlier process left in files. Each file is removed once
// its answer is durable. If the process is killed in between, the next one does not settle the
// answer again. started links the answer to a scan start with that scan, by its intent.
func (l *Ledger) SettleHeld(started func(tx *store.Tx, intent int64, answer *outlier.Answer) error) error {
	files, err := filepath.Glob(filepath.Join(l.db.Dir(), heldPrefix+"*"))
	if err != nil {
		return err
	}
	slices.Sort(files) // by time
	for _, path := range files {
		switch filepath.Ext(path) {
		case ".tmp": // incomplete: the process was killed while writing it
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		case ".damaged":
			continue
		}
		h, err := readHeld(path)
		if err != nil {
			l.db.Log().Error("answer file not readable, left as .damaged", "file", path, "err", err)
			if err := os.Rename(path, path+".damaged"); err != nil {
				return err
			}
			continue
		}
		settle := func(tx *store.Tx) error { return h.settle(tx, l, started) }
		if err := l.db.Update(settle); err != nil {
			return fmt.Errorf("settle the answer in %s: %w", path, err)
		}
		l.db.Log().Info("answer of an earlier process kept", "op", h.Op, "entity", h.Entity, "job", h.Job,
			"run", h.Run, "credits", h.Price)
		if err := removeHeld(path); err != nil {
			return err
		}
	}
	return nil
}

func readHeld(path string) (h held, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if sum := sha256.Sum256(h.Body); err == nil && !bytes.Equal(sum[:], h.Sum) {
		err = errors.New("the answer does not match its checksum")
	}
	return h, err
}

// settle does what Settle could not, except for the engine's processing of the answer.
func (h held) settle(tx *store.Tx, l *Ledger, started func(*store.Tx, int64, *outlier.Answer) error) error {
	done, err := h.settled(tx)
	if done || err != nil {
		return err
	}
	a := &attempt{
		l: l, id: h.Attempt, params: h.Params,
		p: Purchase{
			Run: h.Run, Job: h.Job, Step: h.Step, Item: h.Item, Page: h.Page, RankBase: h.RankBase,
			Attempt: h.Try,
		},
		r: asked{h.Op, h.Entity, h.Price},
	}
	answer := h.answer()
	kept, err := a.record(tx, answer, h.Outcome, l.journal.Pack(answer))
	if err != nil {
		return err
	}
	if h.Op == outlier.OpStartScan {
		var intent int64
		err := tx.Row(`SELECT coalesce(intent, 0) FROM attempts WHERE id = ?`, h.Attempt).Scan(&intent)
		if errors.Is(err, sql.ErrNoRows) || err == nil && intent == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		return started(tx, intent, answer)
	}
	good := h.Outcome == outlier.Charged || h.Kind == outlier.NotFound || h.Kind == outlier.Invalid
	if !h.Follows || kept.Response == 0 || !good {
		return nil // another attempt follows
	}
	l.allTakenUp.Store(false)
	_, err = tx.Exec(`INSERT INTO recovered (response, attempt, kind, message) VALUES (?, ?, ?, ?)`,
		kept.Response, kept.Attempt, string(h.Kind), h.Message)
	return err
}

// settled reports whether the answer is settled already, as after a kill before its file was
// removed.
func (h held) settled(tx *store.Tx) (done bool, err error) {
	if h.Price > 0 {
		err = tx.Row(`SELECT NOT EXISTS (SELECT 1 FROM attempts WHERE id = ?
			AND state IN ('reserved', 'sending'))`, h.Attempt).Scan(&done)
		return done, err
	}
	err = tx.Row(`SELECT EXISTS (SELECT 1 FROM attempts WHERE run = ? AND price = 0 AND sent_at = ?
		AND op = ? AND entity = ?)`,
		h.Run, store.Micros(h.SentAt), string(h.Op), h.Entity).Scan(&done)
	return done, err
}

func (h held) answer() *outlier.Answer {
	answer := &outlier.Answer{
		Status: h.Status, Encoding: h.Encoding, Body: h.Body, Waited: h.Waited, SentAt: h.SentAt,
		ReceivedAt: h.ReceivedAt,
	}
	if h.Kind != "" {
		answer.Err = &outlier.Error{Kind: h.Kind, Op: h.Op, Entity: h.Entity, Status: h.Status,
			Message: h.Message}
	}
	return answer
}

// TakeUp performs p.Commit for an answer to r that an earlier process received and could not
// commit, see [Ledger.Meter], regardless of its age. It returns nil if there is no such answer.
// The error is the answer's own, or an [*outlier.UnkeptError].
func (l *Ledger) TakeUp(p Purchase, r *outlier.Request) (*outlier.Answer, error) {
	found, err := l.recoveredFor(p.Step, r)
	if err != nil || found == nil {
		return nil, err
	}
	answer := found.answer(r)
	err = l.db.Update(func(tx *store.Tx) error {
		if err := dropRecovered(tx, found.ID); err != nil || p.Commit == nil {
			return err
		}
		return p.Commit(tx, Kept{Answer: answer, Outcome: found.Outcome, Response: found.ID,
			Attempt: found.attempt})
	})
	if err == nil {
		return answer, answer.Err
	}
	// As with a new answer, Commit is not called a second time.
	if _, busy := errors.AsType[*store.LockedError](err); !busy {
		err = errors.Join(err, l.db.Update(func(tx *store.Tx) error { return dropRecovered(tx, found.ID) }))
	}
	return answer, errors.Join(answer.Err, &outlier.UnkeptError{Request: r, Outcome: found.Outcome,
		Cause: err})
}

// Recovered returns the answers that [Ledger.TakeUp] may take up.
func (l *Ledger) Recovered() (all []*journal.Entry, err error) {
	_, err = l.recovered(func(e *journal.Entry) bool {
		all = append(all, e)
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("list the answers of an earlier process: %w", err)
	}
	return all, nil
}

// DropRecovered leaves an answer in the journal that nothing will take up: its run does not go on, or the
// queued call was cancelled.
func (l *Ledger) DropRecovered(response int64) error {
	return l.db.Update(func(tx *store.Tx) error { return dropRecovered(tx, response) })
}

func dropRecovered(tx *store.Tx, response int64) error {
	_, err := tx.Exec(`DELETE FROM recovered WHERE response = ?`, response)
	return err
}

// recovered is an answer that still has to be committed.
type recovered struct {
	*journal.Entry
	response, attempt int64
	kind              outlier.Kind
	message           string
}

func (f *recovered) answer(r *outlier.Request) *outlier.Answer {
	answer := &outlier.Answer{
		Request: r, Status: cmp.Or(f.Status, http.StatusOK), Body: slices.Clone(f.Body), SentAt: f.SentAt,
		ReceivedAt: f.ReceivedAt,
	}
	if f.kind != "" {
		answer.Err = &outlier.Error{Kind: f.kind, Op: r.Op(), Entity: r.Entity(), Status: f.Status,
			Message: f.message}
	}
	return answer
}

func (l *Ledger) recoveredFor(step int64, r *outlier.Request) (*recovered, error) {
	params := r.Params().Encode()
	found, err := l.recovered(func(e *journal.Entry) bool {
		return e.Step == step && e.Op == r.Op() && e.Entity == r.Entity() && e.Params.Encode() == params
	})
	if err != nil {
		return nil, fmt.Errorf("look for an answer of an earlier process to %s: %w",
			asked{r.Op(), r.Entity(), r.Price()}, err)
	}
	return found, nil
}

// recovered returns the first answer for which is returns true among those that an earlier process
// received and could not commit, or nil. There are only as many as were in flight
// when that process ended, so they are read one by one.
func (l *Ledger) recovered(is func(*journal.Entry) bool) (found *recovered, err error) {
	if l.allTakenUp.Load() {
		return nil, nil
	}
	err = l.db.View(func(tx *store.Tx) error {
		all, err := store.List(tx, func(f *recovered) []any { return []any{&f.response, &f.attempt, &f.kind, &f.message} },
			`SELECT response, attempt, kind, message FROM recovered ORDER BY response`)
		if err == nil && len(all) == 0 {
			l.allTakenUp.Store(true)
		}
		for i := range all {
			f := &all[i]
			if f.Entry, err = l.journal.Answer(tx, f.response); err != nil {
				return err
			}
			if f.Entry != nil && is(f.Entry) {
				found = f
				return nil
			}
		}
		return err
	})
	return found, err
}

// Awaits reports whether the journal already contains an answer to a step's next call; see
// [Ledger.TakeUp].
func (l *Ledger) Awaits(step int64) (bool, error) {
	found, err := l.recovered(func(e *journal.Entry) bool { return e.Step == step })
	if err != nil {
		return false, fmt.Errorf("look for an answer to step %d: %w", step, err)
	}
	return found != nil, nil
}
