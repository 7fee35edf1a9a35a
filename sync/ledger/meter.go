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

// Purchase describes one attempt and the work that it belongs to.
type Purchase struct {
	Run, Job string
	Step     int64  // 0 for a data call
	Item     string // the for_each value
	Page     int    // 0-based
	RankBase int    // number of hits of the step before this page
	Attempt  int    // 1 for the first
	TimeOnly bool   // the request only asks for the service's time: no answer is kept

	// Waited is how long the rate limit delayed the call before it was made, in addition to what
	// the answer says.
	Waited time.Duration

	// Intent is the scan that the attempt is to start, by the id of its intent in package runs. The
	// scan's state follows the attempt from then on.
	Intent int64

	// Hold is set aside for the step together with the price: either both fit under every cap, or
	// neither is reserved.
	Hold outlier.Credits

	// FromHold is the step whose hold pays for this attempt, which then counts for the hold's
	// periods; no cap applies. If the hold does not cover the whole price, it is an ordinary
	// reservation. 0 means that there is no hold.
	FromHold int64

	// Caps returns the caps in force at the given service time. It is called at reservation. nil
	// means no caps.
	Caps func(service time.Time) []Cap

	// Commit runs in the transaction that keeps the answer, for every settled attempt, whatever
	// its outcome. If it fails, the answer is kept all the same and Settle returns its error. It
	// must use only the Tx, not the store.
	Commit func(*store.Tx, Kept) error
}

// Kept is an answer that is being written to the journal.
type Kept struct {
	Answer   *outlier.Answer
	Outcome  outlier.Outcome // as recorded
	Response int64           // journal id; 0 if there is nothing to keep
	Attempt  int64           // row of the ledger
}

// Body returns the answer's JSON; see [outlier.Answer.JSON].
func (k Kept) Body() ([]byte, error) { return k.Answer.JSON() }

// Meter returns the meter for one attempt at p.
//
// Reserve returns an [*Exceeded] if the purchase would exceed a cap, and a [*store.LowSpaceError]
// or a [*store.MovedError] if the answer might not be kept. After an error of Settle the attempt
// is unchanged, and Settle may be called again.
func (l *Ledger) Meter(p Purchase) outlier.Meter { return meter{l, p} }

type meter struct {
	l *Ledger
	p Purchase
}

// Reserve implements [outlier.Meter]. A free request reserves nothing.
func (m meter) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	room := m.l.db.Room
	if !r.Paid() {
		room = m.l.db.RoomForFree
	}
	if err := room(); err != nil {
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

// asked is what the ledger stores of a request besides its parameters. A row that is read back has
// it too, even if such a request can no longer be made.
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
	ctx    context.Context // once it has ended, a locked database is not waited for
	r      asked
	params string
	id     int64 // ledger row of a paid attempt

	settled  bool
	dateRead bool // its date was passed to learn
}

var errSettled = errors.New("the attempt has been settled before")

// Sending implements [outlier.Attempt]. A free request is only recorded in a file, since losing
// its answer costs nothing.
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
	if err == nil {
		err = a.l.db.RecordSent(a.id)
	}
	if err != nil {
		return fmt.Errorf("mark %s as sent: %w", a.r.Op, err)
	}
	return nil
}

// Settle implements [outlier.Attempt]: it makes the answer, its outcome and what Commit adds
// durable. While another program locks the database, Settle waits without a limit; see
// [attempt.hold] for what happens meanwhile.
func (a *attempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	if a.settled {
		return errSettled
	}
	answer.Waited += a.p.Waited
	a.learnTime(answer)
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

// settle tries once. After an error for which [store.IsLocked] is true nothing has changed.
func (a *attempt) settle(answer *outlier.Answer, o outlier.Outcome, kept journal.Packed) error {
	var k Kept
	var refused error // the error of Commit
	err := a.l.db.UpdateWithin(settlePatience, !a.r.Paid(), func(tx *store.Tx) (err error) {
		k, err = a.record(tx, answer, o, kept)
		if err == nil && a.p.Commit != nil {
			refused = a.p.Commit(tx, k)
		}
		return errors.Join(err, refused)
	})
	a.settled = err == nil
	if refused != nil {
		// A paid answer is kept even if it cannot be used.
		bare := a.l.db.UpdateWithin(settlePatience, !a.r.Paid(), func(tx *store.Tx) (err error) {
			k, err = a.record(tx, answer, o, kept)
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

// learnTime takes the time from an answer, once: a doubted date must be confirmed by another answer.
func (a *attempt) learnTime(answer *outlier.Answer) {
	if !a.dateRead {
		a.l.learnDate(answer.ServiceTime())
	}
	a.dateRead = true
}

// record writes the answer to the journal and its outcome to the ledger.
func (a *attempt) record(tx *store.Tx, answer *outlier.Answer, o outlier.Outcome, kept journal.Packed) (Kept, error) {
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

// worthKeeping reports whether the journal keeps an answer: one that counts, however much of it
// arrived, and a free one that says that something does not exist or that the request is invalid.
// An error with a success status is kept as proof of its refund. Other errors are only in the
// ledger.
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

// explain links earlier attempts at the same request whose outcome is unknown to the answer that
// arrived at last. It shows what they may have bought and proves nothing about their price: they
// remain unknown and counted.
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

// Paging records the position of the answer being settled within the whole result, for
// ops.requests. A negative number is unknown.
func Paging(tx *store.Tx, k Kept, from, size, total int64) error {
	if k.Attempt == 0 {
		return errors.New("paging belongs to an answer that is being settled")
	}
	_, err := tx.Exec(`UPDATE attempts SET page_from = ?, page_size = ?, page_total = ? WHERE id = ?`,
		store.Known(from), store.Known(size), store.Known(total), k.Attempt)
	return err
}

// errorText returns what the ledger keeps of an attempt's error: the kind and the service's
// message. The transport's own error is left out, as it may quote the request.
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
