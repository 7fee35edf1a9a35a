package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// ResumeWithin is how old an unfinished run may be and still be continued. For a job
// with a shorter period it is that period, because after it the window of the next
// run covers what was left.
const ResumeWithin = 24 * time.Hour

// Displaced are the unfinished runs that a new run of the job closes as it takes their place,
// and those that it leaves as they are: the job's own run and one that a person has
// overridden leave each other alone, and one that has paid for a scan is continued by the
// job's next runs, which is not done for what was asked for once.
func (r *Reader) Displaced(spec *job.Spec, due time.Time) (closed, left []runs.Run, err error) {
	all, err := r.Store.Runs.Unfinished(spec.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, old := range all {
		held, resumes, err := r.Standing(spec, &old, due)
		switch {
		case err != nil:
			return nil, nil, err
		case held && r.Config.Job(spec.Name) != nil || resumes && old.Overridden != spec.Overridden:
			left = append(left, old)
		default:
			closed = append(closed, old)
		}
	}
	return closed, left, nil
}

// Going is an unfinished run that goes on.
type Going struct {
	Run  runs.Run
	Held bool // it has paid for a scan
}

// GoingOn are the unfinished runs of a job that go on: first those that have paid for a
// scan, then the newest.
func (r *Reader) GoingOn(spec *job.Spec, due time.Time) (rows []Going, err error) {
	all, err := r.Store.Runs.Unfinished(spec.Name)
	if err != nil {
		return nil, err
	}
	var others []Going
	for i := range all {
		held, resumes, err := r.Standing(spec, &all[i], due)
		switch {
		case err != nil:
			return nil, err
		case !resumes:
		case held:
			rows = append(rows, Going{all[i], held})
		default:
			others = slices.Insert(others, 0, Going{all[i], held})
		}
	}
	return append(rows, others...), nil
}

// Unfinished are the runs of a job that go on before its run of a due instant or by hand
// begins; due is zero for one by hand. The job leaves a run alone that a person has
// overridden, unless it has paid for a scan; the same overrides go on with nothing else.
func (r *Reader) Unfinished(spec *job.Spec, due time.Time) (rows []runs.Run, err error) {
	if r.Afresh {
		return nil, nil
	}
	all, err := r.GoingOn(spec, due)
	for _, old := range all {
		if Same(spec, &old.Run) || old.Held && !spec.Overridden {
			rows = append(rows, old.Run)
		}
	}
	return rows, err
}

// Same reports whether a run does what spec says: what the job's file says or said, or what
// a person asked for with the same overrides.
func Same(spec *job.Spec, run *runs.Run) bool {
	return run.Overridden == spec.Overridden &&
		(!spec.Overridden || run.Config == spec.Hash && Flags(run) == spec.Flags)
}

// Flags are the flags of the command that began an overridden run, as they are typed; "" for
// other runs, and where they are not on record.
func Flags(run *runs.Run) string {
	stored, err := plan.Decode(run.Plan)
	if err != nil || !run.Overridden {
		return ""
	}
	return stored.Flags
}

// Command is the command that goes on with an unfinished run.
func Command(run *runs.Run) string {
	if stored, err := plan.Decode(run.Plan); err == nil && stored.Backfill != nil {
		return fmt.Sprintf("outlierd backfill %s %s --max-credits %d", run.Job, stored.Flags, stored.Cap)
	}
	return strings.TrimSpace("outlierd run " + run.Job + " " + Flags(run))
}

// LeftOver are the unfinished runs that a schedule goes on with at once, without a due
// instant: runs of the schedule that were stopped or killed, and runs that
// have paid for a scan, whatever started them. Another run by hand is its person's to
// continue, and one that failed is its job's next instant's.
func (r *Reader) LeftOver(spec *job.Spec) (rows []runs.Run, err error) {
	all, err := r.Unfinished(spec, time.Time{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		old := &all[i]
		steps, err := r.Store.Runs.Steps(old.ID)
		if err != nil {
			return nil, err
		}
		held, err := r.holdsScan(steps)
		if err != nil {
			return nil, err
		}
		if held || old.Status.Open() && old.Trigger != runs.Manual {
			rows = append(rows, *old)
		}
	}
	return rows, nil
}

// Continues is the unfinished run with which a run by hand goes on; nil if it is a new one.
func (r *Reader) Continues(spec *job.Spec) (*runs.Run, error) {
	rows, err := r.Unfinished(spec, time.Time{})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if Same(spec, &rows[i]) {
			return &rows[i], nil
		}
	}
	return nil, nil
}

// Standing reports whether an unfinished run has paid for a scan, and whether it is
// continued. It was killed, stopped, paused by a cap or failed for a reason that can pass;
// it must not be too old, and something can be done in it: one that reached its own cap,
// or whose request was refused, has come to its end. A scan that was paid for does not
// age, nor do the dates of a backfill; but where the run's own cap has no room for another
// page of the scan's results, the run has come to its end, too.
func (r *Reader) Standing(spec *job.Spec, old *runs.Run, due time.Time) (held, resumes bool, err error) {
	if len(old.Plan) == 0 {
		return false, false, nil
	}
	steps, err := r.Store.Runs.Steps(old.ID)
	if err != nil {
		return false, false, err
	}
	held, err = r.holdsScan(steps)
	if err != nil || !held && refused(steps) {
		return held, false, err
	}
	stored, err := plan.Decode(old.Plan)
	if err != nil {
		if r.Log != nil {
			r.Log.Warn("unfinished run not continued", "job", spec.Name, "run", old.ID, "err", err)
		}
		return held, false, nil
	}
	if !held && stored.Backfill == nil && age(old, due) > r.resumable(spec) {
		return held, false, nil
	}
	own := spec.Budget
	if stored.Backfill != nil && spec.Dates == nil {
		own.PerRun = &stored.Cap // it has a cap of its own
	}
	spent, err := r.usedUp(old, steps, own)
	return held, err == nil && !spent, err
}

// refused reports whether a search was closed for good and no other can go on.
func refused(steps []runs.Step) bool {
	return slices.ContainsFunc(steps, func(s runs.Step) bool { return runs.Final(s.Stop) }) &&
		!slices.ContainsFunc(steps, func(s runs.Step) bool { return s.Stop == "" })
}

// usedUp reports whether a run has something left to buy and no room for any of it under
// its own cap, or has made all its requests. A scan that was paid for is seen to its end,
// whatever number of requests that takes.
func (r *Reader) usedUp(old *runs.Run, steps []runs.Step, own job.JobBudget) (bool, error) {
	stored, err := plan.Decode(old.Plan)
	if err != nil {
		return false, err
	}
	spent, err := r.Store.Ledger.Spent(old.ID)
	if err != nil {
		return false, err
	}
	left := stored.CapFor(own) - spent.Charged - spent.Unknown - spent.Reserved
	noRequests := stored.MaxRequests > 0 && max(spent.Requests, old.Requests) >= int64(stored.MaxRequests)
	p, err := r.Continue(old.Job, stored, steps, false)
	if err != nil {
		return false, err
	}
	open := false
	for i := range steps {
		if steps[i].Stop != "" {
			continue
		}
		open = true
		if awaits, err := r.Store.Ledger.Awaits(steps[i].ID); awaits || err != nil {
			return false, err // a page that was bought
		}
		if noRequests && !p.Steps[i].Paid {
			continue
		}
		held, err := r.heldFor(steps, &steps[i])
		if err != nil || p.Fits(i, left, held) {
			return false, err
		}
	}
	return open || noRequests, nil
}

// age is how long ago a run began, seen from a due instant if there is one: how late that
// is performed must not count.
func age(old *runs.Run, due time.Time) time.Duration {
	if due.IsZero() {
		return time.Since(old.Started)
	}
	return due.Sub(old.Started)
}

// resumable is the age up to which an unfinished run is continued.
func (r *Reader) resumable(spec *job.Spec) time.Duration {
	next := spec.Next(time.Now(), r.Config.Timezone)
	if next.IsZero() {
		return ResumeWithin
	}
	period := spec.Next(next, r.Config.Timezone).Sub(next)
	return min(period, ResumeWithin)
}

// holdsScan reports whether a run has paid for a scan that it has not read.
func (r *Reader) holdsScan(steps []runs.Step) (bool, error) {
	for i := range steps {
		if paid, err := r.PaidScan(&steps[i]); paid || err != nil {
			return paid, err
		}
	}
	return false, nil
}

// PaidScan reports whether a step is about a scan that was paid for, or may have been,
// and that is not read to its end.
func (r *Reader) PaidScan(step *runs.Step) (bool, error) {
	if step.Stop != "" || step.Query.Op() != outlier.OpStartScan {
		return step.Stop == "" && step.Scan != "", nil
	}
	scan, err := r.Store.Runs.ScanOf(step.ID)
	if err != nil || scan == nil {
		return false, err
	}
	return scan.State != runs.ScanRefused && scan.State != runs.ScanNotCreated, nil
}

// heldFor is what is left of what was set aside to read the scan whose results a step reads.
func (r *Reader) heldFor(steps []runs.Step, step *runs.Step) (outlier.Credits, error) {
	holder, err := r.Holder(steps, step)
	if err != nil || holder == 0 {
		return 0, err
	}
	return r.Store.Ledger.HoldOf(holder)
}

// Holder is the step whose hold pays for a page of a scan's results: that of the run which
// has started or joined the scan. 0 if there is none, as for any other search.
func (r *Reader) Holder(steps []runs.Step, reading *runs.Step) (int64, error) {
	for i := range steps {
		step := &steps[i]
		if reading.Scan == "" || step.Query.Op() != outlier.OpStartScan || step.Item != reading.Item {
			continue
		}
		scan, err := r.Store.Runs.ScanOf(step.ID)
		if err != nil || scan != nil && scan.ScanID == reading.Scan {
			return step.ID, err
		}
	}
	return 0, nil
}
