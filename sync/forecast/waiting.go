package forecast

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// Waiting is a search, a scan or a data call that waits to be done.
type Waiting struct {
	Job    string   // that wants it; the first requester if there are several
	Others []string // other jobs that want it
	Op     outlier.Operation
	Entity string    // what a data call is about, or what a search looks for
	Value  *float64  // of a data call, higher first; nil for searches and scans, which come before
	Since  time.Time // when it was queued, or its run started
	Why    string    // why it waits
	At     time.Time // estimated time if a process works on it from now on; zero if unknown
}

// Queue yields what waits, for all jobs or one, in the order in which it will be done: the open
// searches and scans of unfinished runs, and the data calls. The times depend on the learned pace, on
// earlier calls of any job, and on the calls of runs that are due before. Only what is yielded is
// computed. An error comes last.
func (r *Reader) Queue(ctx context.Context, name string) iter.Seq2[*Waiting, error] {
	return func(yield func(*Waiting, error) bool) {
		err := r.queue(ctx, name, func(w *Waiting) bool { return yield(w, nil) })
		if err != nil {
			yield(nil, err)
		}
	}
}

func (r *Reader) queue(ctx context.Context, name string, yield func(*Waiting) bool) error {
	going, err := r.unfinishedRuns()
	if err != nil {
		return err
	}
	now := time.Now()
	w, err := r.explainer(now)
	if err != nil {
		return err
	}
	searches, err := r.searches(w, name, going)
	if err != nil {
		return err
	}
	l, err := r.timeline(ctx, now, queue.Filter{Job: name}, going)
	if err != nil {
		return err
	}
	more := true
	until := func(at time.Time) bool { // yields the searches that come before, or all remaining ones
		for more && len(searches) > 0 && (at.IsZero() || !searches[0].At.IsZero() && !searches[0].At.After(at)) {
			more, searches = yield(&searches[0]), searches[1:]
		}
		return more
	}
	var page []placed
	flush := func() error {
		calls, err := r.calls(w, page)
		for i := 0; err == nil && i < len(calls) && until(calls[i].At) && more; i++ {
			more = yield(&calls[i])
		}
		page = page[:0]
		return err
	}
	size := 1 // of a page: most callers stop after the first
	l.play(func(p placed) bool {
		if page = append(page, p); len(page) >= size {
			err = flush()
			size = min(2*size, pageOfQueue)
		}
		return more && err == nil
	})
	if err == nil && more {
		err = flush()
	}
	if err == nil {
		until(time.Time{})
	}
	return err
}

// calls returns the queued calls at the given places, without those that were answered meanwhile.
func (r *Reader) calls(w *explainer, page []placed) (all []Waiting, err error) {
	places := make([]queue.Place, len(page))
	for i := range page {
		places[i] = page[i].Place
	}
	tasks, err := r.Facts.Store.Queue.At(places)
	for i, task := range tasks {
		if task == nil {
			continue
		}
		all = append(all, Waiting{
			Job: task.Job, Others: task.Others, Op: task.Op, Entity: task.Entity,
			Value: new(task.Value + w.now.Sub(task.Since).Hours()/24),
			Since: task.Since, Why: w.ofCall(task, page[i].before), At: page[i].at,
		})
	}
	return all, err
}

// searches returns the open searches and scans of unfinished runs, for all jobs or one, in the order in
// which they are done. Those without a known time come last.
func (r *Reader) searches(w *explainer, name string, going []unfinished) (all []Waiting, err error) {
	before := 0
	for i := range going {
		u := &going[i]
		for j := range u.open {
			step := &u.open[j]
			one := Waiting{Job: u.spec.Name, Op: step.Query.Op(), Entity: step.Name(), Since: u.run.Started}
			if one.Why, one.At, err = w.ofSearch(u, step, before); err != nil {
				return nil, err
			}
			if u.continuesByItself() {
				before += u.pages(step)
			}
			if name == "" || name == one.Job {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Waiting) int {
		if a.At.IsZero() != b.At.IsZero() {
			return cmp.Compare(b.At.Unix(), a.At.Unix())
		}
		return a.At.Compare(b.At)
	})
	return all, nil
}

// An explainer says why things wait.
type explainer struct {
	reader   *Reader
	now      time.Time
	blocked  time.Time // when the service's refusal of all calls ends; zero if there is none
	refusals []Refusal
}

func (r *Reader) explainer(now time.Time) (*explainer, error) {
	refusals, err := r.Refusals()
	return &explainer{reader: r, now: now, blocked: r.Pace.Status().BlockedUntil, refusals: refusals}, err
}

// ofCall returns what a data call waits for.
func (w *explainer) ofCall(call *queue.Waiting, before int) string {
	if call.NotBefore.After(w.now) {
		if call.Attempts == 1 {
			return "failed once: " + call.Reason
		}
		return fmt.Sprintf("failed %d times, the last time: %s", call.Attempts, call.Reason)
	}
	if why, _ := w.refused(false); why != "" {
		return why
	}
	return w.turn(before)
}

// ofSearch returns what a search or a scan waits for, and until when.
func (w *explainer) ofSearch(u *unfinished, step *runs.Step, before int) (
	why string, at time.Time, err error) {
	if step.Query.Op() == outlier.OpStartScan {
		scan, err := w.reader.Facts.Store.Runs.ScanOf(step.ID)
		if err != nil {
			return "", at, err
		}
		if why := w.ofScan(scan); why != "" {
			return why, at, nil
		}
	}
	next := w.reader.nextOf(u.spec, w.now)
	switch {
	case u.run.Status == runs.PausedBudget:
		return w.ofCap(u, step, next)
	case u.run.Status.Open() && !u.continuesByItself():
		return w.cutShort(u), at, nil
	case !u.continuesByItself():
		return "its run failed, and the next run continues it: " + u.run.Error, next, nil
	}
	if why, until := w.refused(w.reader.Facts.PriceOf(step) > 0); why != "" {
		return why, until, nil
	}
	if pages := u.pages(step); pages > 0 {
		at = w.now.Add(w.reader.Pace.ETA(before + pages))
	}
	why = w.turn(before)
	if u.run.Status != runs.Running && !w.blocked.After(w.now) {
		why = w.cutShort(u)
	}
	return why, at, nil
}

// cutShort returns why an unfinished run stopped, and what resumes it.
func (w *explainer) cutShort(u *unfinished) string {
	switch {
	case u.run.Status != runs.PausedQuota:
		return "its run was interrupted; to continue it: " + facts.Command(u.run)
	case w.reader.Kept && u.own && !w.reader.nextOf(u.spec, w.now).IsZero():
		return "its run waits for the rate limit, and 'outlierd up' continues it"
	}
	return "its run waits for the rate limit; to continue it: " + facts.Command(u.run)
}

// ofScan returns what a scan waits for that was started, or may have been; "" if it is not started yet.
func (w *explainer) ofScan(scan *runs.Scan) string {
	switch {
	case scan == nil || scan.State == runs.ScanRefused || scan.State == runs.ScanNotCreated:
		return ""
	case scan.State == runs.ScanUnknown || scan.State == runs.ScanIntended:
		return "its start was not confirmed: see 'outlierd scan list'"
	}
	return fmt.Sprintf("waits for scan %s, polled again at %s", scan.ScanID, w.clock(scan.NextPoll))
}

// ofCap returns the cap that pauses a run, and when the run is continued: at the first due time at which the
// cap has room, which may be now.
func (w *explainer) ofCap(u *unfinished, step *runs.Step, next time.Time) (
	why string, at time.Time, err error) {
	if why, until := w.refused(true); why != "" {
		return why, w.dueFrom(u, next, until), nil
	}
	config, books := w.reader.Facts.Config, w.reader.Facts.Store.Ledger
	for _, c := range w.reader.Facts.CapsOf(u.run, u.plan, u.spec.Budget)(books.ServiceTime()) {
		held, err := books.Held(c)
		if err != nil {
			return "", at, err
		}
		if held+w.reader.Facts.PriceOf(step) <= c.Max {
			continue
		}
		why, at := fmt.Sprintf("a cap is reached: %s", c), next
		if c.Scope != ledger.ScopeRun {
			period := ledger.Period{Scope: c.Scope, Key: c.Period}
			_, turn, err := period.Bounds(config.Timezone, config.Budget.Renews)
			if err != nil {
				return "", at, err
			}
			at = w.dueFrom(u, next, turn)
		}
		return why, at, nil
	}
	return "its run was stopped by a cap or a refusal that has ended, and the next run continues it", next, nil
}

// dueFrom returns the first due time of a run's job that is not before the given time; zero if that is
// unknown, or the job has none.
func (w *explainer) dueFrom(u *unfinished, next, from time.Time) time.Time {
	if from.IsZero() || next.IsZero() {
		return time.Time{}
	}
	if next.Before(from) {
		return w.reader.nextOf(u.spec, from.Add(-1))
	}
	return next
}

// refused returns why the service refuses all calls, or all paid calls, and until when; "" if it does not.
func (w *explainer) refused(paid bool) (why string, until time.Time) {
	for _, r := range w.refusals {
		switch {
		case r.Block == ledger.BlockKey:
			return fmt.Sprintf("the service refuses the key since %s: %s", w.clock(r.Since), r.Reason), r.Until
		case r.Block == ledger.BlockClock && paid:
			return "the clock has to be confirmed: see 'outlierd budget'", r.Until
		case r.Block == ledger.BlockCredits && paid:
			return fmt.Sprintf("the service has no credits left since %s: %s", w.clock(r.Since), r.Reason), r.Until
		}
	}
	return "", time.Time{}
}

// turn returns how many calls come before.
func (w *explainer) turn(before int) string {
	switch {
	case before > 1:
		return fmt.Sprintf("%d calls before it", before)
	case before == 1:
		return "1 call before it"
	case w.blocked.After(w.now):
		return "the service refuses until " + w.clock(w.blocked)
	}
	return "is next"
}

// clock formats the time of day, with the date unless it is today.
func (w *explainer) clock(t time.Time) string {
	t, now := t.In(w.reader.Facts.Config.Timezone), w.now.In(w.reader.Facts.Config.Timezone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}
