package state

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// Purchase binds one attempt to the work that it belongs to.
type Purchase struct {
	Run, Job string
	Step     int64  // 0 for a data call
	Item     string // the for_each value
	Page     int    // 0-based
	RankBase int    // hits of the step before this page
	Attempt  int    // 1 for the first
	TimeOnly bool   // asked for the service's time and for nothing else: no answer is kept

	// Intent is the scan that the attempt is to start; see [Tx.IntendScan]. Its state
	// follows the attempt from then on.
	Intent int64

	// Hold is set aside for the step together with the price: both fit under every
	// cap, or neither is reserved.
	Hold outlier.Credits

	// FromHold is the step whose hold pays for this attempt, which then counts for the
	// hold's periods and meets no cap. If the hold does not cover the whole price the
	// reservation is an ordinary one. 0 means that there is no hold.
	FromHold int64

	// Caps are asked at reservation, with the service's time, for the caps in force.
	// nil means none.
	Caps func(service time.Time) []credit.Cap

	// Commit runs in the transaction that keeps the answer: for every settled
	// attempt, whatever its outcome. If it fails the answer is kept all the same and
	// Settle returns its error. It must not call the store, only the Tx.
	Commit func(*Tx, Kept) error
}

// Kept is an answer on its way into the journal.
type Kept struct {
	Answer   *outlier.Answer
	Outcome  outlier.Outcome // as it is booked
	Response int64           // journal id; 0 if there is nothing to keep
}

// Body is the answer's JSON; see [outlier.Answer.JSON].
func (k Kept) Body() ([]byte, error) { return k.Answer.JSON() }

// Meter is the books as one attempt for p sees them.
//
// Reserve refuses with a [*credit.Exceeded] what would pass a cap, and with a
// [*LowSpaceError] what might find no room. After an error of Settle the attempt is
// as it was, and Settle may be called again.
func (s *Store) Meter(p Purchase) outlier.Meter { return meter{s, p} }

type meter struct {
	s *Store
	p Purchase
}

// Reserve implements [outlier.Meter]. A free request reserves nothing.
func (m meter) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if err := m.s.space.check(); err != nil {
		return nil, err
	}
	a := &attempt{meter: m, ctx: ctx, r: r, params: r.Params.Encode()}
	if !r.Paid() {
		return a, nil
	}
	if err := m.s.space.load(); err != nil {
		return nil, err
	}
	if m.p.Hold > 0 && m.p.Step == 0 {
		return nil, errors.New("a hold belongs to a step")
	}
	if err := a.reserve(); err != nil {
		return nil, fmt.Errorf("reserve %d credits for %s: %w", r.Price, r.Op, err)
	}
	return a, nil
}

// attempt implements [outlier.Attempt].
type attempt struct {
	meter
	ctx    context.Context // once it has ended, a locked database is not waited for any longer
	r      *outlier.Request
	params string
	id     int64 // ledger row of a paid attempt

	settled bool
	heard   bool // its date was taken notice of
}

var errSettled = errors.New("the attempt has been settled before")

// Sending implements [outlier.Attempt]. A free request is noted in a file, since a lost
// answer costs nothing.
func (a *attempt) Sending() error {
	if !a.r.Paid() {
		if err := a.noteInFlight(); err != nil {
			return fmt.Errorf("note that %s is sent: %w", describe(a.r), err)
		}
		return nil
	}
	err := a.s.unit(true, func(tx *Tx) error {
		_, err := tx.exec(`UPDATE attempts SET state = 'sending', sent_at = ? WHERE id = ?`, micros(tx.now), a.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark %s as sent: %w", a.r.Op, err)
	}
	return nil
}

// Settle implements [outlier.Attempt]: the answer, its outcome and whatever Commit
// adds become durable. While another program locks the database, Settle waits, however
// long that takes; see [attempt.hold] for what happens meanwhile.
func (a *attempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	if a.settled {
		return errSettled
	}
	a.hear(answer)
	kept := a.s.pack.pack(answer)
	err := a.settle(answer, o, kept)
	if isBusy(err) {
		err = a.hold(answer, o, kept, err)
	}
	if err != nil {
		return fmt.Errorf("keep the answer to %s: %w", describe(a.r), err)
	}
	return nil
}

// settle tries once. After an error that [isBusy] nothing has happened.
func (a *attempt) settle(answer *outlier.Answer, o outlier.Outcome, kept packed) error {
	var refused error // by Commit
	err := a.s.unitWithin(settlePatience, a.r.Paid(), func(tx *Tx) error {
		k, err := a.keep(tx, answer, o, kept)
		if err == nil && a.p.Commit != nil {
			refused = a.p.Commit(tx, k)
		}
		return errors.Join(err, refused)
	})
	a.settled = err == nil
	if refused != nil {
		// What was paid for is kept, even if it cannot be used.
		bare := a.s.unitWithin(settlePatience, a.r.Paid(), func(tx *Tx) error {
			_, err := a.keep(tx, answer, o, kept)
			return err
		})
		a.settled = bare == nil
		err = errors.Join(err, bare)
	}
	return err
}

func describe(r *outlier.Request) string {
	if r.Entity == "" {
		return string(r.Op)
	}
	return string(r.Op) + " " + r.Entity
}

// hear takes the time from an answer, once: a date that is doubted has to be told by
// another one.
func (a *attempt) hear(answer *outlier.Answer) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if !a.heard {
		a.s.clock.learn(answer.ServiceTime())
	}
	a.heard = true
}

// keep writes the answer into the journal and its outcome into the ledger.
func (a *attempt) keep(tx *Tx, answer *outlier.Answer, o outlier.Outcome, kept packed) (Kept, error) {
	k := Kept{Answer: answer, Outcome: o}
	var err error
	if !a.p.TimeOnly && worthKeeping(a.r, answer, o) {
		if k.Response, err = a.journal(tx, answer, o, kept); err != nil {
			return k, err
		}
	}
	if a.r.Paid() {
		return k, a.settlePaid(tx, k)
	}
	return k, a.settleFree(tx, k)
}

// worthKeeping: answers that count, whatever arrived of them; and that a thing does
// not exist or must not be asked about, which is an answer too. An error that came as a
// success is kept as the proof of its refund. Other errors are told by the ledger alone.
func worthKeeping(r *outlier.Request, answer *outlier.Answer, o outlier.Outcome) bool {
	switch o {
	case outlier.Charged:
		return true
	case outlier.Unknown:
		return len(answer.Body) > 0
	}
	return answer.Status/100 == 2 || !r.Paid() && (answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest)
}

func (a *attempt) journal(tx *Tx, answer *outlier.Answer, o outlier.Outcome, kept packed) (int64, error) {
	result, err := tx.exec(`INSERT INTO responses (run, job, step, op, entity, params, item, page, rank_base,
		sent_at, received_at, http_status, outcome, encoding, sum, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.p.Run, a.p.Job, a.p.Step, string(a.r.Op), a.r.Entity, a.params, a.p.Item, a.p.Page, a.p.RankBase,
		micros(answer.SentAt), micros(answer.ReceivedAt), answer.Status, string(o), kept.encoding, kept.sum, kept.body)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (a *attempt) settlePaid(tx *Tx, k Kept) error {
	tx.attempt = a.id
	_, err := tx.exec(`UPDATE attempts SET state = ?, sent_at = ?, settled_at = ?, waited = ?, http_status = ?, bytes = ?,
		error = ?, response = ? WHERE id = ?`,
		string(k.Outcome), micros(k.Answer.SentAt), micros(k.Answer.ReceivedAt), k.Answer.Waited.Microseconds(), k.Answer.Status,
		len(k.Answer.Body), errorText(k.Answer.Err), orNull(k.Response), a.id)
	if err != nil || k.Outcome != outlier.Charged {
		return err
	}
	return a.explain(tx, k.Response)
}

// explain lets earlier attempts at the same request, whose outcome nobody knows, point
// to the answer that came at last. It says what they may have bought and proves nothing
// about their price: they stay unknown, and they stay counted.
func (a *attempt) explain(tx *Tx, response int64) error {
	_, err := tx.exec(`UPDATE attempts SET response = ? WHERE price > 0 AND state = 'unknown' AND response IS NULL
		AND op = ? AND params = ? AND intent IS NULL`, response, string(a.r.Op), a.params)
	return err
}

func (a *attempt) settleFree(tx *Tx, k Kept) error {
	result, err := tx.exec(`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error, response)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, '', '', '', 0, ?, ?, ?, ?, ?, ?, ?)`,
		a.p.Run, a.p.Job, a.p.Step, string(a.r.Op), a.r.Entity, a.params, a.p.Attempt, string(k.Outcome),
		micros(k.Answer.SentAt), micros(k.Answer.ReceivedAt), k.Answer.Waited.Microseconds(), k.Answer.Status,
		len(k.Answer.Body), errorText(k.Answer.Err), orNull(k.Response))
	if err != nil {
		return err
	}
	tx.attempt, err = result.LastInsertId()
	return err
}

// orNull is nil for 0, which stands for "none".
func orNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

// Paging notes what the answer being settled says about its place in the whole
// result, for ops.requests. A negative number is unknown.
func (t *Tx) Paging(from, size, total int64) error {
	if t.attempt == 0 {
		return errors.New("paging belongs to an answer that is being settled")
	}
	_, err := t.exec(`UPDATE attempts SET page_from = ?, page_size = ?, page_total = ? WHERE id = ?`,
		known(from), known(size), known(total), t.attempt)
	return err
}

// known is nil for a negative number, which stands for "not told".
func known(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}
