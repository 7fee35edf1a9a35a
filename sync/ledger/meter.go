package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/store"
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

	// Waited is how long the pace has held the call back before it was made, in addition to
	// what the answer says.
	Waited time.Duration

	// Intent is the scan that the attempt is to start; see [IntendScan]. Its state
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
	Caps func(service time.Time) []Cap

	// Commit runs in the transaction that keeps the answer: for every settled
	// attempt, whatever its outcome. If it fails the answer is kept all the same and
	// Settle returns its error. It must not call the store, only the Tx.
	Commit func(*store.Tx, Kept) error
}

// Kept is an answer on its way into the journal.
type Kept struct {
	Answer   *outlier.Answer
	Outcome  outlier.Outcome // as it is booked
	Response int64           // journal id; 0 if there is nothing to keep
	Attempt  int64           // row of the ledger
}

// Body is the answer's JSON; see [outlier.Answer.JSON].
func (k Kept) Body() ([]byte, error) { return k.Answer.JSON() }

// Meter returns the meter for one attempt at p.
//
// Reserve refuses with a [*Exceeded] what would pass a cap, and with a
// [*store.LowSpaceError] or a [*store.MovedError] what might not be kept. After an error of Settle the attempt is
// as it was, and Settle may be called again.
func (l *Ledger) Meter(p Purchase) outlier.Meter { return meter{l, p} }

type meter struct {
	l *Ledger
	p Purchase
}

// Reserve implements [outlier.Meter]. A free request reserves nothing.
func (m meter) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if err := m.l.db.Room(); err != nil {
		return nil, err
	}
	a := &attempt{l: m.l, p: m.p, ctx: ctx, r: asked{r.Op(), r.Entity(), r.Price()}, params: r.Params().Encode()}
	if !r.Paid() {
		return a, nil
	}
	if err := m.l.db.Ballast(); err != nil {
		return nil, err
	}
	if m.p.Hold > 0 && m.p.Step == 0 {
		return nil, errors.New("a hold belongs to a step")
	}
	if err := a.reserve(); err != nil {
		return nil, fmt.Errorf("reserve %d credits for %s: %w", r.Price(), r.Op(), err)
	}
	return a, nil
}

// asked is what the ledger has of a request besides its parameters. A row that is read
// again has it too, whatever requests may be made by now.
type asked struct {
	Op     outlier.Operation
	Entity string
	Price  outlier.Credits
}

// Paid reports whether an answer costs credits.
func (r asked) Paid() bool { return r.Price > 0 }

func (r asked) String() string { return strings.TrimSpace(string(r.Op) + " " + r.Entity) }

// attempt implements [outlier.Attempt].
type attempt struct {
	l      *Ledger
	p      Purchase
	ctx    context.Context // once it has ended, a locked database is not waited for any longer
	r      asked
	params string
	id     int64 // ledger row of a paid attempt

	settled  bool
	dateRead bool // its date was taken notice of
}

var errSettled = errors.New("the attempt has been settled before")

// Sending implements [outlier.Attempt]. A free request is noted in a file, since a lost
// answer costs nothing.
func (a *attempt) Sending() error {
	if !a.r.Paid() {
		if err := a.noteInFlight(); err != nil {
			return fmt.Errorf("note that %s is sent: %w", a.r, err)
		}
		return nil
	}
	err := a.l.db.Update(func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE attempts SET state = 'sending', sent_at = ? WHERE id = ?`,
			store.Micros(tx.Now()), a.id)
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
	answer.Waited += a.p.Waited
	a.hear(answer)
	kept := a.l.journal.Pack(answer)
	err := a.settle(answer, o, kept)
	if store.IsLocked(err) {
		err = a.hold(answer, o, kept, err)
	}
	if err != nil {
		return fmt.Errorf("keep the answer to %s: %w", a.r, err)
	}
	return nil
}

// settle tries once. After an error that [isBusy] nothing has happened.
func (a *attempt) settle(answer *outlier.Answer, o outlier.Outcome, kept journal.Packed) error {
	var k Kept
	var refused error // by Commit
	err := a.l.db.UpdateWithin(settlePatience, !a.r.Paid(), func(tx *store.Tx) (err error) {
		k, err = a.keep(tx, answer, o, kept)
		if err == nil && a.p.Commit != nil {
			refused = a.p.Commit(tx, k)
		}
		return errors.Join(err, refused)
	})
	a.settled = err == nil
	if refused != nil {
		// What was paid for is kept, even if it cannot be used.
		bare := a.l.db.UpdateWithin(settlePatience, !a.r.Paid(), func(tx *store.Tx) (err error) {
			k, err = a.keep(tx, answer, o, kept)
			return err
		})
		a.settled = bare == nil
		err = errors.Join(err, bare)
	}
	if a.settled {
		a.l.settledLast(k.Attempt)
	}
	return err
}

// hear takes the time from an answer, once: a date that is doubted has to be confirmed by
// another one.
func (a *attempt) hear(answer *outlier.Answer) {
	if !a.dateRead {
		a.l.learn(answer.ServiceTime())
	}
	a.dateRead = true
}

// keep writes the answer into the journal and its outcome into the ledger.
func (a *attempt) keep(tx *store.Tx, answer *outlier.Answer, o outlier.Outcome, kept journal.Packed) (Kept, error) {
	k := Kept{Answer: answer, Outcome: o}
	var err error
	if !a.p.TimeOnly && worthKeeping(a.r, answer, o) {
		if k.Response, err = journal.Append(tx, a.call(), answer, o, kept); err != nil {
			return k, err
		}
	}
	if a.r.Paid() {
		k.Attempt = a.id
		return k, a.settlePaid(tx, k)
	}
	k.Attempt, err = a.settleFree(tx, k)
	return k, err
}

// worthKeeping: answers that count, whatever arrived of them; and that a thing does
// not exist or must not be asked about, which is an answer too. An error that came as a
// success is kept as the proof of its refund. Other errors are in the ledger alone.
func worthKeeping(r asked, answer *outlier.Answer, o outlier.Outcome) bool {
	switch o {
	case outlier.Charged:
		return true
	case outlier.Unknown:
		return len(answer.Body) > 0
	}
	return answer.Status/100 == 2 || !r.Paid() &&
		(answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest)
}

func (a *attempt) call() journal.Call {
	return journal.Call{
		Run: a.p.Run, Job: a.p.Job, Step: a.p.Step, Op: a.r.Op, Entity: a.r.Entity, Params: a.params,
		Item: a.p.Item, Page: a.p.Page, RankBase: a.p.RankBase,
	}
}

func (a *attempt) settlePaid(tx *store.Tx, k Kept) error {
	_, err := tx.Exec(`UPDATE attempts
		SET state = ?, sent_at = ?, settled_at = ?, waited = ?, http_status = ?, bytes = ?,
		error = ?, response = ? WHERE id = ?`,
		string(k.Outcome), store.Micros(k.Answer.SentAt), store.Micros(k.Answer.ReceivedAt),
		k.Answer.Waited.Microseconds(), k.Answer.Status,
		len(k.Answer.Body), errorText(k.Answer.Err), store.OrNull(k.Response), a.id)
	if err != nil || k.Outcome != outlier.Charged {
		return err
	}
	return a.explain(tx, k.Response)
}

// explain lets earlier attempts at the same request, whose outcome is unknown, point
// to the answer that came at last. It says what they may have bought and proves nothing
// about their price: they stay unknown, and they stay counted.
func (a *attempt) explain(tx *store.Tx, response int64) error {
	_, err := tx.Exec(`UPDATE attempts SET response = ? WHERE price > 0 AND state = 'unknown'
		AND response IS NULL
		AND op = ? AND params = ? AND intent IS NULL`, response, string(a.r.Op), a.params)
	return err
}

func (a *attempt) settleFree(tx *store.Tx, k Kept) (id int64, err error) {
	result, err := tx.Exec(`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state,
		day, cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error, response)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, '', '', '', 0, ?, ?, ?, ?, ?, ?, ?)`,
		a.p.Run, a.p.Job, a.p.Step, string(a.r.Op), a.r.Entity, a.params, a.p.Attempt, string(k.Outcome),
		store.Micros(k.Answer.SentAt), store.Micros(k.Answer.ReceivedAt), k.Answer.Waited.Microseconds(),
		k.Answer.Status,
		len(k.Answer.Body), errorText(k.Answer.Err), store.OrNull(k.Response))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// Paging notes what the answer being settled says about its place in the whole
// result, for ops.requests. A negative number is unknown.
func Paging(tx *store.Tx, k Kept, from, size, total int64) error {
	if k.Attempt == 0 {
		return errors.New("paging belongs to an answer that is being settled")
	}
	_, err := tx.Exec(`UPDATE attempts SET page_from = ?, page_size = ?, page_total = ? WHERE id = ?`,
		store.Known(from), store.Known(size), store.Known(total), k.Attempt)
	return err
}

// errorText is what the ledger keeps of an attempt's error: the kind and the
// service's words. The transport's own error is left out, as it may quote what
// stood in the request.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if e, ok := errors.AsType[*outlier.Error](err); ok {
		text = string(e.Kind)
		if e.Message != "" {
			text += ": " + e.Message
		}
	}
	return store.Bounded(text)
}
