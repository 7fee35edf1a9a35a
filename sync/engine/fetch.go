package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
)

// How often a call is attempted, and how long apart. A refusal for the rate limit
// does not count: the limiter waits as long as the service asked.
const (
	maxRefusals = 10
)

// fetch makes attempts at r until one is answered for good, unless an earlier process
// has received an answer that nothing has followed from yet. A repeated paid
// request reserves its price anew: an attempt whose answer was lost stays in the
// books as unknown, because nothing proves that it was not charged.
func (w *worker) fetch(ctx context.Context, r *outlier.Request, p ledger.Purchase) (*outlier.Answer, error) {
	if answer, err := w.engine.Store.Ledger.TakeUp(p, r); answer != nil || err != nil {
		return answer, err
	}
	key := keyOf(r, p)
	for {
		tried := w.tried[key]
		if tried.again.After(time.Now()) {
			return nil, &waitError{tried.again}
		}
		p.Attempt = tried.failures + tried.refusals + 1
		answer, err := w.once(ctx, r, p)
		if isWaiting(err) || tooLong(err) {
			return nil, err
		}
		delete(w.tried, key)
		tried = tries{failures: tried.failures, refusals: tried.refusals}
		if failed := w.engine.learn(); failed != nil {
			return answer, errors.Join(err, failed)
		}
		if err == nil {
			return answer, nil
		}
		switch kindOf(err) {
		case outlier.Limited:
			tried.refusals++
		case outlier.Unauthorized:
			if !w.engine.rekeyed() {
				return answer, err
			}
			tried.refusals++
		case outlier.Unsent, outlier.Lost, outlier.Foreign, outlier.Failed:
			tried.failures++
			if elsewhere(err) {
				return answer, err
			}
		default:
			return answer, err
		}
		if ctx.Err() != nil || tried.failures >= plan.Attempts || tried.refusals >= maxRefusals {
			return answer, err
		}
		if full := w.anotherOf(p, r); full != nil {
			return answer, errors.Join(err, full)
		}
		w.engine.log().Warn("call repeated", "job", p.Job, "run", p.Run, "op", r.Op(), "entity", r.Entity(),
			"attempt", p.Attempt, "err", err)
		w.engine.waits.add(waitRetry, backoff(tried.failures))
		tried.again = time.Now().Add(backoff(tried.failures))
		w.tried[key] = tried
	}
}

// A callKey identifies a call that is put off.
type callKey struct {
	run    string
	step   int64
	op     outlier.Operation
	entity string
}

func keyOf(r *outlier.Request, p ledger.Purchase) callKey {
	return callKey{p.Run, p.Step, r.Op(), r.Entity()}
}

// tries are the attempts at a call that came to nothing.
type tries struct {
	failures, refusals int
	again              time.Time // when the next one may be made
	since              time.Time // since when it waits for the pace; zero if it does not

	refusedFrom, refusedUntil time.Time // meanwhile the service let nothing leave; zero if it did not
}

// forget drops what is known of the calls of a run that has ended.
func (w *worker) forget(r *run) {
	maps.DeleteFunc(w.tried, func(key callKey, _ tries) bool { return key.run == r.row.ID })
}

// A waitError says that a call cannot leave yet. The worker gives the call back rather than wait
// with it: until then a call of more value may be queued, or a person may ask for something.
type waitError struct{ until time.Time }

func (e *waitError) Error() string { return "waits until " + e.until.UTC().Format(time.DateTime) }

// isWaiting reports whether an error only says when a call can leave.
func isWaiting(err error) bool { return !waitsUntil(err).IsZero() }

// waitsUntil is when a call can leave that could not; zero if another error kept it.
func waitsUntil(err error) time.Time {
	if e, ok := errors.AsType[*waitError](err); ok {
		return e.until
	}
	return time.Time{}
}

// anotherOf refuses another attempt to a run that has made all its requests, unless the
// call is about a scan that was paid for.
func (w *worker) anotherOf(p ledger.Purchase, r *outlier.Request) error {
	for _, run := range w.runs {
		if run.row.ID == cmp.Or(w.charged, p.Run) && p.FromHold == 0 && r.Op() != outlier.OpScan {
			return run.allowed()
		}
	}
	return nil
}

// once makes one attempt, unless it is known what the service would say.
func (w *worker) once(ctx context.Context, r *outlier.Request, p ledger.Purchase) (*outlier.Answer, error) {
	if err := w.refused(r); err != nil {
		return nil, err
	}
	if err := w.slotFor(ctx, r, &p); err != nil {
		return nil, err
	}
	answer, err := w.engine.Client.Do(ctx, r, w.engine.Store.Ledger.Meter(p))
	if answer != nil && !answer.SentAt.IsZero() {
		run := cmp.Or(w.charged, p.Run)
		if _, underWay := w.made[run]; underWay {
			w.made[run]++
		}
	}
	if kind := kindOf(err); kind == outlier.NoCredits || kind == outlier.Unauthorized || err == nil && r.Paid() {
		if failed := w.noteBlock(r, err); failed != nil {
			return answer, errors.Join(err, failed)
		}
	}
	if nothingLikeIt(answer, err) {
		heard, failed := w.engine.Store.EverAnswered()
		if failed != nil {
			return answer, errors.Join(err, failed)
		}
		if !heard {
			return answer, &NotServiceError{URL: w.engine.Client.URL, Err: err}
		}
	}
	if kindOf(err) == outlier.NoCredits {
		err = fmt.Errorf("%w; paid calls are blocked until the next cycle, until the one attempt a day succeeds, "+
			"or until 'outlierd budget resume'", err)
	}
	return answer, err
}

// slotFor returns a [waitError] if the pace does not let a call leave now, or says in p how long
// it has waited. If it would have to wait for too long, it says that itself.
func (w *worker) slotFor(ctx context.Context, r *outlier.Request, p *ledger.Purchase) error {
	key := keyOf(r, *p)
	tried := w.tried[key]
	at, err := w.engine.Pace.Slot(ctx, r.Op())
	now := time.Now() // after the limiter has looked at the clock: a free slot is never in the future
	if at.After(now) {
		w.hold(key, now)
		if err == nil {
			return &waitError{at}
		}
		return nil
	}
	if !tried.since.IsZero() {
		p.Waited = now.Sub(tried.since)
		w.engine.held(tried, now)
		delete(w.tried, key)
	}
	return nil
}

// hold notes that the pace does not let a call leave.
func (w *worker) hold(key callKey, now time.Time) {
	tried := w.tried[key]
	if tried.since.IsZero() {
		tried.since = now
	}
	if until := w.engine.Pace.Status().BlockedUntil; until.After(now) {
		if tried.refusedFrom.IsZero() {
			tried.refusedFrom = now
		}
		tried.refusedUntil = until
	}
	w.tried[key] = tried
}

// refused says why a call is not made: it is known what the service would say, or what it
// brings could not be seen.
func (w *worker) refused(r *outlier.Request) error {
	if err := w.blocked(r); err != nil || !r.Paid() {
		return err
	}
	return w.loader.Down(w.engine.Config.SinksDownAfter)
}

// needsRoom reports whether a call has to fit into what a period leaves: one whose price
// was set aside before has counted since.
func (w *worker) needsRoom(r *outlier.Request, p ledger.Purchase) (bool, error) {
	if !r.Paid() || p.FromHold == 0 {
		return r.Paid(), nil
	}
	rest, err := w.engine.Store.Ledger.HoldOf(p.FromHold)
	return rest < r.Price(), err
}

// elsewhere reports whether somebody else answers in the service's place without
// calling it a failure: a login page, a redirect, a firewall, a server that knows no such
// path. Asking again in a second would only be booked again.
func elsewhere(err error) bool {
	e, ok := errors.AsType[*outlier.Error](err)
	return ok && e.Kind == outlier.Foreign && e.Status < 500 && e.Status != http.StatusRequestTimeout
}

// NotServiceError says that something else answers at the address, where the service has
// never answered.
type NotServiceError struct {
	URL string
	Err error // what came instead
}

func (e *NotServiceError) Error() string {
	return fmt.Sprintf("this does not look like the service: %s answered %v", e.URL, e.Err)
}

func (e *NotServiceError) Unwrap() error { return e.Err }

// isNotService reports whether an error says that the address is another's.
func isNotService(err error) bool {
	_, not := errors.AsType[*NotServiceError](err)
	return not
}

// nothingLikeIt reports whether an answer has nothing of the service, neither its form nor
// JSON, though the server that sent it is well.
func nothingLikeIt(answer *outlier.Answer, err error) bool {
	if !elsewhere(err) || answer == nil {
		return false
	}
	body, failed := answer.JSON()
	return failed != nil || !json.Valid(body)
}

// backoff is the pause after so many failed attempts: 1 s, 4 s, 16 s. After a
// refusal for the limit there is none, since the limiter holds the next call back.
func backoff(attempts int) time.Duration {
	if attempts == 0 {
		return 0
	}
	return time.Second << (2 * (attempts - 1))
}

// learn puts on record what the limiter believes, when that has changed.
func (e *Engine) learn() error {
	now := e.Pace.Status()
	belief := journal.Limit{Limit: int64(now.Limit), Window: now.Window, Foreign: int64(now.Foreign)}
	if belief == e.believed {
		return nil
	}
	if now.Learned && (belief.Limit != e.believed.Limit || belief.Window != e.believed.Window) {
		e.log().Info("pace learned", "pace", now.Pace(), "limit", e.Config.Service.Limit.String())
	}
	e.believed = belief
	belief.Remaining, belief.Reset = int64(now.Remaining), now.Reset
	return e.Store.Journal.LearnLimit(belief)
}

// kindOf is the kind of a service error, or "" for errors of other making: where the
// books could not be kept, it matters no more what the service said.
func kindOf(err error) outlier.Kind {
	if e, ok := errors.AsType[*outlier.Error](err); ok && !unkept(err) {
		return e.Kind
	}
	return ""
}

// unkept reports whether what was to be kept with an answer was not. What a Commit has
// changed in memory is then not to be believed.
func unkept(err error) bool {
	_, ok := errors.AsType[*outlier.UnkeptError](err)
	return ok
}

// tooLong reports whether an error is the limiter's, which would make a call wait for
// longer than service.max_wait. Nothing is held in memory meanwhile: a run by hand
// stops, stays unfinished, and is continued by the next one; the daemon waits.
func tooLong(err error) bool {
	_, long := errors.AsType[*pace.LongWaitError](err)
	return long
}

// nap bounds a single sleep: the wall clock may be set, and timers
// stand still while a machine is suspended.
const nap = time.Minute

// pause sleeps unless ctx ends first, and then says why it ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
