package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # Whose clock
//
// Days and billing cycles turn by the service's clock, and the windows of searches end by
// it: one clock for what a page covers and for what it is booked under. It is agreed on
// before the first paid call of a process. Where no answer of the service is at hand, it
// is asked for nothing but its time, which costs one request of the pace. A date that is
// far from what was believed counts when a second answer agrees; see package ledger. Where
// answers have no time, only the machine's clock is left: if by that clock a new period has
// begun that a cap counts by, a person has to confirm it.

// nowhere is the id of no video: to ask for its details costs nothing and brings the time.
const nowhere = "-----------"

// askings is how often the service is asked for the time, until two answers agree.
const askings = 3

// ClockError says that the time is not known by which purchases would be booked.
type ClockError struct {
	Now     time.Time // by this machine's clock
	Differs bool      // the service's answers have times, and no two that follow each other agree
}

func (e *ClockError) Error() string {
	now := e.Now.Format("2006-01-02 15:04 MST")
	if e.Differs {
		return fmt.Sprintf("the service's answers have times that differ from each other "+
			"and from this machine's clock, which shows %s; "+
			"nothing is bought until they agree, or until 'outlierd budget resume' confirms the machine's clock", now)
	}
	return fmt.Sprintf("the service's answers have no time, "+
		"and by this machine's clock alone a new day or billing cycle has begun: it shows %s; "+
		"nothing is bought until 'outlierd budget resume' confirms that clock", now)
}

// ready makes sure, before a paid call is put together, that the time is agreed on under
// which it will be booked, if anything is booked at all.
func (w *worker) ready(ctx context.Context, r *outlier.Request, p ledger.Purchase) error {
	if err := w.refused(r); err != nil {
		return err
	}
	needs, err := w.needsRoom(r, p)
	if err != nil || !needs {
		return err
	}
	return w.proveTime(ctx)
}

// proveTime makes sure that the time is agreed on. Where no answer had it, the service is
// asked.
func (w *worker) proveTime(ctx context.Context) error { return w.agreeOnTime(ctx, w.fetch) }

// call makes one attempt at a request, or several.
type call func(context.Context, *outlier.Request, ledger.Purchase) (*outlier.Answer, error)

func (w *worker) agreeOnTime(ctx context.Context, ask call) error {
	for ; w.timesAsked < askings && !w.engine.Store.Ledger.ClockAgreed(); w.timesAsked++ {
		date, err := askTime(ctx, ask)
		if isWaiting(err) {
			return err // the answers so far count when it goes on
		}
		if err != nil {
			w.timesAsked = 0
			return fmt.Errorf("ask the service for the time: %w", err)
		}
		if date.IsZero() {
			break
		}
	}
	answers := w.timesAsked
	w.timesAsked = 0
	if !w.engine.Store.Ledger.ClockAgreed() {
		if err := w.confirmed(answers > 0); err != nil {
			return err
		}
	}
	return w.engine.Store.CorrectDates()
}

// askTime asks the service for nothing. It returns the date of the answer, or zero if the
// service's answers have none, or are of a form that is not known to be the service's.
func askTime(ctx context.Context, ask call) (time.Time, error) {
	request, err := outlier.DataRequest(outlier.OpDetails, nowhere)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := ask(pace.Urgent(ctx), request, ledger.Purchase{TimeOnly: true}) // a purchase waits for it
	switch {
	case answer != nil && (answer.Own || err == nil):
		return answer.ServiceTime(), nil
	case isNotService(err):
		return time.Time{}, err
	case answer != nil && answer.Status >= 400 && answer.Status < 500 && kindOf(err) != outlier.Limited:
		return time.Time{}, nil
	}
	return time.Time{}, err
}

// confirmed takes this machine's clock for right if it claims no new period by which a cap
// goes, or if a person has confirmed it today by 'outlierd budget resume', or else asks
// for that. If answers have told other times, only a person's word counts.
func (w *worker) confirmed(differs bool) error {
	turned, err := w.turned()
	if err != nil {
		return err
	}
	if !turned && !differs {
		w.engine.Store.Ledger.ConfirmClock()
		return nil
	}
	now, zone := time.Now(), w.engine.Config.Timezone
	block, err := w.engine.Store.Ledger.Block(ledger.BlockClock, "")
	if err != nil {
		return err
	}
	if block != nil && !block.Until.IsZero() && ledger.Day(block.Until, zone) == ledger.Day(now, zone) {
		w.engine.Store.Ledger.ConfirmClock()
		return nil
	}
	unsure := &ClockError{Now: now.In(zone), Differs: differs}
	err = w.engine.Store.DB.Update(func(tx *store.Tx) error {
		return ledger.SetBlock(tx, ledger.BlockClock, "", unsure.Error(), time.Time{})
	})
	if err != nil {
		return err
	}
	return unsure
}

// turned reports whether this machine's clock shows a later period than anything was booked
// in, and a cap goes by such a period.
func (w *worker) turned() (bool, error) {
	day, cycle, err := w.engine.Store.Ledger.Turned()
	config := w.engine.Config
	capped := config.Budget.PerMonth != nil ||
		slices.ContainsFunc(config.Jobs, func(j job.Spec) bool { return j.Budget.PerMonth != nil })
	return day && config.Budget.PerDay != nil || cycle && capped, err
}

// openingTime is the time by which a new run of spec resolves its windows. If the service
// does not answer just now, that is what is believed, and unsure: the first purchase asks
// again, says what is wrong, and finds out whether the windows are; see [run.inTime]. An
// address that is not the service's is an error at once.
func (w *worker) openingTime(ctx context.Context, spec *job.Spec) (at time.Time, unsure bool, err error) {
	if len(spec.Fetch) > 0 { // a watch buys nothing
		return w.engine.Store.Ledger.ServiceTime(), false, nil
	}
	err = w.agreeOnTime(ctx, w.once)
	if isNotService(err) || isWaiting(err) {
		return w.engine.Store.Ledger.ServiceTime(), true, err
	}
	if err != nil {
		w.engine.log().Debug("service time unknown", "job", spec.Name, "err", err)
	}
	return w.engine.Store.Ledger.ServiceTime(), err != nil, nil
}

// inTime closes a search whose dates were resolved by a clock that has turned out to be
// wrong since, before its page one is bought.
func (r *run) inTime(step *runs.Step) error {
	if r.plan.Unsure.IsZero() || !step.Began.IsZero() {
		return nil
	}
	now := r.engine.Store.Ledger.ServiceTime()
	if late := now.Sub(r.plan.Unsure); late >= -ledger.Skew && late <= facts.ResumeWithin {
		return nil
	}
	step.Stop = runs.StopClock
	err := r.saveStep(*step)
	return errors.Join(err, fmt.Errorf("its dates were computed with a clock that showed %s, "+
		"while the service's time was not available; it is %s: run the job again",
		r.worker.clock(r.plan.Unsure), r.worker.clock(now)))
}

// earlier is the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// clock shows a time in the time zone of the configuration.
func (w *worker) clock(t time.Time) string {
	return t.In(w.engine.Config.Timezone).Format("2006-01-02 15:04 MST")
}
