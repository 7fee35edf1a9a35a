package forecast

import (
	"cmp"
	"fmt"
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
	Job    string            `json:"job"`              // that wants it; the first requester if there are several
	Others []string          `json:"others,omitempty"` // other jobs that want it
	Op     outlier.Operation `json:"operation"`
	Entity string            `json:"entity"`           // what a data call is about, or what a search looks for
	Value  *float64          `json:"value"`            // of a data call, higher first; nil for searches and scans, which come before
	Since  time.Time         `json:"since"`            // when it was queued, or its run started
	Why    string            `json:"why"`              // why it waits
	At     time.Time         `json:"done_at,omitzero"` // estimated time if a process works on it from now on; zero if unknown
}

// Queue returns what waits, for all jobs or one, in the order in which it will be done, at most most, or for 0 all: the
// open searches and scans of unfinished runs, and the data calls. Its times follow from the position and the pace in
// force, if nothing else comes due meanwhile.
func (r *Reader) Queue(name string, most int) ([]Waiting, error) {
	w, err := r.newExplainer(time.Now())
	if err != nil {
		return nil, err
	}
	all, pages, err := w.waitingSearches(name)
	if err != nil {
		return nil, err
	}
	tasks, err := r.Store.Queue.List(w.now, queue.Filter{Job: name}, most)
	for i := range tasks {
		all = append(all, w.waitingCall(&tasks[i], pages+tasks[i].Before))
	}
	sortByTime(all)
	if most > 0 {
		all = all[:min(most, len(all))]
	}
	return all, err
}

// sortByTime sorts by the estimated times, those without one last.
func sortByTime(all []Waiting) {
	slices.SortStableFunc(all, func(a, b Waiting) int {
		if a.At.IsZero() != b.At.IsZero() {
			return cmp.Compare(b.At.Unix(), a.At.Unix())
		}
		return a.At.Compare(b.At)
	})
}

// waitingCall returns a data call after the given number of others.
func (w *explainer) waitingCall(task *queue.Waiting, before int) Waiting {
	at := w.now.Add(w.reader.Pace.ETA(before + 1))
	if task.NotBefore.After(at) {
		at = task.NotBefore
	}
	return Waiting{
		Job: task.Job, Others: task.Others, Op: task.Op, Entity: task.Entity,
		Value: new(task.Value + w.now.Sub(task.Since).Hours()/24), Since: task.Since, Why: w.ofCall(task, before), At: at,
	}
}

// waitingSearches returns the open searches and scans of unfinished runs, for all jobs or one, in the order in which
// they are done, and the number of their pages that precede data calls. Those without a known time come last.
func (w *explainer) waitingSearches(name string) (all []Waiting, pages int, err error) {
	for i := range w.unfinished {
		u := &w.unfinished[i]
		for k := range u.Steps {
			step := &u.Steps[k]
			if step.Stop != "" {
				continue
			}
			one := Waiting{Job: u.Spec.Name, Op: step.Query.Op(), Entity: step.Name(), Since: u.Run.Started}
			if one.Why, one.At, err = w.ofSearch(u, step, pages); err != nil {
				return nil, 0, err
			}
			if continuesByItself(u) {
				pages += pagesLeft(u, step)
			}
			if name == "" || name == one.Job {
				all = append(all, one)
			}
		}
	}
	sortByTime(all)
	return all, pages, nil
}

// pagesLeft returns how many pages an open search may still take; 0 if that is not known.
func pagesLeft(u *facts.Unfinished, step *runs.Step) int {
	stored := planOf(&u.Run)
	return max(0, facts.PagesLeft(&stored, step))
}

// An explainer says why things wait.
type explainer struct {
	reader   *Reader
	now      time.Time
	blocked  time.Time // when the service's refusal of all calls ends; zero if there is none
	refusals []ledger.Block

	unfinished []facts.Unfinished // runs
}

func (r *Reader) newExplainer(now time.Time) (w *explainer, err error) {
	w = &explainer{reader: r, now: now, blocked: r.Pace.Status().BlockedUntil}
	if w.refusals, err = r.Refusals(); err == nil {
		w.unfinished, err = r.unfinishedRuns()
	}
	w.unfinished = slices.DeleteFunc(w.unfinished, func(u facts.Unfinished) bool { return u.Fate == facts.Supersede })
	return w, err
}

// ofCall returns what a data call waits for.
func (w *explainer) ofCall(call *queue.Waiting, before int) string {
	if call.NotBefore.After(w.now) {
		if call.Attempts == 1 {
			return "failed once: " + call.Reason
		}
		return fmt.Sprintf("failed %d times, the last time: %s", call.Attempts, call.Reason)
	}
	if why, _ := w.whyRefused(false); why != "" {
		return why
	}
	return w.placeInQueue(before)
}

// ofSearch returns what a search or a scan waits for, and until when.
func (w *explainer) ofSearch(u *facts.Unfinished, step *runs.Step, before int) (
	why string, at time.Time, err error) {
	if step.Query.Op() == outlier.OpStartScan {
		scan, err := w.reader.Store.Scans.OfStep(step.ID)
		if err != nil {
			return "", at, err
		}
		if why := w.ofScan(scan); why != "" {
			return why, at, nil
		}
	}
	next := nextOf(w.reader.Config, u.Spec, w.now)
	switch {
	case u.Run.Status == runs.PausedBudget:
		return w.ofCap(u, step, next)
	case u.Run.Status.Open() && !continuesByItself(u):
		return w.cutShort(u), at, nil
	case !continuesByItself(u):
		return "its run failed, and the next run continues it: " + u.Run.Error, next, nil
	}
	if why, until := w.whyRefused(step.Query.Price(w.reader.Config.Service.Prices) > 0); why != "" {
		return why, until, nil
	}
	if pages := pagesLeft(u, step); pages > 0 {
		at = w.now.Add(w.reader.Pace.ETA(before + pages))
	}
	why = w.placeInQueue(before)
	if u.Run.Status != runs.Running && !w.blocked.After(w.now) {
		why = w.cutShort(u)
	}
	return why, at, nil
}

// cutShort returns why an unfinished run stopped, and what resumes it.
func (w *explainer) cutShort(u *facts.Unfinished) string {
	switch {
	case u.Run.Status != runs.PausedQuota:
		return "its run was interrupted; to continue it: " + facts.Command(u.Run.ID)
	case w.reader.Kept && u.Continues() && !nextOf(w.reader.Config, u.Spec, w.now).IsZero():
		return "its run waits for the rate limit, and 'outlierd up' continues it"
	}
	return "its run waits for the rate limit; to continue it: " + facts.Command(u.Run.ID)
}

// ofScan returns what a scan waits for that was started, or may have been; "" if it is not started yet.
func (w *explainer) ofScan(scan *runs.Scan) string {
	switch {
	case scan == nil || scan.State == runs.ScanRefused || scan.State == runs.ScanNotCreated:
		return ""
	case scan.State == runs.ScanUnknown || scan.State == runs.ScanIntended:
		return "its start was not confirmed: see 'outlierd scan list'"
	}
	return fmt.Sprintf("waits for scan %s, polled again at %s", scan.ScanID, w.formatClock(scan.NextPoll))
}

// ofCap returns the cap that pauses a run, and when the run is continued: at the first due time at which the
// cap has room, which may be now.
func (w *explainer) ofCap(u *facts.Unfinished, step *runs.Step, next time.Time) (
	why string, at time.Time, err error) {
	if why, until := w.whyRefused(true); why != "" {
		return why, w.dueFrom(u, until), nil
	}
	config, books := w.reader.Config, w.reader.Store.Ledger
	for _, c := range w.reader.Caps().CapsOf(&u.Run, planOf(&u.Run), u.Spec.Budget, w.reader.Store.Clock.Now()) {
		held, err := books.Held(c)
		if err != nil {
			return "", at, err
		}
		if held+step.Query.Price(w.reader.Config.Service.Prices) <= c.Max {
			continue
		}
		why, at := fmt.Sprintf("a cap is reached: %s", c), next
		if c.Scope != ledger.ScopeRun {
			period := ledger.Period{Scope: c.Scope, Key: c.Period}
			_, turn, err := period.Bounds(config.Timezone, config.Budget.Renews)
			if err != nil {
				return "", at, err
			}
			at = w.dueFrom(u, turn)
		}
		return why, at, nil
	}
	return "its run was stopped by a cap or a refusal that has ended, and the next run continues it", next, nil
}

// dueFrom returns the first due time of a run's job that is not before the given time; zero if that is
// unknown, or the job has none.
func (w *explainer) dueFrom(u *facts.Unfinished, from time.Time) time.Time {
	if from.IsZero() {
		return from
	}
	if from = from.Add(-1); from.Before(w.now) {
		from = w.now
	}
	return nextOf(w.reader.Config, u.Spec, from)
}

// whyRefused returns why the service refuses all calls, or all paid calls, and until when; "" if it does not.
func (w *explainer) whyRefused(paid bool) (why string, until time.Time) {
	for _, r := range w.refusals {
		switch {
		case r.Kind == ledger.BlockKey:
			return fmt.Sprintf("the service refuses the key since %s: %s", w.formatClock(r.Since), r.Reason), r.Until
		case r.Kind == ledger.BlockClock && paid:
			return "the clock has to be confirmed: see 'outlierd budget'", r.Until
		case r.Kind == ledger.BlockCredits && paid:
			return fmt.Sprintf("the service has no credits left since %s: %s", w.formatClock(r.Since), r.Reason), r.Until
		}
	}
	return "", time.Time{}
}

// placeInQueue returns how many calls come before.
func (w *explainer) placeInQueue(before int) string {
	switch {
	case before > 1:
		return fmt.Sprintf("%d calls before it", before)
	case before == 1:
		return "1 call before it"
	case w.blocked.After(w.now):
		return "the service refuses until " + w.formatClock(w.blocked)
	}
	return "is next"
}

// formatClock formats the time of day, with the date unless it is today.
func (w *explainer) formatClock(t time.Time) string {
	t, now := t.In(w.reader.Config.Timezone), w.now.In(w.reader.Config.Timezone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}
