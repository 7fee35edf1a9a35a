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
	Run, Job  string
	CountsFor string // the run for whose requests it counts; "" for Run
	Step      int64  // 0 for a data call
	Item      string // the for_each value
	Page      int    // 0-based
	RankBase  int    // number of hits of the step before this page
	Attempt   int    // 1 for the first
	TimeOnly  bool   // the request only asks for the service's time: no answer is kept

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
	journal.Call
	Intent   int64 // of the scan to start; see [Purchase.Intent]
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

// Reserve implements [outlier.Meter].
func (m meter) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if err := m.l.db.Room(); err != nil {
		return nil, err
	}
	if m.p.Hold > 0 && m.p.Step == 0 {
		return nil, errors.New("a hold belongs to a step")
	}
	a := &attempt{l: m.l, p: m.p, ctx: ctx, price: r.Price(), call: journal.Call{
		Run: m.p.Run, Job: m.p.Job, Step: m.p.Step, Op: r.Op(), Entity: r.Entity(), Params: r.Params().Encode(),
		Item: m.p.Item, Page: m.p.Page, RankBase: m.p.RankBase,
	}}
	if err := m.l.db.Update(a.insertRow); err != nil {
		return nil, fmt.Errorf("reserve %d credits for %s: %w", r.Price(), r.Op(), err)
	}
	return a, nil
}

// attempt implements [outlier.Attempt].
type attempt struct {
	l     *Ledger
	p     Purchase
	ctx   context.Context // once it has ended, an answer that cannot be settled stays in its file
	call  journal.Call
	price outlier.Credits
	id    int64 // ledger row

	settled  bool
	dateRead bool // its date was passed to learn
}

var errSettled = errors.New("the attempt has been settled before")

// Sending implements [outlier.Attempt].
func (a *attempt) Sending() error {
	err := a.l.db.Update(func(tx *store.Tx) error {
		return tx.Exec(`UPDATE attempts SET state = 'sending', sent_at = ? WHERE id = ?`,
			store.Micros(tx.Now()), a.id)
	})
	if err == nil && a.price > 0 {
		err = a.l.db.RecordSent(a.id)
	}
	if err != nil {
		return fmt.Errorf("mark %s as sent: %w", a.call.Op, err)
	}
	return nil
}

// Settle implements [outlier.Attempt]: it makes the answer, its outcome and what Commit adds
// durable. While that is not possible, Settle waits without a limit; see [attempt.spoolAnswer].
func (a *attempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	if a.settled {
		return errSettled
	}
	answer.Waited += a.p.Waited
	a.learnTime(answer)
	packed := journal.Pack(answer)
	err := a.settleOnce(answer, o, packed)
	if isLater(err) {
		err = a.spoolAnswer(answer, o, packed, err)
	}
	if err != nil {
		return fmt.Errorf("keep the answer to %s: %w", strings.TrimSpace(string(a.call.Op)+" "+a.call.Entity), err)
	}
	return nil
}

// settleOnce tries once. After an error for which isLater is true nothing has changed.
func (a *attempt) settleOnce(answer *outlier.Answer, o outlier.Outcome, packed journal.Packed) error {
	var refused error // the error of Commit
	err := a.l.db.UpdateWithin(settlePatience, func(tx *store.Tx) error {
		kept, err := a.recordOutcome(tx, answer, o, packed)
		if err == nil && a.p.Commit != nil {
			refused = a.p.Commit(tx, kept)
		}
		return errors.Join(err, refused)
	})
	if refused != nil && !isLater(err) {
		// An answer is kept even if it cannot be used.
		bare := a.l.db.UpdateWithin(settlePatience, func(tx *store.Tx) error {
			_, err := a.recordOutcome(tx, answer, o, packed)
			return err
		})
		a.settled = bare == nil
		err = errors.Join(err, bare)
	} else {
		a.settled = err == nil
	}
	if a.settled && a.l.Observe != nil {
		a.l.Observe(Call{Job: a.call.Job, Op: a.call.Op, Price: a.price, Outcome: o, SentAt: answer.SentAt,
			AnsweredAt: answer.ReceivedAt}, answer.Err)
	}
	return err
}

// learnTime takes the time from an answer, once: a doubted date must be confirmed by another answer.
func (a *attempt) learnTime(answer *outlier.Answer) {
	if !a.dateRead {
		a.l.clock.learnDate(answer.ServiceTime())
	}
	a.dateRead = true
}

// recordOutcome writes the answer to the journal and its outcome to the ledger.
func (a *attempt) recordOutcome(tx *store.Tx, answer *outlier.Answer, o outlier.Outcome, packed journal.Packed) (Kept, error) {
	k := Kept{Call: a.call, Intent: a.p.Intent, Answer: answer, Outcome: o, Attempt: a.id}
	var err error
	if !a.p.TimeOnly && a.worthKeeping(answer, o) {
		if k.Response, err = journal.Append(tx, a.call, answer, o, packed); err != nil {
			return k, err
		}
	}
	return k, store.Set(tx, "attempts", "id", a.id, store.Columns{
		"state": o, "sent_at": store.Time(&answer.SentAt), "settled_at": store.Time(&answer.ReceivedAt),
		"waited": store.Duration(&answer.Waited), "http_status": answer.Status, "bytes": len(answer.Body),
		"error": errorText(answer.Err), "response": store.Optional(&k.Response),
	})
}

// worthKeeping reports whether the journal keeps an answer: one that counts, however much of it
// arrived, and a free one that says that something does not exist or that the request is invalid.
// An error with a success status is kept as proof of its refund. Other errors are only in the
// ledger.
func (a *attempt) worthKeeping(answer *outlier.Answer, o outlier.Outcome) bool {
	switch o {
	case outlier.Charged:
		return true
	case outlier.Unknown:
		return len(answer.Body) > 0
	}
	return answer.Status/100 == 2 || a.price == 0 &&
		(answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest)
}

// Paging records the position of the answer being settled within the whole result, for
// ops.requests. A negative number is unknown.
func Paging(tx *store.Tx, k Kept, from, size, total int64) error {
	return tx.Exec(`UPDATE attempts SET page_from = ?, page_size = ?, page_total = ? WHERE id = ?`,
		store.Known(from), store.Known(size), store.Known(total), k.Attempt)
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
