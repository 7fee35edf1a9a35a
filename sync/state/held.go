package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/outlier"
)

// # An answer in hand
//
// An answer that was paid for is never given up. While another program locks the
// database, the answer is kept in a file beside it, and settled as soon as the lock is
// gone. If the process ends before that, the next one settles it from the file: the
// answer is in the journal and the ledger then, and [Store.TakeUp] lets the search or
// the queued call follow that it belongs to.

// settlePatience is how long the lock may last before the answer goes into a file.
const settlePatience = time.Second

// heldPrefix begins the names of the files that keep an answer in hand.
const heldPrefix = "answer-"

// held is what such a file says: all that is needed to settle the attempt.
type held struct {
	Attempt  int64 // row of the ledger; 0 for a free call
	Run      string
	Job      string
	Step     int64
	Item     string
	Page     int
	RankBase int
	Try      int
	Follows  bool // something is to follow from the answer; see [Store.TakeUp]

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
	Kind       outlier.Kind // of the error that the answer is; "" for none
	Message    string
}

// hold keeps the answer in a file, and tries to settle it until that is done or the
// context of the call has ended. Busy is why it could not be settled.
func (a *attempt) hold(answer *outlier.Answer, o outlier.Outcome, kept packed, busy error) error {
	log := a.s.options.Log.With("op", a.r.Op, "entity", a.r.Entity, "job", a.p.Job)
	path := filepath.Join(a.s.dir, fmt.Sprintf("%s%d-%d.json", heldPrefix, answer.ReceivedAt.UnixMicro(), a.id))
	unsaved := saveHeld(path, a.held(answer, o))
	if unsaved != nil {
		log = log.With("err", unsaved)
	}
	log.Warn("state locked by another program, answer waits", "file", path)
	began, err := time.Now(), busy
	for isBusy(err) {
		if a.ctx.Err() != nil && unsaved == nil {
			return fmt.Errorf("%w; the answer is kept in %s, and the next start of the program reads it", err, path)
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
		Attempt: a.id, Run: a.p.Run, Job: a.p.Job, Step: a.p.Step, Item: a.p.Item, Page: a.p.Page, RankBase: a.p.RankBase,
		Try: a.p.Attempt, Follows: a.p.Commit != nil,
		Op: a.r.Op, Entity: a.r.Entity, Params: a.params, Price: a.r.Price,
		Outcome: o, Status: answer.Status, Encoding: answer.Encoding, Body: answer.Body, Waited: answer.Waited,
		SentAt: answer.SentAt, ReceivedAt: answer.ReceivedAt,
	}
	sum := sha256.Sum256(answer.Body)
	h.Sum = sum[:]
	if e, ok := errors.AsType[*outlier.Error](answer.Err); ok {
		h.Kind, h.Message = e.Kind, bounded(e.Message)
	}
	return h
}

// saveHeld makes the file durable, whole or not at all.
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

// settleHeld settles the answers that an earlier process left in files. Each file is
// removed when its answer is durable, so that a kill in between repeats nothing: what
// is settled already is not settled again.
func (s *Store) settleHeld() error {
	files, err := filepath.Glob(filepath.Join(s.dir, heldPrefix+"*"))
	if err != nil {
		return err
	}
	slices.Sort(files) // by time
	for _, path := range files {
		switch filepath.Ext(path) {
		case ".tmp": // cut short by a kill
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		case ".damaged":
			continue
		}
		h, err := readHeld(path)
		if err != nil {
			s.options.Log.Error("answer file not readable, left as .damaged", "file", path, "err", err)
			if err := os.Rename(path, path+".damaged"); err != nil {
				return err
			}
			continue
		}
		if err := s.Update(h.settle); err != nil {
			return fmt.Errorf("settle the answer in %s: %w", path, err)
		}
		s.options.Log.Info("answer of an earlier process kept", "op", h.Op, "entity", h.Entity, "job", h.Job, "run", h.Run, "credits", h.Price)
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

// settle does what Settle could not, up to what the engine makes of the answer.
func (h held) settle(tx *Tx) error {
	done, err := h.settled(tx)
	if done || err != nil {
		return err
	}
	params, err := url.ParseQuery(h.Params)
	if err != nil {
		return err
	}
	a := &attempt{
		meter: meter{tx.s, Purchase{Run: h.Run, Job: h.Job, Step: h.Step, Item: h.Item, Page: h.Page, RankBase: h.RankBase, Attempt: h.Try}},
		r:     &outlier.Request{Op: h.Op, Entity: h.Entity, Params: params, Price: h.Price}, params: h.Params, id: h.Attempt,
	}
	answer := h.answer()
	kept, err := a.keep(tx, answer, h.Outcome, tx.s.pack.pack(answer))
	if err != nil {
		return err
	}
	if h.Op == outlier.OpStartScan {
		return tx.found(h.Attempt, answer)
	}
	good := h.Outcome == outlier.Charged || h.Kind == outlier.NotFound || h.Kind == outlier.Invalid
	if !h.Follows || kept.Response == 0 || !good {
		return nil // another attempt follows
	}
	_, err = tx.exec(`INSERT INTO recovered (response, attempt, kind, message) VALUES (?, ?, ?, ?)`,
		kept.Response, tx.attempt, string(h.Kind), h.Message)
	return err
}

// settled reports whether the answer was settled before, as when a kill came before its
// file was removed.
func (h held) settled(tx *Tx) (done bool, err error) {
	if h.Price > 0 {
		err = tx.row(`SELECT NOT EXISTS (SELECT 1 FROM attempts WHERE id = ? AND state IN ('reserved', 'sending'))`, h.Attempt).Scan(&done)
		return done, err
	}
	err = tx.row(`SELECT EXISTS (SELECT 1 FROM attempts WHERE run = ? AND price = 0 AND sent_at = ? AND op = ? AND entity = ?)`,
		h.Run, micros(h.SentAt), string(h.Op), h.Entity).Scan(&done)
	return done, err
}

func (h held) answer() *outlier.Answer {
	answer := &outlier.Answer{
		Status: h.Status, Encoding: h.Encoding, Body: h.Body, Waited: h.Waited, SentAt: h.SentAt, ReceivedAt: h.ReceivedAt,
	}
	if h.Kind != "" {
		answer.Err = &outlier.Error{Kind: h.Kind, Op: h.Op, Entity: h.Entity, Status: h.Status, Message: h.Message}
	}
	return answer
}

// found adopts the scan that an answer tells of for the intent of its attempt. One that
// broke off may still tell the id, and that is all that is needed: the run that waits for
// the scan asks for the rest.
func (t *Tx) found(attempt int64, answer *outlier.Answer) error {
	scan, err := t.s.scan(`SELECT `+scanColumns+` FROM scans WHERE state = 'unknown'
		AND id = (SELECT intent FROM attempts WHERE id = ?)`, attempt)
	if err != nil || scan == nil {
		return err
	}
	body, _ := answer.JSON()
	told, _ := outlier.ReadScan(body)
	if told.ID == "" {
		return nil
	}
	if before, err := t.NamedBefore(*scan, told.ID); before != nil || err != nil {
		if err == nil && answer.Err == nil && scan.Repeats(before) {
			err = t.JoinInstead(scan, before)
		}
		return err // else it stays unknown: the answer names a scan that looks for something else
	}
	scan.State, scan.ScanID, scan.Status, scan.Created = ScanRunning, told.ID, told.Status, told.CreatedAt
	scan.Polled, scan.NextPoll = answer.ReceivedAt, answer.ReceivedAt
	return t.SaveScan(*scan)
}

// TakeUp performs p.Commit for an answer to r that an earlier process received and
// could not commit, see [Store.Meter], whatever its age; nil if there is none. The
// error is the answer's own, or an [*outlier.UnkeptError].
func (s *Store) TakeUp(p Purchase, r *outlier.Request) (*outlier.Answer, error) {
	found, err := s.recoveredFor(p.Step, r)
	if err != nil || found == nil {
		return nil, err
	}
	answer := found.answer(r)
	err = s.Update(func(tx *Tx) error {
		if _, err := tx.exec(`DELETE FROM recovered WHERE response = ?`, found.ID); err != nil || p.Commit == nil {
			return err
		}
		tx.attempt = found.attempt
		return p.Commit(tx, Kept{Answer: answer, Outcome: found.Outcome, Response: found.ID})
	})
	if err == nil {
		return answer, answer.Err
	}
	// As with an answer that has just come, Commit is not asked a second time.
	if _, busy := errors.AsType[*LockedError](err); !busy {
		err = errors.Join(err, s.Update(func(tx *Tx) error {
			_, err := tx.exec(`DELETE FROM recovered WHERE response = ?`, found.ID)
			return err
		}))
	}
	return answer, errors.Join(answer.Err, &outlier.UnkeptError{Request: r, Outcome: found.Outcome, Cause: err})
}

// recovered is an answer whose commit is still to be performed.
type recovered struct {
	*Entry
	attempt int64
	kind    outlier.Kind
	message string
}

func (f *recovered) answer(r *outlier.Request) *outlier.Answer {
	answer := &outlier.Answer{
		Request: r, Status: cmp.Or(f.Status, http.StatusOK), Body: slices.Clone(f.Body), SentAt: f.SentAt, ReceivedAt: f.ReceivedAt,
	}
	if f.kind != "" {
		answer.Err = &outlier.Error{Kind: f.kind, Op: r.Op, Entity: r.Entity, Status: f.Status, Message: f.message}
	}
	return answer
}

func (s *Store) recoveredFor(step int64, r *outlier.Request) (*recovered, error) {
	var row entryRow
	var f recovered
	err := s.view(func() error {
		err := s.row(`SELECT a.attempt, a.kind, a.message, `+entryColumns+` FROM recovered a CROSS JOIN responses ON id = a.response
			WHERE step = ? AND op = ? AND entity = ? AND params = ? LIMIT 1`, step, string(r.Op), r.Entity, r.Params.Encode()).
			Scan(append([]any{&f.attempt, &f.kind, &f.message}, row.columns()...)...)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		f.Entry, err = s.entry(&row, &opener{packer: s.pack})
	}
	if err != nil {
		return nil, fmt.Errorf("look for an answer of an earlier process to %s: %w", describe(r), err)
	}
	return &f, nil
}

// Awaits reports whether an answer to a step's next call is in the journal already; see
// [Store.TakeUp].
func (s *Store) Awaits(step int64) (awaits bool, err error) {
	err = s.view(func() error {
		return s.row(`SELECT EXISTS (SELECT 1 FROM recovered CROSS JOIN responses ON id = recovered.response WHERE step = ?)`, step).Scan(&awaits)
	})
	if err != nil {
		return false, fmt.Errorf("look for an answer to step %d: %w", step, err)
	}
	return awaits, nil
}
