package facts

import (
	"slices"
	"strings"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// # Which unfinished run continues
//
// A run that has not ended well stays on record as unfinished. What becomes of it is decided here, from what
// is on record and from who asks: the job's next run, or a command with flags that override the job.

// Fate is what becomes of an unfinished run.
type Fate string

// The fates of an unfinished run.
const (
	Resume    Fate = "resume"    // whatever works on its job next continues it at once
	Wait      Fate = "wait"      // the job's next due time or the same command continues it
	ByHand    Fate = "by-hand"   // it stays unfinished, and only its own command continues it
	Supersede Fate = "supersede" // the next run closes it
)

// fates decides: the first line that fits, where * fits everything.
//
//	asks:    same: for what the run does; job: the job's own run, while this one is overridden; flags: an
//	         overridden run, while this one is the job's own; new: one with other flags; one-off: another request;
//	         afresh: a new run of the same kind, whatever is unfinished
//	scan:    whether it has paid for a scan that is not read
//	left:    whether it has something left to do, and room for it under its own cap
//	age:     old after a period of the job, and after a day; the dates of a backfill do not age
//	stopped: cut if its process was stopped or killed, or the rate limit made it wait, and no person began it; doubt if
//	         all that it has open are scans whose start is not confirmed, which a person must settle
var fates = parseFates(`
	asks     scan  left  age  stopped  fate       because
	one-off  *     *     *    *        supersede  each one-off request is a run of its own
	same     paid  yes   *    doubt    wait       the start of its scan is not confirmed: see 'outlierd scan list'
	job      paid  yes   *    doubt    by-hand    only its own command continues it
	same     paid  yes   *    *        resume     it has paid for a scan
	job      paid  yes   *    *        resume     it has paid for a scan
	*        paid  no    *    *        by-hand    its own cap has no room to read its scan; with a larger one this continues it
	*        paid  *     *    *        by-hand    only its own command continues it
	*        *     no    *    *        supersede  nothing is left that its own cap has room for
	*        *     *     old  *        supersede  it is too old, and a new run covers the rest
	same     *     *     *    cut      resume     it was cut short
	same     *     *     *    *        wait       its own command or its job's next run continues it
	afresh   *     *     *    *        supersede  a new one was asked for
	new      *     *     *    *        supersede  the new one has other flags
	*        *     *     *    *        by-hand    only its own command continues it
`)

// condition is a line of the table, or the facts about a run in the same columns.
type condition struct{ asks, scan, left, age, stopped string }

type fateLine struct {
	condition
	fate Fate
	why  string
}

func parseFates(table string) (all []fateLine) {
	for line := range strings.Lines(strings.TrimSpace(table)) {
		w := strings.Fields(line)
		all = append(all, fateLine{condition{w[0], w[1], w[2], w[3], w[4]}, Fate(w[5]), strings.Join(w[6:], " ")})
	}
	return all[1:]
}

// decide returns the fate of an unfinished run, and the reason for people.
func decide(c condition) (Fate, string) {
	fits := func(cell, word string) bool { return cell == "*" || cell == word }
	at := slices.IndexFunc(fates, func(l fateLine) bool {
		return fits(l.asks, c.asks) && fits(l.scan, c.scan) && fits(l.left, c.left) && fits(l.age, c.age) &&
			fits(l.stopped, c.stopped)
	})
	return fates[at].fate, fates[at].why
}

// Unfinished is an unfinished run and what becomes of it.
type Unfinished struct {
	condition
	Run   runs.Run    `json:"run"`
	Spec  *job.Spec   `json:"-"` // of its job; only the name if the file has no such job
	Steps []runs.Step `json:"-"`
	Fate  Fate        `json:"fate"`
	Why   string      `json:"why"` // the reason of the fate, for people
}

// Continues reports whether the asking run continues this one first.
func (u *Unfinished) Continues() bool { return u.Fate == Resume || u.Fate == Wait }

// Closes returns why a new run closes this one; "" if it does not. A run that would continue was tried before a
// new one begins, and has stopped again.
func (u *Unfinished) Closes() (why string) {
	switch {
	case u.Fate == Supersede:
		return u.Why
	case u.Continues() && u.scan != "paid":
		return "it could not continue"
	}
	return ""
}

// Unfinished returns the unfinished runs of a job for a run of spec with a due time, or a manual one, for which
// due is zero: first those that have paid for a scan, then the newest.
func (r *Reader) Unfinished(spec *job.Spec, due time.Time) (all []Unfinished, err error) {
	rows, err := r.Store.Runs.Unfinished(spec.Name)
	paid := 0
	for i := 0; err == nil && i < len(rows); i++ {
		var u Unfinished
		u, err = r.judge(spec, &rows[i], whoAsks(spec, &rows[i], r.Afresh), due)
		if all = slices.Insert(all, paid, u); u.scan == "paid" {
			paid++
		}
	}
	return all, err
}

// IfAsked returns an unfinished run and what becomes of it if its own command asks.
func (r *Reader) IfAsked(spec *job.Spec, old *runs.Run, due time.Time) (Unfinished, error) {
	return r.judge(spec, old, "same", due)
}

// judge returns an unfinished run and what becomes of it; asks is that of the table.
func (r *Reader) judge(spec *job.Spec, old *runs.Run, asks string, due time.Time) (u Unfinished, err error) {
	u = Unfinished{Run: *old, Spec: spec}
	if u.Steps, err = r.Store.Steps.OfRun(old.ID); err == nil {
		u.condition, err = r.conditionOf(spec, old, u.Steps, due)
	}
	u.asks = asks
	u.Fate, u.Why = decide(u.condition)
	return u, err
}

// Continues returns the unfinished run that a manual run of spec continues; nil if it starts a new one.
func (r *Reader) Continues(spec *job.Spec) (*runs.Run, error) {
	all, err := r.Unfinished(spec, time.Time{})
	if at := Continued(all); at >= 0 && err == nil {
		return &all[at].Run, nil
	}
	return nil, err
}

// Continued returns which of a job's unfinished runs a manual run of it continues; -1 if it starts a new one.
func Continued(all []Unfinished) int {
	return slices.IndexFunc(all, func(u Unfinished) bool { return u.asks == "same" && u.Continues() })
}

// Resumed returns the unfinished run with an id; nil if it has ended or cannot be resumed.
func (r *Reader) Resumed(spec *job.Spec, id string, due time.Time) (*runs.Run, error) {
	old, err := r.Store.Runs.ContinuingRun(id)
	if err != nil || old == nil || old.Job != spec.Name {
		return nil, err
	}
	if u, err := r.IfAsked(spec, old, due); err != nil || !u.Continues() {
		return nil, err
	}
	return old, nil
}

// conditionOf returns what decides about an unfinished run when a run of spec asks, except for who asks.
func (r *Reader) conditionOf(spec *job.Spec, old *runs.Run, steps []runs.Step, due time.Time) (condition, error) {
	c := condition{scan: "none", left: "no", age: "young", stopped: "else"}
	if old.Status.Open() && old.Trigger != runs.Manual {
		c.stopped = "cut"
	}
	if old.Damage != nil && r.Log != nil {
		r.Log.Warn("unfinished run not continued", "job", spec.Name, "run", old.ID, "err", old.Damage)
	}
	if old.Plan == nil { // it failed before it had one
		return c, nil
	}
	doubts, others := 0, 0
	for i := range steps {
		step := &steps[i]
		if step.Stop != "" {
			continue
		}
		paid, err := paidScan(r.Store.Scans, step)
		if err != nil {
			return c, err
		}
		if !paid {
			others++
			continue
		}
		c.scan = "paid"
		if scan, err := r.Store.Scans.OfStep(step.ID); err != nil {
			return c, err
		} else if scan != nil && scan.State == runs.ScanUnknown {
			doubts++
		} else {
			others++
		}
	}
	if doubts > 0 && others == 0 {
		c.stopped = "doubt"
	}
	left, err := r.hasLeft(spec, old, steps)
	if left && (c.scan == "paid" || !refused(steps)) {
		c.left = "yes"
	}
	if old.Plan.Backfill == nil && age(old, due) > maxAge(spec, old, r.Config.Timezone) {
		c.age = "old"
	}
	return c, err
}

// whoAsks returns who asks about an unfinished run, as in the table.
func whoAsks(spec *job.Spec, old *runs.Run, afresh bool) string {
	switch {
	case spec.Rest == "" && job.IsOnce(spec.Name) && (spec.Verb != "" || spec.Request != old.Request):
		return "one-off" // without a verb it is the record's own, see [CurrentSpec]
	case afresh && old.Overridden == spec.Overridden:
		return "afresh"
	case Same(spec, old):
		return "same"
	case old.Overridden == spec.Overridden && spec.Rest == "":
		return "new"
	case spec.Overridden:
		return "flags"
	}
	return "job"
}

// Same reports whether a run does what spec says: according to the job file, now or when it began,
// or with the same overrides.
func Same(spec *job.Spec, run *runs.Run) bool {
	return run.Overridden == spec.Overridden &&
		(!spec.Overridden || run.Request == spec.Request && Flags(run) == spec.Flags)
}

// Flags returns the flags of the command that began an overridden run, as they are typed; "" for
// other runs.
func Flags(run *runs.Run) string {
	if run.Plan == nil || !run.Overridden {
		return ""
	}
	return run.Plan.Flags
}

// Command returns the command that resumes an unfinished run, whose record has everything else.
func Command(run string) string { return "outlierd run --continue " + run }

// refused reports whether a search was closed permanently and no other can be resumed.
func refused(steps []runs.Step) bool {
	return slices.ContainsFunc(steps, func(s runs.Step) bool { return runs.Final(s.Stop) }) &&
		!slices.ContainsFunc(steps, func(s runs.Step) bool { return s.Stop == "" })
}

// hasLeft reports whether a run has something left that its own cap has room for. A run that has reached its own
// cap, or has made all its requests, has not; but a paid scan is read to its end, however many requests that takes.
func (r *Reader) hasLeft(spec *job.Spec, old *runs.Run, steps []runs.Step) (bool, error) {
	own, stored := spec.Budget, old.Plan
	if stored.Backfill != nil && spec.Backfill == nil {
		own.PerRun = &stored.Cap // it has its own cap
	}
	spent, err := spentBy(r.Store, old.ID)
	if err != nil {
		return false, err
	}
	room := stored.CapFor(own) - spent.Credits
	noRequests := stored.MaxRequests > 0 && spent.Requests >= stored.MaxRequests
	p, err := r.Continue(old.Job, *stored, steps, false)
	if err != nil {
		return false, err
	}
	open := false
	for i := range steps {
		if steps[i].Stop != "" {
			continue
		}
		open = true
		if noRequests && !p.Steps[i].Paid {
			continue
		}
		holder, err := Holder(r.Store.Scans, steps, &steps[i])
		if err != nil {
			return false, err
		}
		held, err := r.Store.Ledger.HoldOf(holder) // 0 without a holder
		if err != nil || p.Fits(i, room, held) {
			return err == nil, err
		}
	}
	return !open && !noRequests, nil
}

// ResumeWithin is the maximum age of an unfinished run that is resumed. For one with a shorter
// period it is that period, because the window of the next run then covers the rest.
const ResumeWithin = 24 * time.Hour

// age returns how old a run was at a due time, if there is one, or now: a delay after the due
// time does not count.
func age(old *runs.Run, due time.Time) time.Duration {
	if due.IsZero() {
		return time.Since(old.Started)
	}
	return due.Sub(old.Started)
}

// maxAge returns the maximum age at which an unfinished run is resumed. Its period is that of its due time, or of the
// first one after it began: other periods of the job may have other lengths, such as one with quiet hours.
func maxAge(spec *job.Spec, old *runs.Run, zone *time.Location) time.Duration {
	due := old.Due
	if due.IsZero() {
		due = spec.Next(old.Started, zone)
	}
	next := spec.Next(due, zone)
	if due.IsZero() || next.IsZero() {
		return ResumeWithin
	}
	return min(next.Sub(due), ResumeWithin)
}
