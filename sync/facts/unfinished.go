package facts

import (
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// ResumeWithin is the maximum age of an unfinished run that is resumed. For a job with a shorter
// period it is that period, because the window of the next run then covers the rest.
const ResumeWithin = 24 * time.Hour

// Superseded returns the unfinished runs that a new run of the job closes, and those that it leaves
// unchanged. The job's own run and an overridden run do not affect each other, and a run that has
// paid for a scan is resumed by the job's next runs, unless it was a one-off request.
func (r *Reader) Superseded(spec *job.Spec, due time.Time) (closed, left []runs.Run, err error) {
	all, err := r.Store.Runs.Unfinished(spec.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, old := range all {
		held, resumes, err := r.Resumable(spec, &old, due)
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

// UnfinishedRun is an unfinished run that will be resumed.
type UnfinishedRun struct {
	Run  runs.Run
	Held bool // it has paid for a scan that is not read yet
}

// ToResume returns the unfinished runs of a job that will be resumed: first those that have paid for
// a scan, then the newest.
func (r *Reader) ToResume(spec *job.Spec, due time.Time) (rows []UnfinishedRun, err error) {
	all, err := r.Store.Runs.Unfinished(spec.Name)
	if err != nil {
		return nil, err
	}
	var others []UnfinishedRun
	for i := range all {
		held, resumes, err := r.Resumable(spec, &all[i], due)
		switch {
		case err != nil:
			return nil, err
		case !resumes:
		case held:
			rows = append(rows, UnfinishedRun{all[i], held})
		default:
			others = slices.Insert(others, 0, UnfinishedRun{all[i], held})
		}
	}
	return append(rows, others...), nil
}

// Unfinished returns the runs of a job that are resumed before its run of a due time, or before
// a manual run, for which due is zero. The job does not resume an overridden run unless it has paid
// for a scan; a command with the same overrides resumes only that run.
func (r *Reader) Unfinished(spec *job.Spec, due time.Time) (rows []runs.Run, err error) {
	if r.Afresh {
		return nil, nil
	}
	all, err := r.ToResume(spec, due)
	for _, old := range all {
		if Same(spec, &old.Run) || old.Held && !spec.Overridden {
			rows = append(rows, old.Run)
		}
	}
	return rows, err
}

// Same reports whether a run does what spec says: according to the job file, now or when it began,
// or with the same overrides.
func Same(spec *job.Spec, run *runs.Run) bool {
	return run.Overridden == spec.Overridden &&
		(!spec.Overridden || run.Request == spec.Request && Flags(run) == spec.Flags)
}

// Flags returns the flags of the command that began an overridden run, as they are typed; "" for
// other runs and if they were not recorded.
func Flags(run *runs.Run) string {
	stored, err := plan.Decode(run.Plan)
	if err != nil || !run.Overridden {
		return ""
	}
	return stored.Flags
}

// Command returns the command that resumes an unfinished run, whose record has everything else.
func Command(run *runs.Run) string { return "outlierd run --continue " + run.ID }

// LeftOver returns the unfinished runs that the scheduler resumes at once, without a due time:
// scheduled runs that were stopped or killed, and runs that have paid for a scan, however they were
// started. Other manual runs are resumed by hand, and a failed run by the job's next due time.
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

// Continues returns the unfinished run that a manual run resumes; nil if it starts a new one.
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

// Resumed returns the unfinished run with an id; nil if it has ended or cannot be resumed.
func (r *Reader) Resumed(spec *job.Spec, id string, due time.Time) (*runs.Run, error) {
	all, err := r.ToResume(spec, due)
	for i := range all {
		if all[i].Run.ID == id {
			return &all[i].Run, err
		}
	}
	return nil, err
}

// Resumable reports whether an unfinished run has paid for a scan, and whether it is resumed. A run
// is resumed if it was killed, stopped, paused by a cap or failed for a temporary reason, is not
// too old, and has something left to do: a run that reached its own cap, or whose request was
// refused, is finished. A paid scan does not age, nor do the dates of a backfill; but if the run's
// own cap has no room for another page of the scan's results, the run is finished as well.
func (r *Reader) Resumable(spec *job.Spec, old *runs.Run, due time.Time) (held, resumes bool, err error) {
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
	if !held && stored.Backfill == nil && age(old, due) > r.maxAge(spec) {
		return held, false, nil
	}
	own := spec.Budget
	if stored.Backfill != nil && spec.Dates == nil {
		own.PerRun = &stored.Cap // it has its own cap
	}
	spent, err := r.usedUp(old, steps, own)
	return held, err == nil && !spent, err
}

// refused reports whether a search was closed permanently and no other can be resumed.
func refused(steps []runs.Step) bool {
	return slices.ContainsFunc(steps, func(s runs.Step) bool { return runs.Final(s.Stop) }) &&
		!slices.ContainsFunc(steps, func(s runs.Step) bool { return s.Stop == "" })
}

// usedUp reports whether a run has something left to buy but no room for it under its own cap, or
// has made all its requests. A paid scan is read to its end, however many requests that takes.
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

// age returns how old a run was at a due time, if there is one, or now: a delay after the due
// time does not count.
func age(old *runs.Run, due time.Time) time.Duration {
	if due.IsZero() {
		return time.Since(old.Started)
	}
	return due.Sub(old.Started)
}

// maxAge returns the maximum age of an unfinished run that is resumed.
func (r *Reader) maxAge(spec *job.Spec) time.Duration {
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

// PaidScan reports whether a step is for a scan that was paid for, or may have been, and whose
// results are not read completely.
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

// heldFor returns what is left of the hold for reading the scan whose results a step reads.
func (r *Reader) heldFor(steps []runs.Step, step *runs.Step) (outlier.Credits, error) {
	holder, err := r.Holder(steps, step)
	if err != nil || holder == 0 {
		return 0, err
	}
	return r.Store.Ledger.HoldOf(holder)
}

// Holder returns the step whose hold pays for a page of a scan's results: the step that started or
// joined the scan. It is 0 if there is none, as for any other search.
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
