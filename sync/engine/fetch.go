package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
)

// maxRefusals is how often a call may be refused for the rate limit, or for a key that has since
// changed. Such refusals do not count as failed attempts, because the limiter waits as long as the
// service asked.
const (
	maxRefusals = 10
)

// fetch repeats a request until it has a final answer. Each repetition of a paid request reserves its price
// again: an attempt without an answer stays in the ledger as unknown, because nothing proves that it was
// not charged.
func (w *worker) fetch(ctx context.Context, r *outlier.Request, p ledger.Purchase) (*outlier.Answer, error) {
	key := keyOf(r, p)
	for {
		tried := w.tried[key]
		if tried.retryAt.After(time.Now()) {
			return nil, &waitError{tried.retryAt}
		}
		p.Attempt = tried.failures + tried.refusals + 1
		answer, err := w.attempt(ctx, r, p)
		v := judge(err)
		if !v.retryAt.IsZero() {
			return nil, err
		}
		delete(w.tried, key)
		tried = tries{failures: tried.failures, refusals: tried.refusals}
		if failed := w.engine.recordLimit(); failed != nil {
			return answer, errors.Join(err, failed)
		}
		if err == nil {
			return answer, nil
		}
		switch v.repeat {
		case never:
			return answer, err
		case afterFailure:
			tried.failures++
		case afterRefusal:
			tried.refusals++
			if v.kind == outlier.Unauthorized && !w.engine.rekeyed() {
				return answer, err
			}
		}
		if ctx.Err() != nil || tried.failures >= plan.Attempts || tried.refusals >= maxRefusals {
			return answer, err
		}
		if full := w.checkRepeat(p, r); full != nil {
			return answer, errors.Join(err, full)
		}
		w.engine.log().Warn("call repeated", "job", p.Job, "run", p.Run, "op", r.Op(), "entity", r.Entity(),
			"attempt", p.Attempt, "err", err)
		w.engine.waits.add(waitRetry, backoff(tried.failures))
		tried.retryAt = time.Now().Add(backoff(tried.failures))
		w.tried[key] = tried
	}
}

// A callKey identifies a call that waits for the rate limit or a retry.
type callKey struct {
	run    string
	step   int64
	op     outlier.Operation
	entity string
}

func keyOf(r *outlier.Request, p ledger.Purchase) callKey {
	return callKey{p.Run, p.Step, r.Op(), r.Entity()}
}

// tries are the attempts at a call that have failed so far.
type tries struct {
	failures, refusals int
	retryAt            time.Time // when the next attempt may be made
	since              time.Time // start of the wait for the rate limit; zero if it does not wait

	refusedFrom, refusedUntil time.Time // when a refusal by the service blocked all calls; zero if none did
}

// forget removes the tries of a run that has ended.
func (w *worker) forget(r *run) {
	maps.DeleteFunc(w.tried, func(key callKey, _ tries) bool { return key.run == r.row.ID })
}

// A waitError says that a call cannot leave yet. The worker returns the error instead of waiting,
// because a more valuable call may be queued meanwhile, or a person may ask for something.
type waitError struct{ until time.Time }

func (e *waitError) Error() string { return "waits until " + e.until.UTC().Format(time.DateTime) }

// checkRepeat returns an error if the run may make no more attempts because of its requests cap. Calls
// about a paid scan are exempt.
func (w *worker) checkRepeat(p ledger.Purchase, r *outlier.Request) error {
	for _, run := range w.runs {
		if run.row.ID == cmp.Or(w.chargedTo, p.Run) && p.FromHold == 0 && r.Op() != outlier.OpScan {
			return run.checkRequests()
		}
	}
	return nil
}

// attempt makes one attempt, unless the service's answer is already known; see [worker.refused].
func (w *worker) attempt(ctx context.Context, r *outlier.Request, p ledger.Purchase) (*outlier.Answer, error) {
	if err := w.refused(r); err != nil {
		return nil, err
	}
	if err := w.slotFor(r, &p); err != nil {
		return nil, err
	}
	answer, err := w.engine.Client.Do(ctx, r, w.engine.Store.Ledger.Meter(p))
	if answer != nil && !answer.SentAt.IsZero() {
		run := cmp.Or(w.chargedTo, p.Run)
		if _, inProgress := w.requests[run]; inProgress {
			w.requests[run]++
		}
	}
	kind := judge(err).kind
	if kind == outlier.NoCredits || kind == outlier.Unauthorized || err == nil && r.Paid() {
		if failed := w.noteBlock(r, err); failed != nil {
			return answer, errors.Join(err, failed)
		}
	}
	if isUnlikeService(answer, err) {
		heard, failed := w.engine.Store.EverAnswered()
		if failed != nil {
			return answer, errors.Join(err, failed)
		}
		if !heard {
			return answer, &NotServiceError{URL: w.engine.Client.URL, Err: err}
		}
	}
	if kind == outlier.NoCredits {
		err = fmt.Errorf("%w; paid calls are blocked until the next cycle, until the one attempt a day succeeds, "+
			"or until 'outlierd budget resume'", err)
	}
	return answer, err
}

// slotFor returns a [waitError] if the rate limit does not let a call leave now, else it sets p.Waited to
// how long the call has waited. If the wait would be too long, it returns nil, because the call
// itself then returns that error.
func (w *worker) slotFor(r *outlier.Request, p *ledger.Purchase) error {
	key := keyOf(r, *p)
	tried := w.tried[key]
	at, err := w.engine.Pace.Slot(r.Op())
	now := time.Now() // read after Slot, so that a free slot is never in the future
	if at.After(now) {
		w.noteDelay(key, now)
		if err == nil {
			return &waitError{at}
		}
		return nil
	}
	if !tried.since.IsZero() {
		p.Waited = now.Sub(tried.since)
		w.engine.addWait(tried, now)
		delete(w.tried, key)
	}
	return nil
}

// noteDelay records that the rate limit delays a call.
func (w *worker) noteDelay(key callKey, now time.Time) {
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

// refused returns an error if a call must not be made: a block says what the service would answer, or no
// sink works, so that readers would not see the result.
func (w *worker) refused(r *outlier.Request) error {
	if err := w.blocked(r); err != nil || !r.Paid() {
		return err
	}
	return w.loader.Down(w.engine.Config.SinksDownAfter)
}

// needsRoom reports whether a call needs room in its period's cap. A call with a sufficient hold does
// not, as the hold has been counted already.
func (w *worker) needsRoom(r *outlier.Request, p ledger.Purchase) (bool, error) {
	if !r.Paid() || p.FromHold == 0 {
		return r.Paid(), nil
	}
	rest, err := w.engine.Store.Ledger.HoldOf(p.FromHold)
	return rest < r.Price(), err
}

// NotServiceError reports that something else answers at the address, where the service has never
// answered.
type NotServiceError struct {
	URL string
	Err error // what was received instead
}

func (e *NotServiceError) Error() string {
	return fmt.Sprintf("this does not look like the service: %s answered %v", e.URL, e.Err)
}

func (e *NotServiceError) Unwrap() error { return e.Err }

// isUnlikeService reports whether an answer has neither the service's form nor JSON, although the server
// that sent it works.
func isUnlikeService(answer *outlier.Answer, err error) bool {
	if e, ok := errors.AsType[*outlier.Error](err); !ok || !isForeignPage(e) || answer == nil {
		return false
	}
	body, failed := answer.JSON()
	return failed != nil || !json.Valid(body)
}

// backoff returns the pause after the given number of failed attempts: 1 s, 4 s, 16 s. There is none
// after a refusal for the rate limit, because the limiter delays the next call.
func backoff(attempts int) time.Duration {
	if attempts == 0 {
		return 0
	}
	return time.Second << (2 * (attempts - 1))
}

// recordLimit records the limiter's belief if it has changed.
func (e *Engine) recordLimit() error {
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

// maxSleep is the maximum duration of a single sleep: the wall clock may be set, and timers stand still
// while the machine is suspended.
const maxSleep = time.Minute

// sleep sleeps for d. If ctx ends first, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
