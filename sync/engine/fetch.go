package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// maxRefusals is how often a call may be refused for the rate limit, or for a key that has since
// changed. Such refusals do not count as failed attempts, because the limiter waits as long as the
// service asked.
const (
	maxRefusals = 10
)

// A caller makes calls, and applies their answers.
type caller struct {
	applier
	loader *load.Loader

	delay      delay         // of the next call by the rate limit
	asks       outlier.Tries // at questions that no row needs: the time, and the channels of videos
	timesAsked int           // how often the service was asked for its time since the time was last agreed on
}

// fetch makes an attempt at a request. t is what its row says about earlier attempts, and is recorded there. If another
// attempt is worth it, fetch returns a [waitError] that says when. Each attempt at a paid request reserves its price
// again: one without an answer stays in the ledger as unknown, because nothing proves that it was not charged.
func (c *caller) fetch(ctx context.Context, r *outlier.Request, p ledger.Purchase, t *outlier.Tries) (
	got result, err error) {
	if err := waitFor(t); err != nil {
		return result{}, err
	}
	p.Attempt = t.Failures + t.Refusals + 1
	got, err = c.attempt(ctx, r, p)
	v := judge(err)
	if !v.retryAt.IsZero() {
		return result{}, err
	}
	if failed := recordLimit(c.engine); failed != nil {
		return got, errors.Join(err, failed)
	}
	if err != nil && ctx.Err() != nil {
		return got, err // the next process goes on from here
	}
	before := *t
	again := c.repeats(t, v)
	if !again {
		*t = outlier.Tries{}
	}
	if *t != before {
		if failed := c.saveTries(r, p, *t); failed != nil {
			return got, errors.Join(err, failed)
		}
	}
	if again {
		c.engine.log().Warn("call repeated", "job", p.Job, "run", p.Run, "op", r.Op(), "entity", r.Entity(),
			"attempt", p.Attempt, "err", err)
		return result{}, &waitError{t.NotBefore}
	}
	return got, err
}

// waitFor returns a [waitError] while the next attempt at a call may not be made yet. A time further ahead than any
// pause comes from a clock that was ahead.
func waitFor(t *outlier.Tries) error {
	if wait := time.Until(t.NotBefore); wait > 0 && wait <= maxSleep {
		return &waitError{t.NotBefore}
	}
	return nil
}

// repeats reports whether another attempt is made after a failure, counts it, and says when.
func (c *caller) repeats(t *outlier.Tries, v verdict) bool {
	switch v.repeat {
	case never:
		return false
	case afterFailure:
		t.Failures++
	case afterRefusal:
		t.Refusals++
		if v.kind == outlier.Unauthorized && !c.engine.rekeyed() {
			return false
		}
	}
	if t.Failures >= plan.Attempts || t.Refusals >= maxRefusals {
		return false
	}
	c.engine.waits.add(waitRetry, backoff(t.Failures))
	t.NotBefore = time.Now().Add(backoff(t.Failures))
	return true
}

// saveTries records the attempts at a call in its row: that of a search, or of a queued call, if there is one.
func (c *caller) saveTries(r *outlier.Request, p ledger.Purchase, t outlier.Tries) error {
	if p.Step != 0 {
		return runs.SaveTries(c.engine.Store.DB, p.Step, t)
	}
	return queue.SaveTries(c.engine.Store.DB, r.Op(), r.Entity(), t)
}

// A delay is how long the rate limit has kept calls from leaving.
type delay struct {
	since  time.Time // zero while it does not
	seen   time.Time // when it last did
	reason string    // for that; see [Engine.Waited]
}

// A waitError says that a call cannot leave yet. The worker returns the error instead of waiting,
// because a more valuable call may be queued meanwhile, or a person may ask for something.
type waitError struct{ until time.Time }

func (e *waitError) Error() string { return "waits until " + e.until.UTC().Format(time.DateTime) }

// attempt makes one attempt, unless the service's answer is already known; see [caller.refused]. The answer is applied
// in the transaction that settles it.
func (c *caller) attempt(ctx context.Context, r *outlier.Request, p ledger.Purchase) (got result, err error) {
	if err := c.refused(r); err != nil {
		return got, err
	}
	if err := c.slotFor(r, &p); err != nil {
		return got, err
	}
	if !p.TimeOnly {
		p.Commit = func(tx *store.Tx, kept ledger.Kept) (err error) {
			got, err = c.apply(tx, kept)
			return err
		}
	}
	answer, err := c.engine.Client.Do(ctx, r, c.engine.Store.Ledger.Meter(p))
	if isA[*outlier.UnkeptError](err) {
		got = result{}
	}
	got.answer = answer
	kind := judge(err).kind
	if kind == outlier.NoCredits || kind == outlier.Unauthorized || err == nil && r.Paid() {
		if failed := c.noteBlock(r, err); failed != nil {
			return got, errors.Join(err, failed)
		}
	}
	if isUnlikeService(answer, err) {
		heard, failed := ledger.EverAnswered(c.engine.Store.DB)
		if failed != nil {
			return got, errors.Join(err, failed)
		}
		if !heard {
			return got, &NotServiceError{URL: c.engine.Client.URL, Err: err}
		}
	}
	if kind == outlier.NoCredits {
		err = fmt.Errorf("%w; paid calls are blocked until the next cycle, until the one attempt a day succeeds, "+
			"or until 'outlierd budget resume'", err)
	}
	return got, err
}

// slotFor returns a [waitError] if the rate limit does not let a call leave now, else it sets p.Waited to
// how long the call has waited. If the wait would be too long, it returns nil, because the call
// itself then returns that error.
func (c *caller) slotFor(r *outlier.Request, p *ledger.Purchase) error {
	at, err := c.engine.Pace.Slot(r.Op())
	now := time.Now() // read after Slot, so that a free slot is never in the future
	if at.After(now) {
		c.noteDelay(now)
		if err == nil {
			return &waitError{at}
		}
		return nil
	}
	if !c.delay.since.IsZero() {
		p.Waited = now.Sub(c.delay.since)
		c.countDelay(now)
		c.delay = delay{}
	}
	return nil
}

// noteDelay records that the rate limit delays the next call.
func (c *caller) noteDelay(now time.Time) {
	c.countDelay(now)
	c.delay = delay{since: cmp.Or(c.delay.since, now), seen: now, reason: waitPace}
	if c.engine.Pace.Status().BlockedUntil.After(now) {
		c.delay.reason = waitLimit
	}
}

// countDelay counts the delay since it was last seen.
func (c *caller) countDelay(now time.Time) {
	if !c.delay.since.IsZero() {
		c.engine.waits.add(c.delay.reason, now.Sub(c.delay.seen))
	}
}

// refused returns an error if a call must not be made: a block says what the service would answer, or no
// sink works, so that readers would not see the result.
func (c *caller) refused(r *outlier.Request) error {
	if err := c.blocked(r); err != nil || !r.Paid() {
		return err
	}
	return c.loader.Down(c.engine.Config.SinksDownAfter)
}

// needsRoom reports whether a call needs room in its period's cap. A call with a sufficient hold does
// not, as the hold has been counted already.
func (c *caller) needsRoom(r *outlier.Request, p ledger.Purchase) (bool, error) {
	if !r.Paid() || p.FromHold == 0 {
		return r.Paid(), nil
	}
	rest, err := c.engine.Store.Ledger.HoldOf(p.FromHold)
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
func recordLimit(e *Engine) error {
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
	return e.Store.Learned.AddLimit(belief)
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
