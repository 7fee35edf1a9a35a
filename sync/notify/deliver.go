package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Deliverer sends the events of the outbox, to each target in the order in which they were written.
// After a failure a target is retried in a minute, then in two, and so on up to six hours. The other
// targets are not delayed.
//
// An event is sent at least once. It is sent twice if the process is killed after the target has
// accepted it and before that is recorded.
type Deliverer struct {
	Store   *store.Store
	Ledger  *ledger.Ledger // its time determines which events are old
	Targets []job.Target
	Sender  *Sender
	Log     *slog.Logger

	taken sync.Map // ids of events that were accepted, but could not be recorded yet
}

// How long the deliverer waits at most before it tries again an event that was refused, and how long an attempt may
// still take when it stops.
const (
	lookEvery = time.Minute
	grace     = 2 * time.Second
)

// Run delivers until ctx ends.
func (d *Deliverer) Run(ctx context.Context) {
	var cleaning sync.WaitGroup
	cleaning.Go(func() {
		for goes := true; goes; goes = sleepUntilDone(ctx, time.Hour) {
			d.expireEvents()
		}
	})
	d.forEachReceiver(func(r *delivery) {
		for ctx.Err() == nil {
			changed := d.Store.Changes.Next()
			next := d.sendWaiting(ctx, r)
			if time.Now().Before(next) { // until then other events of this target would fail, too
				sleepUntilDone(ctx, time.Until(next))
				continue
			}
			select {
			case <-changed:
			case <-time.After(lookEvery):
			case <-ctx.Done():
			}
		}
	})
	cleaning.Wait()
}

// delivery is a target that gets events. That it fails is logged once an hour.
type delivery struct {
	job.Target
	warn rate.Sometimes
}

// forEachReceiver calls f for all receivers at once, and waits until it has returned for each.
func (d *Deliverer) forEachReceiver(f func(*delivery)) {
	var all sync.WaitGroup
	for _, t := range receivers(d.Targets) {
		all.Go(func() { f(&delivery{t, rate.Sometimes{Interval: time.Hour}}) })
	}
	all.Wait()
}

// Flush attempts once to send every event that is due, for a process that is about to end. Events
// that fail are left for the next process, until they are old.
func (d *Deliverer) Flush(ctx context.Context) {
	d.forEachReceiver(func(r *delivery) { d.sendWaiting(ctx, r) })
	d.expireEvents()
}

// doubtful is the number of failed attempts, about an hour, after which the event itself may be the
// reason.
const doubtful = 6

// sendWaiting sends the waiting events of a target until none is left or the target itself fails. It
// returns when the target may be tried again; zero for now.
//
// After an event that has failed often, one more is tried. Some targets fail on the content of one
// event, which must not delay the others until it is dropped.
func (d *Deliverer) sendWaiting(ctx context.Context, t *delivery) (alone time.Time) {
	for ctx.Err() == nil {
		now := time.Now()
		w, err := nextFor(d.Store, t.Name, now)
		if err != nil {
			d.Log.Error("outbox not read", "target", t.Name, "err", err)
			return now.Add(time.Minute)
		}
		if w == nil || w.next.After(now) {
			return alone
		}
		rest := d.attemptEvent(ctx, t, w)
		if !rest.IsZero() && (w.tries < doubtful || !alone.IsZero()) {
			return cmp.Or(alone, rest)
		}
		alone = rest
	}
	return alone
}

// attemptEvent sends one event and records the result. It returns when the target may be tried again;
// zero if the next event may follow.
func (d *Deliverer) attemptEvent(ctx context.Context, t *delivery, w *waiting) time.Time {
	var err error
	if _, taken := d.taken.Load(w.id); !taken {
		err = d.sendEvent(ctx, &t.Target, w.event)
	}
	if err != nil && ctx.Err() != nil {
		return time.Time{} // stopped, which says nothing about the target
	}
	if err == nil {
		d.taken.Store(w.id, true)
		if err := settleEvent(d.Store, w.id); err != nil {
			d.Log.Error("delivery not recorded", "target", t.Name, "event", w.event.ID, "err", err)
			return time.Now().Add(time.Minute)
		}
		d.taken.Delete(w.id)
		return time.Time{}
	}
	wait := backoffAfter(w.tries)
	refused, isRefusal := errors.AsType[*RefusedError](err)
	if isRefusal {
		wait = max(wait, refused.After)
	}
	until := time.Now().Add(wait)
	if unrecorded := postponeEvent(d.Store, w.id, until); unrecorded != nil {
		d.Log.Error("failed delivery not recorded", "target", t.Name, "event", w.event.ID, "err", errors.Join(err, unrecorded))
		return until
	}
	t.warn.Do(func() {
		d.Log.Warn("notification failed", "target", t.Name, "event", string(w.event.Kind), "retry_at", until, "err", err)
	})
	if isRefusal && !refused.isBusy() {
		return time.Time{} // the target refused this event, and may accept others
	}
	return until
}

// sendEvent is [Sender.Send]. An attempt may still finish shortly after ctx ends, because the target may
// already have accepted the event.
func (d *Deliverer) sendEvent(ctx context.Context, t *job.Target, e Event) error {
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		sleepUntilDone(going, grace)
		cancel()
	})
	defer stop()
	return d.Sender.Send(going, t, e)
}

func (d *Deliverer) expireEvents() {
	var lost int
	certain, known, err := d.Ledger.CertainTime()
	if err == nil && known {
		err = d.Store.Update(func(tx *store.Tx) (err error) {
			lost, err = expireBefore(tx, certain)
			return err
		})
	}
	switch {
	case err != nil:
		d.Log.Error("outbox not cleaned", "err", err)
	case lost > 0:
		d.Log.Error("notifications dropped", "events", lost, "err", "no target accepted them within 7 days")
	}
}

// backoffAfter returns how long to wait after a failure, given the number of failures before it.
func backoffAfter(tries int) time.Duration {
	return min(time.Minute<<min(tries, 16), maxBackoff)
}

// sleepUntilDone sleeps for d, and reports false if ctx ended before.
func sleepUntilDone(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
